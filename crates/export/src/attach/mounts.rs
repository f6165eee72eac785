//! Reading mountinfo: what is mounted where, from which device. See proc_pid_mountinfo(5).

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// One line of mountinfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// `major:minor` of the file system's device.
    pub(super) device: String,
    /// Where it is mounted, as seen from the reading process.
    pub(super) point: PathBuf,
    /// For FUSE with its subtype, as `fuse.stripewise`.
    pub(super) kind: String,
    /// What was mounted.
    pub(super) source: PathBuf,
}

/// The mounts of this process's mount namespace, oldest first.
pub(super) fn own() -> io::Result<Vec<Mount>> {
    of(Path::new("/proc/self/mountinfo"))
}

/// The mounts that the given mountinfo file lists.
pub(super) fn of(mountinfo: &Path) -> io::Result<Vec<Mount>> {
    // Mount points are bytes, not text.
    Ok(fs::read(mountinfo)?.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = text(fields.nth(2)?);
    let point = path(fields.nth(1)?);
    // Optional fields of any number, then a lone dash.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = text(rest.next()?);
    let source = path(rest.next()?);
    Some(Mount { device, point, kind, source })
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
        assert_eq!(mount.device, "98:0");
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
    fn this_process_has_a_root() {
        assert!(own().unwrap().iter().any(|mount| mount.point == Path::new("/")));
    }
}
