//! Looks at a file system that is not mounted.

use std::{collections::BTreeMap, sync::Arc};

use stripewise::{EnvHandle, internals::format::rafs::superblock::Superblock};
use stripewise_mount::{
    rafs::{
        check::{Problem, Report},
        fs::{Fs, MountOptions},
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
    report::Report { identity, size_bytes, free_bytes, inodes, buffered_bytes, free_percent: 0, age_ms: 0 }
}

/// What a check found.
pub(crate) fn checked_status(target: String, uuid: String, report: &Report) -> CheckedStatus {
    let mut counts = BTreeMap::new();
    report.problems.iter().for_each(|problem| *counts.entry(kind(problem)).or_default() += 1);
    CheckedStatus {
        target,
        uuid,
        clean: report.problems.is_empty(),
        inodes: report.inodes,
        folders: report.folders,
        orphans: report.orphans,
        file_blocks: report.file_blocks,
        nodes: report.nodes,
        records: report.records,
        counts,
        problems: report.problems.iter().map(ToString::to_string).collect(),
    }
}

/// The variant's name.
fn kind(problem: &Problem) -> String {
    let text = format!("{problem:?}");
    text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
}
