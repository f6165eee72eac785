//! Reads clean nodes, checks them, and keeps those that were used lately.

use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use super::cache::Cache;
use super::error::TreeError;
use super::node::{Expected, Node, Pointer};
use super::store::NodeStore;

/// Where clean nodes come from.
pub(super) struct Source {
    store: Arc<dyn NodeStore>,
    pub(super) uuid: Uuid,
    cache: Mutex<Cache>,
}

impl Source {
    pub(super) fn new(store: Arc<dyn NodeStore>, uuid: Uuid, cached_nodes_max: usize) -> Self {
        Self { store, uuid, cache: Mutex::new(Cache::new(cached_nodes_max)) }
    }

    /// A node, of which its parent, or the anchor, says what is expected.
    pub(super) async fn load(&self, expected: &Expected) -> Result<Arc<Node>, TreeError> {
        let cached = self.cache.lock().get(expected.pointer);
        if let Some(node) = cached {
            expected.check(&node)?;
            return Ok(node);
        }
        let node = Arc::new(self.read(*expected).await?);
        self.keep(expected.pointer, Arc::clone(&node));
        Ok(node)
    }

    async fn read(&self, expected: Expected) -> Result<Node, TreeError> {
        let place = expected.pointer.place;
        let block = self.store.read(place).await.map_err(|source| TreeError::Unreadable { place, source })?;
        let damaged = match expected.open(&block, self.uuid) {
            Err(damaged) => damaged,
            node => return node,
        };
        let uuid = self.uuid;
        let is_right = move |block: &[u8]| expected.open(block, uuid).is_ok();
        match self.store.find(place, Box::new(is_right)).await {
            Ok(Some(block)) => expected.open(&block, uuid),
            Ok(None) => Err(damaged),
            Err(source) => Err(TreeError::Unreadable { place, source }),
        }
    }

    /// Takes a clean node into the cache.
    pub(super) fn keep(&self, pointer: Pointer, node: Arc<Node>) {
        self.cache.lock().insert(pointer, node);
    }

    /// Drops a node that the tree does not refer to any more.
    pub(super) fn forget(&self, pointer: Pointer) {
        self.cache.lock().remove(pointer);
    }

    pub(super) fn shrink_cache(&self, keep: usize) {
        self.cache.lock().shrink(keep);
    }
}
