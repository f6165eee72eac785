//! The nodes of the new tree: leaves that change, and all nodes above. Leaves that do not change stay where they are.

use std::{collections::BTreeMap, ops::Bound};

use stripewise_device::{IoBuf, SharedBuf};
use stripewise_format::rafs::{
    anchor::Root,
    block::{BlockKind, HEAD_LEN, Head, seal},
    key::Key,
    node::{CHILD_LEN, Child, Item, NODE_ROOM, SLOT_LEN, encode_inner, encode_leaf},
};
use uuid::Uuid;

use super::RepairError;
use crate::{
    check::{Edits, Leaf, reader::Reader},
    shape::{BLOCK_BYTES, BlockNo},
};

/// Children of an inner node at most.
const CHILDREN_MAX: usize = NODE_ROOM / CHILD_LEN;

/// A leaf of the new tree.
#[derive(Debug, Clone)]
enum Part {
    Kept(Leaf),
    New(Vec<Item>),
}

/// Builds trees out of the leaves that there are, and changes.
pub(super) struct Builder {
    reader: Reader,
    leaves: Vec<Leaf>,
    /// Leaves that were read, by place.
    read: BTreeMap<u64, Vec<Item>>,
}

/// A tree whose new nodes have no places yet, or have some.
pub(super) struct Built {
    parts: Vec<Part>,
    places: Vec<u64>,
}

impl Builder {
    pub(super) fn new(reader: Reader, leaves: Vec<Leaf>) -> Self {
        Self { reader, leaves, read: BTreeMap::new() }
    }

    pub(super) fn leaf_places(&self) -> Vec<u64> {
        self.leaves.iter().map(|leaf| leaf.place).collect()
    }

    pub(super) async fn build(&mut self, edits: &Edits) -> Result<Built, RepairError> {
        let (mut parts, mut running) = (Vec::new(), Vec::new());
        if self.leaves.is_empty() {
            running = merged(&[], edits.iter());
        }
        for at in 0..self.leaves.len() {
            let leaf = self.leaves[at];
            let from = if at == 0 { Bound::Unbounded } else { Bound::Included(leaf.first) };
            let to = self.leaves.get(at + 1).map_or(Bound::Unbounded, |next| Bound::Excluded(next.first));
            let mut own = edits.range((from, to)).peekable();
            if own.peek().is_some() {
                let items = self.items(leaf.place).await?;
                let new = merged(items, own);
                if new != *items {
                    running.extend(new);
                    continue;
                }
            }
            parts.extend(packed(std::mem::take(&mut running)));
            parts.push(Part::Kept(leaf));
        }
        parts.extend(packed(running));
        if parts.is_empty() {
            parts.push(Part::New(Vec::new()));
        }
        Ok(Built { parts, places: Vec::new() })
    }

    async fn items(&mut self, place: u64) -> Result<&[Item], RepairError> {
        if !self.read.contains_key(&place) {
            let items = self
                .reader
                .leaf(place)
                .await
                .map_err(|why| RepairError::Node { place, why: why.to_string() })?;
            self.read.insert(place, items);
        }
        Ok(&self.read[&place])
    }
}

/// Items with changes, in order.
fn merged<'a>(
    items: &[Item],
    edits: impl Iterator<Item = (&'a Key, &'a Option<std::sync::Arc<[u8]>>)>,
) -> Vec<Item> {
    let mut left = items.iter().peekable();
    let mut all = Vec::with_capacity(items.len());
    for (key, value) in edits {
        while let Some(item) = left.next_if(|item| item.key < *key) {
            all.push(item.clone());
        }
        left.next_if(|item| item.key == *key);
        all.extend(value.as_ref().map(|value| Item { key: *key, value: value.clone() }));
    }
    all.extend(left.cloned());
    all
}

/// Items as full leaves.
fn packed(items: Vec<Item>) -> Vec<Part> {
    let mut leaves: Vec<Vec<Item>> = Vec::new();
    let mut bytes = NODE_ROOM;
    for item in items {
        let more = SLOT_LEN + item.value.len();
        match leaves.last_mut().filter(|_| bytes + more <= NODE_ROOM) {
            Some(leaf) => {
                leaf.push(item);
                bytes += more;
            }
            None => {
                leaves.push(vec![item]);
                bytes = more;
            }
        }
    }
    leaves.into_iter().map(Part::New).collect()
}

impl Built {
    /// Nodes that are to be written.
    pub(super) fn new_nodes(&self) -> usize {
        let leaves = self.parts.iter().filter(|part| matches!(part, Part::New(_))).count();
        let (mut wide, mut inner) = (self.parts.len(), 0);
        while wide > 1 {
            wide = wide.div_ceil(CHILDREN_MAX);
            inner += wide;
        }
        leaves + inner
    }

    /// The places of leaves that stay.
    pub(super) fn kept(&self) -> Vec<u64> {
        let place = |part: &Part| match part {
            Part::Kept(leaf) => Some(leaf.place),
            Part::New(_) => None,
        };
        self.parts.iter().filter_map(place).collect()
    }

    /// As many places as there are new nodes.
    pub(super) fn with_places(self, places: Vec<u64>) -> Self {
        Self { places, ..self }
    }

    /// The blocks of all new nodes, and the root.
    pub(super) fn seal(self, uuid: Uuid, generation: u64) -> (Vec<(BlockNo, SharedBuf)>, Root) {
        let mut sealing = Sealing { uuid, generation, places: self.places.into_iter(), blocks: Vec::new() };
        let mut children: Vec<Child> = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            children.push(match part {
                Part::Kept(Leaf { first, place, generation }) => Child { key: first, place, generation },
                Part::New(items) => {
                    let first = items
                        .first()
                        .map_or(Key::new(0, stripewise_format::rafs::key::KeyKind::Group, 0), |item| {
                            item.key
                        });
                    sealing.seal(first, |payload| encode_leaf(&items, payload))
                }
            });
        }
        let mut level = 0;
        while children.len() > 1 {
            level += 1;
            let of_each = children.len().div_ceil(children.len().div_ceil(CHILDREN_MAX));
            let inner =
                |below: &[Child]| sealing.seal(below[0].key, |payload| encode_inner(level, below, payload));
            children = children.chunks(of_each).map(inner).collect();
        }
        let Child { place, generation, .. } = children[0];
        (sealing.blocks, Root { place, generation, level })
    }
}

/// Nodes that get places.
struct Sealing {
    uuid: Uuid,
    generation: u64,
    places: std::vec::IntoIter<u64>,
    blocks: Vec<(BlockNo, SharedBuf)>,
}

impl Sealing {
    fn seal(&mut self, key: Key, encode: impl FnOnce(&mut [u8])) -> Child {
        let mut block = IoBuf::with_len(BLOCK_BYTES);
        encode(&mut block[HEAD_LEN..]);
        let place = self.places.next().expect("there is a place for each new node");
        seal(&mut block, BlockKind::Node, &Head { place, uuid: self.uuid, generation: self.generation });
        self.blocks.push((BlockNo(place), block.freeze()));
        Child { key, place, generation: self.generation }
    }
}
