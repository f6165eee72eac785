//! Writes: a request is cut into stripes. As many stripes are under way as keep every member busy.

use std::ops::RangeInclusive;

use futures_util::stream::{FuturesUnordered, StreamExt};
use stripewise_device::{WriteFlags, sync::Reader};

use super::{
    Stripes,
    steps::{Progress, Rest, StripeWrite},
};
use crate::{
    compute::Data,
    error::ArrayError,
    life::{detached::Detached, step::step},
    mutants::{Mutant, lives},
    shape::geometry::StripeSpan,
};

/// Data of one request that is written at the same time: enough to keep every member's queue busy, little
/// enough that one huge request does not take all memory.
const BYTES_IN_FLIGHT: u64 = 16 << 20;
/// The bounds on the stripes in flight: more long stripes than the bytes allow, and fewer short ones.
const STRIPES_IN_FLIGHT: RangeInclusive<u64> = 16..=64;

/// What is left of a request.
enum Left {
    /// Its one stripe was written, and what was written must be taken off a bad-block log.
    Listed,
    /// Its one stripe was begun.
    Stripe(Rest),
    /// It has several stripes, and none was begun.
    All(Data),
}

impl Stripes {
    /// Serves a write request, as far as possible without waiting. The rest runs by itself.
    pub(crate) fn start_write(
        &self,
        offset_bytes: u64,
        data: Data,
        flags: WriteFlags,
    ) -> Detached<Result<(), ArrayError>> {
        let request = self.requests.enter();
        let geometry = &self.members.get(&request).value().geometry;
        if let Err(error) = self.check_change(geometry, offset_bytes, data.len() as u64) {
            return Detached::done(Err(error));
        }
        let data = data.aligned(geometry.logical_block_bytes() as usize);
        self.stats.count_write(data.len() as u64);
        if !self.life.env().is_here() {
            return self.write_there(request, offset_bytes, data, flags);
        }
        step(self.life.env(), || self.begin_write(request, offset_bytes, data, flags))
    }

    /// Serves, on a worker, a write request that was made outside the workers.
    #[cold]
    fn write_there(
        &self,
        request: Reader<'_>,
        offset_bytes: u64,
        data: Data,
        flags: WriteFlags,
    ) -> Detached<Result<(), ArrayError>> {
        let (stripes, kept) = (self.handle(), request.keep());
        Detached::go_on(self.life.env(), async move {
            let written = {
                let request = stripes.requests.resume(kept);
                stripes.begin_write(request, offset_bytes, data, flags)
            };
            written.await
        })
    }

    /// Begins a write that has been checked.
    #[inline(always)]
    fn begin_write(
        &self,
        request: Reader<'_>,
        offset_bytes: u64,
        data: Data,
        flags: WriteFlags,
    ) -> Detached<Result<(), ArrayError>> {
        let geometry = &self.members.get(&request).value().geometry;
        let mut spans = geometry.split(offset_bytes..offset_bytes + data.len() as u64);
        let Some(span) = spans.next() else { return Detached::done(Ok(())) };
        let left = if spans.next().is_some() {
            Left::All(data)
        } else {
            match self.start_part(&request, geometry, StripeWrite::of(span, data, flags), true) {
                Progress::Done(Ok(())) if self.must_unlist(flags) => Left::Listed,
                Progress::Done(result) => return Detached::done(result),
                Progress::Waits(Rest::Behind(write, place, alone)) => {
                    match self.wait_behind(&place, write, alone) {
                        Rest::Gathered(outcome) => return outcome,
                        rest => Left::Stripe(rest),
                    }
                }
                Progress::Waits(rest) => Left::Stripe(rest),
            }
        };
        let (stripes, kept, env) = (self.handle(), request.keep(), self.life.env());
        match left {
            Left::Stripe(Rest::Begun(held, begun)) => Detached::go_on(env, async move {
                let _request = stripes.requests.resume(kept);
                let written = stripes.finish_begun(held, begun).await;
                stripes.as_durable(flags, written).await
            }),
            // The first step takes its place among the writes that wait.
            left => Detached::start(env, async move {
                let _request = stripes.requests.resume(kept);
                let written = match left {
                    Left::Listed => Ok(()),
                    Left::Stripe(rest) => stripes.finish_part(rest).await,
                    Left::All(data) => stripes.write_spans(offset_bytes, &data, flags).await,
                };
                stripes.as_durable(flags, written).await
            }),
        }
    }

    /// Writes a range that has been checked. A stripe is begun as soon as one of those under way is done.
    pub(crate) async fn write_spans(
        &self,
        offset_bytes: u64,
        data: &Data,
        flags: WriteFlags,
    ) -> Result<(), ArrayError> {
        let geometry = self.geometry();
        let window = stripes_in_flight(geometry.stripe_bytes());
        let (mut under_way, mut result) = (FuturesUnordered::new(), Ok(()));
        for span in geometry.split(offset_bytes..offset_bytes + data.len() as u64) {
            let data = data.slice(span.request_offset..span.request_offset + span.len);
            let write = StripeWrite::of(StripeSpan { request_offset: 0, ..span }, data, flags);
            match self.start_part(&self.requests.enter(), &geometry, write, span.request_offset == 0) {
                Progress::Done(done) => result = result.and(done),
                Progress::Waits(Rest::Behind(write, place, alone)) => {
                    under_way.push(self.finish_part(self.wait_behind(&place, write, alone)));
                }
                Progress::Waits(rest) => under_way.push(self.finish_part(rest)),
            }
            if lives(Mutant::StripesCut) && under_way.len() as u64 == *STRIPES_IN_FLIGHT.start() {
                break;
            }
            if under_way.len() == window {
                result = result.and(under_way.next().await.unwrap_or(Ok(())));
            }
            if result.is_err() {
                break;
            }
        }
        // To the end, whatever fails: a dropped write would release its rows while members still write.
        under_way.fold(result, async |all, done| all.and(done)).await
    }
}

/// How many stripes of one request are written at the same time.
fn stripes_in_flight(stripe_bytes: u64) -> usize {
    (BYTES_IN_FLIGHT / stripe_bytes).clamp(*STRIPES_IN_FLIGHT.start(), *STRIPES_IN_FLIGHT.end()) as usize
}
