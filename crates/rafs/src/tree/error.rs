//! What can go wrong in the tree.

use stripewise_device::IoError;
use stripewise_format::rafs::block::BlockError;
use stripewise_format::rafs::key::Key;
use stripewise_format::rafs::node::{LEVEL_MAX, NodeError};
use stripewise_format::rafs::value::VALUE_MAX;
use thiserror::Error;

use crate::shape::BlockNo;

/// Why the tree did not do what was asked. It is as it was before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TreeError {
    /// The store did not deliver a node.
    #[error("the tree's node in block {} cannot be read: {source}; look to the volume's members, then try again", place.0)]
    Unreadable {
        /// The node's place.
        place: BlockNo,
        /// The store's error.
        source: IoError,
    },
    /// The store delivered something that is not the node that belongs there.
    #[error("the tree's node in block {} is damaged: {damage}", place.0)]
    Corrupt {
        /// The node's place.
        place: BlockNo,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A value that no leaf takes.
    #[error("a value of {len} bytes for {key:?}, and the most is {VALUE_MAX}; split it over several keys")]
    ValueTooLong {
        /// The value's key.
        key: Key,
        /// Its bytes.
        len: usize,
    },
    /// The root is of the highest level, and has no room for another child. No tree that this version wrote comes to this.
    #[error("the tree has {LEVEL_MAX} levels above its leaves, and its root is full; run fsck")]
    TooDeep,
}

/// What is wrong with a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Damage {
    /// The block is not a node of this file system and place.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The payload is not a node.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The node is of another generation than its parent, or the anchor, says.
    #[error(
        "it is of generation {found}, and its parent refers to generation {wanted}: a write was lost; run fsck"
    )]
    Generation {
        /// The node's.
        found: u64,
        /// The parent's.
        wanted: u64,
    },
    /// The node is of another level than its place in the tree.
    #[error("it is of level {found}, and a node of level {wanted} belongs there; run fsck")]
    Level {
        /// The node's.
        found: u8,
        /// One below its parent's, or the anchor's.
        wanted: u8,
    },
    /// A key that belongs under another node.
    #[error("it holds {key:?}, which its parent's keys exclude; run fsck")]
    Bounds {
        /// The first such key.
        key: Key,
    },
    /// A leaf without items which is not the root.
    #[error("it is an empty leaf under a parent; run fsck")]
    Empty,
}
