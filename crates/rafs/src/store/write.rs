//! Writing blocks, by whole rows where no live block is beside them.

use std::collections::BTreeMap;

use stripewise_device::{IoBuf, SharedBuf};

use super::{Store, StoreError};
use crate::shape::{BLOCK_BYTES, BlockNo, Cell, Order, StripeNo};

/// The blocks of a row that are written, by column.
type Row = BTreeMap<u32, SharedBuf>;

impl Store {
    /// Writes blocks that were taken, and that nothing durable refers to. Their slots are numbered in this order. A row that has no
    /// other block but free ones is written as a whole. What is written is durable after a commit.
    ///
    /// # Errors
    /// [`StoreError::Io`]; then any of it may have been written.
    pub async fn write_blocks(
        &mut self,
        order: Order,
        blocks: &[(BlockNo, SharedBuf)],
    ) -> Result<(), StoreError> {
        self.begin()?;
        let written = self.write_begun(order, blocks).await;
        self.end(written)
    }

    pub(super) async fn write_begun(
        &mut self,
        order: Order,
        blocks: &[(BlockNo, SharedBuf)],
    ) -> Result<(), StoreError> {
        self.is_unflushed = true;
        let geometry = self.geometry();
        let mut stripes: BTreeMap<StripeNo, BTreeMap<u32, Row>> = BTreeMap::new();
        for (block, bytes) in blocks {
            let (stripe, slot) = geometry.locate(*block);
            let Cell { row, column } = geometry.cell(order, slot);
            let rows = stripes.entry(stripe).or_default();
            rows.entry(row).or_default().insert(column, bytes.clone());
        }
        for (stripe, rows) in stripes {
            let (whole, others): (BTreeMap<u32, Row>, BTreeMap<u32, Row>) =
                rows.into_iter().partition(|(row, blocks)| self.may_fill(order, stripe, *row, blocks));
            self.write_whole(stripe, whole).await?;
            let cells = others.into_iter().flat_map(|(row, blocks)| {
                blocks.into_iter().map(move |(column, bytes)| (Cell { row, column }, bytes))
            });
            let cells: Vec<_> = cells.collect();
            if !cells.is_empty() {
                self.volume.write_blocks(stripe, &cells).await?;
            }
        }
        Ok(())
    }

    /// Whether the blocks of a row that are not among these are free.
    fn may_fill(&self, order: Order, stripe: StripeNo, row: u32, blocks: &Row) -> bool {
        let geometry = self.geometry();
        let is_free = |column| {
            let slot = geometry.slot(order, Cell { row, column });
            self.space.is_free(geometry.block(stripe, slot))
        };
        (0..geometry.data_columns()).all(|column| blocks.contains_key(&column) || is_free(column))
    }

    /// Writes rows as a whole, those that follow one another at once.
    async fn write_whole(&self, stripe: StripeNo, rows: BTreeMap<u32, Row>) -> Result<(), StoreError> {
        let zeroes = IoBuf::zeroed(BLOCK_BYTES).freeze();
        let rows: Vec<(u32, Row)> = rows.into_iter().collect();
        for run in rows.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
            let columns = 0..self.geometry().data_columns();
            let of_row = |row: &Row| -> Vec<SharedBuf> {
                columns.clone().map(|column| row.get(&column).unwrap_or(&zeroes).clone()).collect()
            };
            let blocks: Vec<SharedBuf> = run.iter().flat_map(|(_, row)| of_row(row)).collect();
            self.volume.write_rows(stripe, run[0].0, &blocks).await?;
        }
        Ok(())
    }
}
