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

/// What sysfs counts in.
const SECTOR_BYTES: u64 = 512;

/// A shape, and where it was found.
pub(super) struct Shape {
    pub(super) columns: Columns,
    pub(super) from: &'static str,
    /// What to say of a partition whose stripes begin elsewhere than the array's.
    pub(super) askew: Option<String>,
}

/// The shape for a file system on this path.
pub(super) fn shape_for(path: &str) -> Shape {
    let found = of_own_array(Path::new(path)).or_else(|| of_block_device(path));
    found.unwrap_or(Shape { columns: DEFAULT, from: "default", askew: None })
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
    Some(Shape { columns, from: "the array", askew: None })
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
    if !folder.join("partition").exists() {
        return of_disk(folder);
    }
    // A partition's disk has the queue.
    let shape = of_disk(folder.parent()?)?;
    let askew = askew(folder, shape.columns);
    Some(Shape { askew, ..shape })
}

fn of_disk(disk: &Path) -> Option<Shape> {
    of_md(disk).or_else(|| of_queue(disk))
}

/// What to say of a partition that does not begin where a stripe does: no stripe of the file system is one of the array's then.
fn askew(partition: &Path, columns: Columns) -> Option<String> {
    let start_bytes = read(partition.join("start"))?.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)?;
    let stripe_bytes = columns.stripe_bytes();
    (!start_bytes.is_multiple_of(stripe_bytes)).then(|| {
        format!(
            "the partition begins at {start_bytes} bytes, within a stripe of {stripe_bytes}: each stripe of the file system lies in two \
             of the disk's, and whole ones are never written; begin the partition at a multiple of {} sectors",
            stripe_bytes / SECTOR_BYTES
        )
    })
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
    Some(Shape { columns, from: "md", askew: None })
}

/// What a disk says of the I/O that suits it: a stripe, and a chunk.
fn of_queue(disk: &Path) -> Option<Shape> {
    let read = |name: &str| read(disk.join("queue").join(name))?.parse::<u64>().ok();
    let (stripe, chunk) = (read("optimal_io_size")?, read("minimum_io_size")?);
    if chunk == 0 || stripe <= chunk || stripe % chunk != 0 {
        return None;
    }
    let columns = checked(u32::try_from(stripe / chunk).ok()?, chunk)?;
    Some(Shape { columns, from: "the device's optimal I/O", askew: None })
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
            let Shape { columns: Columns { data_columns, chunk_bytes }, from, .. } = of_sysfs(folder)?;
            Some((data_columns, chunk_bytes, from))
        };
        assert_eq!(told(&partition), told(disk.path()));
        told(disk.path())
    }

    #[test]
    fn a_partition_within_a_stripe_is_told_of() {
        let disk = tempfile::tempdir().unwrap();
        let columns = Columns { data_columns: 4, chunk_bytes: 64 << 10 };
        for (start, is_askew) in [("2048", false), ("512", false), ("63", true), ("513", true), ("x", false)]
        {
            fs::write(disk.path().join("start"), format!("{start}\n")).unwrap();
            assert_eq!(askew(disk.path(), columns).is_some(), is_askew, "{start}");
        }
        fs::write(disk.path().join("start"), "63").unwrap();
        assert!(askew(disk.path(), columns).unwrap().contains("a multiple of 512 sectors"));
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
