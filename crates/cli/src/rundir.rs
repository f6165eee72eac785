//! Where daemons keep their control sockets: `/run/stripewise` for root, the user's runtime directory
//! otherwise, or what `STRIPEWISE_RUN_DIR` says.

use std::{
    fs::{DirBuilder, Metadata},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use stripewise_wire::socket_in;

/// The longest array name: an md superblock has 32 bytes for it and a host name together.
const NAME_BYTES_MAX: usize = 31;

/// The variable that names another run directory.
pub(crate) const RUN_DIR_VARIABLE: &str = "STRIPEWISE_RUN_DIR";

/// The run directory that the environment names, as an absolute path: a daemon works in another directory.
pub(crate) fn named_run_dir() -> Option<PathBuf> {
    let dir = std::env::var_os(RUN_DIR_VARIABLE).filter(|dir| !dir.is_empty())?;
    Some(std::path::absolute(&dir).unwrap_or_else(|_| dir.into()))
}

/// The run directory.
pub(crate) fn run_dir() -> PathBuf {
    if let Some(dir) = named_run_dir() {
        return dir;
    }
    if rustix::process::geteuid().is_root() {
        return "/run/stripewise".into();
    }
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    user.unwrap_or_else(own_temp_dir).join("stripewise")
}

/// A user's own folder in a place where every user may make one.
fn own_temp_dir() -> PathBuf {
    std::env::temp_dir().join(format!("stripewise-{}", rustix::process::geteuid().as_raw()))
}

/// The folder of links that name the block devices of arrays. Names belong to one run directory, so a run
/// directory that the environment names holds its own links.
pub(crate) fn link_dir() -> PathBuf {
    match named_run_dir() {
        Some(dir) => dir.join("dev"),
        None => "/dev/stripewise".into(),
    }
}

/// Makes the run directory, for its owner only.
pub(crate) fn make_run_dir() -> anyhow::Result<PathBuf> {
    let dir = run_dir();
    // In a folder that every user can write to, another user may have been first, perhaps with a link.
    let parent = own_temp_dir();
    if dir.parent() == Some(&parent) {
        make(&parent)?;
        check_own(&parent, &std::fs::symlink_metadata(&parent)?)?;
    }
    make(&dir)?;
    check_own(&dir, &std::fs::metadata(&dir)?)?;
    Ok(dir)
}

/// Refuses a run directory that another user made where every user may make one: the daemon that answers
/// there may be anyone's. Accepts a directory that does not exist, or that the environment names.
pub(crate) fn check_run_dir() -> anyhow::Result<()> {
    if named_run_dir().is_some() {
        return Ok(());
    }
    let dir = run_dir();
    let parent = own_temp_dir();
    let in_temp = dir.parent() == Some(&parent);
    for folder in in_temp.then_some(&parent).into_iter().chain([&dir]) {
        match std::fs::symlink_metadata(folder) {
            Ok(metadata) => check_own(folder, &metadata)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => bail!("{}: {error}", folder.display()),
        }
    }
    Ok(())
}

fn make(dir: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.with_context(|| format!("{}: cannot make the run directory", dir.display()))
}

fn check_own(dir: &Path, metadata: &Metadata) -> anyhow::Result<()> {
    let own = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !own || metadata.mode() & 0o022 != 0 {
        bail!("{}: is a link, belongs to or can be written by somebody else; remove it", dir.display());
    }
    Ok(())
}

/// Parses an array name that is safe as part of a path.
///
/// # Errors
/// A text for the usage error.
pub(crate) fn parse_name(name: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain = !name.is_empty() && name.chars().all(allowed) && !name.starts_with(['.', '-']);
    if plain && name.len() <= NAME_BYTES_MAX {
        return Ok(name.to_owned());
    }
    Err(format!(
        "'{name}' is not an array name: use 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-', not beginning \
         with '.' or '-'"
    ))
}

/// The control socket of an array.
pub(crate) fn socket_path(name: &str) -> PathBuf {
    socket_in(&run_dir(), name)
}

/// The log of an array's daemon.
pub(crate) fn log_path(name: &str) -> PathBuf {
    run_dir().join(format!("{name}.log"))
}

/// The list of dead block devices that an array left. See `daemon/remains.rs`.
pub(crate) fn remains_path(name: &str) -> PathBuf {
    run_dir().join(format!("{name}.remains"))
}

/// The names of all arrays that have a control socket, in order.
pub(crate) fn array_names() -> anyhow::Result<Vec<String>> {
    names_of(&[".sock"])
}

/// The names of all arrays that have something to stop, in order.
pub(crate) fn names_to_stop() -> anyhow::Result<Vec<String>> {
    names_of(&[".sock", ".remains"])
}

fn names_of(endings: &[&str]) -> anyhow::Result<Vec<String>> {
    check_run_dir()?;
    let dir = run_dir();
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => bail!("{}: {e}", dir.display()),
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let file = entry.ok()?.file_name();
            let file = file.to_str()?;
            endings.iter().find_map(|ending| file.strip_suffix(ending)).map(str::to_owned)
        })
        .filter(|name| parse_name(name).is_ok())
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_folder_of_ones_own_will_do() {
        let dir = tempfile::tempdir().unwrap();
        let check = |path: &Path| check_own(path, &std::fs::symlink_metadata(path).unwrap());
        assert!(check(dir.path()).is_ok());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(check(&link).is_err(), "somebody else may have made it");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o770)).unwrap();
        assert!(check(dir.path()).is_err());
    }

    #[test]
    fn names_cannot_escape_the_run_directory() {
        for good in ["home", "a", "r5.main_2-x"] {
            assert!(parse_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "../x", "a/b", "-x", ".x", "a b", "a\0b", "ä", &"x".repeat(32)] {
            assert!(parse_name(bad).is_err(), "{bad:?}");
        }
    }
}
