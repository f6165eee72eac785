//! The running transaction: what was changed since the last commit.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use stripewise_format::rafs::{journal::Change, key::Key};

use super::FileBlocks;
use crate::{journal::Transaction, shape::BlockNo};

/// The transaction.
#[derive(Default)]
pub(super) struct Running {
    /// Items, as they are now; none: removed. Only the last change of each counts.
    items: BTreeMap<Key, Option<Arc<[u8]>>>,
    /// What was taken and freed, in order.
    space: Vec<Change>,
    /// Blocks that are held until it is durable.
    pub(super) freed: Vec<Range<BlockNo>>,
}

impl Running {
    pub(super) fn put(&mut self, key: Key, value: Option<Arc<[u8]>>) {
        self.items.insert(key, value);
    }

    pub(super) fn note(&mut self, change: Change) {
        self.space.push(change);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.space.is_empty()
    }

    /// All of it, and file blocks that come along.
    pub(super) fn transaction(&self, data: &[FileBlocks]) -> Transaction {
        let items = self.items.iter().map(|(key, value)| match value {
            Some(value) => Change::Put(*key, value.to_vec()),
            None => Change::Delete(*key),
        });
        let with_data = data.iter().map(|FileBlocks { inode, first, blocks }| Change::Data {
            inode: *inode,
            first: *first,
            blocks: blocks.len() as u32,
        });
        Transaction {
            changes: self.space.iter().cloned().chain(items).chain(with_data).collect(),
            data: data.iter().flat_map(|of_file| of_file.blocks.iter().cloned()).collect(),
        }
    }
}
