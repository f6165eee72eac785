//! Opens devices that will become members, and checks what they hold, before anything is written to any of
//! them.

use std::{collections::BTreeMap, fs::File, os::fd::AsFd, path::Path, time::Duration};

use anyhow::{Context, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};
use stripewise::{
    Host,
    file::{FileDevice, OpenError},
};
use stripewise_wire::Notes;

use super::patience::Deadline;
use crate::{
    ground::{Ground, Identity, check_apart},
    holders,
    probe::{open_to_look, probe, probe_opened},
};

/// What a command saw of a device, and what its user agreed to have overwritten.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LookedAt {
    identity: Identity,
    pub(crate) found: Vec<String>,
}

impl LookedAt {
    /// None for a path that cannot be a member.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub(crate) fn look(path: &Path) -> std::io::Result<Option<Self>> {
        let Some(file) = open_to_look(path)? else { return Ok(None) };
        Ok(Some(Self { identity: Identity::of(&file.metadata()?), found: probe(&file)? }))
    }
}

/// Says what a device holds.
pub(crate) fn holding(path: &str, found: &[String]) -> String {
    format!("{path} holds {}", found.join(" and "))
}

/// How long to wait for a device that a killed process has not released yet.
const ENDING_WAIT: Duration = Duration::from_secs(30);

/// Until when to wait for the members of an array that is being opened.
pub(super) fn opening_deadline() -> Deadline {
    Deadline::after(ENDING_WAIT)
}

/// Opens a device as a member. Waits for a device whose holder was killed. For a device in use, the error
/// names the holder.
pub(super) fn open(host: &Host, path: &str, deadline: Deadline) -> anyhow::Result<FileDevice> {
    open_by(|| host.open_file(path), path, deadline)
}

fn open_by(
    open: impl Fn() -> Result<FileDevice, OpenError>,
    path: &str,
    deadline: Deadline,
) -> anyhow::Result<FileDevice> {
    let deadline = deadline.or_after(ENDING_WAIT);
    let mut is_told = false;
    loop {
        let error = match open() {
            Ok(device) => return check_free(path, device),
            Err(error @ OpenError::Busy { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        if !holders::are_ending(Path::new(path)) || deadline.is_over() {
            return Err(match holders::told(Path::new(path)) {
                Some(holders) => anyhow!("{path}: in use: {holders}"),
                None => error.into(),
            });
        }
        // The next attempt itself waits a moment.
        if !std::mem::replace(&mut is_told, true) {
            tracing::info!(path, "waiting for the kernel to let go of it: a process that was killed had it");
        }
    }
}

/// Refuses an open device whose bytes are in use in another way.
fn check_free(path: &str, device: FileDevice) -> anyhow::Result<FileDevice> {
    match holders::in_other_use(&file_of(&device)?) {
        Some(holders) => bail!("{path}: in use: {holders}"),
        None => Ok(device),
    }
}

/// Opens a device exclusively that is to be a file system's.
pub(crate) fn open_exclusively(host: &Host, path: &str) -> anyhow::Result<FileDevice> {
    open(host, path, opening_deadline())
}

/// As [`open_exclusively`], for what is only read.
pub(crate) fn open_to_read(host: &Host, path: &str) -> anyhow::Result<FileDevice> {
    open_by(|| host.open_file_to_read(path), path, opening_deadline())
}

/// Whether a device could not be opened because it is not there or does not work, as for writing. One that is in use is not
/// absent.
pub(super) fn is_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(OpenError::Os { .. } | OpenError::ReadOnly { .. }))
}

/// Refuses an open device that holds something, unless it may be overwritten. Returns a note on what is
/// overwritten.
pub(crate) fn check_contents(
    path: &str,
    device: &FileDevice,
    force: bool,
    agreed: &[String],
) -> anyhow::Result<Notes> {
    let found = probe_opened(device).with_context(|| path.to_owned())?;
    let new: Vec<_> = found.iter().filter(|name| !agreed.contains(name)).cloned().collect();
    if new.is_empty() {
        return Ok(Notes::new());
    }
    ensure!(force, "{}; give --force to overwrite it", holding(path, &found));
    Ok(vec![format!("overwritten: {}", holding(path, &found))])
}

/// Opens the devices of a new array. Checks that they are the ones that were looked at, that they share no
/// bytes, and that they hold nothing that may not be overwritten.
pub(super) fn open_all<'a>(
    host: &Host,
    paths: impl Iterator<Item = &'a String>,
    looked_at: &BTreeMap<String, LookedAt>,
    force: bool,
) -> anyhow::Result<(BTreeMap<String, FileDevice>, Notes)> {
    let (mut opened, deadline) = (BTreeMap::new(), opening_deadline());
    for path in paths {
        let device = open(host, path, deadline)?;
        check_same(path, &device, looked_at.get(path))?;
        if opened.insert(path.clone(), device).is_some() {
            bail!("{path} is given twice; give every device once");
        }
    }
    let grounds = opened.iter().map(|(path, device)| Ok((path.as_str(), Ground::of(&file_of(device)?)?)));
    check_apart(&grounds.collect::<anyhow::Result<Vec<_>>>()?)?;
    let mut notes = Notes::new();
    for (path, device) in &opened {
        let agreed = looked_at.get(path).map_or(&[][..], |looked_at| &looked_at.found);
        notes.extend(check_contents(path, device, force, agreed)?);
    }
    Ok((opened, notes))
}

/// Refuses an open device that stands on the same bytes as a member, such as the file under a loop device.
pub(super) fn check_apart_from<'a>(
    path: &'a str,
    device: &FileDevice,
    members: impl Iterator<Item = &'a String>,
) -> anyhow::Result<()> {
    // The array itself reports members that can no longer be looked at.
    let of_member = |member: &'a String| {
        let file = open_to_look(Path::new(member)).ok()??;
        Some((member.as_str(), Ground::of(&file).ok()?))
    };
    let mut grounds: Vec<_> = members.filter_map(of_member).collect();
    grounds.push((path, Ground::of(&file_of(device)?)?));
    check_apart(&grounds)
}

/// Refuses a device that is not the one its user was told of, even with `--force`: that was meant for the
/// device that was looked at.
fn check_same(path: &str, device: &FileDevice, looked_at: Option<&LookedAt>) -> anyhow::Result<()> {
    let identity = Identity::of(&file_of(device)?.metadata()?);
    ensure!(
        looked_at.is_none_or(|looked_at| looked_at.identity == identity),
        "{path}: another file or device has taken its place since it was looked at; nothing was written. Look at what is there \
         now, then try again"
    );
    Ok(())
}

/// The open file itself, through another descriptor.
fn file_of(device: &FileDevice) -> std::io::Result<File> {
    Ok(File::from(device.as_fd().try_clone_to_owned()?))
}
