//! Writes by way of the cache, and destages from it.
//!
//! A part of a stripe goes into the cache, and is acknowledged there. A whole stripe goes past it, since there is
//! nothing to wait for. A destage is a write of its stripe like any other: it locks its rows, and is planned by the
//! topology of its moment.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::{
    future::select,
    stream::{self, FuturesUnordered, StreamExt},
};
use stripewise_device::{WriteFlags, sync::Reader};

use super::{
    Stripes,
    steps::{Progress, Rest, StripeWrite},
};
use crate::{
    cache::{Cache, Candidate, NotPut},
    compute::{Content, Data, touched_rows},
    error::ArrayError,
    life::detached::Detached,
    mutants::{Mutant, lives},
    shape::{
        geometry::{StripeIndex, StripeSpan},
        rows::RowSet,
    },
};

/// Stripes that are destaged at the same time.
const DESTAGES_IN_FLIGHT: usize = 64;
/// How often a writer looks for memory before it makes room itself: for a quarter of a second at most.
const LOOKS_MAX: u32 = 256;
/// The longest that a writer waits for memory before it looks again by itself.
const MEMORY_WAIT: Duration = Duration::from_millis(1);

/// How much of what was to be destaged was still dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destaged {
    /// Each of the rows, at least in part.
    All,
    /// Not each.
    NotAll,
}

impl Stripes {
    /// Begins a write that has been checked, by way of the cache.
    pub(super) fn begin_cached(
        &self,
        request: Reader<'_>,
        cache: &Arc<Cache>,
        offset_bytes: u64,
        data: Data,
        flags: WriteFlags,
    ) -> Detached<Result<(), ArrayError>> {
        if let Some(done) = self.put_at_once(&request, cache, offset_bytes, &data, flags) {
            return Detached::done(done);
        }
        let (stripes, kept, cache) = (self.handle(), request.keep(), cache.clone());
        Detached::start(self.life.env(), async move {
            let _request = stripes.requests.resume(kept);
            let written = stripes.write_cached(&cache, offset_bytes, &data, flags).await;
            stripes.as_durable(flags, written).await
        })
    }

    /// Puts a write into the cache, if it is a part of one stripe, need not be durable, and finds room.
    #[inline]
    fn put_at_once(
        &self,
        request: &Reader<'_>,
        cache: &Arc<Cache>,
        offset_bytes: u64,
        data: &Data,
        flags: WriteFlags,
    ) -> Option<Result<(), ArrayError>> {
        let topology = self.members.get(request);
        if topology.failed {
            return Some(Err(ArrayError::Failed));
        }
        let geometry = &topology.geometry;
        let mut spans = geometry.split(offset_bytes..offset_bytes + data.len() as u64);
        let Some(span) = spans.next() else { return Some(Ok(())) };
        if spans.next().is_some() || span.len as u64 == geometry.stripe_bytes() || flags.fua {
            return None;
        }
        match cache.put(&span, data, self.life.env().now()) {
            Ok(is_full) => {
                if is_full {
                    self.destage_soon(cache, span.stripe);
                }
                Some(Ok(()))
            }
            Err(NotPut::Full | NotPut::Passed) => None,
        }
    }

    /// Writes a range that has been checked: whole stripes past the cache, and parts into it.
    pub(super) async fn write_cached(
        &self,
        cache: &Arc<Cache>,
        offset_bytes: u64,
        data: &Data,
        flags: WriteFlags,
    ) -> Result<(), ArrayError> {
        let geometry = self.geometry();
        let stripe_bytes = geometry.stripe_bytes();
        let (mut under_way, mut result) = (FuturesUnordered::new(), Ok(()));
        for span in geometry.split(offset_bytes..offset_bytes + data.len() as u64) {
            let data = data.slice(span.request_offset..span.request_offset + span.len);
            let span = StripeSpan { request_offset: 0, ..span };
            under_way.push(async move {
                match span.len as u64 == stripe_bytes {
                    true => self.write_past(cache, span, data, flags).await,
                    false => self.put_part(cache, &span, &data, flags).await,
                }
            });
            if under_way.len() == DESTAGES_IN_FLIGHT {
                result = result.and(under_way.next().await.unwrap_or(Ok(())));
            }
            if result.is_err() {
                break;
            }
        }
        // To the end, whatever fails: a dropped write would release its rows while members still write.
        under_way.fold(result, async |all, done| all.and(done)).await
    }

    /// Writes a whole stripe past the cache.
    async fn write_past(
        &self,
        cache: &Arc<Cache>,
        span: StripeSpan,
        data: Data,
        flags: WriteFlags,
    ) -> Result<(), ArrayError> {
        let mut write = StripeWrite::of(span, data, flags);
        write.ending = Some(cache.begin_pass(span.stripe));
        let progress = self.start_stripe(&self.requests.enter(), &self.geometry(), write, false);
        match progress {
            Progress::Done(result) => result,
            Progress::Waits(rest) => self.finish_stripe(rest).await,
        }
    }

    /// Puts a part of a stripe into the cache. A part that must be durable is destaged at once.
    async fn put_part(
        &self,
        cache: &Arc<Cache>,
        span: &StripeSpan,
        data: &Data,
        flags: WriteFlags,
    ) -> Result<(), ArrayError> {
        for looks in 1_u32.. {
            let seen = cache.changes();
            if self.members.look(|topology| topology.failed) {
                return Err(ArrayError::Failed);
            }
            match cache.put(span, data, self.life.env().now()) {
                Ok(is_full) => {
                    if is_full && !flags.fua {
                        self.destage_soon(cache, span.stripe);
                    }
                    break;
                }
                // The destager has ended, or cannot write what would have to go. Then this tells why.
                Err(NotPut::Full) if self.life.is_closing() || looks.is_multiple_of(LOOKS_MAX) => {
                    self.destage_written().await?;
                }
                Err(NotPut::Full) => cache.want_room(),
                Err(NotPut::Passed) => {}
            }
            // What wakes it is not always what it needs, and room may come without a word.
            select(pin!(cache.changed(seen)), self.life.env().sleep(MEMORY_WAIT)).await;
        }
        if !flags.fua || lives(Mutant::FuaInCache) {
            return Ok(());
        }
        let rows = touched_rows(span, self.geometry().chunk_bytes());
        match self.destage_as(cache, span.stripe, rows, flags).await? {
            Destaged::All => Ok(()),
            // Another destage was faster, without FUA.
            Destaged::NotAll => self.flush().await,
        }
    }

    /// Destages what is dirty in a stripe, by itself.
    fn destage_soon(&self, cache: &Arc<Cache>, stripe: StripeIndex) {
        let (stripes, kept, cache) = (self.handle(), self.requests.enter().keep(), cache.clone());
        drop(Detached::start(self.life.env(), async move {
            let _request = stripes.requests.resume(kept);
            let rows = cache.dirty_rows(stripe);
            stripes.destage(&cache, stripe, rows).await
        }));
    }

    /// Destages what is dirty in some rows of a stripe.
    async fn destage(&self, cache: &Arc<Cache>, stripe: StripeIndex, rows: RowSet) -> Result<(), ArrayError> {
        self.destage_as(cache, stripe, rows, WriteFlags::default()).await.map(drop)
    }

    async fn destage_as(
        &self,
        cache: &Arc<Cache>,
        stripe: StripeIndex,
        rows: RowSet,
        flags: WriteFlags,
    ) -> Result<Destaged, ArrayError> {
        if rows.is_empty() {
            return Ok(Destaged::NotAll);
        }
        let held = if lives(Mutant::FlushSkipsDestaging) {
            let Some(held) = self.locks.try_lock(stripe, rows) else { return Ok(Destaged::NotAll) };
            held
        } else {
            self.locks.lock(stripe, rows).await
        };
        let Some((cells, ending)) = cache.lend(stripe, rows) else { return Ok(Destaged::NotAll) };
        let is_all = cells.dirty_rows() == rows;
        let write = StripeWrite { stripe, content: Content::Cells(cells), flags, ending: Some(ending) };
        self.finish_stripe(Rest::Region(write, held.keep())).await?;
        Ok(if is_all { Destaged::All } else { Destaged::NotAll })
    }

    /// Destages these, in order, several at a time. All of them are tried, whatever fails.
    pub(crate) async fn destage_all_of(
        &self,
        cache: &Arc<Cache>,
        chosen: Vec<Candidate>,
    ) -> Result<(), ArrayError> {
        let destages = chosen.into_iter().map(|one| self.destage(cache, one.stripe, one.rows));
        let destages = stream::iter(destages).buffer_unordered(DESTAGES_IN_FLIGHT);
        destages.fold(Ok(()), async |all: Result<(), ArrayError>, one| all.and(one)).await
    }

    /// Destages all that was acknowledged before the call. Later writes do not delay it.
    pub(crate) async fn destage_written(&self) -> Result<(), ArrayError> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let dirty = cache.dirty_until(cache.end_epoch());
        if lives(Mutant::FlushSkipsDirty) {
            return Ok(());
        }
        self.destage_all_of(cache, dirty).await
    }
}
