//! The demo's folder, and how the process that clears it away recognises it.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
};

use anyhow::Context;
use tempfile::TempDir;

const PREFIX: &str = "stripewise-demo-";
/// An empty file in the folder that only a demo makes.
const MARKER: &str = ".made-by-stripewise-demo";

/// Makes a demo's folder in `parent`.
pub(super) fn make(parent: &Path) -> anyhow::Result<TempDir> {
    let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent);
    let folder = made.with_context(|| format!("{}: no folder can be made there", parent.display()))?;
    File::create_new(folder.path().join(MARKER))?;
    Ok(folder)
}

/// Whether a folder was made by a demo of this user.
pub(super) fn is_a_demos(folder: &Path) -> bool {
    let named = folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let is_own = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|metadata| {
            !metadata.is_symlink() && metadata.uid() == rustix::process::geteuid().as_raw()
        })
    };
    named && is_own(folder) && is_own(&folder.join(MARKER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_demo_made_is_a_demos() {
        let parent = tempfile::tempdir().unwrap();
        let folder = make(parent.path()).unwrap();
        assert!(is_a_demos(folder.path()));
        let moved = parent.path().join("precious");
        fs::rename(folder.path(), &moved).unwrap();
        assert!(!is_a_demos(&moved), "another name");
        std::os::unix::fs::symlink(&moved, folder.path()).unwrap();
        assert!(!is_a_demos(folder.path()), "a link");
        fs::remove_file(folder.path()).unwrap();
        fs::create_dir(folder.path()).unwrap();
        assert!(!is_a_demos(folder.path()), "no marker");
    }
}
