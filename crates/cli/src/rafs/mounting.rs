//! What a mount is told, and what is told of it.

use std::{path::PathBuf, time::Duration};

use anyhow::ensure;
use stripewise_mount::{
    fuse::MountOptions as FuseOptions,
    rafs::{fs::MountOptions, shape::BLOCK_BYTES},
    report::{FREE_PERCENT_MAX, Identity},
    served::{ServeOptions, Served},
};
use stripewise_wire::{MountChoice, MountedStatus};

/// The options of a mount. `source` is what the kernel names as mounted.
///
/// # Errors
/// If T_f is out of bounds.
pub(crate) fn serve_options(
    choice: &MountChoice,
    source: &str,
    anchor: Option<PathBuf>,
) -> anyhow::Result<ServeOptions> {
    let free_percent = choice.free_percent;
    ensure!(
        free_percent <= FREE_PERCENT_MAX,
        "--tf {free_percent}: give a whole number from 0 to {FREE_PERCENT_MAX}"
    );
    Ok(ServeOptions {
        fs: MountOptions {
            is_read_only: choice.read_only,
            buffer_blocks: choice.buffer_bytes / BLOCK_BYTES as u64,
            free_percent,
            age: Duration::from_millis(choice.age_ms),
            ..MountOptions::default()
        },
        fuse: FuseOptions {
            source: source.into(),
            allow_other: choice.allow_other,
            nosuid: choice.nosuid,
            nodev: choice.nodev,
            noexec: choice.noexec,
            noatime: choice.noatime,
            ..FuseOptions::default()
        },
        anchor,
    })
}

/// What this process has mounted.
pub(crate) fn mounted_status(identity: &Identity, served: &Served, choice: &MountChoice) -> MountedStatus {
    MountedStatus {
        target: identity.target.clone(),
        point: served.point().to_owned(),
        uuid: identity.uuid.clone(),
        label: identity.label.clone(),
        is_read_only: choice.read_only,
        is_block: served.is_block(),
        pid: identity.pid,
    }
}
