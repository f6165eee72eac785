//! Healing: a block that is not what was written is looked for where redundancy has it, and written back to its place.
//!
//! A member that lies gives no error: only the CRC of a block, or what its parent says of a node, tells. So a block is read once more in
//! every [other way](crate::volume::Volume::read_otherwise) that the volume knows, and the first content that is right counts.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use stripewise_device::{IoBuf, IoError, SharedBuf};

use crate::{
    mutants::{Mutant, lives},
    shape::{BlockNo, Cell, Order, StripeNo},
    volume::{Volume, is_lost},
};

/// Heals blocks of a volume.
pub(crate) struct Healing {
    volume: Arc<dyn Volume>,
    order: Order,
    may_write: bool,
    healed: AtomicU64,
}

impl Healing {
    /// Finds blocks, and writes them back if it may.
    pub(crate) fn new(volume: Arc<dyn Volume>, order: Order, may_write: bool) -> Self {
        Self { volume, order, may_write, healed: AtomicU64::new(0) }
    }

    pub(crate) fn volume(&self) -> &dyn Volume {
        &*self.volume
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// Blocks that were not what was written, and that redundancy had still.
    pub(crate) fn healed(&self) -> u64 {
        self.healed.load(Ordering::Relaxed)
    }

    /// A block as redundancy has it, if that is right. Its place gets it back.
    ///
    /// # Errors
    /// If none is right of those that can be read, and one cannot be read just now.
    pub(crate) async fn find(
        &self,
        place: BlockNo,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<SharedBuf>, IoError> {
        let geometry = self.volume.geometry();
        let (stripe, slot) = geometry.locate(place);
        let cell = geometry.cell(self.order, slot);
        let (mut found, mut unread) = (None, None);
        let ways = if lives(Mutant::RedundancyNotAsked) { 0 } else { self.volume.other_ways() };
        for way in 0..ways {
            let read = self.volume.read_otherwise(way, cell.column, stripe, cell.row..cell.row + 1).await;
            unread = unread.or(read.as_ref().err().copied().filter(|error| !is_lost(error)));
            let block = read.ok().flatten().and_then(|mut blocks| blocks.pop());
            let is_taken = |block: &IoBuf| is_right(block) || lives(Mutant::AnyCopyTaken);
            let Some(block) = block.filter(is_taken).map(IoBuf::freeze) else { continue };
            // If that fails, the next read finds it again. The volume tells of members that fail.
            let _ = self.write_back(way, stripe, cell, &block).await;
            found.get_or_insert(block);
        }
        self.healed.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
        match (found, unread) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    /// Writes a block back that was found in one of the other ways.
    pub(crate) async fn write_back(
        &self,
        way: u32,
        stripe: StripeNo,
        cell: Cell,
        block: &SharedBuf,
    ) -> Result<(), IoError> {
        if self.may_write {
            self.volume.heal(way, stripe, cell, block.clone()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use stripewise_device::{Completion, IoErrorKind, IoFuture, ReadBufs, ReadDone};

    use super::*;
    use crate::{
        shape::Geometry,
        test_volume::{TestVolume, now},
    };

    /// The second of its other ways gives a block, or an error of this kind.
    struct Otherwise(TestVolume, Result<u8, IoErrorKind>);

    impl Volume for Otherwise {
        fn geometry(&self) -> Geometry {
            self.0.geometry()
        }

        fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
            self.0.read(offset_bytes, into)
        }

        fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>> {
            self.0.read_rows(stripe, rows)
        }

        fn write_rows(&self, stripe: StripeNo, first: u32, blocks: &[SharedBuf]) -> Completion {
            self.0.write_rows(stripe, first, blocks)
        }

        fn write_blocks(&self, stripe: StripeNo, blocks: &[(Cell, SharedBuf)]) -> Completion {
            self.0.write_blocks(stripe, blocks)
        }

        fn flush(&self) -> Completion {
            self.0.flush()
        }

        fn other_ways(&self) -> u32 {
            3
        }

        fn read_otherwise(
            &self,
            way: u32,
            _column: u32,
            _stripe: StripeNo,
            _rows: Range<u32>,
        ) -> IoFuture<Result<Option<Vec<IoBuf>>, IoError>> {
            IoFuture::ready(match self.1 {
                _ if way != 1 => Ok(None),
                Ok(byte) => Ok(Some(vec![IoBuf::copy_of(&[byte])])),
                Err(kind) => Err(IoError::new(kind)),
            })
        }

        fn discard(&self, stripes: Range<StripeNo>) -> Completion {
            self.0.discard(stripes)
        }
    }

    fn found(way: Result<u8, IoErrorKind>) -> Result<Option<u8>, IoErrorKind> {
        let volume = Otherwise(TestVolume::new(Geometry::new(2, 4, 8).unwrap()), way);
        let healing = Healing::new(Arc::new(volume), Order::Rows, false);
        let found = now(healing.find(BlockNo(3), |block| block == [7]));
        found.map(|block| block.map(|block| block[0])).map_err(|error| error.kind)
    }

    #[test]
    fn what_may_be_there_another_time_is_not_told_as_lost() {
        assert_eq!(found(Ok(7)), Ok(Some(7)));
        assert_eq!(found(Ok(8)), Ok(None));
        assert_eq!(found(Err(IoErrorKind::Medium)), Ok(None));
        assert_eq!(found(Err(IoErrorKind::Silent)), Err(IoErrorKind::Silent));
    }
}
