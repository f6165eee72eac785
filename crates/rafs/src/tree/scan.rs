//! Items in the order of their keys, one leaf at a time.

use std::ops::RangeInclusive;

use stripewise_format::rafs::key::Key;
use stripewise_format::rafs::node::Item;

use super::Tree;
use super::error::TreeError;

/// A position in a range of keys. It borrows no tree, so the tree may change between two batches: a scan sees the changes that
/// lie ahead of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scan {
    /// Where it goes on. None: it has ended.
    from: Option<Key>,
    to: Key,
}

impl Scan {
    /// A scan of the items from the first to the last of these keys.
    #[must_use]
    pub fn over(keys: RangeInclusive<Key>) -> Self {
        Self { from: (!keys.is_empty()).then_some(*keys.start()), to: *keys.end() }
    }

    /// The next items: those of one leaf. None: there are no more.
    ///
    /// # Errors
    /// [`TreeError`], if a node cannot be read. The scan stays where it is.
    pub async fn batch(&mut self, tree: &Tree) -> Result<Option<Vec<Item>>, TreeError> {
        while let Some(from) = self.from {
            let leaf = tree.leaf_of(from).await?;
            let items = leaf.node().items();
            let first = items.partition_point(|item| item.key < from);
            let end = items.partition_point(|item| item.key <= self.to);
            self.from = leaf.bounds().high.filter(|next| *next <= self.to);
            if first < end {
                return Ok(Some(items[first..end].to_vec()));
            }
        }
        Ok(None)
    }
}
