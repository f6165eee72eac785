//! The file system in an array's daemon: how it shall be made and mounted, and how it is.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::OrderChoice;

/// How a file system shall be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MkfsSpec {
    /// Its label.
    pub label: String,
    /// Its UUID; a random one, if none.
    pub uuid: Option<String>,
    /// The journal's size; as it suits the array, if none.
    pub journal_bytes: Option<u64>,
    /// In which order the blocks of a stripe are filled; by columns if members rotate, if none.
    pub order: Option<OrderChoice>,
    /// The user and the group that its root belongs to.
    pub owner: (u32, u32),
    /// Whether what is found may be overwritten.
    pub force: bool,
    /// Only say what would be made.
    pub dry_run: bool,
    /// Do not tell the array that nothing of what it holds is needed.
    pub keep_blocks: bool,
}

/// A file system that was made, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MadeStatus {
    /// The array, device or file.
    pub target: String,
    /// Its UUID.
    pub uuid: String,
    /// Its label.
    pub label: String,
    /// What the target holds.
    pub size_bytes: u64,
    /// Data columns of a stripe.
    pub data_columns: u32,
    /// Their chunk.
    pub chunk_bytes: u64,
    /// Where the shape was found.
    pub shape_from: String,
    /// `rows` or `columns`.
    pub order: String,
    /// How many stripes it has.
    pub stripes: u64,
    /// Stripes of a group.
    pub group_stripes: u32,
    /// Its journal.
    pub journal_bytes: u64,
}

/// How a file system shall be mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountChoice {
    /// The folder, absolute.
    pub point: PathBuf,
    /// Nothing is changed.
    pub read_only: bool,
    /// Others than the daemon's user may come in.
    pub allow_other: bool,
    /// Set-user-ID and set-group-ID have no effect.
    pub nosuid: bool,
    /// Device files have no effect.
    pub nodev: bool,
    /// Nothing can be executed.
    pub noexec: bool,
    /// Reading changes no times.
    pub noatime: bool,
    /// Memory for what is written and not yet written out.
    pub buffer_bytes: u64,
    /// T_f: it is written out once less of the buffer is free, in percent.
    pub free_percent: u8,
    /// T_t: what waits for longer is written out.
    pub age_ms: u64,
    /// A loop device is put under the mount, so that sync(2) reaches it.
    pub has_loop: bool,
    /// The journal's mode; `ordered`, if none.
    pub journal: Option<String>,
    /// By which rules; `default`, if none.
    pub preset: Option<String>,
    /// Techniques of the paper that are off.
    pub without: Vec<String>,
    /// Stripes of which all is free are discarded.
    pub discards: bool,
    /// Whether half-empty stripes are cleaned; as the preset says, if none.
    pub cleans: Option<bool>,
    /// What the journal has is left out; of a mount for reading.
    pub no_recovery: bool,
}

/// A file system that is mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountedStatus {
    /// The array, device or file.
    pub target: String,
    /// The folder.
    pub point: PathBuf,
    /// Its UUID.
    pub uuid: String,
    /// Its label.
    pub label: String,
    /// Whether nothing can be changed.
    pub is_read_only: bool,
    /// Whether sync(2) reaches it.
    pub is_block: bool,
    /// The process that serves it.
    pub pid: u32,
    /// What is missing in what is seen, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// How full a file system is that is not mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageStatus {
    /// Its UUID.
    pub uuid: String,
    /// Its label.
    pub label: String,
    /// Data columns of a stripe.
    pub data_columns: u32,
    /// Their chunk.
    pub chunk_bytes: u64,
    /// Whether slots are numbered row by row.
    pub by_rows: bool,
    /// Room for files and metadata.
    pub size_bytes: u64,
    /// What files may still take.
    pub free_bytes: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// What a journal has that is not written out.
    pub buffered_bytes: u64,
}

/// What a check of a file system found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckedStatus {
    /// The array, device or file.
    pub target: String,
    /// Its UUID.
    pub uuid: String,
    /// Whether there was no problem.
    pub clean: bool,
    /// All that was wrong has been mended.
    pub mended: bool,
    /// Inodes in use.
    pub inodes: u64,
    /// Folders among them.
    pub folders: u64,
    /// Inodes without a name.
    pub orphans: u64,
    /// Blocks of files.
    pub file_blocks: u64,
    /// Nodes of the tree.
    pub nodes: u64,
    /// Records of the journal that a mount will repeat.
    pub records: u64,
    /// Items of lost nodes that were found in older ones.
    pub saved: u64,
    /// How many problems there are of each kind.
    pub counts: BTreeMap<String, usize>,
    /// Each problem in words.
    pub problems: Vec<String>,
    /// What is no damage, and is made good by a repair.
    pub notes: Vec<String>,
    /// What a repair left.
    pub left: Vec<String>,
    /// The folder that it is mounted on: then the tree of its newest checkpoint was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mounted: Option<PathBuf>,
}
