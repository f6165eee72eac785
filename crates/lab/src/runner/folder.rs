//! Whose a folder is: nothing is written to one that holds other things.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use super::{Order, RunError, at, shell_word, store};

/// Makes the folder if it does not exist. It is ours if it is empty, or if it holds our setting or points.
pub(super) fn take(folder: &Path) -> Result<(), RunError> {
    make(folder)?;
    match Order::find(folder) {
        // Its experiments are unknown to this version, or its loadfile is gone: it is ours all the same.
        Ok(Some(_)) | Err(RunError::Unknown(_) | RunError::OtherLoadfile { .. } | RunError::Loadfile(_)) => {
            return Ok(());
        }
        Ok(None) => {}
        Err(error) => return Err(error),
    }
    match without_setting(folder)? {
        Held::Nothing | Held::Points => Ok(()),
        Held::Others => {
            let lacks = "results of the laboratory (setting.json is not there)";
            Err(RunError::Occupied { folder: folder.to_owned(), lacks })
        }
    }
}

/// The content of a folder without our setting.
enum Held {
    Nothing,
    Points,
    Others,
}

fn without_setting(folder: &Path) -> Result<Held, RunError> {
    let names = names(folder)?;
    let are_all = |ours: &[&str]| names.iter().all(|name| ours.iter().any(|own| name == own));
    // An interruption may have come before the setting existed, with anything in the file of the points.
    if are_all(&["setting.new"]) {
        return Ok(Held::Nothing);
    }
    if !names.iter().any(|name| name == store::FILE) {
        return Ok(Held::Others);
    }
    if store::is_ours(folder)? {
        return Ok(Held::Points);
    }
    let path = folder.join(store::FILE);
    let is_empty = fs::metadata(&path).map_err(at(&path))?.len() == 0;
    if is_empty && are_all(&["setting.new", store::FILE]) {
        return Ok(Held::Nothing);
    }
    Err(RunError::Foreign { path })
}

/// Makes a folder if it does not exist.
fn make(folder: &Path) -> Result<(), RunError> {
    fs::create_dir_all(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            RunError::NotAFolder { path: folder.to_owned() }
        }
        _ => at(folder)(error),
    })
}

/// The error for a folder without our setting.
pub(super) fn no_results(folder: &Path) -> RunError {
    let run = format!("`stripewise lab run EXPERIMENT --out {}`", shell_word(&folder.display().to_string()));
    let state = match without_setting(folder) {
        Err(RunError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            format!("is not there; {run} makes it")
        }
        Err(RunError::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => {
            "is no folder; give the folder of a run".to_owned()
        }
        Err(error) => return error,
        Ok(Held::Nothing) => format!("holds no results of the laboratory yet; {run} puts some there"),
        Ok(Held::Points) => {
            "has points but no setting.json, which says of what they are; the command of that run \
                             writes it again"
                .to_owned()
        }
        Ok(Held::Others) => {
            "holds other things, and no results of the laboratory; give the folder of a run".to_owned()
        }
    };
    RunError::NoResults { folder: folder.to_owned(), state }
}

/// The file by which we recognise other kinds of folders.
pub(crate) struct Mark {
    /// A file.
    pub(crate) file: &'static str,
    /// How it begins.
    pub(crate) header: &'static str,
    /// What a folder without it lacks.
    pub(crate) lacks: &'static str,
}

/// Makes a folder if it does not exist. It is ours if it is empty, or if it holds a file with our mark.
pub(crate) fn take_marked(folder: &Path, mark: &Mark) -> Result<(), RunError> {
    make(folder)?;
    // The possible remains of an interruption.
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

/// The names of a folder's entries.
fn names(folder: &Path) -> Result<Vec<OsString>, RunError> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>().map_err(at(folder))
}
