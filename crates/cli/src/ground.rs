//! Which bytes a device or file really stands on: so that one disk under two names, or a file and the loop device over it,
//! are not taken for two members.

use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::{FileTypeExt, MetadataExt},
};

use anyhow::bail;
use serde::{Deserialize, Serialize};
use stripewise::export::attach::loop_backing;

/// What stays the same under every path, link and node, while it is open: a block device's number, or the place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Identity {
    /// A block device, by its number.
    Block(u64),
    /// A file, by its file system and inode.
    File(u64, u64),
}

impl Identity {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        match metadata.file_type().is_block_device() {
            true => Self::Block(metadata.rdev()),
            false => Self::File(metadata.dev(), metadata.ino()),
        }
    }
}

/// A run of bytes of a disk or of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ground {
    identity: Identity,
    bytes: Range<u64>,
}

/// The kernel counts in these whatever the disk's sectors are.
const SECTOR_BYTES: u64 = 512;

impl Ground {
    /// What an open device or file stands on.
    ///
    /// # Errors
    /// When its metadata cannot be read.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let identity = Identity::of(&file.metadata()?);
        let ground = Self { identity, bytes: 0..u64::MAX };
        let Identity::Block(number) = identity else { return Ok(ground) };
        let ground = partition(number).unwrap_or(ground);
        let Some(below) = loop_backing(file) else { return Ok(ground) };
        let identity = match below.device_number {
            Some(number) => Identity::Block(number),
            None => Identity::File(below.file_system, below.inode),
        };
        let end =
            if below.len_bytes == 0 { u64::MAX } else { below.offset_bytes.saturating_add(below.len_bytes) };
        let place = |offset: u64| offset.saturating_add(below.offset_bytes).min(end);
        Ok(Self { identity, bytes: place(ground.bytes.start)..place(ground.bytes.end) })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.identity == other.identity
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }
}

/// A partition as a part of its disk.
fn partition(number: u64) -> Option<Ground> {
    let folder = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let sectors =
        |name: &str| fs::read_to_string(format!("{folder}/{name}")).ok()?.trim().parse::<u64>().ok();
    sectors("partition")?;
    let disk = fs::read_to_string(format!("{folder}/../dev")).ok()?;
    let (major, minor) = disk.trim().split_once(':')?;
    let disk = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    let start = sectors("start")? * SECTOR_BYTES;
    Some(Ground { identity: Identity::Block(disk), bytes: start..start + sectors("size")? * SECTOR_BYTES })
}

/// Refuses devices of which two stand on the same bytes.
///
/// # Errors
/// Both, by name.
pub(crate) fn check_apart(grounds: &[(&str, Ground)]) -> anyhow::Result<()> {
    for (index, (name, ground)) in grounds.iter().enumerate() {
        let earlier = grounds[..index].iter().find(|(_, earlier)| earlier.overlaps(ground));
        match earlier {
            Some((first, _)) if first == name => bail!("{name} is given twice; give every device once"),
            Some((first, _)) => bail!("{first} and {name} are the same device; give every device once"),
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_file_are_apart_unless_they_overlap() {
        let part = |bytes: Range<u64>| Ground { identity: Identity::File(1, 2), bytes };
        let other = Ground { identity: Identity::File(1, 3), bytes: 0..u64::MAX };
        assert!(check_apart(&[("a", part(0..100)), ("b", part(100..200)), ("c", other)]).is_ok());
        let said = check_apart(&[("a", part(0..u64::MAX)), ("b", part(50..60))]).unwrap_err().to_string();
        assert!(said.contains("a and b are the same device"), "{said}");
    }

    #[test]
    fn two_openings_of_a_file_stand_on_the_same_ground() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let link = file.path().with_extension("link");
        fs::hard_link(file.path(), &link).unwrap();
        let ground = |path| Ground::of(&File::open(path).unwrap()).unwrap();
        assert!(ground(file.path()).overlaps(&ground(&link)));
        fs::remove_file(link).unwrap();
    }
}
