//! What the file system's commands are given: an array by its name, or a path.

use std::path::Path;

use anyhow::{bail, ensure};

use crate::{
    given::absolute_path,
    rundir::{link_dir, parse_name, socket_path},
};

/// What a command works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A running array, in its daemon.
    Array(String),
    /// A block device or a file, by its absolute path.
    Path(String),
}

/// What was meant: a word without a slash is a running array, or a file here.
///
/// # Errors
/// If it is neither, or both.
pub(super) fn target_of(text: &str) -> anyhow::Result<Target> {
    let (is_there, is_name) = (Path::new(text).exists(), parse_name(text).is_ok());
    let is_running = is_name && socket_path(text).exists();
    ensure!(
        !(is_running && is_there),
        "{text}: there are an array and a file of that name; stand in another folder for the array, or write ./{text} for the \
         file"
    );
    if is_running {
        return Ok(Target::Array(text.to_owned()));
    }
    ensure!(
        is_there || !is_name,
        "{text}: no array of that name is running, and there is no such file or device here; `stripewise assemble {text} \
         DEVICES...` starts an array"
    );
    if !is_there && let Some(name) = linked_array(text) {
        bail!("{text}: the array is not attached; give its name, {name}, and its daemon does it");
    }
    Ok(Target::Path(absolute_path(text)?))
}

/// The running array whose block device would lie there.
fn linked_array(path: &str) -> Option<&str> {
    let name = Path::new(path).strip_prefix(link_dir()).ok()?.to_str()?;
    (parse_name(name).is_ok() && socket_path(name).exists()).then_some(name)
}
