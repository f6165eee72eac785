//! Reads mountinfo: which mounts there are, where, and from which device. See proc_pid_mountinfo(5).

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// One line of mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Its number.
    id: u32,
    /// The mount that its point lies on.
    parent: u32,
    /// `major:minor` of the file system's device.
    pub(super) device: String,
    /// Where it is mounted, as seen from the reading process.
    pub(super) point: PathBuf,
    /// For FUSE with its subtype, as `fuse.stripewise`.
    pub(super) kind: String,
    /// What was mounted.
    pub(super) source: PathBuf,
}

impl Mount {
    /// Whether its point leads to it, among the `mounts` of its namespace: nothing is mounted over it, nor
    /// over a folder on the way.
    pub(super) fn is_reached(&self, mounts: &[Self]) -> bool {
        if mounts.iter().any(|other| other.parent == self.id && other.point == self.point) {
            return false;
        }
        let mut at = self;
        loop {
            let hides = |other: &Self| {
                other.id != at.id && other.parent == at.parent && at.point.starts_with(&other.point)
            };
            if mounts.iter().any(hides) {
                return false;
            }
            match mounts.iter().find(|other| other.id == at.parent) {
                Some(parent) if parent.id != at.id => at = parent,
                _ => return true,
            }
        }
    }
}

/// The mounts of this process's mount namespace, oldest first.
pub(super) fn own() -> io::Result<Vec<Mount>> {
    of(Path::new("/proc/self/mountinfo"))
}

/// The mount that a path lies on, among all mounts of a namespace.
pub(super) fn of_path<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // Of several mounts on one point the last is on top.
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// The mounts that the given mountinfo file lists.
pub(super) fn of(mountinfo: &Path) -> io::Result<Vec<Mount>> {
    // Mount points are bytes, not text.
    Ok(fs::read(mountinfo)?.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut number = || text(fields.next()?).parse().ok();
    let (id, parent) = (number()?, number()?);
    let device = text(fields.next()?);
    let point = path(fields.nth(1)?);
    // Optional fields of any number, then a lone dash.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = text(rest.next()?);
    let source = path(rest.next()?);
    Some(Mount { id, parent, device, point, kind, source })
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// Undoes the kernel's octal escapes of blank, tab, newline and backslash.
fn path(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'\\').then(|| octal(tail)).flatten();
        plain.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn octal(digits: &[u8]) -> Option<u8> {
    let digits = digits.get(..3)?;
    let value = digits.iter().try_fold(0u32, |value, digit| {
        (b'0'..=b'7').contains(digit).then(|| value * 8 + u32::from(digit - b'0'))
    })?;
    u8::try_from(value).ok()
}

/// Whether `point` is `folder` or lies below it.
pub(super) fn lies_under(point: &Path, folder: &Path) -> bool {
    point.starts_with(folder) && !folder.as_os_str().as_bytes().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_optional_fields() {
        let mount =
            parse(b"36 35 98:0 / /mnt/a\\040b rw,noatime shared:1 master:2 - ext4 /dev/loop0 rw").unwrap();
        assert_eq!((mount.id, mount.parent, mount.device.as_str()), (36, 35, "98:0"));
        assert_eq!(mount.point, Path::new("/mnt/a b"));
        assert_eq!((mount.kind.as_str(), mount.source.as_path()), ("ext4", Path::new("/dev/loop0")));
        let mount = parse(b"1 0 0:2 / / rw - fuse.stripewise stripewise rw").unwrap();
        assert_eq!(mount.kind, "fuse.stripewise");
    }

    #[test]
    fn odd_lines_do_no_harm() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 98:0 / /mnt rw"), None);
        assert_eq!(path(b"a\\"), Path::new("a\\"));
        assert_eq!(path(b"a\\777\\134"), Path::new("a\\777\\"));
    }

    #[test]
    fn a_mount_is_reached_unless_it_or_its_way_is_covered() {
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
            "2 1 7:0 / /mnt rw - ext4 /dev/loop0 rw",
            "3 2 7:1 / /mnt/a rw - ext4 /dev/loop1 rw",
            "4 2 7:2 / /mnt/ab rw - ext4 /dev/loop2 rw",
            "5 3 0:9 / /mnt/a rw - tmpfs none rw",
        ];
        let mut mounts: Vec<_> = lines.iter().filter_map(|line| parse(line.as_bytes())).collect();
        let reached = |mounts: &[Mount]| -> Vec<_> {
            mounts.iter().filter(|mount| mount.is_reached(mounts)).map(|mount| mount.id).collect()
        };
        assert_eq!(reached(&mounts), [1, 2, 4, 5], "3 lies under 5");
        mounts.extend(parse(b"6 1 0:10 / / rw - tmpfs none rw"));
        assert_eq!(reached(&mounts), [6], "the root is covered, and with it every way");
        mounts.pop();
        mounts.extend(parse(b"7 2 0:11 / /mnt rw - tmpfs none rw"));
        assert_eq!(reached(&mounts), [1, 7]);
    }

    #[test]
    fn this_process_has_a_root() {
        assert!(own().unwrap().iter().any(|mount| mount.point == Path::new("/")));
    }
}
