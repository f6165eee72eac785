//! Looks at a file system that is not mounted.

use std::{collections::BTreeMap, sync::Arc};

use stripewise::{EnvHandle, internals::format::rafs::superblock::Superblock};
use stripewise_mount::{
    rafs::{
        check::{Progress, Report, check_telling},
        fs::{Fs, MountOptions},
        repair::repair,
        volume::Volume,
    },
    report::{self, Identity},
};
use stripewise_wire::{CheckedStatus, UsageStatus};

/// How full it is. Reads it as a mount would, and changes nothing.
///
/// # Errors
/// If it cannot be mounted.
pub(crate) async fn usage_status(
    env: EnvHandle,
    volume: Arc<dyn Volume>,
    superblock: &Superblock,
) -> anyhow::Result<UsageStatus> {
    let options = MountOptions { is_read_only: true, ..MountOptions::default() };
    let buffer_blocks = options.buffer_blocks.max(4 * u64::from(superblock.stripe_blocks()));
    let fs = Fs::mount(env, volume, MountOptions { buffer_blocks, ..options }).await?;
    if let Some(error) = fs.rotten_record() {
        return Err(error.into());
    }
    let told = report::Report::of(&Identity::new(String::new(), superblock), &fs.usage().await, fs.pace());
    fs.unmount().await?;
    let report::Report { identity, size_bytes, free_bytes, inodes, buffered_bytes, .. } = told;
    let Identity { uuid, label, data_columns, chunk_bytes, by_rows, .. } = identity;
    Ok(UsageStatus {
        uuid,
        label,
        data_columns,
        chunk_bytes,
        by_rows,
        size_bytes,
        free_bytes,
        inodes,
        buffered_bytes,
    })
}

/// The same as a mount tells it.
pub(crate) fn report_of_unmounted(target: String, usage: UsageStatus) -> report::Report {
    let UsageStatus {
        uuid, label, data_columns, chunk_bytes, by_rows, size_bytes, free_bytes, inodes, ..
    } = usage;
    let buffered_bytes = usage.buffered_bytes;
    let identity = Identity { target, uuid, label, data_columns, chunk_bytes, by_rows, pid: 0, array: None };
    report::Report {
        identity,
        size_bytes,
        free_bytes,
        inodes,
        buffered_bytes,
        free_percent: 0,
        age_ms: 0,
        activity: None,
        stripes: None,
    }
}

/// Looks at a file system that is not mounted: that of a target, and its UUID.
///
/// # Errors
/// If it cannot be looked at.
pub(crate) async fn checked(
    what: (String, String),
    volume: &Arc<dyn Volume>,
    progress: &Progress,
) -> anyhow::Result<CheckedStatus> {
    Ok(checked_status(what, &check_telling(volume, progress).await?))
}

/// Looks at it, mends it, and looks again.
///
/// # Errors
/// If it cannot be looked at, or mended.
pub(crate) async fn mended(
    env: &EnvHandle,
    what: (String, String),
    volume: &Arc<dyn Volume>,
    progress: &Progress,
) -> anyhow::Result<CheckedStatus> {
    let mut told = checked(what, volume, progress).await?;
    let now_ns = i64::try_from(env.wall_clock_us().saturating_mul(1000)).unwrap_or(i64::MAX);
    repair(volume, now_ns, progress).await?;
    let after = check_telling(volume, progress).await?;
    told.left = after.problems.iter().map(ToString::to_string).collect();
    told.mended = told.left.is_empty();
    Ok(told)
}

/// What a check found.
fn checked_status((target, uuid): (String, String), report: &Report) -> CheckedStatus {
    let mut counts = BTreeMap::new();
    report.problems.iter().for_each(|problem| *counts.entry(problem.kind()).or_default() += 1);
    CheckedStatus {
        target,
        uuid,
        clean: report.problems.is_empty(),
        mended: false,
        inodes: report.inodes,
        folders: report.folders,
        orphans: report.orphans,
        file_blocks: report.file_blocks,
        nodes: report.nodes,
        records: report.records,
        saved: report.saved,
        counts,
        problems: report.problems.iter().map(ToString::to_string).collect(),
        notes: report.notes.iter().map(ToString::to_string).collect(),
        left: Vec::new(),
        mounted: None,
    }
}
