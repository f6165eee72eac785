//! A tree with a store, an allocator of places, and a model: what a file system would do with it, and what must hold.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use stripewise_device::SharedBuf;
use stripewise_format::rafs::key::Key;
use stripewise_rafs::shape::BlockNo;
use stripewise_rafs::tree::{Root, Scan, Tree};

use crate::stored::{Items, Memory, Stored, UUID, now};

/// A checkpoint: its root, and what it should hold.
#[derive(Clone)]
pub(crate) struct Checkpoint {
    pub(crate) root: Root,
    pub(crate) items: Items,
}

pub(crate) struct World {
    pub(crate) memory: Arc<Memory>,
    pub(crate) tree: Tree,
    pub(crate) items: Items,
    pub(crate) durable: Option<Checkpoint>,
    /// The write-out under way, and its blocks, which are not written yet.
    pub(crate) in_flight: Option<(Checkpoint, Vec<(BlockNo, SharedBuf)>)>,
    /// Places from 0 on.
    places: u64,
    free: BTreeSet<BlockNo>,
    generation: u64,
    cached_nodes_max: usize,
}

impl World {
    pub(crate) fn new(places: u64, cached_nodes_max: usize) -> Self {
        let memory = Arc::new(Memory::default());
        Self {
            tree: Tree::new(memory.clone(), UUID, cached_nodes_max),
            memory,
            items: Items::new(),
            durable: None,
            in_flight: None,
            places,
            free: (0..places).map(BlockNo).collect(),
            generation: 0,
            cached_nodes_max,
        }
    }

    pub(crate) fn insert(&mut self, key: Key, value: &[u8]) {
        let old = now(self.tree.insert(key, value.into())).unwrap();
        assert_eq!(old, self.items.insert(key, value.into()));
    }

    pub(crate) fn remove(&mut self, key: Key) {
        let old = now(self.tree.remove(key)).unwrap();
        assert_eq!(old, self.items.remove(&key));
    }

    pub(crate) fn scan(&self, keys: RangeInclusive<Key>) -> Items {
        let (mut scan, mut found) = (Scan::over(keys), Items::new());
        while let Some(items) = now(scan.batch(&self.tree)).unwrap() {
            assert!(!items.is_empty());
            for item in items {
                assert!(found.last_key_value().is_none_or(|(last, _)| *last < item.key));
                found.insert(item.key, item.value);
            }
        }
        found
    }

    /// Seals all dirty nodes, if there is room. The lowest free places are handed out, so that places are used again soon.
    pub(crate) fn write_out(&mut self) -> bool {
        self.generation += 1;
        let before = self.tree.dirty_nodes();
        let free = &mut self.free;
        let out = self.tree.write_out(self.generation, |count| {
            let places: Vec<_> = free.iter().copied().take(count).collect();
            if places.len() < count {
                return Err(());
            }
            places.iter().for_each(|place| assert!(free.remove(place)));
            Ok(places)
        });
        let Ok(out) = out else {
            assert_eq!(self.tree.dirty_nodes(), before);
            return false;
        };
        assert!(out.blocks.is_sorted_by_key(|(place, _)| *place) && out.blocks.len() == before);
        assert!(self.tree.dirty_nodes() == 0 && self.tree.given_up().is_empty());
        self.in_flight = Some((Checkpoint { root: out.root, items: self.items.clone() }, out.blocks));
        true
    }

    /// Writes what is in flight, and makes it the durable tree.
    pub(crate) fn settle(&mut self) {
        let Some((checkpoint, blocks)) = self.in_flight.take() else { return };
        let written: BTreeSet<_> = blocks.iter().map(|(place, _)| *place).collect();
        blocks.into_iter().for_each(|(place, block)| self.memory.write(place, block));
        let freed = self.tree.settle();
        let stored = Stored::read(&self.memory, checkpoint.root);
        assert!(written.is_subset(&stored.places), "what a checkpoint writes is part of its tree");
        assert_eq!(stored.items, checkpoint.items);
        freed.iter().for_each(|place| assert!(!stored.places.contains(place), "{place:?} is in use"));
        self.give_back(freed);
        self.durable = Some(checkpoint);
        self.check_places(stored.places);
    }

    /// Writes the first `count` of the blocks in flight, and lets the write-out fail.
    pub(crate) fn abandon(&mut self, count: usize) {
        let Some((_, blocks)) = self.in_flight.take() else { return };
        let taken: Vec<_> = blocks.iter().map(|(place, _)| *place).collect();
        blocks.into_iter().take(count).for_each(|(place, block)| self.memory.write(place, block));
        let freed = self.tree.abandon();
        assert_eq!(freed, taken);
        self.give_back(freed);
        let durable = self.durable_places();
        self.check_places(durable);
    }

    /// Writes the first `count` of the blocks in flight, and begins anew from the durable tree.
    pub(crate) fn crash(&mut self, count: usize) {
        let blocks = self.in_flight.take().into_iter().flat_map(|(_, blocks)| blocks);
        blocks.take(count).for_each(|(place, block)| self.memory.write(place, block));
        let durable = self.durable_places();
        self.free = (0..self.places).map(BlockNo).filter(|place| !durable.contains(place)).collect();
        let memory = self.memory.clone();
        self.items = self.durable.clone().map(|checkpoint| checkpoint.items).unwrap_or_default();
        self.tree = match &self.durable {
            Some(durable) => Tree::open(memory, UUID, self.cached_nodes_max, durable.root),
            None => Tree::new(memory, UUID, self.cached_nodes_max),
        };
    }

    /// Writes what is in flight and its anchor, and begins anew before the tree is told.
    pub(crate) fn crash_behind_anchor(&mut self) {
        let Some((checkpoint, blocks)) = self.in_flight.take() else { return };
        blocks.into_iter().for_each(|(place, block)| self.memory.write(place, block));
        self.durable = Some(checkpoint);
        self.crash(0);
    }

    fn durable_places(&self) -> BTreeSet<BlockNo> {
        self.durable
            .as_ref()
            .map(|durable| Stored::read(&self.memory, durable.root).places)
            .unwrap_or_default()
    }

    fn give_back(&mut self, places: Vec<BlockNo>) {
        places.into_iter().for_each(|place| assert!(self.free.insert(place), "{place:?} is free already"));
    }

    /// Without a write-out under way, what is not free is the durable tree's: no place is lost, and none belongs to two.
    fn check_places(&self, durable: BTreeSet<BlockNo>) {
        let used: BTreeSet<_> =
            (0..self.places).map(BlockNo).filter(|place| !self.free.contains(place)).collect();
        assert_eq!(used, durable);
        self.check_given_up(&durable);
    }

    /// What the tree has given up belongs to the durable tree or to the one in flight, and is not free.
    fn check_given_up(&self, used: &BTreeSet<BlockNo>) {
        let given_up: BTreeSet<_> = self.tree.given_up().iter().copied().collect();
        assert_eq!(given_up.len(), self.tree.given_up().len(), "a place was given up twice");
        assert!(given_up.is_subset(used) && given_up.is_disjoint(&self.free));
    }

    /// Compares the tree in memory with the model, and checks its account while a write-out is under way.
    pub(crate) fn check(&self) {
        let all = crate::model::key(0)..=crate::model::key(u64::MAX);
        assert_eq!(self.scan(all), self.items);
        let mut used = self.durable_places();
        if let Some((_, blocks)) = &self.in_flight {
            let taken: BTreeSet<_> = blocks.iter().map(|(place, _)| *place).collect();
            assert!(taken.is_disjoint(&used), "a write-out overwrites the durable tree");
            used.extend(taken);
        }
        self.check_given_up(&used);
    }
}
