//! Finds and clears mounts whose server has died.
//!
//! The kernel ends a FUSE connection with its last descriptor, so nothing hangs: each request fails with ENOTCONN. But
//! the mount stays.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use super::{MountError, Unmount, end, helper, options::KINDS};
use crate::Errno;

/// Whether a mount of ours is on the folder `point`, and its server is dead.
///
/// # Errors
/// If mountinfo, or the folder above, cannot be read.
pub fn is_dead_mount(point: &Path) -> Result<bool, MountError> {
    let point = resolved(point)?;
    Ok(is_own_mount(&point)? && is_dead(&point))
}

/// Unmounts the mount on the folder `point` if it is one of ours and its server is dead, and others that lie dead under
/// it. Says whether there was one.
///
/// # Errors
/// If the mount there is not ours, or its server lives; and if it may not be unmounted.
pub fn clear_dead_mount(point: &Path) -> Result<bool, MountError> {
    let point = resolved(point)?;
    let mut is_cleared = false;
    // One mount may cover another.
    while is_dead(&point) {
        if !is_own_mount(&point)? {
            return Err(MountError::NotOurs { point, why: "a mount of another program is dead there" });
        }
        match end(&point, Unmount::Detach) {
            Err(MountError::System { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                helper::unmount(&point, Unmount::Detach)?;
            }
            result => result?,
        }
        is_cleared = true;
    }
    if is_cleared || !is_own_mount(&point)? {
        return Ok(is_cleared);
    }
    Err(MountError::NotOurs {
        point,
        why: "something is mounted there, and its server is alive; unmount it first",
    })
}

/// The server must answer a statfs: no cache does.
fn is_dead(point: &Path) -> bool {
    matches!(rustix::fs::statfs(point), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// The path without symbolic links. Only its parent can be looked into if a dead mount is on it.
fn resolved(point: &Path) -> Result<PathBuf, MountError> {
    let refused = MountError::system("find the folder above", point);
    match (point.parent(), point.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(fs::canonicalize(parent).map_err(refused)?.join(name))
        }
        _ => fs::canonicalize(point).map_err(refused),
    }
}

/// The points of all mounts of ours in this mount namespace, in the order in which they were made.
///
/// # Errors
/// If mountinfo cannot be read.
pub fn own_mounts() -> Result<Vec<PathBuf>, MountError> {
    let lines = mountinfo()?;
    let ours = mounts(&lines).filter(|(_, kind)| is_kind(kind));
    Ok(ours.map(|(point, _)| point.into()).collect())
}

/// Whether the uppermost mount on `point` is one of ours.
///
/// # Errors
/// If mountinfo cannot be read.
pub fn is_own_mount(point: &Path) -> Result<bool, MountError> {
    Ok(kind_of(&mountinfo()?, point).is_some_and(is_kind))
}

/// The user whose process serves the uppermost mount on `point`, as the kernel has it. None if that is no FUSE mount.
///
/// # Errors
/// If mountinfo cannot be read.
pub fn owner_of_mount(point: &Path) -> Result<Option<u32>, MountError> {
    let lines = mountinfo()?;
    let mut from_top = lines.rsplit(|byte| *byte == b'\n');
    let top = from_top.find(|line| point_of(line).as_deref() == Some(point.as_os_str()));
    Ok(top.and_then(owner_in))
}

/// Where a line's mount is.
fn point_of(line: &[u8]) -> Option<OsString> {
    line.split(|byte| *byte == b' ').nth(4).map(unescaped)
}

/// Who serves a line's mount, by its last field.
fn owner_in(line: &[u8]) -> Option<u32> {
    let options = line.rsplit(|byte| *byte == b' ').next()?;
    let owner = options.split(|byte| *byte == b',').find_map(|option| option.strip_prefix(b"user_id="))?;
    std::str::from_utf8(owner).ok()?.parse().ok()
}

fn mountinfo() -> Result<Vec<u8>, MountError> {
    const MOUNTINFO: &str = "/proc/self/mountinfo";
    fs::read(MOUNTINFO).map_err(MountError::system("read", Path::new(MOUNTINFO)))
}

fn is_kind(kind: &[u8]) -> bool {
    KINDS.iter().any(|ours| ours.as_bytes() == kind)
}

/// The type of the mount on `point`. Of several on one point, the last is on top.
fn kind_of<'a>(lines: &'a [u8], point: &Path) -> Option<&'a [u8]> {
    mounts(lines).filter(|(place, _)| place == point.as_os_str()).map(|(_, kind)| kind).last()
}

/// Points and types of mounts, as proc_pid_mountinfo(5) has them.
fn mounts(lines: &[u8]) -> impl Iterator<Item = (OsString, &[u8])> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let place = point_of(line)?;
        let fields = line.split(|byte| *byte == b' ').skip(5);
        // Optional fields of any number, then a lone dash.
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        Some((place, kind))
    })
}

/// Mountinfo writes space, tab, newline and backslash as a backslash and three octal digits.
fn unescaped(text: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        match (first, behind.first_chunk::<3>().and_then(octal)) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                rest = &behind[3..];
            }
            _ => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(out)
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    let value =
        digits.iter().try_fold(0_u32, |value, digit| Some(value * 8 + char::from(*digit).to_digit(8)?))?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_tells_the_uppermost_mount() {
        let lines = b"36 35 98:0 / /a\\040b rw,noatime shared:1 master:2 - ext4 /dev/root rw\n\
            37 36 0:9 / /a\\040b rw - fuse.stripewise tank rw,user_id=0\n\
            38 36 0:9 / /c rw - tmpfs\nnonsense\n";
        assert_eq!(kind_of(lines, Path::new("/a b")), Some(&b"fuse.stripewise"[..]));
        assert_eq!(kind_of(lines, Path::new("/c")), Some(&b"tmpfs"[..]));
        assert_eq!(kind_of(lines, Path::new("/a")), None);
        assert_eq!(
            lines.split(|byte| *byte == b'\n').map(owner_in).collect::<Vec<_>>(),
            [None, Some(0), None, None, None]
        );
    }

    #[test]
    fn only_whole_escapes_are_undone() {
        assert_eq!(unescaped(b"\\134\\04x\\777\\"), "\\\\04x\\777\\");
    }

    #[test]
    fn a_folder_without_a_mount_has_nothing_to_clear() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_dead_mount(folder.path()).unwrap());
        assert!(!clear_dead_mount(folder.path()).unwrap());
    }
}
