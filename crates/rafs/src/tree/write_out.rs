//! Checkpoints of the tree: dirty nodes get places and are sealed.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::vec;

use stripewise_device::{IoBuf, SharedBuf};
use stripewise_format::rafs::block::{BlockKind, HEAD_LEN, Head, seal};
use stripewise_format::rafs::node::{Child, encode_inner, encode_leaf};
use uuid::Uuid;

use super::node::{Branch, Inner, Link, Node, Pointer};
use super::{Root, Tree};
use crate::shape::{BLOCK_BYTES, BlockNo};

/// What a checkpoint writes.
#[derive(Debug)]
pub struct WriteOut {
    /// Sealed blocks in the order of the places that were handed out, and children before their parents. Leaves of one parent
    /// follow each other in the order of their keys.
    pub blocks: Vec<(BlockNo, SharedBuf)>,
    /// The root, for the anchor.
    pub root: Root,
}

impl Tree {
    /// Gives all dirty nodes places, and seals them as nodes of this generation. The caller writes the blocks, flushes, writes the
    /// anchor, flushes, and then calls [`Tree::settle`]; or [`Tree::abandon`], if one of these fails.
    ///
    /// `take` hands out so many places: all or none. To write whole rows, it hands out places that are neighbours, in their
    /// order. If it fails, the tree is as it was.
    ///
    /// # Errors
    /// Those of `take`.
    ///
    /// # Panics
    /// If a write-out is under way, or `take` hands out too few places or too many.
    pub fn write_out<E>(
        &mut self,
        generation: u64,
        take: impl FnOnce(usize) -> Result<Vec<BlockNo>, E>,
    ) -> Result<WriteOut, E> {
        assert!(self.ledger.in_flight.is_none(), "a write-out is under way");
        let count = self.ledger.dirty_nodes;
        let places = take(count)?;
        assert_eq!(places.len(), count, "places for all dirty nodes");
        let mut sealing = Sealing {
            uuid: self.source.uuid,
            generation,
            places: places.into_iter(),
            blocks: Vec::with_capacity(count),
            frozen: BTreeMap::new(),
        };
        let Pointer { place, generation } = sealing.seal(&mut self.root);
        self.ledger.depart(sealing.frozen);
        Ok(WriteOut { blocks: sealing.blocks, root: Root { place, generation, level: self.level } })
    }

    /// Ends a write-out whose anchor is durable. Returns the places that are free now.
    ///
    /// # Panics
    /// If no write-out is under way.
    pub fn settle(&mut self) -> Vec<BlockNo> {
        let in_flight = self.ledger.arrive();
        for (pointer, node) in in_flight.frozen {
            self.source.keep(pointer, node);
        }
        in_flight.given_up
    }

    /// Ends a write-out that has failed. Its nodes are dirty again, with all later changes. Returns the places that are free:
    /// those that the write-out took. Call it when no write to them is under way any more.
    ///
    /// # Panics
    /// If no write-out is under way.
    pub fn abandon(&mut self) -> Vec<BlockNo> {
        let (mut frozen, taken) = self.ledger.fail();
        self.ledger.dirty_nodes += frozen.len();
        thaw(&mut self.root, &mut frozen);
        assert!(frozen.is_empty(), "the tree refers to all frozen nodes");
        taken.into_iter().collect()
    }
}

/// Makes frozen nodes dirty. They lie below dirty nodes and other frozen ones, never below durable ones.
fn thaw(link: &mut Link, frozen: &mut BTreeMap<Pointer, Arc<Node>>) {
    if let Link::Clean(pointer) = link
        && let Some(node) = frozen.remove(pointer)
    {
        *link = Link::Dirty(Box::new(Arc::unwrap_or_clone(node)));
    }
    if let Link::Dirty(node) = link
        && let Node::Inner(inner) = &mut **node
    {
        inner.branches.iter_mut().for_each(|branch| thaw(&mut branch.link, frozen));
    }
}

/// A write-out in the making.
struct Sealing {
    uuid: Uuid,
    generation: u64,
    places: vec::IntoIter<BlockNo>,
    blocks: Vec<(BlockNo, SharedBuf)>,
    frozen: BTreeMap<Pointer, Arc<Node>>,
}

impl Sealing {
    /// Seals a node, if it is dirty, and what is dirty under it.
    fn seal(&mut self, link: &mut Link) -> Pointer {
        let node = match link {
            Link::Clean(pointer) => return *pointer,
            Link::Dirty(node) => mem::replace(&mut **node, Node::Leaf(Vec::new())),
        };
        let pointer = self.seal_node(node);
        *link = Link::Clean(pointer);
        pointer
    }

    fn seal_node(&mut self, mut node: Node) -> Pointer {
        let mut block = IoBuf::with_len(BLOCK_BYTES);
        match &mut node {
            Node::Leaf(items) => encode_leaf(items, &mut block[HEAD_LEN..]),
            Node::Inner(Inner { level, branches }) => {
                let children: Vec<Child> = branches.iter_mut().map(|branch| self.child(branch)).collect();
                encode_inner(*level, &children, &mut block[HEAD_LEN..]);
            }
        }
        let place = self.places.next().expect("there is a place for each dirty node");
        let pointer = Pointer { place, generation: self.generation };
        let head = Head { place: place.0, uuid: self.uuid, generation: self.generation };
        seal(&mut block, BlockKind::Node, &head);
        self.blocks.push((place, block.freeze()));
        self.frozen.insert(pointer, Arc::new(node));
        pointer
    }

    fn child(&mut self, branch: &mut Branch) -> Child {
        let pointer = self.seal(&mut branch.link);
        Child { key: branch.key, place: pointer.place.0, generation: pointer.generation }
    }
}
