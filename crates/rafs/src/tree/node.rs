//! A node in memory, and what leads to one.

use std::sync::Arc;

use stripewise_format::rafs::block::{BlockKind, open_at};
use stripewise_format::rafs::key::Key;
use stripewise_format::rafs::node::{CHILD_LEN, Child, Item, Node as Stored, SLOT_LEN};
use uuid::Uuid;

use super::error::{Damage, TreeError};
use crate::shape::BlockNo;

/// A node. Below a dirty node there are dirty and clean ones, below a clean one only clean ones.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A node of level 0.
    Leaf(Vec<Item>),
    /// A node of a higher level.
    Inner(Inner),
}

/// A node that has children.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) level: u8,
    pub(super) branches: Vec<Branch>,
}

/// A child of an inner node.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    /// No key under the child is below it, and all keys of the children before it are.
    pub(super) key: Key,
    pub(super) link: Link,
}

/// What leads to a node.
#[derive(Clone, Debug)]
pub(super) enum Link {
    /// To a node that has a place, and does not change.
    Clean(Pointer),
    /// To a node of the running generation, which has no place yet.
    Dirty(Box<Node>),
}

/// Where a clean node lies, and its generation: together they never mean two nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Pointer {
    pub(super) place: BlockNo,
    pub(super) generation: u64,
}

/// The keys that belong under a node: `low..high`. None: no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    pub(super) low: Option<Key>,
    pub(super) high: Option<Key>,
}

impl Bounds {
    /// Those of the root.
    pub(super) const ALL: Self = Self { low: None, high: None };

    fn contains(self, key: Key) -> bool {
        self.low.is_none_or(|low| low <= key) && self.high.is_none_or(|high| key < high)
    }
}

/// What a parent, or the anchor, says of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expected {
    pub(super) pointer: Pointer,
    pub(super) level: u8,
    pub(super) bounds: Bounds,
    pub(super) is_root: bool,
}

impl Node {
    pub(super) fn level(&self) -> u8 {
        match self {
            Self::Leaf(_) => 0,
            Self::Inner(inner) => inner.level,
        }
    }

    /// Items or children.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Inner(inner) => inner.branches.len(),
        }
    }

    /// The value of a key, in a leaf.
    pub(super) fn value(&self, key: Key) -> Option<&Arc<[u8]>> {
        let at = self.items().binary_search_by_key(&key, |item| item.key).ok()?;
        Some(&self.items()[at].value)
    }

    /// A leaf's items. An inner node has none.
    pub(super) fn items(&self) -> &[Item] {
        match self {
            Self::Leaf(items) => items,
            Self::Inner(_) => &[],
        }
    }

    /// Bytes that its entries take on disk.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Leaf(items) => items.iter().map(item_bytes).sum(),
            Self::Inner(inner) => inner.branches.len() * CHILD_LEN,
        }
    }

    pub(super) fn first_key(&self) -> Option<Key> {
        self.first_and_last_key().map(|(first, _)| first)
    }

    fn first_and_last_key(&self) -> Option<(Key, Key)> {
        match self {
            Self::Leaf(items) => Some((items.first()?.key, items.last()?.key)),
            Self::Inner(inner) => Some((inner.branches.first()?.key, inner.branches.last()?.key)),
        }
    }

    /// Reads a block, and checks it against the generation that its parent says.
    pub(super) fn from_block(block: &[u8], pointer: Pointer, uuid: Uuid) -> Result<Self, Damage> {
        let (head, payload) = open_at(block, BlockKind::Node, pointer.place.0, uuid)?;
        if head.generation != pointer.generation {
            return Err(Damage::Generation { found: head.generation, wanted: pointer.generation });
        }
        Ok(Stored::decode(payload)?.into())
    }
}

impl Expected {
    /// Reads the node that belongs here from a block.
    pub(super) fn open(&self, block: &[u8], uuid: Uuid) -> Result<Node, TreeError> {
        let place = self.pointer.place;
        let node = Node::from_block(block, self.pointer, uuid);
        let node = node.map_err(|damage| TreeError::Corrupt { place, damage })?;
        self.check(&node).map(|()| node)
    }

    /// Checks whether a node is the one that belongs here.
    pub(super) fn check(&self, node: &Node) -> Result<(), TreeError> {
        self.damage(node)
            .map_or(Ok(()), |damage| Err(TreeError::Corrupt { place: self.pointer.place, damage }))
    }

    fn damage(&self, node: &Node) -> Option<Damage> {
        if node.level() != self.level {
            return Some(Damage::Level { found: node.level(), wanted: self.level });
        }
        let Some((first, last)) = node.first_and_last_key() else {
            return (!self.is_root).then_some(Damage::Empty);
        };
        let stray = [first, last].into_iter().find(|key| !self.bounds.contains(*key));
        stray.map(|key| Damage::Bounds { key })
    }
}

/// Bytes that an item takes in a leaf.
pub(super) fn item_bytes(item: &Item) -> usize {
    SLOT_LEN + item.value.len()
}

impl Inner {
    pub(super) fn link(&self, at: usize) -> &Link {
        &self.branches[at].link
    }

    /// Under which child a key belongs. A key below all children belongs under the first.
    pub(super) fn position(&self, key: Key) -> usize {
        self.branches.partition_point(|branch| branch.key <= key).saturating_sub(1)
    }

    /// The keys that belong under a child of this node.
    pub(super) fn bounds_of(&self, at: usize, own: Bounds) -> Bounds {
        let high = self.branches.get(at + 1).map_or(own.high, |next| Some(next.key));
        // The first child also has the keys below its own: it may have come first when those before it went.
        let low = if at == 0 { own.low } else { Some(self.branches[at].key) };
        Bounds { low, high }
    }

    /// What this node says of a child that lies at `pointer`.
    pub(super) fn expects(&self, at: usize, pointer: Pointer, own: Bounds) -> Expected {
        Expected { pointer, level: self.level - 1, bounds: self.bounds_of(at, own), is_root: false }
    }
}

impl From<Stored> for Node {
    fn from(stored: Stored) -> Self {
        let branch = |child: Child| {
            let pointer = Pointer { place: BlockNo(child.place), generation: child.generation };
            Branch { key: child.key, link: Link::Clean(pointer) }
        };
        match stored {
            Stored::Leaf(items) => Self::Leaf(items),
            Stored::Inner { level, children } => {
                Self::Inner(Inner { level, branches: children.into_iter().map(branch).collect() })
            }
        }
    }
}
