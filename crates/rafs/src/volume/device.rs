//! A volume over any device: a file, a block device, an array that is attached.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use smallvec::smallvec;
use stripewise_device::{
    Completion, Device, IoBuf, IoError, IoFuture, ReadBufs, ReadDone, SharedBuf, WriteBufs, WriteFlags,
};
use thiserror::Error;

use super::{Volume, assert_blocks, assert_rows};
use crate::shape::{BLOCK_BYTES, Cell, Geometry, Order, StripeNo};

/// Why a device cannot be a volume.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VolumeError {
    /// Its blocks are too large.
    #[error("{name} has blocks of {found} bytes; a file system needs blocks of {BLOCK_BYTES} bytes or less")]
    Blocks {
        /// The device.
        name: String,
        /// Its logical blocks.
        found: u32,
    },
    /// No stripe fits it, or too many do.
    #[error("{name} has {size_bytes} bytes: no stripes of {data_columns} times {rows} blocks of 4 KiB")]
    Size {
        /// The device.
        name: String,
        /// Its size.
        size_bytes: u64,
        /// Data columns of a stripe.
        data_columns: u32,
        /// Blocks of a chunk.
        rows: u32,
    },
}

/// A device as a volume. Each column of a stripe is a run of its bytes.
///
/// Once a flush has failed, nothing is written or flushed any more: the operating system tells that once, and may have dropped what it
/// could not write.
pub struct DeviceVolume {
    device: Arc<dyn Device>,
    geometry: Geometry,
    /// Why a flush has failed.
    unflushed: Arc<OnceLock<IoError>>,
}

impl DeviceVolume {
    /// A volume of as many stripes as fit the device.
    ///
    /// # Errors
    /// [`VolumeError`].
    pub fn new(device: Arc<dyn Device>, data_columns: u32, rows: u32) -> Result<Self, VolumeError> {
        let info = device.info();
        let (name, size_bytes) = (info.name.clone(), info.size_bytes);
        if info.logical_block_bytes as usize > BLOCK_BYTES {
            return Err(VolumeError::Blocks { name, found: info.logical_block_bytes });
        }
        let stripe_bytes = u64::from(data_columns) * u64::from(rows) * BLOCK_BYTES as u64;
        let stripes = size_bytes.checked_div(stripe_bytes).unwrap_or(0);
        let geometry = Geometry::new(data_columns, rows, stripes);
        let geometry = geometry.ok_or(VolumeError::Size { name, size_bytes, data_columns, rows })?;
        Ok(Self { device, geometry, unflushed: Arc::default() })
    }

    /// The same, [of so many stripes at most](Geometry::up_to).
    #[must_use]
    pub fn of_stripes(self, stripes: u64) -> Self {
        Self { geometry: self.geometry.up_to(stripes), ..self }
    }

    fn offset_bytes(&self, stripe: StripeNo, cell: Cell) -> u64 {
        let slot = self.geometry.slot(Order::Columns, cell);
        self.geometry.offset_bytes(Order::Columns, self.geometry.block(stripe, slot))
    }

    fn write_at(&self, stripe: StripeNo, cell: Cell, bufs: WriteBufs) -> Completion {
        assert_blocks(bufs.iter());
        if let Some(error) = self.unflushed.get() {
            return IoFuture::ready(Err(*error));
        }
        self.device.write(self.offset_bytes(stripe, cell), bufs, WriteFlags::default())
    }
}

impl Volume for DeviceVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.device.read(offset_bytes, into)
    }

    fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>> {
        let count = rows.len();
        let reads = (0..self.geometry.data_columns()).map(|column| {
            let offset_bytes = self.offset_bytes(stripe, Cell { row: rows.start, column });
            self.device.read(offset_bytes, smallvec![IoBuf::with_len(count * BLOCK_BYTES)])
        });
        let reads: Vec<_> = reads.collect();
        IoFuture::boxed(async move {
            let mut columns = Vec::with_capacity(reads.len());
            for read in reads {
                columns.push(read.await.into_one()?);
            }
            let mut blocks = Vec::with_capacity(count * columns.len());
            for _ in 0..count {
                blocks.extend(columns.iter_mut().map(|column| column.split_to(BLOCK_BYTES)));
            }
            Ok(blocks)
        })
    }

    fn write_rows(&self, stripe: StripeNo, first: u32, blocks: &[SharedBuf]) -> Completion {
        assert_rows(&self.geometry, first, blocks);
        let columns = self.geometry.data_columns();
        let of_column = |column: u32| blocks.iter().skip(column as usize).step_by(columns as usize).cloned();
        let writes = (0..columns)
            .map(|column| self.write_at(stripe, Cell { row: first, column }, of_column(column).collect()));
        all(writes.collect())
    }

    fn write_blocks(&self, stripe: StripeNo, blocks: &[(Cell, SharedBuf)]) -> Completion {
        all(blocks
            .iter()
            .map(|(cell, block)| self.write_at(stripe, *cell, smallvec![block.clone()]))
            .collect())
    }

    fn flush(&self) -> Completion {
        if let Some(error) = self.unflushed.get() {
            return IoFuture::ready(Err(*error));
        }
        let (flush, unflushed) = (self.device.flush(), self.unflushed.clone());
        IoFuture::boxed(async move {
            let flushed = flush.await;
            // The first one counts.
            let _ = flushed.map_err(|error| unflushed.set(error));
            flushed
        })
    }

    fn takes_discards(&self) -> bool {
        self.device.info().unmaps != Some(false)
    }

    fn discard(&self, stripes: Range<StripeNo>) -> Completion {
        if let Some(error) = self.unflushed.get() {
            return IoFuture::ready(Err(*error));
        }
        let (offset_bytes, len_bytes) = self.geometry.bytes_of(stripes);
        self.device.discard(offset_bytes, len_bytes)
    }
}

/// Waits for all of them. The first error counts.
fn all(writes: Vec<Completion>) -> Completion {
    IoFuture::boxed(async move {
        let mut result = Ok(());
        for write in writes {
            result = result.and(write.await);
        }
        result
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use stripewise_device::{memory::MemoryDevice, wrap::Fault};

    use super::*;

    /// What is done at once: a device in memory never waits.
    fn now<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("memory is done at once")
    }

    fn block(byte: u8) -> SharedBuf {
        IoBuf::copy_of(&[byte; BLOCK_BYTES]).freeze()
    }

    /// Linux tells a failed flush once, and may have dropped what it could not write: the next one would say that all is well.
    #[test]
    fn after_a_failed_flush_nothing_is_durable_any_more() {
        let (device, faults) = Fault::new(Arc::new(MemoryDevice::new("m", 1 << 20)));
        let volume = DeviceVolume::new(Arc::new(device), 4, 4).unwrap();
        let write = || now(volume.write_blocks(StripeNo(0), &[(Cell { row: 0, column: 0 }, block(1))]));
        assert_eq!((write(), now(volume.flush())), (Ok(()), Ok(())));
        faults.set_gone(true);
        let failed = now(volume.flush());
        faults.set_gone(false);
        assert!(failed.is_err());
        assert_eq!((write(), now(volume.flush())), (failed, failed));
    }

    #[test]
    fn rows_and_blocks_lie_where_the_shape_says() {
        let device = Arc::new(MemoryDevice::new("memory", 100 << 12));
        let volume = DeviceVolume::new(device, 3, 4).unwrap();
        let geometry = volume.geometry();
        assert_eq!(geometry.stripes(), 8);
        let blocks: Vec<_> = (1..=6).map(block).collect();
        now(volume.write_rows(StripeNo(2), 1, &blocks)).unwrap();
        now(volume.write_blocks(StripeNo(2), &[(Cell { row: 2, column: 1 }, block(50))])).unwrap();
        let rows = now(volume.read_rows(StripeNo(2), 0..4)).unwrap();
        let firsts: Vec<_> = rows.iter().map(|block| block[BLOCK_BYTES - 1]).collect();
        assert_eq!(firsts, [0, 0, 0, 1, 2, 3, 4, 50, 6, 0, 0, 0]);
        let slot = geometry.slot(Order::Columns, Cell { row: 2, column: 1 });
        let offset_bytes = geometry.offset_bytes(Order::Columns, geometry.block(StripeNo(2), slot));
        let read = now(volume.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_BYTES)]));
        assert_eq!(read.into_one().unwrap()[0], 50);
        now(volume.discard(StripeNo(2)..StripeNo(3))).unwrap();
        now(volume.flush()).unwrap();
    }

    #[test]
    fn a_device_that_is_no_volume_is_named() {
        let device = |bytes| Arc::new(MemoryDevice::with_block_bytes("small", 100 << 12, bytes));
        let error =
            |device, columns, rows| DeviceVolume::new(device, columns, rows).err().unwrap().to_string();
        assert!(error(device(8192), 3, 4).contains("blocks of 8192 bytes"));
        assert!(error(device(512), 30, 4).starts_with("small has 409600 bytes: no stripes"));
        assert!(DeviceVolume::new(device(512), 0, 4).is_err());
    }
}
