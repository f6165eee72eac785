//! A store in memory whose reads fail or never end when a test wants it, and a reader of stored trees that shares no code
//! with the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::future;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;
use stripewise_device::{BoxFuture, IoError, IoErrorKind, SharedBuf};
use stripewise_format::rafs::block::{BlockKind, open_at};
use stripewise_format::rafs::key::Key;
use stripewise_format::rafs::node::{CHILD_LEN, Child, NODE_ROOM, Node, SLOT_LEN};
use stripewise_rafs::shape::BlockNo;
use stripewise_rafs::tree::{NodeStore, Root};
use uuid::Uuid;

pub(crate) const UUID: Uuid = Uuid::from_u128(0x5741);

/// What a key has.
pub(crate) type Value = Arc<[u8]>;
/// What a tree should hold.
pub(crate) type Items = BTreeMap<Key, Value>;

/// What happens to reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// They fail.
    Fail,
    /// They do not end.
    Hang,
}

#[derive(Default)]
pub(crate) struct Memory {
    blocks: Mutex<BTreeMap<BlockNo, SharedBuf>>,
    /// After so many more reads.
    fault: Mutex<Option<(u32, Fault)>>,
}

impl Memory {
    pub(crate) fn write(&self, place: BlockNo, block: SharedBuf) {
        self.blocks.lock().insert(place, block);
    }

    pub(crate) fn block(&self, place: BlockNo) -> SharedBuf {
        self.blocks.lock()[&place].clone()
    }

    pub(crate) fn set_fault(&self, fault: Option<(u32, Fault)>) {
        *self.fault.lock() = fault;
    }

    fn fault_of_this_read(&self) -> Option<Fault> {
        let mut fault = self.fault.lock();
        match &mut *fault {
            Some((0, fault)) => Some(*fault),
            Some((reads, _)) => {
                *reads -= 1;
                None
            }
            None => None,
        }
    }
}

impl NodeStore for Memory {
    fn read(&self, place: BlockNo) -> BoxFuture<Result<SharedBuf, IoError>> {
        match self.fault_of_this_read() {
            None => {
                let block = self.blocks.lock().get(&place).cloned();
                let block = block.ok_or(IoError::new(IoErrorKind::Truncated));
                Box::pin(future::ready(block))
            }
            Some(Fault::Fail) => Box::pin(future::ready(Err(IoError::new(IoErrorKind::Medium)))),
            Some(Fault::Hang) => Box::pin(future::pending()),
        }
    }
}

/// The outcome of a future that waits for nothing but the store.
pub(crate) fn now<T>(future: impl Future<Output = T> + Send) -> T {
    future.now_or_never().expect("the store answers at once")
}

/// What a stored tree is made of.
#[derive(Default, Debug)]
pub(crate) struct Stored {
    pub(crate) items: Items,
    pub(crate) places: BTreeSet<BlockNo>,
    /// Nodes and bytes used in them, for each level.
    pub(crate) levels: BTreeMap<u8, (usize, usize)>,
}

impl Stored {
    /// Reads a whole tree. Panics if something is wrong with it.
    pub(crate) fn read(memory: &Memory, root: Root) -> Self {
        let mut stored = Self::default();
        stored.descend(memory, root.place, root.generation, root.level);
        stored
    }

    fn descend(&mut self, memory: &Memory, place: BlockNo, generation: u64, level: u8) {
        assert!(self.places.insert(place), "{place:?} is there twice");
        let block = memory.block(place);
        let (head, payload) = open_at(&block, BlockKind::Node, place.0, UUID).unwrap();
        assert_eq!(head.generation, generation);
        let bytes = match Node::decode(payload).unwrap() {
            Node::Leaf(items) => {
                assert_eq!(level, 0);
                let bytes = items.iter().map(|item| SLOT_LEN + item.value.len()).sum();
                for item in items {
                    assert!(
                        self.last_key().is_none_or(|last| last < item.key),
                        "{:?} is out of order",
                        item.key
                    );
                    self.items.insert(item.key, item.value);
                }
                bytes
            }
            Node::Inner { level: own, children } => {
                assert_eq!(own, level);
                self.descend_all(memory, &children, level - 1);
                children.len() * CHILD_LEN
            }
        };
        let (nodes, used) = self.levels.entry(level).or_default();
        (*nodes, *used) = (*nodes + 1, *used + bytes);
    }

    fn descend_all(&mut self, memory: &Memory, children: &[Child], level: u8) {
        for child in children {
            let before = self.last_key();
            assert!(before.is_none_or(|before| before < child.key), "keys before {child:?}");
            let count = self.items.len();
            self.descend(memory, BlockNo(child.place), child.generation, level);
            assert!(self.items.len() > count, "nothing under {child:?}");
        }
    }

    fn last_key(&self) -> Option<Key> {
        self.items.last_key_value().map(|(key, _)| *key)
    }

    /// How full the nodes of a level are: 0 to 1.
    pub(crate) fn fill(&self, level: u8) -> f64 {
        let (nodes, used) = self.levels[&level];
        used as f64 / (nodes * NODE_ROOM) as f64
    }
}
