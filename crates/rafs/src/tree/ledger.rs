//! Which places the tree has given up, which ones a write-out has taken, and when each of them is free.
//!
//! There are up to three trees at a time: the durable one, the one being written, and the one in memory. Each place that is not
//! free belongs to at least one of them.
//!
//! * A change gives up the place of the node that it copies. The place belongs to the durable tree, the one being written, or both.
//! * A write-out takes places. It lists what was given up before it: these places belong to the durable tree alone.
//! * When it settles, these places are free.
//! * When it is abandoned, the places that it took are free. The others belong to the durable tree still, and the next write-out
//!   lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::node::{Node, Pointer};
use crate::shape::BlockNo;

/// The tree's account of places, and of nodes without one.
pub(super) struct Ledger {
    /// Nodes without a place.
    pub(super) dirty_nodes: usize,
    /// Places given up since the last write-out.
    pub(super) given_up: Vec<BlockNo>,
    /// The write-out that has neither settled nor failed.
    pub(super) in_flight: Option<InFlight>,
}

/// A write-out under way.
pub(super) struct InFlight {
    /// Its nodes, as they are being written. They stay in memory, since the store may not have them yet. A node that was changed
    /// since is not among them.
    pub(super) frozen: BTreeMap<Pointer, Arc<Node>>,
    /// The places of its nodes.
    pub(super) taken: BTreeSet<BlockNo>,
    /// Places that are free once it settles.
    pub(super) given_up: Vec<BlockNo>,
}

impl Ledger {
    pub(super) fn new(dirty_nodes: usize) -> Self {
        Self { dirty_nodes, given_up: Vec::new(), in_flight: None }
    }

    /// A node of the write-out under way.
    pub(super) fn frozen(&self, pointer: Pointer) -> Option<&Arc<Node>> {
        self.in_flight.as_ref()?.frozen.get(&pointer)
    }

    /// Notes that a clean node is about to be changed.
    pub(super) fn give_up(&mut self, pointer: Pointer) {
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.frozen.remove(&pointer);
        }
        self.given_up.push(pointer.place);
        self.dirty_nodes += 1;
    }

    /// Notes a write-out of these nodes: all that were dirty.
    pub(super) fn depart(&mut self, frozen: BTreeMap<Pointer, Arc<Node>>) {
        assert!(self.in_flight.is_none(), "a write-out is under way");
        assert_eq!(frozen.len(), self.dirty_nodes, "each dirty node has a place of its own");
        let taken = frozen.keys().map(|pointer| pointer.place).collect();
        let given_up = std::mem::take(&mut self.given_up);
        self.in_flight = Some(InFlight { frozen, taken, given_up });
        self.dirty_nodes = 0;
    }

    /// Ends the write-out, whose tree is the durable one now.
    pub(super) fn arrive(&mut self) -> InFlight {
        self.in_flight.take().expect("a write-out is under way")
    }

    /// Ends the write-out, which has failed. Returns its nodes, and its places, which are free.
    pub(super) fn fail(&mut self) -> (BTreeMap<Pointer, Arc<Node>>, BTreeSet<BlockNo>) {
        let InFlight { frozen, taken, mut given_up } = self.arrive();
        given_up.extend(self.given_up.drain(..).filter(|place| !taken.contains(place)));
        self.given_up = given_up;
        (frozen, taken)
    }
}
