//! The copy-on-write B+ tree which holds everything that the file system knows, but for the bytes of large files.
//!
//! A node that was written never changes. A change makes dirty copies of the nodes from the root to a leaf, and they stay in
//! memory. [`Tree::write_out`] gives all dirty nodes places of their own, children before parents, and seals their blocks. From
//! then on these nodes are frozen: a later change goes to copies of them. [`Tree::settle`] ends the write-out once its anchor is
//! durable, and [`Tree::abandon`] once it has failed.
//!
//! The tree does not know which places are free. Its caller hands out places for a write-out, and gets back those that no
//! durable tree needs any more.
//!
//! Reads take `&Tree` and changes `&mut Tree`. A caller that shares the tree puts an asynchronous lock around it. A change either
//! happens as a whole or, if it returns an error or its future is dropped, leaves the tree as it was.
//!
//! * `store`: [`NodeStore`], where nodes are read from; `source`: reads, checks and caches them;
//! * `node`: a node in memory; `cache`: clean nodes that were used lately;
//! * `walk`: the way down to a leaf; `scan`: [`Scan`], items in order;
//! * `change`: inserts and removes; `balance`: how nodes are split and joined;
//! * `write_out`: checkpoints; `ledger`: which places are given up, and when they are free;
//! * `error`: [`TreeError`], what can go wrong.

mod balance;
mod cache;
mod change;
mod error;
mod ledger;
mod node;
mod scan;
mod source;
mod store;
mod walk;
mod write_out;

use std::{ops::RangeInclusive, sync::Arc};

use stripewise_format::rafs::key::Key;
use stripewise_format::rafs::node::Item;
use uuid::Uuid;

pub use error::{Damage, TreeError};
use ledger::Ledger;
use node::{Link, Node, Pointer};
pub use scan::Scan;
use source::Source;
pub use store::{IsRight, NodeStore};
pub use write_out::WriteOut;

use crate::shape::BlockNo;

/// Where a tree begins: what an anchor says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The root's place.
    pub place: BlockNo,
    /// The generation in the root's head.
    pub generation: u64,
    /// The root's level: 0 if it is a leaf.
    pub level: u8,
}

/// A tree.
pub struct Tree {
    source: Source,
    ledger: Ledger,
    root: Link,
    /// The root's.
    level: u8,
}

impl Tree {
    /// An empty tree, which is not written yet. It keeps up to `cached_nodes_max` clean nodes in memory.
    #[must_use]
    pub fn new(store: Arc<dyn NodeStore>, uuid: Uuid, cached_nodes_max: usize) -> Self {
        let root = Link::Dirty(Box::new(Node::Leaf(Vec::new())));
        let source = Source::new(store, uuid, cached_nodes_max);
        Self { source, ledger: Ledger::new(1), root, level: 0 }
    }

    /// The tree that was written with this root. It reads nothing before it is asked for something.
    #[must_use]
    pub fn open(store: Arc<dyn NodeStore>, uuid: Uuid, cached_nodes_max: usize, root: Root) -> Self {
        let pointer = Pointer { place: root.place, generation: root.generation };
        let source = Source::new(store, uuid, cached_nodes_max);
        Self { source, ledger: Ledger::new(0), root: Link::Clean(pointer), level: root.level }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`TreeError`], if a node on the way cannot be read.
    pub async fn get(&self, key: Key) -> Result<Option<Arc<[u8]>>, TreeError> {
        Ok(self.leaf_of(key).await?.node().value(key).map(Arc::clone))
    }

    /// The first item whose key is not below `from`.
    ///
    /// # Errors
    /// [`TreeError`], if a node on the way cannot be read.
    pub async fn next(&self, from: Key) -> Result<Option<Item>, TreeError> {
        let mut from = Some(from);
        while let Some(key) = from {
            let leaf = self.leaf_of(key).await?;
            let items = leaf.node().items();
            if let Some(item) = items.get(items.partition_point(|item| item.key < key)) {
                return Ok(Some(item.clone()));
            }
            from = leaf.bounds().high;
        }
        Ok(None)
    }

    /// The last item whose key lies in a range.
    ///
    /// # Errors
    /// [`TreeError`], if a node on the way cannot be read.
    pub async fn last(&self, keys: RangeInclusive<Key>) -> Result<Option<Item>, TreeError> {
        let mut to = Some(*keys.end());
        while let Some(key) = to.filter(|key| keys.contains(key)) {
            let leaf = self.leaf_of(key).await?;
            let items = leaf.node().items();
            if let Some(item) = items[..items.partition_point(|item| item.key <= key)].last() {
                return Ok(Some(item.clone()).filter(|item| keys.contains(&item.key)));
            }
            to = leaf.bounds().low.and_then(Key::before);
        }
        Ok(None)
    }

    /// Nodes that the next write-out will write.
    #[must_use]
    pub fn dirty_nodes(&self) -> usize {
        self.ledger.dirty_nodes
    }

    /// Places that the tree has given up since the last write-out. They are free once the next one has settled.
    #[must_use]
    pub fn given_up(&self) -> &[BlockNo] {
        &self.ledger.given_up
    }

    /// Drops clean nodes from memory until no more than `keep` are left. Frozen nodes stay.
    pub fn shrink_cache(&self, keep: usize) {
        self.source.shrink_cache(keep);
    }
}
