//! Writes by way of the cache, and destages from it.
//!
//! A part of a stripe goes into the cache, and is acknowledged there. A whole stripe goes past it, since there is
//! nothing to wait for; and so does a part, while the cache is full and clients are served faster so. A destage is a
//! write of its stripe like any other: it locks its rows, and is planned by the topology of its moment.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{
    future::select,
    stream::{self, StreamExt},
};
use stripewise_device::{WriteFlags, sync::Reader};

use super::{
    Stripes,
    steps::{Progress, Rest, StripeWrite},
};
use crate::{
    cache::{Cache, DestageReason, NotPut, Way},
    compute::{CachedCells, Content, touched_rows},
    destage::Candidate,
    error::ArrayError,
    life::detached::Detached,
    locks::Entry,
    mutants::{Mutant, lives},
    shape::{
        geometry::{Geometry, StripeIndex},
        rows::RowSet,
    },
};

/// Stripes that are destaged at the same time.
const DESTAGES_IN_FLIGHT: usize = 64;
/// If nothing was destaged while it looked so often for memory, a writer destages everything, to learn what is wrong.
const LOOKS_MAX: u32 = 256;
/// After so many looks it does so in any case: perhaps only what others write again and again is destaged.
const LOOKS_EVER_MAX: u32 = 64 * LOOKS_MAX;
/// The longest that a writer waits for memory before it looks again by itself.
const MEMORY_WAIT: Duration = Duration::from_millis(1);

impl Stripes {
    /// Begins a client's part of a stripe, as far as possible without waiting: by way of the cache, if there is one.
    /// [`Stripes::finish_part`] continues where this stops.
    #[inline(always)]
    pub(super) fn start_part(
        &self,
        request: &Reader<'_>,
        geometry: &Geometry,
        write: StripeWrite,
        leads: bool,
    ) -> Progress {
        match self.cache.get(request).value() {
            None => self.start_stripe(request, geometry, write, leads),
            Some(cache) => self.start_cached(cache, request, geometry, write),
        }
    }

    /// Puts a part of a stripe into the cache. A whole stripe goes past it.
    fn start_cached(
        &self,
        cache: &Arc<Cache>,
        request: &Reader<'_>,
        geometry: &Geometry,
        mut write: StripeWrite,
    ) -> Progress {
        if self.members.get(request).failed {
            return Progress::Done(Err(ArrayError::Failed));
        }
        let (span, _) = write.client_part();
        if span.len as u64 == geometry.stripe_bytes() {
            cache.count_whole(span.len);
            write.ending = Some(cache.begin_pass(write.stripe));
            return self.start_stripe(request, geometry, write, true);
        }
        if write.flags.fua {
            return Progress::Waits(Rest::Cached(write));
        }
        if cache.passes(write.stripe) {
            return self.start_past(cache, request, geometry, write);
        }
        self.start_put(cache, write)
    }

    /// Puts a part of a stripe into the cache, if that needs no waiting.
    fn start_put(&self, cache: &Arc<Cache>, write: StripeWrite) -> Progress {
        let (span, data) = write.client_part();
        match cache.put(span, data, Way::Back, self.life.env().now()) {
            Ok(is_full) => {
                if is_full {
                    self.destage_full(cache, write.stripe);
                }
                Progress::Done(Ok(()))
            }
            Err(_) => Progress::Waits(Rest::Cached(write)),
        }
    }

    /// Sends a part of a stripe past the cache, unless the cache has newer bytes to write there. A write of one block that
    /// must be put does not wait for rows.
    fn start_past(
        &self,
        cache: &Arc<Cache>,
        request: &Reader<'_>,
        geometry: &Geometry,
        write: StripeWrite,
    ) -> Progress {
        let rows = match self.locks.enter(&write.place(true), write.content.rows(geometry.chunk_bytes())) {
            Entry::Had(rows) => rows,
            Entry::Busy | Entry::Behind if cache.has_dirty_block(write.client_part().0) => {
                return self.start_put(cache, write);
            }
            Entry::Busy | Entry::Behind => return Progress::Waits(Rest::Cached(write)),
        };
        if cache.let_pass(write.client_part().0) {
            return self.start_with_rows(request, write, rows);
        }
        drop(rows);
        self.start_put(cache, write)
    }

    /// As [`Stripes::start_past`], for a part that may wait. Returns it if it must be put.
    async fn write_past(
        &self,
        cache: &Arc<Cache>,
        write: StripeWrite,
    ) -> Result<Result<(), ArrayError>, StripeWrite> {
        let rows = write.content.rows(self.geometry().chunk_bytes());
        let rows = self.locks.lock_write(&write.place(false), rows).await;
        // Another cache may have come meanwhile, and have dirty cells there that are older than this write.
        let is_same = self.cache().is_some_and(|now| Arc::ptr_eq(&now, cache));
        if is_same && cache.let_pass(write.client_part().0) {
            return Ok(self.finish_stripe(Rest::Region(write, rows.keep())).await);
        }
        Err(write)
    }

    /// Continues a client's part of a stripe to its end.
    pub(super) async fn finish_part(&self, rest: Rest) -> Result<(), ArrayError> {
        match rest {
            Rest::Cached(write) => Box::pin(self.put_part(write)).await,
            rest => self.finish_stripe(rest).await,
        }
    }

    /// Puts a part of a stripe into the cache, and waits for room. A part that must be durable is destaged at once.
    async fn put_part(&self, mut write: StripeWrite) -> Result<(), ArrayError> {
        let mut way = if write.flags.fua { Way::Through } else { Way::Back };
        let mut destaged = u64::MAX;
        let mut is_stuck = |cache: &Cache, looks: u32| {
            let before = std::mem::replace(&mut destaged, cache.destaged_blocks());
            before == destaged || looks >= LOOKS_EVER_MAX
        };
        for looks in 1_u32.. {
            // It may have been replaced meanwhile.
            let Some(cache) = self.cache() else { break };
            let seen = cache.changes();
            if self.members.look(|topology| topology.failed) {
                return Err(ArrayError::Failed);
            }
            if cache.passes(write.stripe) {
                match self.write_past(&cache, write).await {
                    Ok(written) => return written,
                    Err(stays) => write = stays,
                }
            }
            let (span, data) = write.client_part();
            match cache.put(span, data, way, self.life.env().now()) {
                Ok(_) if way == Way::Through => return self.write_through(&cache, &write).await,
                Ok(is_full) => {
                    if is_full {
                        self.destage_full(&cache, span.stripe);
                    }
                    return Ok(());
                }
                // The destager has ended, or cannot write what would have to go. Then this tells why.
                Err(NotPut::Full)
                    if self.life.is_closing()
                        || looks.is_multiple_of(LOOKS_MAX) && is_stuck(&cache, looks) =>
                {
                    self.destage_written(DestageReason::Mark).await?;
                }
                Err(NotPut::Full) if self.make_room(&cache).await => continue,
                Err(NotPut::Through) => {
                    way = Way::Through;
                    continue;
                }
                Err(NotPut::Full | NotPut::Passed | NotPut::Closed) => {}
            }
            // What wakes it is not always what it needs, and room may come without a word.
            select(pin!(cache.changed(seen)), self.life.env().sleep(MEMORY_WAIT)).await;
        }
        let geometry = self.geometry();
        let begun = self.start_stripe(&self.requests.enter(), &geometry, write, true);
        match begun {
            Progress::Done(done) => done,
            Progress::Waits(Rest::Behind(write, place)) => {
                self.finish_stripe(self.wait_behind(&place, write)).await
            }
            Progress::Waits(rest) => self.finish_stripe(rest).await,
        }
    }

    /// Destages a part that was put.
    async fn write_through(&self, cache: &Arc<Cache>, write: &StripeWrite) -> Result<(), ArrayError> {
        let ((span, _), flags) = (write.client_part(), write.flags);
        if flags.fua && lives(Mutant::FuaInCache) {
            return Ok(());
        }
        let chunk_bytes = self.geometry().chunk_bytes();
        let rows = touched_rows(span, chunk_bytes);
        let destaged = self.destage_as(cache, span.stripe, rows, DestageReason::Fua, flags).await?;
        let is_own = |cells: Arc<CachedCells>| cells.covers(span, chunk_bytes) || lives(Mutant::FuaOfAnother);
        if !flags.fua || destaged.is_some_and(is_own) {
            return Ok(());
        }
        // Another destage was faster, without FUA.
        self.flush().await
    }

    /// Destages what goes next to make room; false if that is not known, and the destager must look.
    async fn make_room(&self, cache: &Arc<Cache>) -> bool {
        cache.want_room();
        if cache.room_is_coming() {
            return false;
        }
        let Some(victim) = cache.next_victim() else { return false };
        // What fails is told by the destager, and by a flush.
        let _ = self.destage(cache, victim.stripe, victim.rows, DestageReason::Mark).await;
        true
    }

    /// Destages a stripe that has become dirty as a whole, by itself, unless the policy of when would wait.
    fn destage_full(&self, cache: &Arc<Cache>, stripe: StripeIndex) {
        if !cache.takes_full() {
            return;
        }
        let (stripes, kept, cache) = (self.handle(), self.requests.enter().keep(), cache.clone());
        drop(Detached::start(self.life.env(), async move {
            let _request = stripes.requests.resume(kept);
            let rows = cache.dirty_rows(stripe);
            stripes.destage(&cache, stripe, rows, DestageReason::Full).await
        }));
    }

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

    /// As [`Stripes::destage`], with flags. Returns what was destaged.
    async fn destage_as(
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
        let with_gaps = if cache.fills_gaps() { self.with_gaps(rows) } else { rows };
        let locked = if lives(Mutant::GapsUnlocked) { rows } else { with_gaps };
        let held = if lives(Mutant::FlushSkipsDestaging) {
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
        let content =
            Content::Cells(cells.clone(), if cache.fills_gaps() { with_gaps } else { RowSet::EMPTY });
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
