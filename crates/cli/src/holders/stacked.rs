//! Devices that are in use by another way: the kernel keeps nobody from a file or disk under a loop device, nor from a loop
//! device over a file that an array has.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use super::{locks::lock_holders_of, of_block, of_process};
use crate::ground::{Ground, Identity};

/// Who else uses the bytes that an open device stands on, and what frees them. Not this process.
pub(crate) fn in_other_use(opened: &File) -> Option<String> {
    let ground = Ground::of(opened).ok()?;
    let own = Identity::of(&opened.metadata().ok()?);
    below(&ground, own).or_else(|| over(&ground, own))
}

/// The holders of what lies under a loop device.
fn below(ground: &Ground, own: Identity) -> Option<String> {
    if ground.identity() == own {
        return None;
    }
    let told: Vec<_> = match ground.identity() {
        Identity::File(file_system, inode) => {
            lock_holders_of(file_system, inode).into_iter().filter_map(of_process).collect()
        }
        Identity::Block(number) => {
            let disk = crate::ground::node_of(number)?;
            if is_claimed(&disk) { of_block(&disk) } else { Vec::new() }
        }
    };
    (!told.is_empty()).then(|| format!("it stands on what is in use: {}", told.join("; ")))
}

/// The holders of a loop device over the same bytes.
fn over(ground: &Ground, own: Identity) -> Option<String> {
    let stands_there = |node: &PathBuf| {
        let Ok(file) = File::open(node) else { return false };
        let is_other = file.metadata().is_ok_and(|metadata| Identity::of(&metadata) != own);
        is_other && Ground::of(&file).is_ok_and(|other| other.overlaps(ground))
    };
    let loops = bound_loops().filter(stands_there).filter(|node| is_claimed(node));
    // One whose holder is not told is this process's own, which is told of by another check.
    let told = loops.map(|node| (of_block(&node), node)).find(|(told, _)| !told.is_empty());
    told.map(|(told, node)| format!("{}, which stands on it, is in use: {}", node.display(), told.join("; ")))
}

/// Loop devices with something under them.
fn bound_loops() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let bound = entries.filter(|entry| entry.path().join("loop/backing_file").exists());
    bound.map(|entry| Path::new("/dev").join(entry.file_name()))
}

/// Whether a process or the kernel has a block device for itself.
fn is_claimed(node: &Path) -> bool {
    let claim = File::options().read(true).custom_flags(libc::O_EXCL).open(node);
    claim.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
}
