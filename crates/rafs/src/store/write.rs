//! Writing blocks, by whole rows where no live block is beside them.

use std::collections::BTreeMap;

use stripewise_device::{Completion, IoBuf, IoError, SharedBuf};

use super::{Store, StoreError, stripes::Class};
use crate::{
    mutants::{Mutant, lives},
    shape::{BLOCK_BYTES, BlockNo, Cell, Geometry, Order, StripeNo},
    volume::Volume,
};

/// The blocks of a row that are written, by column.
type Row = BTreeMap<u32, SharedBuf>;

/// What is written to a stripe.
#[derive(Debug)]
pub struct StripeWrite {
    stripe: StripeNo,
    /// Runs of whole rows: the first row of each, and its blocks row by row.
    rows: Vec<(u32, Vec<SharedBuf>)>,
    /// Single blocks.
    pub(super) cells: Vec<(Cell, SharedBuf)>,
}

impl Store {
    /// Writes blocks that were taken, and that nothing durable refers to. A row that has no other block but free ones is written as a
    /// whole. What is written is durable after a commit.
    ///
    /// # Errors
    /// [`StoreError::Io`]; then any of it may have been written.
    pub async fn write_blocks(&mut self, blocks: &[(BlockNo, SharedBuf)]) -> Result<(), StoreError> {
        self.begin()?;
        let written = self.write_begun(blocks).await;
        self.end(written)
    }

    pub(super) async fn write_begun(&mut self, blocks: &[(BlockNo, SharedBuf)]) -> Result<(), StoreError> {
        self.is_unflushed = true;
        let writes = self.plan_writes(blocks);
        for write in &writes {
            write.carry_out(&*self.volume).await?;
        }
        self.count_writes(Class::Metadata, &writes);
        Ok(())
    }

    /// Plans writes of blocks, stripe by stripe. A row that has no other block but free ones is
    /// written as a whole. The caller carries them out before others can take these free blocks, and calls
    /// [`Store::note_written`] then.
    #[must_use]
    pub fn plan_writes(&self, blocks: &[(BlockNo, SharedBuf)]) -> Vec<StripeWrite> {
        plan_writes(self.geometry(), self.order(), blocks, |block| self.space.is_free(block))
    }

    /// Planned writes were carried out: the next commit makes them durable.
    pub fn note_written(&mut self) {
        self.is_unflushed = true;
    }
}

/// Plans writes of blocks, stripe by stripe. A row of which all else is free is written as a whole.
pub(crate) fn plan_writes(
    geometry: Geometry,
    order: Order,
    blocks: &[(BlockNo, SharedBuf)],
    is_free: impl Fn(BlockNo) -> bool,
) -> Vec<StripeWrite> {
    let mut stripes: BTreeMap<StripeNo, BTreeMap<u32, Row>> = BTreeMap::new();
    for (block, bytes) in blocks {
        let (stripe, slot) = geometry.locate(*block);
        let Cell { row, column } = geometry.cell(order, slot);
        let rows = stripes.entry(stripe).or_default();
        rows.entry(row).or_default().insert(column, bytes.clone());
    }
    let may_fill = |stripe, row, blocks: &Row| {
        let is_free = |column| {
            let slot = geometry.slot(order, Cell { row, column });
            is_free(geometry.block(stripe, slot))
        };
        lives(Mutant::NeighboursZeroed)
            || (0..geometry.data_columns()).all(|column| blocks.contains_key(&column) || is_free(column))
    };
    let plan = |(stripe, rows): (StripeNo, BTreeMap<u32, Row>)| {
        let (whole, others): (BTreeMap<u32, Row>, BTreeMap<u32, Row>) =
            rows.into_iter().partition(|(row, blocks)| may_fill(stripe, *row, blocks));
        let cells = others.into_iter().flat_map(|(row, blocks)| {
            blocks.into_iter().map(move |(column, bytes)| (Cell { row, column }, bytes))
        });
        StripeWrite { stripe, rows: whole_rows(geometry.data_columns(), whole), cells: cells.collect() }
    };
    stripes.into_iter().map(plan).collect()
}

impl StripeWrite {
    /// Rows that are written as a whole.
    pub(super) fn row_count(&self, geometry: &Geometry) -> u32 {
        let blocks: usize = self.rows.iter().map(|(_, blocks)| blocks.len()).sum();
        blocks as u32 / geometry.data_columns()
    }

    /// Carries it out.
    ///
    /// # Errors
    /// The first one of the volume; then any of it may have been written.
    pub async fn carry_out(&self, volume: &dyn Volume) -> Result<(), IoError> {
        let mut writes: Vec<Completion> =
            self.rows.iter().map(|(first, blocks)| volume.write_rows(self.stripe, *first, blocks)).collect();
        if !self.cells.is_empty() {
            writes.push(volume.write_blocks(self.stripe, &self.cells));
        }
        let mut result = Ok(());
        for write in writes {
            result = result.and(write.await);
        }
        result
    }
}

/// Rows as a whole, with zeroes where there is no block, those that follow one another as one run.
fn whole_rows(columns: u32, rows: BTreeMap<u32, Row>) -> Vec<(u32, Vec<SharedBuf>)> {
    let zeroes = IoBuf::zeroed(BLOCK_BYTES).freeze();
    let rows: Vec<(u32, Row)> = rows.into_iter().collect();
    let runs = rows.chunk_by(|(one, _), (next, _)| one + 1 == *next);
    let of_row = |row: &Row| -> Vec<SharedBuf> {
        (0..columns).map(|column| row.get(&column).unwrap_or(&zeroes).clone()).collect()
    };
    runs.map(|run| (run[0].0, run.iter().flat_map(|(_, row)| of_row(row)).collect())).collect()
}
