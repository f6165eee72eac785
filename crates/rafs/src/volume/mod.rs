//! What a file system lies on: stripes that are written as a whole, by rows, or by blocks.
//!
//! Requests are independent, as those of a [`Device`](stripewise_device::Device): a call begins one at once, and what is written is
//! durable after a flush that was called after the write had ended.

mod array;
mod device;

use std::ops::Range;

use stripewise_device::{Completion, IoBuf, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, SharedBuf};

pub use self::{
    array::ArrayVolume,
    device::{DeviceVolume, VolumeError},
};
use crate::shape::{BLOCK_BYTES, Cell, Geometry, StripeNo};

/// Rows of which a part was written, by how their parity was found. Counts of a volume since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParityUpdates {
    /// By read-modify-write.
    pub rmw_rows: u64,
    /// By reconstruct-write.
    pub rcw_rows: u64,
}

/// Whether the medium has lost what was asked. Else it may be there another time: when a member is back, or answers, or the system has memory.
pub(crate) fn is_lost(error: &IoError) -> bool {
    matches!(error.kind, IoErrorKind::Medium | IoErrorKind::BadBlock)
}

/// A volume.
pub trait Volume: Send + Sync + 'static {
    /// Its shape.
    fn geometry(&self) -> Geometry;

    /// Whether blocks may be overwritten where they lie: no member is missing whose blocks a crash could then take away.
    fn may_overwrite(&self) -> bool {
        true
    }

    /// Reads bytes as they lie on the volume, column by column.
    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone>;

    /// Reads whole rows of a stripe. The blocks come row by row.
    fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>>;

    /// Writes whole rows of a stripe, from row `first` on, without a read. The blocks are given row by row.
    ///
    /// # Panics
    /// If they are not whole rows of the stripe, or not of a block each.
    fn write_rows(&self, stripe: StripeNo, first: u32, blocks: &[SharedBuf]) -> Completion;

    /// Writes some blocks of a stripe.
    ///
    /// # Panics
    /// If one is not of a block.
    fn write_blocks(&self, stripe: StripeNo, blocks: &[(Cell, SharedBuf)]) -> Completion;

    /// Makes durable what was written before.
    fn flush(&self) -> Completion;

    /// In how many other ways than from its own place a block can be read. In each of them, one member of an array is not believed:
    /// there are as many as members, or none without redundancy.
    fn other_ways(&self) -> u32 {
        0
    }

    /// Reads rows of a data column in one of the [other ways](Volume::other_ways). None: they do not lie on the member that is not
    /// believed. The content may never have been there, if redundancy is not up to date: only a caller that knows what it should be can
    /// use it.
    fn read_otherwise(
        &self,
        _way: u32,
        _column: u32,
        _stripe: StripeNo,
        _rows: Range<u32>,
    ) -> IoFuture<Result<Option<Vec<IoBuf>>, IoError>> {
        IoFuture::ready(Ok(None))
    }

    /// Writes a block back that was read in one of the other ways. Nothing else is written, since redundancy has it. False if the others
    /// have another content by now.
    fn heal(
        &self,
        _way: u32,
        _stripe: StripeNo,
        _cell: Cell,
        _block: SharedBuf,
    ) -> IoFuture<Result<bool, IoError>> {
        IoFuture::ready(Ok(false))
    }

    /// How it has found parity; none of what has none, or does not count.
    fn parity_updates(&self) -> Option<ParityUpdates> {
        None
    }

    /// Whether a discard has any effect.
    fn takes_discards(&self) -> bool {
        true
    }

    /// Tells that the content of stripes is no longer needed.
    fn discard(&self, stripes: Range<StripeNo>) -> Completion;
}

/// Checks that these are whole rows of one stripe, from row `first` on.
fn assert_rows(geometry: &Geometry, first: u32, blocks: &[SharedBuf]) {
    let (columns, blocks_len) = (geometry.data_columns(), blocks.len() as u32);
    let fits = first + blocks_len / columns <= geometry.rows();
    assert!(blocks_len.is_multiple_of(columns) && fits, "rows of one stripe are written");
    assert_blocks(blocks.iter());
}

fn assert_blocks<'b>(mut blocks: impl Iterator<Item = &'b SharedBuf>) {
    assert!(blocks.all(|block| block.len() == BLOCK_BYTES), "blocks are written as a whole");
}
