//! All nodes that lie on a volume, whether the tree leads to them or not.

use smallvec::smallvec;
use stripewise_device::{IoBuf, IoError};
use stripewise_format::rafs::{
    block::{BlockKind, open},
    key::Key,
    node::Node,
    superblock::Superblock,
};

use super::{
    Progress,
    reader::{Missing, Reader, bounds_of, level_of, unless_lost},
};
use crate::shape::{BLOCK_BYTES, Order, StripeNo};

/// A node that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where it lies.
    pub(crate) at: u64,
    /// Where it says that it belongs.
    pub(crate) place: u64,
    pub(crate) generation: u64,
    pub(crate) level: u8,
    pub(crate) first: Key,
    pub(crate) last: Key,
}

/// Reads all stripe groups, and notes what looks like a node of this file system. What the medium has lost is passed by.
///
/// # Errors
/// If something cannot be read just now.
pub(crate) async fn scan(
    reader: &Reader,
    superblock: &Superblock,
    progress: &Progress,
) -> Result<Vec<Found>, IoError> {
    let geometry = reader.geometry();
    let first = superblock.first_group_stripe();
    let end = first + superblock.groups() * u64::from(superblock.group_stripes);
    let mut all = Vec::new();
    for stripe in first..end {
        progress.tell("scan", stripe - first, end - first);
        let (from, bytes) = geometry.bytes_of(StripeNo(stripe)..StripeNo(stripe + 1));
        for block in stripe_blocks(reader, from, bytes as usize).await? {
            let (linear, bytes) = block;
            let cell = geometry.cell(Order::Columns, linear);
            let at = geometry.block(StripeNo(stripe), geometry.slot(reader.order, cell)).0;
            all.extend(node(reader, at, &bytes));
        }
    }
    Ok(all)
}

/// The blocks of a stripe that can be read, numbered as they lie.
async fn stripe_blocks(reader: &Reader, from: u64, bytes: usize) -> Result<Vec<(u32, IoBuf)>, IoError> {
    let count = bytes / BLOCK_BYTES;
    let bufs = (0..count).map(|_| IoBuf::with_len(BLOCK_BYTES)).collect();
    let read = reader.volume.read(from, bufs).await;
    if read.result.is_ok() {
        return Ok((0..).zip(read.bufs).collect());
    }
    let mut all = Vec::new();
    for linear in 0..count {
        let offset_bytes = from + (linear * BLOCK_BYTES) as u64;
        let read = reader.volume.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_BYTES)]).await;
        let block = unless_lost(read.into_one().map_err(Missing::Io))?;
        all.extend(block.map(|block| (linear as u32, block)));
    }
    Ok(all)
}

fn node(reader: &Reader, at: u64, bytes: &[u8]) -> Option<Found> {
    let (head, payload) = open(bytes, BlockKind::Node).ok()?;
    let node = Node::decode(payload).ok().filter(|_| head.uuid == reader.uuid)?;
    let (first, last) = bounds_of(&node)?;
    Some(Found { at, place: head.place, generation: head.generation, level: level_of(&node), first, last })
}
