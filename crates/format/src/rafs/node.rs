//! A node of the tree: what lies behind the head of its block.
//!
//! A leaf has a table of slots, which grows up from the header, and values, which grow down from the payload's end in the order
//! of the slots. Nothing lies between two values, so a value cannot overlap another one. An inner node has a table of children.
//! Both tables are sorted by key.

use std::sync::Arc;

use thiserror::Error;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::block::PAYLOAD_LEN;
use super::key::{KEY_LEN, Key, UnknownKind};
use super::value::VALUE_MAX;

/// The highest level of a node. With a quarter of the children that fit into each inner node, such a tree has more leaves than
/// 2^64 bytes have blocks.
pub const LEVEL_MAX: u8 = 12;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub(crate) level: u8,
    pub(crate) entry_len: u8,
    pub(crate) count: U16,
    pub(crate) used: U16,
    pub(crate) reserved_6: [u8; 2],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawSlot {
    pub(crate) key: [u8; KEY_LEN],
    pub(crate) offset: U16,
    pub(crate) len: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawChild {
    pub(crate) key: [u8; KEY_LEN],
    pub(crate) place: U64,
    pub(crate) generation: U64,
}

const HEADER_LEN: usize = size_of::<RawHeader>();

/// Bytes of a leaf for slots and values, and of an inner node for children.
pub const NODE_ROOM: usize = PAYLOAD_LEN - HEADER_LEN;
/// Bytes of a slot. An item takes as many in addition to its value.
pub const SLOT_LEN: usize = size_of::<RawSlot>();
/// Bytes of a child in an inner node.
pub const CHILD_LEN: usize = size_of::<RawChild>();

const _: () = assert!(HEADER_LEN == 8 && SLOT_LEN == 21 && CHILD_LEN == 33);
const _: () = assert!(SLOT_LEN + VALUE_MAX <= NODE_ROOM);
const _: () = assert!(PAYLOAD_LEN <= u16::MAX as usize);

/// An item of a leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its key.
    pub key: Key,
    /// Its value, of up to [`VALUE_MAX`] bytes.
    pub value: Arc<[u8]>,
}

/// A child of an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Child {
    /// No key under the child is below it. All keys under the children before it are.
    pub key: Key,
    /// The child's block number.
    pub place: u64,
    /// The generation in the head of the child's block.
    pub generation: u64,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A node of level 0.
    Leaf(Vec<Item>),
    /// A node of a higher level.
    Inner {
        /// Its level: one above that of its children.
        level: u8,
        /// Its children.
        children: Vec<Child>,
    },
}

/// Why a payload is no node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NodeError {
    /// Fewer bytes than a payload has.
    #[error("a node has {PAYLOAD_LEN} bytes and only {have} were read; read the whole block")]
    TooShort {
        /// Bytes given.
        have: usize,
    },
    /// A level that no tree reaches.
    #[error("a node of level {found}, and the highest is {LEVEL_MAX}; run fsck")]
    Level {
        /// As found.
        found: u8,
    },
    /// A leaf with children, or an inner node with slots.
    #[error("a node of level {level} with entries of {found} bytes instead of {wanted}; run fsck")]
    EntryLen {
        /// The node's level.
        level: u8,
        /// As found.
        found: u8,
        /// For this level.
        wanted: usize,
    },
    /// More entries than fit.
    #[error("a node with {found} entries, and {max} fit; run fsck")]
    Count {
        /// As found.
        found: u16,
        /// The most that fit.
        max: usize,
    },
    /// An inner node that leads nowhere.
    #[error("an inner node of level {level} without children; run fsck")]
    NoChildren {
        /// The node's level.
        level: u8,
    },
    /// The header and the entries disagree about the bytes used.
    #[error("a node says that it uses {found} bytes, and its entries use {wanted}; run fsck")]
    Used {
        /// As found.
        found: u16,
        /// By the entries.
        wanted: usize,
    },
    /// A key that cannot be read.
    #[error("entry {entry} of a node: {source}")]
    Key {
        /// Which entry.
        entry: usize,
        /// What is wrong with its key.
        source: UnknownKind,
    },
    /// A key that is not above the one before it.
    #[error("entry {entry} of a node is not above the entry before it; run fsck")]
    Unsorted {
        /// Which entry.
        entry: usize,
    },
    /// A value that is too long.
    #[error("item {entry} of a leaf has {len} bytes, and the most is {VALUE_MAX}; run fsck")]
    ValueLen {
        /// Which item.
        entry: usize,
        /// Its bytes.
        len: usize,
    },
    /// Values that reach into the slots.
    #[error("the value of item {entry} of a leaf reaches into the slots; run fsck")]
    OutOfBounds {
        /// Which item.
        entry: usize,
    },
    /// A value that overlaps another one, or leaves a gap.
    #[error("the value of item {entry} of a leaf lies at {found} instead of {wanted}; run fsck")]
    Misplaced {
        /// Which item.
        entry: usize,
        /// Where its slot says that it lies.
        found: u16,
        /// Where the value before it begins, less its length.
        wanted: usize,
    },
}

impl Node {
    /// Reads a node from the payload of its block.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn decode(payload: &[u8]) -> Result<Self, NodeError> {
        let too_short = NodeError::TooShort { have: payload.len() };
        let payload = payload.get(..PAYLOAD_LEN).ok_or(too_short)?;
        let (header, _) = RawHeader::ref_from_prefix(payload).map_err(|_| too_short)?;
        check_header(header)?;
        if header.level == 0 { decode_leaf(header, payload) } else { decode_inner(header, payload) }
    }
}

fn entry_len(level: u8) -> usize {
    if level == 0 { SLOT_LEN } else { CHILD_LEN }
}

fn check_header(header: &RawHeader) -> Result<(), NodeError> {
    let (level, count) = (header.level, header.count.get());
    if level > LEVEL_MAX {
        return Err(NodeError::Level { found: level });
    }
    let wanted = entry_len(level);
    if usize::from(header.entry_len) != wanted {
        return Err(NodeError::EntryLen { level, found: header.entry_len, wanted });
    }
    let max = NODE_ROOM / wanted;
    if usize::from(count) > max {
        return Err(NodeError::Count { found: count, max });
    }
    if level > 0 && count == 0 {
        return Err(NodeError::NoChildren { level });
    }
    Ok(())
}

fn check_used(header: &RawHeader, wanted: usize) -> Result<(), NodeError> {
    let found = header.used.get();
    if usize::from(found) == wanted { Ok(()) } else { Err(NodeError::Used { found, wanted }) }
}

/// The table of a node whose count was checked.
fn table<T: FromBytes + KnownLayout + Immutable + Unaligned>(count: U16, payload: &[u8]) -> &[T] {
    let entries = &payload[HEADER_LEN..HEADER_LEN + usize::from(count.get()) * size_of::<T>()];
    <[T]>::ref_from_bytes(entries).expect("the table is a whole number of entries, and entries are unaligned")
}

fn decode_key(entry: usize, raw: &[u8; KEY_LEN], before: Option<Key>) -> Result<Key, NodeError> {
    let key = Key::decode(raw).map_err(|source| NodeError::Key { entry, source })?;
    if before.is_some_and(|before| before >= key) {
        return Err(NodeError::Unsorted { entry });
    }
    Ok(key)
}

fn decode_leaf(header: &RawHeader, payload: &[u8]) -> Result<Node, NodeError> {
    let slots: &[RawSlot] = table(header.count, payload);
    let slots_end = HEADER_LEN + size_of_val(slots);
    let mut items: Vec<Item> = Vec::with_capacity(slots.len());
    let mut end = PAYLOAD_LEN;
    for (entry, slot) in slots.iter().enumerate() {
        let key = decode_key(entry, &slot.key, items.last().map(|item| item.key))?;
        let start = value_start(entry, slot, slots_end, end)?;
        items.push(Item { key, value: payload[start..end].into() });
        end = start;
    }
    check_used(header, PAYLOAD_LEN - end + size_of_val(slots))?;
    Ok(Node::Leaf(items))
}

/// Where a value begins that ends at `end`.
fn value_start(entry: usize, slot: &RawSlot, slots_end: usize, end: usize) -> Result<usize, NodeError> {
    let (len, found) = (usize::from(slot.len.get()), slot.offset.get());
    if len > VALUE_MAX {
        return Err(NodeError::ValueLen { entry, len });
    }
    let start = end.checked_sub(len).filter(|start| *start >= slots_end);
    let wanted = start.ok_or(NodeError::OutOfBounds { entry })?;
    if usize::from(found) == wanted { Ok(wanted) } else { Err(NodeError::Misplaced { entry, found, wanted }) }
}

fn decode_inner(header: &RawHeader, payload: &[u8]) -> Result<Node, NodeError> {
    let raw: &[RawChild] = table(header.count, payload);
    check_used(header, size_of_val(raw))?;
    let mut children: Vec<Child> = Vec::with_capacity(raw.len());
    for (entry, child) in raw.iter().enumerate() {
        let key = decode_key(entry, &child.key, children.last().map(|child| child.key))?;
        children.push(Child { key, place: child.place.get(), generation: child.generation.get() });
    }
    Ok(Node::Inner { level: header.level, children })
}

/// Writes a leaf into a payload.
///
/// # Panics
/// If the items are unsorted or do not fit, a value is longer than [`VALUE_MAX`], or the payload is not one of a block.
pub fn encode_leaf(items: &[Item], payload: &mut [u8]) {
    assert!(items.is_sorted_by(|a, b| a.key < b.key), "the items of a leaf are sorted");
    let used = items.iter().map(|item| SLOT_LEN + item.value.len()).sum();
    begin(payload, 0, items.len(), used);
    let mut end = PAYLOAD_LEN;
    for (entry, item) in items.iter().enumerate() {
        let len = item.value.len();
        assert!(len <= VALUE_MAX, "a value of {len} bytes");
        let start = end - len;
        payload[start..end].copy_from_slice(&item.value);
        let slot = RawSlot { key: item.key.encode(), offset: of_u16(start), len: of_u16(len) };
        put(payload, entry, slot.as_bytes());
        end = start;
    }
}

/// Writes an inner node into a payload.
///
/// # Panics
/// If there are no children, or they are unsorted or do not fit, or the level is not one of an inner node, or the payload is not
/// one of a block.
pub fn encode_inner(level: u8, children: &[Child], payload: &mut [u8]) {
    assert!((1..=LEVEL_MAX).contains(&level), "an inner node of level {level}");
    assert!(!children.is_empty(), "an inner node has children");
    assert!(children.is_sorted_by(|a, b| a.key < b.key), "the children of a node are sorted");
    begin(payload, level, children.len(), children.len() * CHILD_LEN);
    for (entry, child) in children.iter().enumerate() {
        let (place, generation) = (child.place.into(), child.generation.into());
        put(payload, entry, RawChild { key: child.key.encode(), place, generation }.as_bytes());
    }
}

/// Writes the header, and zeroes behind it.
fn begin(payload: &mut [u8], level: u8, count: usize, used: usize) {
    assert_eq!(payload.len(), PAYLOAD_LEN, "the payload of a block");
    assert!(used <= NODE_ROOM, "{used} bytes in a node for {NODE_ROOM}");
    payload.fill(0);
    let header = RawHeader {
        level,
        entry_len: entry_len(level) as u8,
        count: of_u16(count),
        used: of_u16(used),
        reserved_6: [0; 2],
    };
    payload[..HEADER_LEN].copy_from_slice(header.as_bytes());
}

fn put(payload: &mut [u8], entry: usize, bytes: &[u8]) {
    let at = HEADER_LEN + entry * bytes.len();
    payload[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Numbers within a payload, which are all below 2^16.
fn of_u16(number: usize) -> U16 {
    U16::new(number as u16)
}

#[cfg(test)]
mod tests;
