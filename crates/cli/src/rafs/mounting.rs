//! What a mount is told, and what is told of it.

use std::{path::PathBuf, str::FromStr, time::Duration};

use anyhow::{Context, ensure};
use stripewise_mount::{
    fuse::MountOptions as FuseOptions,
    rafs::{
        fs::{MountOptions, UnknownWord, Without},
        shape::BLOCK_BYTES,
    },
    report::{FREE_PERCENT_MAX, Identity},
    served::{ServeOptions, Served},
};
use stripewise_wire::{MountChoice, MountedStatus};

/// The options of a mount. `source` is what the kernel names as mounted.
///
/// # Errors
/// If T_f is out of bounds, or a word is not known.
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
    let by_rules = MountOptions::of(word("preset", choice.preset.as_deref())?);
    let mut without = Without::default();
    for technique in &choice.without {
        without = without.and(technique.parse().context("-o without")?);
    }
    Ok(ServeOptions {
        fs: MountOptions {
            is_read_only: choice.read_only,
            repeats_journal: !choice.no_recovery,
            buffer_blocks: choice.buffer_bytes / BLOCK_BYTES as u64,
            free_percent,
            age: Duration::from_millis(choice.age_ms),
            journal: word("journal", choice.journal.as_deref())?,
            without,
            discards: choice.discards,
            cleans: choice.cleans.unwrap_or(by_rules.cleans),
            ..by_rules
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

/// The value of an option.
fn word<T: FromStr<Err = UnknownWord> + Default>(option: &str, given: Option<&str>) -> anyhow::Result<T> {
    given.map(str::parse).transpose().with_context(|| format!("-o {option}")).map(Option::unwrap_or_default)
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
        warning: served.rotten_record().map(|error| {
            format!("what was synced from there on is not seen, and files may show what others have overwritten since: {error}")
        }),
    }
}
