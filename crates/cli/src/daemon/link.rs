//! The link by which an array's block device is known.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::rundir::link_dir;

/// The link by which an array's block device is known.
fn path(name: &str) -> PathBuf {
    link_dir().join(name)
}

/// Where that link leads.
pub(super) fn node(name: &str) -> Option<PathBuf> {
    fs::read_link(path(name)).ok()
}

pub(super) fn remove(name: &str) {
    let link = path(name);
    if link.is_symlink() {
        let _ = fs::remove_file(link);
        // Goes with its last link.
        let _ = fs::remove_dir(link_dir());
    }
}

/// Makes the link; none where that cannot be done.
pub(super) fn make(name: &str, block_path: &Path) -> Option<PathBuf> {
    let link = path(name);
    remove(name);
    let link_it = || {
        fs::create_dir_all(link_dir())?;
        std::os::unix::fs::symlink(block_path, &link)
    };
    // Another array's last link may take the folder away in between.
    let made = link_it().or_else(|_| link_it());
    made.ok().map(|()| link)
}
