//! What a mounted file system tells of itself. Its root has an extended attribute for it, which no listing shows: so whoever
//! can look into the mount can ask, and no socket is needed.

use serde::{Deserialize, Serialize};
use stripewise_format::rafs::superblock::{SlotOrder, Superblock};
use stripewise_rafs::{fs::Usage, shape::BLOCK_BYTES};

/// The root's attribute. Its value is a [`Report`] in JSON.
pub const ATTRIBUTE: &str = "system.stripewise";

/// Who a file system is, and who serves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The device or file that it lies on.
    pub target: String,
    /// Its UUID.
    pub uuid: String,
    /// Its label.
    pub label: String,
    /// Data columns of a stripe.
    pub data_columns: u32,
    /// Bytes of a chunk: what a column has of a stripe.
    pub chunk_bytes: u64,
    /// Whether slots are numbered row by row.
    pub by_rows: bool,
    /// The process that serves it.
    pub pid: u32,
}

impl Identity {
    /// That of a file system that this process serves.
    #[must_use]
    pub fn new(target: String, superblock: &Superblock) -> Self {
        Self {
            target,
            uuid: superblock.uuid.to_string(),
            label: superblock.label.clone(),
            data_columns: superblock.data_columns,
            chunk_bytes: u64::from(superblock.rows) * BLOCK_BYTES as u64,
            by_rows: superblock.order == SlotOrder::Rows,
            pid: std::process::id(),
        }
    }
}

/// What a file system tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Who it is.
    #[serde(flatten)]
    pub identity: Identity,
    /// Room for files and metadata, in bytes.
    pub size_bytes: u64,
    /// What files may still take, in bytes.
    pub free_bytes: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// What clients have written and is not written out yet, in bytes.
    pub buffered_bytes: u64,
}

impl Report {
    /// Of a file system that is this full.
    #[must_use]
    pub fn of(identity: &Identity, usage: &Usage) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_BYTES as u64);
        Self {
            identity: identity.clone(),
            size_bytes: bytes(usage.blocks),
            free_bytes: bytes(usage.free_blocks),
            inodes: usage.inodes,
            buffered_bytes: bytes(usage.buffered_blocks),
        }
    }
}
