//! The link by which an array's block device is known.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::rundir::link_dir;

/// The path of that link.
fn path(name: &str) -> PathBuf {
    link_dir().join(name)
}

/// Where the link leads.
pub(super) fn node(name: &str) -> Option<PathBuf> {
    fs::read_link(path(name)).ok()
}

pub(super) fn remove(name: &str) {
    let link = path(name);
    if link.is_symlink() {
        let _ = fs::remove_file(link);
        // The folder goes with its last link.
        let _ = fs::remove_dir(link_dir());
    }
}

/// Makes the link. Returns None if that fails.
pub(super) fn make(name: &str, block_path: &Path) -> Option<PathBuf> {
    let link = path(name);
    remove(name);
    let link_it = || {
        fs::create_dir_all(link_dir())?;
        std::os::unix::fs::symlink(block_path, &link)
    };
    // Another array's daemon may remove the folder with its last link in between.
    let made = link_it().or_else(|_| link_it());
    made.ok().map(|()| link)
}
