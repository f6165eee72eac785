//! Devices as they are given on the command line.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
};

use anyhow::{Context, bail};

use crate::protocol::ClassChoice;

/// Paths that mean the same to a daemon in another directory.
pub(crate) fn absolute_paths(devices: &[String]) -> anyhow::Result<Vec<String>> {
    devices.iter().map(|device| absolute_path(device)).collect()
}

pub(crate) fn absolute_path(device: &str) -> anyhow::Result<String> {
    Ok(std::path::absolute(device)?.display().to_string())
}

/// Refuses one device under two paths, before the second opening finds it "in use" by the first.
pub(crate) fn check_given_once<'a>(devices: impl IntoIterator<Item = &'a String>) -> anyhow::Result<()> {
    let mut seen = BTreeMap::new();
    for path in devices {
        // What is not there is told by whoever opens it.
        let Some(identity) = identity(path) else { continue };
        match seen.insert(identity, path) {
            Some(first) if first == path => bail!("{path} is given twice; give every device once"),
            Some(first) => bail!("{first} and {path} are the same device; give every device once"),
            None => {}
        }
    }
    Ok(())
}

/// What `--class` says of these devices, by absolute path.
pub(crate) fn given_classes(
    classes: &[(String, ClassChoice)],
    devices: &[String],
) -> anyhow::Result<BTreeMap<String, ClassChoice>> {
    let mut found = BTreeMap::new();
    for (device, class) in classes {
        let given = devices.iter().find(|given| is_same_device(given, device));
        let given = given.with_context(|| format!("--class {device}: it is none of the devices given"))?;
        if found.insert(absolute_path(given)?, *class).is_some_and(|other| other != *class) {
            bail!("--class {device}: it cannot be both");
        }
    }
    Ok(found)
}

/// Whether two paths mean one device. One that is not there is only itself.
pub(crate) fn is_same_device(one: &str, other: &str) -> bool {
    one == other || identity(one).is_some_and(|found| identity(other) == Some(found))
}

/// What stays the same under every path, link and node: a block device's number, or the place of a file.
fn identity(path: &str) -> Option<(u64, Option<u64>)> {
    let metadata = fs::metadata(path).ok()?;
    let is_block = metadata.file_type().is_block_device();
    Some(if is_block { (metadata.rdev(), None) } else { (metadata.dev(), Some(metadata.ino())) })
}
