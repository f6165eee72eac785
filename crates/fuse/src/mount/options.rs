//! Options of a mount, and how mount(2) and `fusermount3` are told.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use rustix::mount::MountFlags;

use super::MountError;

/// The subtype of our mounts. With it mountinfo shows `fuse.stripewise`.
const SUBTYPE: &str = "stripewise";
/// The types that our mounts have in mountinfo.
pub(super) const KINDS: [&str; 2] = ["fuse.stripewise", "fuseblk.stripewise"];

/// How a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// What mountinfo names as mounted (`fsname`), such as the array's name. Without a zero.
    pub source: OsString,
    /// The kernel checks permissions by owner and mode, so that the server need not.
    pub default_permissions: bool,
    /// Others than the user who mounts may come in.
    pub allow_other: bool,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Set-user-ID and set-group-ID have no effect.
    pub nosuid: bool,
    /// Device files have no effect.
    pub nodev: bool,
    /// Nothing can be executed.
    pub noexec: bool,
    /// Reading changes no times.
    pub noatime: bool,
    /// The most that a READ asks for, in bytes.
    pub read_bytes_max: Option<u32>,
    /// Mounted as a block device's file system.
    pub block: Option<BlockMount>,
}

/// A mount of the type `fuseblk`. It needs root. The kernel holds the device for as long as the mount lives. It sends
/// SYNCFS, and at the end DESTROY, whose answer umount(2) waits for; it sends neither to other mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockMount {
    /// The block device. The kernel neither reads nor writes it.
    pub device: PathBuf,
    /// The block size that the kernel sets it to, in bytes: a power of two from 512 to a page.
    pub block_bytes: Option<u32>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            source: SUBTYPE.into(),
            default_permissions: true,
            allow_other: false,
            read_only: false,
            nosuid: true,
            nodev: true,
            noexec: false,
            noatime: false,
            read_bytes_max: None,
            block: None,
        }
    }
}

impl MountOptions {
    /// Refuses what no kernel takes.
    pub(super) fn check(&self) -> Result<(), MountError> {
        if self.source.is_empty() || self.source.as_bytes().contains(&0) {
            return Err(MountError::BadOption { option: "fsname", why: "it is empty, or has a zero in it" });
        }
        let block_bytes = self.block.as_ref().and_then(|block| block.block_bytes);
        if block_bytes.is_some_and(|bytes| bytes < 512 || !bytes.is_power_of_two()) {
            return Err(MountError::BadOption { option: "blksize", why: "give a power of two from 512 on" });
        }
        Ok(())
    }

    /// The type for mount(2).
    pub(super) fn kind(&self) -> &'static str {
        KINDS[usize::from(self.block.is_some())]
    }

    /// The source for mount(2). A block mount's is its device.
    pub(super) fn mounted_source(&self) -> &OsStr {
        self.block.as_ref().map_or(&self.source, |block| block.device.as_os_str())
    }

    /// The flags for mount(2).
    pub(super) fn flags(&self) -> MountFlags {
        let choices = [
            (self.read_only, MountFlags::RDONLY),
            (self.nosuid, MountFlags::NOSUID),
            (self.nodev, MountFlags::NODEV),
            (self.noexec, MountFlags::NOEXEC),
            (self.noatime, MountFlags::NOATIME),
        ];
        choices.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect()
    }

    /// What FUSE itself understands, in either way of mounting.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.default_permissions {
            words.push("default_permissions".to_owned());
        }
        if self.allow_other {
            words.push("allow_other".to_owned());
        }
        words.extend(self.read_bytes_max.map(|bytes| format!("max_read={bytes}")));
        words.extend(
            self.block.iter().filter_map(|block| block.block_bytes).map(|bytes| format!("blksize={bytes}")),
        );
        words
    }

    /// All options in one string, as `fusermount3 -o` wants them.
    pub(super) fn for_helper(&self) -> OsString {
        let flags = [
            (self.read_only, "ro", "rw"),
            (self.nosuid, "nosuid", "suid"),
            (self.nodev, "nodev", "dev"),
            (self.noexec, "noexec", "exec"),
            (self.noatime, "noatime", "atime"),
        ];
        // Only root may ask for the opposite of nosuid and nodev.
        let is_root = rustix::process::geteuid().is_root();
        let mut words: Vec<_> = flags
            .into_iter()
            .filter(|(is_set, ..)| *is_set || is_root)
            .map(|(is_set, yes, no)| if is_set { yes } else { no }.to_owned())
            .collect();
        words.extend(self.words());
        words.push(format!("subtype={SUBTYPE}"));
        let mut all = words.join(",").into_bytes();
        all.extend_from_slice(b",fsname=");
        all.extend(escaped(self.source.as_bytes()));
        OsString::from_vec(all)
    }
}

/// `fusermount3` splits at commas, unless a backslash is before them.
fn escaped(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().flat_map(|byte| {
        let backslash = matches!(byte, b',' | b'\\').then_some(b'\\');
        backslash.into_iter().chain([*byte])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_bring_in_options() {
        let options = MountOptions { source: "a,suid\\".into(), ..MountOptions::default() };
        let words = options.for_helper().into_string().unwrap();
        assert!(words.ends_with(r",subtype=stripewise,fsname=a\,suid\\"), "{words}");
    }

    #[test]
    fn options_become_flags_and_words() {
        let options = MountOptions { read_only: true, read_bytes_max: Some(8192), ..MountOptions::default() };
        assert_eq!(options.flags(), MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV);
        assert_eq!(options.words(), ["default_permissions", "max_read=8192"]);
        assert_eq!(options.kind(), "fuse.stripewise");
    }

    #[test]
    fn a_block_size_must_be_one() {
        let with = |block_bytes| {
            let block = BlockMount { device: "/dev/null".into(), block_bytes };
            MountOptions { block: Some(block), ..MountOptions::default() }
        };
        assert!(with(Some(4096)).check().is_ok() && with(None).check().is_ok());
        assert!(with(Some(1000)).check().is_err() && with(Some(256)).check().is_err());
        assert_eq!(with(None).kind(), "fuseblk.stripewise");
        let bad = MountOptions { source: "a\0b".into(), ..MountOptions::default() };
        assert!(bad.check().is_err());
    }
}
