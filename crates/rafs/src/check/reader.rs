//! Reads blocks of a volume as nodes of the tree, whatever lies there.

use std::sync::Arc;

use smallvec::smallvec;
use stripewise_device::{IoBuf, IoError, SharedBuf};
use stripewise_format::crc::crc32c;
use stripewise_format::rafs::{
    block::{BlockKind, open_at},
    key::Key,
    node::{Item, Node},
    superblock::Superblock,
};
use thiserror::Error;
use uuid::Uuid;

use crate::{
    healing::Healing,
    shape::{BLOCK_BYTES, BlockNo, Geometry, Order},
    store::order_of,
    volume::{Volume, is_lost},
};

/// What a parent, or an anchor, says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) place: u64,
    pub(crate) generation: u64,
    pub(crate) level: u8,
    /// Its keys are not below the first one, and below the second one.
    pub(crate) low: Option<Key>,
    pub(crate) high: Option<Key>,
    pub(crate) is_root: bool,
}

impl Wanted {
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.low.is_none_or(|low| low <= key) && self.high.is_none_or(|high| key < high)
    }

    /// What a node says of its children, whose own bounds are these.
    pub(crate) fn children(&self, level: u8, children: &[stripewise_format::rafs::node::Child]) -> Vec<Self> {
        let low = |at: usize| if at == 0 { self.low } else { Some(children[at].key) };
        let high = |at: usize| children.get(at + 1).map_or(self.high, |next| Some(next.key));
        let wanted = |(at, child): (usize, &stripewise_format::rafs::node::Child)| Self {
            place: child.place,
            generation: child.generation,
            level: level - 1,
            low: low(at),
            high: high(at),
            is_root: false,
        };
        children.iter().enumerate().map(wanted).collect()
    }

    /// A node with its generation, if it belongs here.
    fn accept(&self, (generation, node): (u64, Node)) -> Result<Node, Missing> {
        match self.objection(generation, &node) {
            Some(objection) => Err(Missing::Wrong(objection)),
            None => Ok(node),
        }
    }

    /// Why a node that is valid by itself does not belong here.
    pub(crate) fn objection(&self, generation: u64, node: &Node) -> Option<String> {
        let level = level_of(node);
        if generation != self.generation {
            let wanted = self.generation;
            return Some(format!("it is of generation {generation} instead of {wanted}: a write was lost"));
        }
        if level != self.level {
            return Some(format!("it is of level {level} instead of {}", self.level));
        }
        let Some((first, last)) = bounds_of(node) else {
            return (!self.is_root).then(|| "it is empty".to_owned());
        };
        let stray = [first, last].into_iter().find(|key| !self.contains(*key));
        stray.map(|key| format!("it holds {key:?}, which its parent excludes"))
    }
}

pub(crate) fn level_of(node: &Node) -> u8 {
    match node {
        Node::Leaf(_) => 0,
        Node::Inner { level, .. } => *level,
    }
}

/// The first and the last key of a node.
pub(crate) fn bounds_of(node: &Node) -> Option<(Key, Key)> {
    match node {
        Node::Leaf(items) => Some((items.first()?.key, items.last()?.key)),
        Node::Inner { children, .. } => Some((children.first()?.key, children.last()?.key)),
    }
}

/// Why a block, or the node in it, is not there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Missing {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] IoError),
    /// Something else is there.
    #[error("{0}")]
    Wrong(String),
}

impl Missing {
    /// What cannot be read just now may be good: it is no damage, but an error.
    pub(crate) fn unless_it_may_pass(self) -> Result<Self, IoError> {
        match self {
            Self::Io(error) if !is_lost(&error) => Err(error),
            missing => Ok(missing),
        }
    }
}

/// What was read; none if it is lost. What cannot be read just now is an error.
pub(crate) fn unless_lost<T>(read: Result<T, Missing>) -> Result<Option<T>, IoError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(missing) => missing.unless_it_may_pass().map(|_| None),
    }
}

/// Reads blocks.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) order: Order,
    pub(crate) uuid: Uuid,
}

impl Reader {
    pub(crate) fn new(volume: Arc<dyn Volume>, superblock: &Superblock) -> Self {
        Self { volume, order: order_of(superblock), uuid: superblock.uuid }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }

    /// A block of a stripe group.
    pub(crate) async fn block(&self, place: u64) -> Result<IoBuf, Missing> {
        let geometry = self.geometry();
        if place >= geometry.blocks() {
            return Err(Missing::Wrong("it lies behind the end of the volume".to_owned()));
        }
        let offset_bytes = geometry.offset_bytes(self.order, BlockNo(place));
        let read = self.volume.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_BYTES)]).await;
        Ok(read.into_one()?)
    }

    /// A block of a stripe group with one of these CRCs, if the volume or redundancy has that; else what lies there. Without CRCs, what lies
    /// there is right.
    pub(crate) async fn right_block(&self, place: u64, crcs: &[u32]) -> Result<SharedBuf, Missing> {
        let is_right = |bytes: &[u8]| crcs.is_empty() || crcs.contains(&crc32c(bytes));
        let read = self.block(place).await.map(IoBuf::freeze);
        if read.as_ref().is_ok_and(|bytes| is_right(bytes)) || place >= self.geometry().blocks() {
            return read;
        }
        let healing = Healing::new(self.volume.clone(), self.order, false);
        match healing.find(BlockNo(place), is_right).await? {
            Some(found) => Ok(found),
            None => read,
        }
    }

    /// The node that lies in a block, and its generation.
    pub(crate) async fn node_at(&self, place: u64) -> Result<(u64, Node), Missing> {
        self.decode(&self.block(place).await?, place)
    }

    /// A block as the node of a place, and its generation.
    pub(crate) fn decode(&self, block: &[u8], place: u64) -> Result<(u64, Node), Missing> {
        let (head, payload) = open_at(block, BlockKind::Node, place, self.uuid)
            .map_err(|error| Missing::Wrong(error.to_string()))?;
        let node = Node::decode(payload).map_err(|error| Missing::Wrong(error.to_string()))?;
        Ok((head.generation, node))
    }

    /// The node that a parent, or an anchor, refers to.
    pub(crate) async fn node(&self, wanted: &Wanted) -> Result<Node, Missing> {
        let own = self.node_at(wanted.place).await;
        let objection = match own.and_then(|found| wanted.accept(found)) {
            Err(objection) => objection,
            node => return node,
        };
        // A member may lie: what redundancy has is no damage. The next mount heals it.
        let open = |block: &[u8]| self.decode(block, wanted.place).and_then(|found| wanted.accept(found));
        let healing = Healing::new(self.volume.clone(), self.order, false);
        match healing.find(BlockNo(wanted.place), |block| open(block).is_ok()).await? {
            Some(block) => open(&block),
            None => Err(objection),
        }
    }

    /// The items of a leaf.
    pub(crate) async fn leaf(&self, place: u64) -> Result<Vec<Item>, Missing> {
        match self.node_at(place).await? {
            (_, Node::Leaf(items)) => Ok(items),
            _ => Err(Missing::Wrong("it is no leaf".to_owned())),
        }
    }
}
