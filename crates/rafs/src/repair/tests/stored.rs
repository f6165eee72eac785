//! The tree that an image's anchors lead to, read by the format alone.

use stripewise_format::rafs::{
    anchor::Anchor,
    block::{BlockKind, Head, open, seal},
    key::KeyKind,
    names::Entry,
    node::{Item, Node, encode_leaf},
    superblock::Superblock,
};

use super::*;
use crate::shape::{BLOCK_BYTES, Geometry, Order};

/// A node of the tree.
#[derive(Debug, Clone)]
pub(super) struct Lying {
    pub(super) offset: u64,
    pub(super) head: Head,
    pub(super) node: Node,
    /// All inodes that something at or under it belongs to, or leads to.
    pub(super) inodes: BTreeSet<u64>,
}

/// What was read.
pub(super) struct Stored {
    pub(super) superblock: Superblock,
    pub(super) nodes: Vec<Lying>,
    /// At which of the two places the newest anchor is.
    pub(super) newest: usize,
    geometry: Geometry,
    order: Order,
}

impl Stored {
    pub(super) fn read(bytes: &[u8], geometry: Geometry, order: Order) -> Self {
        let (superblock, _) = Superblock::decode(&bytes[..BLOCK_BYTES]).unwrap();
        let anchors = superblock.anchor_places().map(|place| {
            let at = geometry.offset_bytes(Order::Columns, BlockNo(place)) as usize;
            Anchor::decode(&bytes[at..at + BLOCK_BYTES], place, superblock.uuid)
        });
        let (newest, anchor) = Anchor::newest(anchors).unwrap();
        let mut stored = Self { superblock, nodes: Vec::new(), newest, geometry, order };
        stored.take_up(bytes, anchor.root.place);
        stored
    }

    pub(super) fn offset(&self, place: u64) -> u64 {
        self.geometry.offset_bytes(self.order, BlockNo(place))
    }

    fn take_up(&mut self, bytes: &[u8], place: u64) -> BTreeSet<u64> {
        let offset = self.offset(place);
        let (head, payload) = open(&bytes[offset as usize..][..BLOCK_BYTES], BlockKind::Node).unwrap();
        let node = Node::decode(payload).unwrap();
        let inodes = match &node {
            Node::Leaf(items) => items.iter().flat_map(inodes_of).collect(),
            Node::Inner { children, .. } => {
                children.iter().flat_map(|child| self.take_up(bytes, child.place)).collect()
            }
        };
        self.nodes.push(Lying { offset, head, node, inodes: BTreeSet::clone(&inodes) });
        inodes
    }

    pub(super) fn leaves(&self) -> Vec<&Lying> {
        self.nodes.iter().filter(|one| matches!(one.node, Node::Leaf(_))).collect()
    }

    /// Where the copies of a block in the first row of a stripe lie.
    pub(super) fn copies(&self, place: u64) -> Vec<u64> {
        let column_bytes = u64::from(self.geometry.rows()) * BLOCK_BYTES as u64;
        let first = self.geometry.offset_bytes(Order::Columns, BlockNo(place));
        (0..u64::from(self.geometry.data_columns())).map(|column| first + column * column_bytes).collect()
    }
}

impl Lying {
    pub(super) fn items(&self) -> Vec<Item> {
        match &self.node {
            Node::Leaf(items) => items.clone(),
            Node::Inner { .. } => Vec::new(),
        }
    }

    /// Puts other items into the leaf, as a writer with a bug would.
    pub(super) fn rewrite(&self, volume: &TestVolume, items: &[Item]) {
        let mut block = vec![0; BLOCK_BYTES];
        encode_leaf(items, &mut block[stripewise_format::rafs::block::HEAD_LEN..]);
        seal(&mut block, BlockKind::Node, &self.head);
        volume.poke(self.offset, &block);
    }
}

/// The inodes that an item belongs to, or leads to.
pub(super) fn inodes_of(item: &Item) -> Vec<u64> {
    let key = item.key;
    match key.kind {
        KeyKind::Group => Vec::new(),
        KeyKind::Orphan => vec![key.offset],
        KeyKind::Name | KeyKind::Number => {
            let entries = Entry::decode(&item.value).unwrap();
            entries.into_iter().map(|entry| entry.inode).chain([key.object]).collect()
        }
        _ => vec![key.object],
    }
}
