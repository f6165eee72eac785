//! Devices that are in use in another way. The kernel lets others use the file or disk under a loop device,
//! and a loop device over a file that an array holds.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use stripewise::export::attach::loop_backing;

use super::{is_own, locks::lock_holders_of, of_block, of_process};
use crate::ground::{Ground, Identity, disk_of, node_of};

/// How long to look for loop devices over the same bytes.
const LOOK_MAX: Duration = Duration::from_secs(5);
const HANGS: &str = "a loop device of this machine hangs, so that nobody can tell whether one that is in use stands on it; \
                     `losetup -l` lists them";

/// How many levels down to follow loop devices that stand on each other.
const DEPTH_MAX: usize = 8;

/// Says what other than this process uses the bytes that an open device stands on, and what frees them.
pub(crate) fn in_other_use(opened: &File) -> Option<String> {
    let layers = layers(opened);
    below(&layers).or_else(|| {
        let ground = Ground::of(opened).ok()?;
        in_time(LOOK_MAX, move || over(&ground, &layers)).unwrap_or_else(|| Some(HANGS.to_owned()))
    })
}

/// Runs a search that opens other devices, any of which may hang. If it hangs, returns None and leaves the
/// search to itself.
fn in_time<T: Send + 'static>(limit: Duration, search: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told) = mpsc::channel();
    let thread = thread::Builder::new().name("stripewise-loops".into());
    thread.spawn(move || drop(tell.send(search()))).ok()?;
    told.recv_timeout(limit).ok()
}

/// A device, then what it stands on if it is a loop device or a partition of one, and so on down. The disk of
/// a partition is left out, as its other partitions may be in use.
fn layers(opened: &File) -> Vec<Identity> {
    let mut found: Vec<_> = opened.metadata().iter().map(Identity::of).collect();
    let mut backing = loop_backing(opened);
    while let Some(below) = backing.take()
        && found.len() <= DEPTH_MAX
    {
        match below.device_number {
            Some(number) => {
                found.push(Identity::Block(number));
                let opened = node_of(number).and_then(|node| File::open(node).ok());
                backing = opened.and_then(|file| loop_backing(&file));
            }
            None => found.push(Identity::File(below.file_system, below.inode)),
        }
    }
    found
}

/// The holders of what lies under a loop device.
fn below(layers: &[Identity]) -> Option<String> {
    let holders = |identity: &Identity| match *identity {
        Identity::File(file_system, inode) => {
            lock_holders_of(file_system, inode).into_iter().filter_map(of_process).collect()
        }
        Identity::Block(number) => node_of(number).map(|node| other_holders(&node)).unwrap_or_default(),
    };
    let told = layers.iter().skip(1).map(holders).find(|told| !told.is_empty())?;
    Some(format!("it stands on what is in use: {}", told.join("; ")))
}

/// The holders of a loop device over the same bytes. Leaves out a loop device that the device itself stands
/// on: `below` has checked it, or the device uses only a partition of it.
fn over(ground: &Ground, layers: &[Identity]) -> Option<String> {
    let passed_over = with_disks(layers, disk_of);
    let stands_there = |node: &PathBuf| {
        let Ok(file) = File::open(node) else { return false };
        let is_other = file.metadata().is_ok_and(|metadata| !passed_over.contains(&Identity::of(&metadata)));
        is_other && Ground::of(&file).is_ok_and(|other| other.overlaps(ground))
    };
    let loops = bound_loops().filter(stands_there);
    let told = loops.map(|node| (other_holders(&node), node)).find(|(told, _)| !told.is_empty());
    told.map(|(told, node)| format!("{}, which stands on it, is in use: {}", node.display(), told.join("; ")))
}

/// The layers, and the disks of those that are partitions.
fn with_disks(layers: &[Identity], disk_of: impl Fn(u64) -> Option<u64>) -> Vec<Identity> {
    let disk = |layer: &Identity| match *layer {
        Identity::Block(number) => disk_of(number).map(Identity::Block),
        Identity::File(..) => None,
    };
    layers.iter().copied().chain(layers.iter().filter_map(disk)).collect()
}

/// The holders that have a block device to themselves. Empty if this process has it: another check reports
/// that.
fn other_holders(node: &Path) -> Vec<String> {
    if !is_claimed(node) {
        return Vec::new();
    }
    let told = of_block(node);
    if told.is_empty() && !is_own(node) {
        return vec![format!("somebody who cannot be named has {} alone", node.display())];
    }
    told
}

/// Loop devices with something under them.
fn bound_loops() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let bound = entries.filter(|entry| entry.path().join("loop/backing_file").exists());
    bound.map(|entry| Path::new("/dev").join(entry.file_name()))
}

/// Whether a process or the kernel has a block device to itself.
fn is_claimed(node: &Path) -> bool {
    let claim = File::options().read(true).custom_flags(libc::O_EXCL).open(node);
    claim.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_hangs_is_left_to_itself() {
        assert_eq!(in_time(Duration::from_secs(100), || 7), Some(7));
        let (keep, hang) = mpsc::channel::<()>();
        assert_eq!(in_time(Duration::from_millis(1), move || hang.recv().is_ok()), None);
        drop(keep);
    }

    #[test]
    fn the_disk_of_a_partition_is_not_asked_for_what_the_partition_is_not() {
        let layers = [Identity::Block(12), Identity::Block(22), Identity::File(1, 2)];
        let disk_of = |number| (number == 22).then_some(20);
        let all = with_disks(&layers, disk_of);
        assert_eq!(all, [&layers[..], &[Identity::Block(20)]].concat());
    }
}
