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
    let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition's disk has the queue. Its stripes begin elsewhere than the array's, unless it is aligned to them.
    let disk = if folder.join("partition").exists() { folder.parent()?.to_owned() } else { folder };
    of_md(&disk).or_else(|| of_queue(&disk))
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
