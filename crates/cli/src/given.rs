//! Devices as they are given on the command line.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, bail};
use stripewise_wire::ClassChoice;

use crate::{
    ground::{Ground, Identity, check_apart},
    probe::open_to_look,
};

/// Paths that mean the same to a daemon in another directory.
pub(crate) fn absolute_paths(devices: &[String]) -> anyhow::Result<Vec<String>> {
    devices.iter().map(|device| absolute_path(device)).collect()
}

pub(crate) fn absolute_path(device: &str) -> anyhow::Result<String> {
    if device.starts_with("nbd:") || device.starts_with("nbd+unix:") {
        bail!(
            "{device}: an NBD address cannot be a member by itself yet: connect it with `nbd-client`, and give the block device \
             that it makes, such as /dev/nbd0"
        );
    }
    Ok(std::path::absolute(device)?.display().to_string())
}

/// Refuses one device under two names, before the second opening finds it "in use" by the first.
pub(crate) fn check_given_once<'a>(devices: impl IntoIterator<Item = &'a String>) -> anyhow::Result<()> {
    let mut grounds: Vec<(&str, Ground)> = Vec::new();
    for path in devices {
        // A path to nothing, or to no device, is reported when it is opened as a member.
        if let Ok(Some(file)) = open_to_look(Path::new(path)) {
            grounds.push((path, Ground::of(&file)?));
        }
    }
    check_apart(&grounds)
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

/// Whether two paths mean one device. A path to nothing is the same only as itself.
pub(crate) fn is_same_device(one: &str, other: &str) -> bool {
    one == other || identity(one).is_some_and(|found| identity(other) == Some(found))
}

fn identity(path: &str) -> Option<Identity> {
    fs::metadata(path).ok().map(|metadata| Identity::of(&metadata))
}
