//! Requests of clients that know of stripes: whole rows and blocks of one stripe.

use std::ops::Range;

use stripewise_device::{IoBuf, SharedBuf};

use super::Array;
use crate::{
    error::ArrayError, life::detached::Detached, shape::geometry::StripeIndex, stripes::without::Recovered,
};

/// # Whole rows and blocks
/// These requests are of one stripe. A row is a block of 4 KiB of each data column, and a data column is a chunk of the
/// stripe, in the order of the array's bytes. All of them start at once; writes complete even if their future is dropped,
/// and are durable after a flush that was called after they had ended. Any thread may call and await.
impl Array {
    /// Writes whole rows from `first_row` on. The blocks come row by row. No member is read, and nothing is copied, unless
    /// a block lies at an address that is not on logical blocks. With a cache, the rows go past it.
    ///
    /// # Errors
    /// [`ArrayError::Blocks`] if the stripe has no such rows, or `blocks` are not whole rows of blocks of 4 KiB;
    /// otherwise as [`Array::write`].
    pub fn write_rows(
        &self,
        stripe: StripeIndex,
        first_row: usize,
        blocks: &[SharedBuf],
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        self.parts.stripes.start_write_rows(stripe, first_row, blocks)
    }

    /// Writes blocks, each given with its row and its data column. Of several in one place, the last counts. Without a
    /// cache they are written under one lock and by one plan. With a cache, they go by way of it as other writes do.
    ///
    /// # Errors
    /// [`ArrayError::Blocks`] if the stripe has no such place, or a block has not 4 KiB; otherwise as [`Array::write`].
    pub fn write_blocks(
        &self,
        stripe: StripeIndex,
        blocks: &[(usize, usize, SharedBuf)],
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        self.parts.stripes.start_write_blocks(stripe, blocks)
    }

    /// Reads whole rows. The blocks come row by row; they are parts of one buffer. Of each member there is one read, if
    /// none is missing and the cache holds nothing of the rows.
    ///
    /// # Errors
    /// [`ArrayError::Blocks`] if the stripe has no such rows; otherwise as [`Array::read`].
    pub fn read_rows(
        &self,
        stripe: StripeIndex,
        rows: Range<usize>,
    ) -> impl Future<Output = Result<Vec<IoBuf>, ArrayError>> + Send + use<> {
        self.parts.stripes.start_read_rows(stripe, rows)
    }

    /// Reads rows of a data column from the other columns, without believing the column's own member. Of level 1, `column`
    /// is the mirror that is not to be believed. What is in the cache only is taken from there.
    ///
    /// # Errors
    /// [`ArrayError::Blocks`] if the stripe has no such rows or column; [`ArrayError::Unreadable`] if the others are not
    /// enough, as always with level 0; otherwise as [`Array::read`].
    pub fn read_without(
        &self,
        column: usize,
        stripe: StripeIndex,
        rows: Range<usize>,
    ) -> impl Future<Output = Result<Recovered, ArrayError>> + Send + use<> {
        let array = self.clone();
        Detached::start(
            self.env(),
            async move { array.parts.stripes.read_without(column, stripe, rows).await },
        )
    }

    /// Writes a block that [`Array::read_without`] gave back to its own member, and nothing else, since redundancy has it
    /// already. [`Array::write_blocks`] is wrong for this: it may modify parity by the content that is not to be believed.
    /// False if the others do not give this content any more, or do not yet: it was written meanwhile, or is in the cache
    /// only.
    ///
    /// # Errors
    /// As [`Array::read_without`], and as [`Array::write`].
    pub fn heal_block(
        &self,
        column: usize,
        stripe: StripeIndex,
        row: usize,
        content: SharedBuf,
    ) -> impl Future<Output = Result<bool, ArrayError>> + Send + use<> {
        let array = self.clone();
        Detached::start(self.env(), async move {
            array.parts.stripes.heal_block(column, stripe, row, content).await
        })
    }
}
