//! Whose a folder is: nothing is written to one that holds other things.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use super::{Order, RunError, at, shell_word, store};

/// Makes the folder if it is not there. It is ours if it is empty, or if our setting or points are in it.
pub(super) fn take(folder: &Path) -> Result<(), RunError> {
    make(folder)?;
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

/// Makes a folder if it is not there.
fn make(folder: &Path) -> Result<(), RunError> {
    fs::create_dir_all(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            RunError::NotAFolder { path: folder.to_owned() }
        }
        _ => at(folder)(error),
    })
}

/// How a folder stands in which our setting is not.
pub(super) fn without_results(folder: &Path) -> RunError {
    let names = match names(folder) {
        Err(RunError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return error,
        Ok(names) => Some(names),
    };
    let run = format!("`stripewise lab run EXPERIMENT --out {}`", shell_word(&folder.display().to_string()));
    let state = match names {
        None => format!("is not there; {run} makes it"),
        Some(names) if names.iter().all(|name| name == "setting.new") => format!("holds no results of the laboratory yet; {run} puts some there"),
        Some(names) if names.iter().any(|name| name == store::FILE) && store::is_ours(folder).unwrap_or(false) => {
            "has points but no setting.json, which says of what they are; the command of that run writes it again".to_owned()
        }
        Some(_) => "holds other things, and no results of the laboratory; give the folder of a run".to_owned(),
    };
    RunError::NoResults { folder: folder.to_owned(), state }
}

/// What says of other folders whose they are.
pub(crate) struct Mark {
    /// A file.
    pub(crate) file: &'static str,
    /// How it begins.
    pub(crate) header: &'static str,
    /// What a folder without it lacks.
    pub(crate) lacks: &'static str,
}

/// Makes a folder if it is not there. It is ours if it is empty, or if a file with our mark is in it.
pub(crate) fn take_marked(folder: &Path, mark: &Mark) -> Result<(), RunError> {
    make(folder)?;
    // What an interruption may have left.
    let unfinished = Path::new(mark.file).with_extension("new");
    let is_free = names(folder)?.iter().all(|name| name == unfinished.as_os_str());
    if is_free || is_marked(folder, mark)? {
        return Ok(());
    }
    Err(RunError::Occupied { folder: folder.to_owned(), lacks: mark.lacks })
}

fn is_marked(folder: &Path, mark: &Mark) -> Result<bool, RunError> {
    let path = folder.join(mark.file);
    let mut begin = Vec::new();
    let length = mark.header.len() as u64;
    let read = File::open(&path).and_then(|file| file.take(length).read_to_end(&mut begin));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        read => read.map(|_| begin == mark.header.as_bytes()).map_err(at(path)),
    }
}

/// What is in a folder.
fn names(folder: &Path) -> Result<Vec<OsString>, RunError> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>().map_err(at(folder))
}
