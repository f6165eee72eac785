//! The shape that a file system gets where none is given: that of the array under it, as far as the kernel knows it.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use super::args::Columns;
use crate::{client, rafs::BLOCK_BYTES, rundir};

/// For files, and for devices that tell nothing.
const DEFAULT: Columns = Columns { data_columns: 4, chunk_bytes: 64 << 10 };

/// A shape, and where it was found.
pub(super) struct Shape {
    pub(super) columns: Columns,
    pub(super) from: &'static str,
}

/// The shape for a file system on this path.
pub(super) fn shape_for(path: &str) -> Shape {
    let found = of_own_array(Path::new(path)).or_else(|| of_block_device(path));
    found.unwrap_or(Shape { columns: DEFAULT, from: "default" })
}

/// The block device of a running array of ours: its daemon knows.
fn of_own_array(path: &Path) -> Option<Shape> {
    let device = fs::canonicalize(path).ok()?;
    let names = rundir::array_names().ok()?;
    let is_its =
        |name: &&String| fs::canonicalize(rundir::link_dir().join(name)).is_ok_and(|linked| linked == device);
    let status = client::status(names.iter().find(is_its)?).ok()?;
    let data = u32::try_from(status.raid_devices.checked_sub(status.parity_devices)?).ok()?;
    let columns = checked(data, status.chunk_bytes)?;
    Some(Shape { columns, from: "the array" })
}

fn of_block_device(path: &str) -> Option<Shape> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.file_type().is_block_device() {
        return None;
    }
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    of_sysfs(&fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?)
}

/// What sysfs says of a block device in this folder.
fn of_sysfs(folder: &Path) -> Option<Shape> {
    // A partition's disk has the queue. Its stripes begin elsewhere than the array's, unless it is aligned to them.
    let disk = if folder.join("partition").exists() { folder.parent()? } else { folder };
    of_md(disk).or_else(|| of_queue(disk))
}

/// The kernel's md.
fn of_md(disk: &Path) -> Option<Shape> {
    let read = |name: &str| read(disk.join("md").join(name));
    let disks: u32 = read("raid_disks")?.parse().ok()?;
    let parity = match read("level")?.as_str() {
        "raid0" => 0,
        "raid4" | "raid5" => 1,
        "raid6" => 2,
        _ => return None,
    };
    let columns = checked(disks.checked_sub(parity)?, read("chunk_size")?.parse().ok()?)?;
    Some(Shape { columns, from: "md" })
}

/// What a disk says of the I/O that suits it: a stripe, and a chunk.
fn of_queue(disk: &Path) -> Option<Shape> {
    let read = |name: &str| read(disk.join("queue").join(name))?.parse::<u64>().ok();
    let (stripe, chunk) = (read("optimal_io_size")?, read("minimum_io_size")?);
    if chunk == 0 || stripe <= chunk || stripe % chunk != 0 {
        return None;
    }
    let columns = checked(u32::try_from(stripe / chunk).ok()?, chunk)?;
    Some(Shape { columns, from: "the device's optimal I/O" })
}

fn checked(data_columns: u32, chunk_bytes: u64) -> Option<Columns> {
    let is_usable = data_columns > 0 && chunk_bytes > 0 && chunk_bytes.is_multiple_of(BLOCK_BYTES);
    is_usable.then_some(Columns { data_columns, chunk_bytes })
}

fn read(path: PathBuf) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a folder of sysfs with these files, and in that of a partition below it.
    fn found(files: &[(&str, &str)]) -> Option<(u32, u64, &'static str)> {
        let disk = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = disk.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }
        let partition = disk.path().join("disk1");
        fs::create_dir(&partition).unwrap();
        fs::write(partition.join("partition"), "1\n").unwrap();
        let told = |folder: &Path| {
            let Shape { columns: Columns { data_columns, chunk_bytes }, from } = of_sysfs(folder)?;
            Some((data_columns, chunk_bytes, from))
        };
        assert_eq!(told(&partition), told(disk.path()));
        told(disk.path())
    }

    fn md(level: &str, disks: &str, chunk: &str) -> Option<(u32, u64, &'static str)> {
        found(&[("md/level", level), ("md/raid_disks", disks), ("md/chunk_size", chunk)])
    }

    #[test]
    fn an_array_of_the_kernel_has_a_column_for_each_disk_without_parity() {
        assert_eq!(md("raid5", "5", "65536"), Some((4, 65_536, "md")));
        assert_eq!(md("raid4", "3", "4096"), Some((2, 4096, "md")));
        assert_eq!(md("raid6", "6", "524288"), Some((4, 524_288, "md")));
        assert_eq!(md("raid0", "3", "65536"), Some((3, 65_536, "md")));
        // Mirrors have no stripes; nor have what is being taken apart, and what has chunks that are no blocks.
        for (level, disks, chunk) in
            [("raid1", "2", "0"), ("raid5", "1", "65536"), ("raid6", "1", "65536"), ("raid5", "5", "1000")]
        {
            assert_eq!(md(level, disks, chunk), None, "{level}");
        }
        assert_eq!(found(&[("md/level", "raid5")]), None);
    }

    #[test]
    fn a_device_has_the_stripe_that_it_is_best_written_in() {
        let queue = |stripe: &str, chunk: &str| {
            found(&[("queue/optimal_io_size", stripe), ("queue/minimum_io_size", chunk)])
        };
        assert_eq!(queue("262144", "65536"), Some((4, 65_536, "the device's optimal I/O")));
        for (stripe, chunk) in
            [("0", "512"), ("65536", "65536"), ("100000", "65536"), ("4096", "512"), ("9", "0")]
        {
            assert_eq!(queue(stripe, chunk), None, "{stripe} and {chunk}");
        }
        assert_eq!(found(&[]), None);
        let both = [
            ("md/level", "raid5"),
            ("md/raid_disks", "3"),
            ("md/chunk_size", "65536"),
            ("queue/optimal_io_size", "262144"),
            ("queue/minimum_io_size", "65536"),
        ];
        assert_eq!(found(&both), Some((2, 65_536, "md")), "md knows best");
    }
}
