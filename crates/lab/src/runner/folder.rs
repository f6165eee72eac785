//! Whose a folder is: nothing is written to one that holds other things.

use std::{ffi::OsString, fs, io, path::Path};

use super::{Order, RunError, at, store};

/// Makes the folder if it is not there. It is ours if it is empty, or if our setting or points are in it.
pub(super) fn take(folder: &Path) -> Result<(), RunError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    match Order::read(folder) {
        // Of experiments that this version does not have: ours all the same.
        Ok(_) | Err(RunError::Unknown(_)) => return Ok(()),
        Err(RunError::NoResults { .. }) => {}
        Err(error) => return Err(error),
    }
    let names = names(folder)?;
    let has_points = names.iter().any(|name| name == store::FILE);
    // An interruption may have come before the setting was there.
    let is_free = names.iter().all(|name| name == "setting.new" || name == store::FILE);
    if is_free || (has_points && store::is_ours(folder)?) {
        return Ok(());
    }
    if has_points {
        return Err(RunError::Foreign { path: folder.join(store::FILE) });
    }
    let lacks = "results of the laboratory (setting.json is not there)";
    Err(RunError::Occupied { folder: folder.to_owned(), lacks })
}

/// What is in a folder.
pub(crate) fn names(folder: &Path) -> Result<Vec<OsString>, RunError> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>().map_err(at(folder))
}
