//! A volume over an array, which is asked for rows and blocks as it keeps them.

use std::ops::Range;

use stripewise_device::{Completion, Device, IoBuf, IoError, IoFuture, ReadBufs, ReadDone, SharedBuf};
use stripewise_engine::{
    Array, ArrayDevice, ArrayError,
    geometry::{Level, MemberIndex, StripeIndex},
};

use super::{ParityUpdates, Volume, VolumeError, assert_blocks, assert_rows};
use crate::shape::{BLOCK_BYTES, Cell, Geometry, StripeNo};

/// An array as a volume, stripe by stripe. A last stripe that is short, as level 1 may have one, is not used.
pub struct ArrayVolume {
    array: Array,
    /// For what goes by bytes.
    device: ArrayDevice,
    geometry: Geometry,
}

impl ArrayVolume {
    /// A volume of all whole stripes of an array.
    ///
    /// # Errors
    /// [`VolumeError::Size`] if there is none.
    pub fn new(array: Array) -> Result<Self, VolumeError> {
        let shape = array.geometry();
        let (data_columns, rows) = (shape.data_columns() as u32, (shape.chunk_bytes() / BLOCK_BYTES) as u32);
        let size_bytes = shape.capacity_bytes();
        let geometry = Geometry::new(data_columns, rows, size_bytes / shape.stripe_bytes());
        let size = || VolumeError::Size { name: array.name(), size_bytes, data_columns, rows };
        let geometry = geometry.ok_or_else(size)?;
        Ok(Self { device: array.device(), array, geometry })
    }

    /// The same, [of so many stripes at most](Geometry::up_to).
    #[must_use]
    pub fn of_stripes(self, stripes: u64) -> Self {
        Self { geometry: self.geometry.up_to(stripes), ..self }
    }

    /// The array.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }
}

/// A request of the array as one of a volume.
fn completion<T>(
    request: impl Future<Output = Result<T, ArrayError>> + Send + 'static,
) -> IoFuture<Result<T, IoError>> {
    IoFuture::boxed(async move { request.await.map_err(IoError::from) })
}

impl Volume for ArrayVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn may_overwrite(&self) -> bool {
        !self.array.is_degraded()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.device.read(offset_bytes, into)
    }

    fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>> {
        completion(self.array.read_rows(StripeIndex(stripe.0), rows.start as usize..rows.end as usize))
    }

    fn write_rows(&self, stripe: StripeNo, first: u32, blocks: &[SharedBuf]) -> Completion {
        assert_rows(&self.geometry, first, blocks);
        completion(self.array.write_rows(StripeIndex(stripe.0), first as usize, blocks))
    }

    fn write_blocks(&self, stripe: StripeNo, blocks: &[(Cell, SharedBuf)]) -> Completion {
        assert_blocks(blocks.iter().map(|(_, block)| block));
        let of_cell = |(Cell { row, column }, block): &(Cell, SharedBuf)| {
            (*row as usize, *column as usize, block.clone())
        };
        let blocks: Vec<_> = blocks.iter().map(of_cell).collect();
        completion(self.array.write_blocks(StripeIndex(stripe.0), &blocks))
    }

    fn other_ways(&self) -> u32 {
        let shape = self.array.geometry();
        if shape.level() == Level::Raid0 { 0 } else { shape.members() as u32 }
    }

    fn read_otherwise(
        &self,
        way: u32,
        column: u32,
        stripe: StripeNo,
        rows: Range<u32>,
    ) -> IoFuture<Result<Option<Vec<IoBuf>>, IoError>> {
        let (shape, stripe) = (self.array.geometry(), StripeIndex(stripe.0));
        let not_believed = shape.column_of(stripe, MemberIndex(way as usize));
        if shape.level() != Level::Raid1 && not_believed != column as usize {
            return IoFuture::ready(Ok(None));
        }
        let rows = rows.start as usize..rows.end as usize;
        let read = self.array.read_without(not_believed, stripe, rows);
        completion(async move { read.await.map(|recovered| Some(recovered.blocks)) })
    }

    fn heal(
        &self,
        way: u32,
        stripe: StripeNo,
        cell: Cell,
        block: SharedBuf,
    ) -> IoFuture<Result<bool, IoError>> {
        let stripe = StripeIndex(stripe.0);
        let column = self.array.geometry().column_of(stripe, MemberIndex(way as usize));
        completion(self.array.heal_block(column, stripe, cell.row as usize, block))
    }

    fn flush(&self) -> Completion {
        self.device.flush()
    }

    fn parity_updates(&self) -> Option<ParityUpdates> {
        let counted = self.array.stats().report();
        Some(ParityUpdates { rmw_rows: counted.rows_rmw, rcw_rows: counted.rows_rcw })
    }

    fn takes_discards(&self) -> bool {
        self.device.info().unmaps != Some(false)
    }

    fn discard(&self, stripes: Range<StripeNo>) -> Completion {
        let (offset_bytes, len_bytes) = self.geometry.bytes_of(stripes);
        self.device.discard(offset_bytes, len_bytes)
    }
}
