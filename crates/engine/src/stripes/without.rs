//! Blocks whose own member is not to be believed: their content from the others, and how such a block is healed. A client
//! that knows what its blocks should hold, such as a file system with checksums, asks for these.

use std::ops::Range;

use stripewise_device::{IoBuf, SharedBuf};

use super::{
    Stripes,
    blocks::{check_column, check_rows, refused},
};
use crate::{
    error::ArrayError,
    mutants::{Mutant, lives},
    plan::{
        Recipe,
        recipe::{Source, Span, Write},
    },
    shape::{
        geometry::{Geometry, StripeIndex},
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// Blocks of a column, as the others give them.
#[derive(Debug)]
pub struct Recovered {
    /// The blocks, by row.
    pub blocks: Vec<IoBuf>,
    /// A resync is due there: the others may be of different times, and then the blocks hold neither old nor new content.
    /// Only a caller that knows what they should hold can use them.
    pub is_in_doubt: bool,
}

impl Stripes {
    /// Serves a read of some rows of a column that is not to be believed. What is dirty in the cache has never been on its
    /// member: it counts.
    pub(crate) async fn read_without(
        &self,
        column: usize,
        stripe: StripeIndex,
        rows: Range<usize>,
    ) -> Result<Recovered, ArrayError> {
        let _request = self.requests.enter();
        let geometry = self.geometry();
        self.check_request(&geometry, 0, 0)?;
        check_believed(&geometry, column, stripe, &rows)?;
        if rows.is_empty() {
            return Ok(Recovered { blocks: Vec::new(), is_in_doubt: false });
        }
        let mut content = IoBuf::with_len(rows.len() * BLOCK_BYTES);
        self.stats.count_read(content.len() as u64);
        let _rows = self.locks.lock(stripe, RowSet::range(rows.clone())).await;
        // Before the reads: once parity is right it stays so, as long as the rows are held.
        let is_in_doubt = !self.is_trusted(stripe);
        let cache = self.cache();
        let add_dirty = |content: &mut IoBuf| {
            cache.as_ref().is_some_and(|cache| cache.read_dirty(stripe, column, rows.clone(), content))
        };
        if !add_dirty(&mut content) {
            self.recover_by_rows(column, stripe, rows.clone(), &mut content).await?;
            add_dirty(&mut content);
        }
        let blocks = rows.clone().map(|_| content.split_to(BLOCK_BYTES)).collect();
        Ok(Recovered { blocks, is_in_doubt })
    }

    /// Recovers rows of a column, as a whole if possible, else row by row: bad blocks of several members in different rows
    /// do not add up. The caller holds the rows.
    async fn recover_by_rows(
        &self,
        column: usize,
        stripe: StripeIndex,
        rows: Range<usize>,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        let bytes = Span::from(rows.clone()).bytes();
        if lives(Mutant::ColumnBelieved)
            && let Some(Ok(own)) = self.own(&self.members.load(), stripe, column, &bytes).await
        {
            into.copy_from_slice(&own);
            return Ok(());
        }
        match self.recover(stripe, column, bytes, into).await {
            Err(ArrayError::Unreadable { .. }) if rows.len() > 1 => {}
            result => return result,
        }
        for (row, into) in rows.zip(into.chunks_mut(BLOCK_BYTES)) {
            self.recover(stripe, column, Span::from(row..row + 1).bytes(), into).await?;
        }
        Ok(())
    }

    /// Serves a request to write a recovered block to its own member, and nothing else: redundancy has it already. A write
    /// of the block may modify parity by what the member holds now, and so carry the wrong content on. False if the others
    /// do not give this content any more: it was written meanwhile.
    pub(crate) async fn heal_block(
        &self,
        column: usize,
        stripe: StripeIndex,
        row: usize,
        content: SharedBuf,
    ) -> Result<bool, ArrayError> {
        let _request = self.requests.enter();
        let geometry = self.geometry();
        self.check_change(&geometry, 0, 0)?;
        let rows = row..row.saturating_add(1);
        check_believed(&geometry, column, stripe, &rows)?;
        if content.len() != BLOCK_BYTES {
            return Err(refused(stripe, "a block has 4096 bytes"));
        }
        let held = self.locks.lock(stripe, RowSet::range(rows.clone())).await;
        let mut found = IoBuf::with_len(BLOCK_BYTES);
        self.recover_by_rows(column, stripe, rows.clone(), &mut found).await?;
        if found[..] != content[..] {
            return Ok(false);
        }
        let topology = self.members.load();
        if topology.failed {
            return Err(ArrayError::Failed);
        }
        let write = Write::of(column, &Span::from(rows).bytes(), Source::Old(column as u16), false);
        let (recipe, found) =
            (Recipe { writes: [write].into_iter().collect(), ..Recipe::default() }, found.freeze());
        self.write_mended(&held, &topology, stripe, &recipe, |_| found.clone()).await?;
        Ok(true)
    }
}

/// Checks that a stripe has these rows, and such a column of data. Of mirrors, all are such columns.
fn check_believed(
    geometry: &Geometry,
    column: usize,
    stripe: StripeIndex,
    rows: &Range<usize>,
) -> Result<(), ArrayError> {
    let copies = geometry.copies_of(0);
    let end = if copies.len() > 1 { copies.end } else { geometry.data_columns() };
    check_column(geometry, stripe, column, end)?;
    check_rows(geometry, stripe, rows)
}
