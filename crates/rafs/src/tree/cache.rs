//! Clean nodes that were used lately, up to a number. A clock chooses which one goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::{Node, Pointer};

struct Slot {
    pointer: Pointer,
    node: Arc<Node>,
    /// Used since the hand last passed. A node that was only just read does not count as used, so a scan over the whole tree
    /// leaves what is used often.
    is_used: bool,
}

/// Clean nodes by what leads to them.
pub(super) struct Cache {
    index: BTreeMap<Pointer, usize>,
    slots: Vec<Slot>,
    hand: usize,
    nodes_max: usize,
}

impl Cache {
    pub(super) fn new(nodes_max: usize) -> Self {
        Self { index: BTreeMap::new(), slots: Vec::new(), hand: 0, nodes_max }
    }

    pub(super) fn get(&mut self, pointer: Pointer) -> Option<Arc<Node>> {
        let slot = &mut self.slots[*self.index.get(&pointer)?];
        slot.is_used = true;
        Some(Arc::clone(&slot.node))
    }

    /// Takes in a node, in place of the one that was there, if any.
    pub(super) fn insert(&mut self, pointer: Pointer, node: Arc<Node>) {
        if self.nodes_max == 0 {
            return;
        }
        if let Some(&at) = self.index.get(&pointer) {
            self.slots[at].node = node;
            return;
        }
        self.shrink(self.nodes_max - 1);
        self.index.insert(pointer, self.slots.len());
        self.slots.push(Slot { pointer, node, is_used: false });
    }

    pub(super) fn remove(&mut self, pointer: Pointer) {
        if let Some(&at) = self.index.get(&pointer) {
            self.take_out(at);
        }
    }

    /// Drops nodes until no more than `keep` are left.
    pub(super) fn shrink(&mut self, keep: usize) {
        while self.slots.len() > keep {
            self.hand %= self.slots.len();
            let slot = &mut self.slots[self.hand];
            if std::mem::take(&mut slot.is_used) {
                self.hand += 1;
            } else {
                self.take_out(self.hand);
            }
        }
    }

    /// The last slot moves to where the removed one was.
    fn take_out(&mut self, at: usize) {
        let slot = self.slots.swap_remove(at);
        self.index.remove(&slot.pointer);
        if let Some(moved) = self.slots.get(at) {
            self.index.insert(moved.pointer, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::BlockNo;

    fn at(place: u64) -> Pointer {
        Pointer { place: BlockNo(place), generation: 1 }
    }

    fn node() -> Arc<Node> {
        Arc::new(Node::Leaf(Vec::new()))
    }

    #[test]
    fn it_keeps_what_is_used_and_never_more_than_its_bound() {
        let mut cache = Cache::new(10);
        for place in 0..1000 {
            cache.insert(at(place), node());
            assert!(cache.get(at(0)).is_some(), "a node in use was dropped for {place}");
            assert!(cache.slots.len() <= 10 && cache.index.len() == cache.slots.len());
        }
        assert!(cache.get(at(500)).is_none());
        cache.remove(at(999));
        assert!(cache.get(at(999)).is_none() && cache.slots.len() == 9);
        cache.shrink(2);
        assert!(
            cache.slots.iter().all(|slot| cache.slots[cache.index[&slot.pointer]].pointer == slot.pointer)
        );
        assert_eq!(cache.slots.len(), 2);
    }

    #[test]
    fn without_room_it_keeps_nothing() {
        let mut cache = Cache::new(0);
        cache.insert(at(1), node());
        assert!(cache.get(at(1)).is_none());
    }
}
