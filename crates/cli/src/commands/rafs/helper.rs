//! The name by which mount(8) calls this program: `/sbin/mount.stripewise`, for lines of fstab and `mount -t stripewise`; and
//! `mount.fuse.stripewise` and `mount.fuseblk.stripewise`, the types that the kernel tells of such mounts.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

/// mount(8)'s exit code for a mount that failed.
pub(crate) const FAILED: u8 = 32;

/// What this program was called for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// By its own name.
    Plain,
    /// By mount(8): the words of the command that does it.
    Helper(Vec<OsString>),
    /// By mount(8), which only pretends to mount.
    Pretends,
}

/// Reads the words of `mount.stripewise TARGET FOLDER [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`, with the name before them.
pub(crate) fn called(mut words: impl Iterator<Item = OsString>) -> Called {
    let name = words.next().unwrap_or_default();
    if !is_helper(&name) {
        return Called::Plain;
    }
    let mut command: Vec<OsString> = ["stripewise", "mount", "--may-be-mounted"].map(OsString::from).into();
    let mut pretends = false;
    while let Some(word) = words.next() {
        let flags = word.to_str().and_then(|word| word.strip_prefix('-')).filter(|flags| !flags.is_empty());
        match flags {
            Some("o") => command.extend([word].into_iter().chain(words.next())),
            Some("t") => drop(words.next()),
            // Sloppy, faked, not in mtab, verbose.
            Some(flags) if flags.chars().all(|flag| "sfnv".contains(flag)) => pretends |= flags.contains('f'),
            // The command tells of what it does not know, such as a namespace.
            _ => command.push(word),
        }
    }
    if pretends { Called::Pretends } else { Called::Helper(command) }
}

fn is_helper(name: &OsStr) -> bool {
    let name = Path::new(name).file_name().and_then(OsStr::to_str).unwrap_or_default();
    matches!(name, "mount.stripewise" | "mount.fuse.stripewise" | "mount.fuseblk.stripewise")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Called {
        called(line.split(' ').map(OsString::from))
    }

    #[test]
    fn words_of_mount_8_become_a_command() {
        let command = |line: &str| Called::Helper(line.split(' ').map(OsString::from).collect());
        assert_eq!(
            said("/sbin/mount.stripewise tank /mnt -o rw,tf=5 -t fuse.stripewise -v"),
            command("stripewise mount --may-be-mounted tank /mnt -o rw,tf=5")
        );
        assert_eq!(
            said("mount.fuse.stripewise tank /mnt -sn"),
            command("stripewise mount --may-be-mounted tank /mnt")
        );
        assert_eq!(said("mount.stripewise tank /mnt -vf -o rw"), Called::Pretends);
        assert_eq!(said("stripewise mount tank /mnt"), Called::Plain);
        assert_eq!(said("/usr/bin/stripewise"), Called::Plain);
        assert_eq!(
            said("mount.stripewise a /b -N 3"),
            command("stripewise mount --may-be-mounted a /b -N 3")
        );
    }
}
