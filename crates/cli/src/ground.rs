//! Which bytes a device or file really stands on, so that one disk under two names, or a file and the loop
//! device over it, are not taken for two members.

use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::bail;
use serde::{Deserialize, Serialize};
use stripewise::export::attach::loop_backing;

/// What identifies an open device or file under every path, link and node: a block device's number, or a
/// file's place.
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
struct Place {
    identity: Identity,
    bytes: Range<u64>,
}

impl Place {
    fn whole(identity: Identity) -> Self {
        Self { identity, bytes: 0..u64::MAX }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.identity == other.identity
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }

    /// A part of the place, by its offset and length. A length of 0 means up to the end.
    fn part(&self, offset_bytes: u64, len_bytes: u64) -> Self {
        let start = self.bytes.start.saturating_add(offset_bytes).min(self.bytes.end);
        let end =
            if len_bytes == 0 { self.bytes.end } else { start.saturating_add(len_bytes).min(self.bytes.end) };
        Self { identity: self.identity, bytes: start..end }
    }
}

/// What a device or file stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ground {
    /// Its bytes, through partitions and loop devices as far down as they go.
    place: Place,
    /// What else holds some of its bytes: the disks of a mapped device, or of one of the kernel's arrays.
    parts: Vec<Place>,
}

/// The kernel counts in these units, whatever the disk's sectors are.
const SECTOR_BYTES: u64 = 512;

/// How many levels down to follow devices that stand on each other.
const DEPTH_MAX: usize = 8;

impl Ground {
    /// What an open device or file stands on.
    ///
    /// # Errors
    /// When its metadata cannot be read.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Self::below(file, DEPTH_MAX)
    }

    fn below(file: &File, depth: usize) -> io::Result<Self> {
        let identity = Identity::of(&file.metadata()?);
        let Identity::Block(number) = identity else {
            return Ok(Self { place: Place::whole(identity), parts: Vec::new() });
        };
        let Some(depth) = depth.checked_sub(1) else { return Ok(Self::of_disk(number, 0)) };
        let Some(below) = loop_backing(file) else { return Ok(Self::of_disk(number, depth)) };
        let ground = match below.device_number {
            Some(disk) => Self::of_number(disk, depth),
            None => Self {
                place: Place::whole(Identity::File(below.file_system, below.inode)),
                parts: Vec::new(),
            },
        };
        let shown = ground.place.part(below.offset_bytes, below.len_bytes);
        let place = match partition(number) {
            Some(partition) => shown.part(partition.bytes.start, partition.bytes.end - partition.bytes.start),
            None => shown,
        };
        Ok(Self { place, ..ground })
    }

    /// What a block device that may be a loop device stands on.
    fn of_number(number: u64, depth: usize) -> Self {
        let opened = node_of(number).and_then(|node| File::open(node).ok());
        let ground = opened.and_then(|file| Self::below(&file, depth).ok());
        ground.unwrap_or_else(|| Self::of_disk(number, depth))
    }

    /// What a block device that is no loop device stands on.
    fn of_disk(number: u64, depth: usize) -> Self {
        let slaves = if depth == 0 { Vec::new() } else { slaves_of(number) };
        let below = slaves.into_iter().map(|slave| Self::of_number(slave, depth - 1));
        let parts = below.flat_map(|ground| [vec![ground.place], ground.parts].concat()).collect();
        let place = partition(number).unwrap_or_else(|| Place::whole(Identity::Block(number)));
        Self { place, parts }
    }

    /// Whether the two have bytes in common. Two devices that are mapped to parts of the same disk need not.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let has = |one: &Self, other: &Self| one.parts.iter().any(|part| part.overlaps(&other.place));
        self.place.overlaps(&other.place) || has(self, other) || has(other, self)
    }
}

/// The folder of a block device in sysfs.
fn folder_of(number: u64) -> PathBuf {
    format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number)).into()
}

/// The node of a block device, by the name that the kernel gives it.
pub(crate) fn node_of(number: u64) -> Option<PathBuf> {
    let told = fs::read_to_string(folder_of(number).join("uevent")).ok()?;
    let name = told.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    Some(Path::new("/dev").join(name))
}

/// The block devices that a device is made of, as device mapper and the kernel's md report them.
fn slaves_of(number: u64) -> Vec<u64> {
    let slaves = fs::read_dir(folder_of(number).join("slaves")).into_iter().flatten().flatten();
    slaves.filter_map(|slave| number_in(&slave.path().join("dev"))).collect()
}

/// A device's number, as sysfs writes it.
fn number_in(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The disk of a partition.
pub(crate) fn disk_of(number: u64) -> Option<u64> {
    let folder = folder_of(number);
    folder.join("partition").exists().then(|| number_in(&folder.join("../dev")))?
}

/// A partition as a part of its disk.
fn partition(number: u64) -> Option<Place> {
    let folder = folder_of(number);
    let sectors = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    sectors("partition")?;
    let disk = disk_of(number)?;
    let start = sectors("start")? * SECTOR_BYTES;
    Some(Place { identity: Identity::Block(disk), bytes: start..start + sectors("size")? * SECTOR_BYTES })
}

/// Refuses devices if two of them stand on the same bytes.
///
/// # Errors
/// Names both.
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

    fn file(inode: u64, bytes: Range<u64>) -> Place {
        Place { identity: Identity::File(1, inode), bytes }
    }

    fn ground(place: Place, parts: &[Place]) -> Ground {
        Ground { place, parts: parts.to_vec() }
    }

    #[test]
    fn parts_of_one_file_are_apart_unless_they_overlap() {
        let part = |bytes: Range<u64>| ground(file(2, bytes), &[]);
        let other = ground(file(3, 0..u64::MAX), &[]);
        assert!(check_apart(&[("a", part(0..100)), ("b", part(100..200)), ("c", other)]).is_ok());
        let said = check_apart(&[("a", part(0..u64::MAX)), ("b", part(50..60))]).unwrap_err().to_string();
        assert!(said.contains("a and b are the same device"), "{said}");
    }

    #[test]
    fn a_mapped_device_has_the_bytes_of_its_disks_and_two_on_one_disk_are_apart() {
        let disk = file(2, 0..u64::MAX);
        let mapped = |number| ground(Place::whole(Identity::Block(number)), std::slice::from_ref(&disk));
        assert!(check_apart(&[("a", mapped(7)), ("b", mapped(8))]).is_ok());
        assert!(check_apart(&[("a", mapped(7)), ("disk", ground(disk.clone(), &[]))]).is_err());
        assert!(check_apart(&[("a", mapped(7)), ("other", ground(file(3, 0..9), &[]))]).is_ok());
    }

    #[test]
    fn a_part_of_a_part_lies_within_it() {
        let part = file(2, 100..1000);
        assert_eq!(part.part(50, 0), file(2, 150..1000));
        assert_eq!(part.part(50, 20), file(2, 150..170));
        assert_eq!(part.part(50, u64::MAX), file(2, 150..1000));
        assert_eq!(part.part(2000, 20), file(2, 1000..1000));
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
