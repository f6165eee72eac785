//! Whose a folder is: nothing is written to one that holds other things.

use std::{fs, io, path::Path};

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
    let names = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>())
        .map_err(at(folder))?;
    let has_points = names.iter().any(|name| name == store::FILE);
    // An interruption may have come before the setting was there.
    let is_free = names.iter().all(|name| name == "setting.new" || name == store::FILE);
    if is_free || (has_points && store::is_ours(folder)?) {
        return Ok(());
    }
    if has_points {
        return Err(RunError::Foreign { path: folder.join(store::FILE) });
    }
    Err(RunError::Occupied { folder: folder.to_owned() })
}
