//! Destages: what is dirty in the cache is written to members. A destage is a write of its stripe like any other: it locks
//! its rows, and is planned by the topology of its moment.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use stripewise_device::WriteFlags;

use super::{
    Stripes,
    steps::{Rest, StripeWrite},
};
use crate::{
    cache::{Cache, DestageReason},
    compute::{CachedCells, CellsOf, Content},
    destage::Candidate,
    error::ArrayError,
    mutants::{Mutant, lives},
    shape::{geometry::StripeIndex, rows::RowSet},
};

/// Stripes that are destaged at the same time.
const DESTAGES_IN_FLIGHT: usize = 64;

impl Stripes {
    /// Destages what is dirty in some rows of a stripe.
    pub(crate) async fn destage(
        &self,
        cache: &Arc<Cache>,
        stripe: StripeIndex,
        rows: RowSet,
        reason: DestageReason,
    ) -> Result<(), ArrayError> {
        self.destage_as(cache, stripe, rows, reason, WriteFlags::default()).await.map(drop)
    }

    /// As [`Stripes::destage`], with flags. Returns what was destaged, if all of it went in one write.
    ///
    /// Bad blocks of several members in different rows do not add up: where they keep all of it from being written, each row is
    /// tried by itself.
    pub(super) async fn destage_as(
        &self,
        cache: &Arc<Cache>,
        stripe: StripeIndex,
        rows: RowSet,
        reason: DestageReason,
        flags: WriteFlags,
    ) -> Result<Option<Arc<CachedCells>>, ArrayError> {
        if rows.is_empty() {
            return Ok(None);
        }
        let with_gaps = if cache.fills_gaps() { self.with_gaps(cache, stripe, rows) } else { rows };
        let mut destaged = self.destage_rows(cache, stripe, (rows, with_gaps), reason, flags).await;
        if with_gaps != rows && is_unreadable(&destaged) {
            destaged = self.destage_rows(cache, stripe, (rows, rows), reason, flags).await;
        }
        if rows.len() == 1 || !is_unreadable(&destaged) {
            return destaged;
        }
        let mut all = Ok(None);
        for row in rows.runs().flatten() {
            let row = RowSet::range(row..row + 1);
            let one = self.destage_rows(cache, stripe, (row, row), reason, flags).await;
            if one.is_err() && !is_unreadable(&one) {
                return one;
            }
            all = all.and(one.map(|_| None));
        }
        all
    }

    /// Destages rows together. What is dirty in gaps between them goes along.
    async fn destage_rows(
        &self,
        cache: &Arc<Cache>,
        stripe: StripeIndex,
        (rows, with_gaps): (RowSet, RowSet),
        reason: DestageReason,
        flags: WriteFlags,
    ) -> Result<Option<Arc<CachedCells>>, ArrayError> {
        let locked = if lives(Mutant::GapsUnlocked) { rows } else { with_gaps };
        let held = if reason == DestageReason::Flush && lives(Mutant::FlushSkipsDestaging) {
            let Some(held) = self.locks.try_lock(stripe, locked) else { return Ok(None) };
            held
        } else {
            self.locks.lock(stripe, locked).await
        };
        // With its rows locked: those that work wait for no rows, and come to an end.
        let blocks = self.blocks_to_work_with(cache, stripe, with_gaps);
        let _working = cache.working_memory(blocks).await;
        let Some((cells, ending)) = cache.lend(stripe, (rows, with_gaps), reason, self.life.env().now())
        else {
            return Ok(None);
        };
        let content = Content::Cells(
            cells.clone(),
            CellsOf::Cache(if cache.fills_gaps() { with_gaps } else { RowSet::EMPTY }),
        );
        let write = StripeWrite { stripe, content, flags, ending: Some(ending) };
        self.finish_stripe(Rest::Region(write, held.keep())).await?;
        Ok(Some(cells))
    }

    /// Destages these, in order, several at a time. All of them are tried, whatever fails.
    async fn destage_all_of(
        &self,
        cache: &Arc<Cache>,
        chosen: Vec<Candidate>,
        reason: DestageReason,
    ) -> Result<(), ArrayError> {
        let destages = chosen.into_iter().map(|one| self.destage(cache, one.stripe, one.rows, reason));
        let destages = stream::iter(destages).buffer_unordered(DESTAGES_IN_FLIGHT);
        destages.fold(Ok(()), async |all: Result<(), ArrayError>, one| all.and(one)).await
    }

    /// Destages all that was acknowledged before the call. Later writes do not delay it.
    pub(crate) async fn destage_written(&self, reason: DestageReason) -> Result<(), ArrayError> {
        let Some(cache) = self.cache() else { return Ok(()) };
        if lives(Mutant::FlushSkipsDirty) && reason == DestageReason::Flush {
            cache.end_epoch();
            return Ok(());
        }
        let epoch = cache.end_epoch();
        let dirty = match reason {
            DestageReason::Flush => cache.to_flush_until(epoch),
            _ => cache.dirty_until(epoch),
        };
        self.destage_all_of(&cache, dirty, reason).await
    }

    /// As [`Stripes::destage_written`], from this cache.
    pub(super) async fn destage_all(
        &self,
        cache: &Arc<Cache>,
        reason: DestageReason,
    ) -> Result<(), ArrayError> {
        let dirty = cache.dirty_until(cache.end_epoch());
        self.destage_all_of(cache, dirty, reason).await
    }
}

fn is_unreadable<T>(destaged: &Result<T, ArrayError>) -> bool {
    matches!(destaged, Err(ArrayError::Unreadable { .. }))
}
