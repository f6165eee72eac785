//! Writes by way of the cache.
//!
//! A part of a stripe goes into the cache, and is acknowledged there. A whole stripe goes past it, since there is
//! nothing to wait for; and so does a part, while the cache is full and clients are served faster so.

use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use stripewise_device::sync::Reader;

use super::{
    Stripes,
    room::RoomWait,
    rows::Part,
    steps::{Progress, Rest, StripeWrite},
};
use crate::{
    cache::{Cache, DestageReason, NotPut, Way},
    compute::{CachedCells, touched_rows},
    error::ArrayError,
    life::detached::Detached,
    locks::{Entry, Place},
    mutants::{Mutant, lives},
    shape::{
        geometry::{Geometry, StripeIndex, StripeSpan},
        rows::RowSet,
    },
};

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
            Some(cache) => self.start_cached(cache, request, geometry, (write, leads)),
        }
    }

    /// Puts a part of a stripe into the cache. A whole stripe goes past it.
    fn start_cached(
        &self,
        cache: &Arc<Cache>,
        request: &Reader<'_>,
        geometry: &Geometry,
        (mut write, leads): (StripeWrite, bool),
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
            return self.start_past(cache, request, geometry, (write, leads));
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
    /// must be put does not wait for rows. One behind a write under way is gathered with others, as without a cache.
    fn start_past(
        &self,
        cache: &Arc<Cache>,
        request: &Reader<'_>,
        geometry: &Geometry,
        (write, leads): (StripeWrite, bool),
    ) -> Progress {
        let place = write.place(leads);
        let rows = match self.enter_past(&place, write.content.rows(geometry.chunk_bytes())) {
            Entry::Had(rows) => rows,
            Entry::Busy | Entry::Behind if cache.has_dirty_block(write.client_part().0) => {
                return self.start_put(cache, write);
            }
            Entry::Busy => return Progress::Waits(Rest::Cached(write)),
            Entry::Behind => return Progress::Waits(Rest::Behind(write, place, Rest::Cached)),
        };
        if cache.let_pass(write.client_part().0, 1) {
            return self.start_with_rows(request, write, rows);
        }
        drop(rows);
        self.start_put(cache, write)
    }

    /// A copy of what is inlined where there is no cache.
    #[inline(never)]
    fn enter_past(&self, place: &Place, rows: RowSet) -> Entry<'_, Part> {
        self.locks.enter(place, rows)
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
        if is_same && cache.let_pass(write.client_part().0, 1) {
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
        let mut wait = RoomWait::default();
        // It may have been replaced meanwhile.
        while let Some(cache) = self.cache() {
            if self.members.look(|topology| topology.failed) {
                return Err(ArrayError::Failed);
            }
            wait.look(&cache);
            if cache.passes(write.stripe) {
                match wait.aside(self.write_past(&cache, write)).await {
                    Ok(written) => return written,
                    Err(stays) => write = stays,
                }
                // That it went aside is no news.
                wait.look(&cache);
            }
            let (span, data) = write.client_part();
            match cache.put_from(span, data, way, self.life.env().now(), wait.place()) {
                Ok(_) if way == Way::Through => {
                    drop(wait);
                    return self.write_through(&cache, &write).await;
                }
                Ok(is_full) => {
                    if is_full {
                        self.destage_full(&cache, span.stripe);
                    }
                    return Ok(());
                }
                Err(NotPut::Full) => self.get_room(&cache, &mut wait, span).await?,
                Err(NotPut::Through) => way = Way::Through,
                Err(NotPut::Passed | NotPut::Closed) => {
                    wait.leave_line();
                    self.wait_for_change(&cache, &wait).await;
                }
            }
        }
        drop(wait);
        self.finish_stripe(Rest::Rows(write)).await
    }

    /// Carries out gathered writes each by itself, as far as need be by way of the cache.
    pub(super) async fn put_gathered(&self, stripe: StripeIndex, gathered: (usize, Vec<Part>)) {
        let (mut start, parts) = gathered;
        let mut puts = FuturesUnordered::new();
        for Part { data, flags, promise } in parts {
            let span = StripeSpan { stripe, start, len: data.len(), request_offset: 0 };
            start += data.len();
            let put = self.put_part(StripeWrite::of(span, data, flags));
            puts.push(async move { promise.keep(self.as_durable(flags, put.await).await) });
        }
        while puts.next().await.is_some() {}
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
}
