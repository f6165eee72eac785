//! Writes.

use std::ops::RangeInclusive;

use futures_util::stream::{FuturesUnordered, StreamExt};
use smallvec::SmallVec;
use stripewise_device::{SharedBuf, WriteBufs, WriteFlags, sync::Reader};

use super::{detached::Detached, execute::Work};
use crate::{
    array::{Array, Shared},
    compute::Data,
    error::ArrayError,
    intent::{IntentGuard, KeptIntent},
    locks::{Entry, KeptRows, Place, RowGuard},
    mutants::{Mutant, lives},
    shape::{
        geometry::{StripeIndex, StripeSpan},
        rows::RowSet,
    },
};

/// Data of one request that is written at the same time: enough to keep every member's queue busy, little enough that one huge
/// request does not take all memory.
const BYTES_IN_FLIGHT: u64 = 16 << 20;
/// The stripes that this may be: of long stripes more than the bytes allow, of short ones not all.
const STRIPES_IN_FLIGHT: RangeInclusive<u64> = 16..=64;

/// Columns whose old content could not be read in this write.
pub(super) type Unreadable = SmallVec<[usize; 2]>;

/// A stripe's part of a write, with the bytes of that part alone.
pub(super) struct StripeWrite {
    pub(super) span: StripeSpan,
    pub(super) data: Data,
    pub(super) flags: WriteFlags,
}

impl StripeWrite {
    /// Where it goes; `leads` tells whether it begins its request.
    fn place(&self, leads: bool) -> Place {
        let StripeSpan { stripe, start, len, .. } = self.span;
        Place { stripe, bytes: start..start + len, leads }
    }
}

/// How far a stripe's write came at once.
pub(super) enum Progress {
    Done(Result<(), ArrayError>),
    Waits(Rest),
}

/// Rows and region, as they are held by who goes on.
pub(super) type Guards<'a> = (RowGuard<'a>, Option<IntentGuard<'a>>);

/// What is left of a stripe's write that must wait for something, by what it has got hold of.
pub(super) enum Rest {
    /// Nothing: it is gathered with others, and somebody else writes them.
    Gathered(Detached<Result<(), ArrayError>>),
    /// Nothing: others have its rows.
    Rows(StripeWrite),
    /// Its rows; its region is to be marked.
    Region(StripeWrite, KeptRows),
    /// Rows and region.
    Begun(Held, Begun),
}

/// How far a stripe's write came that has its rows and its region.
pub(super) enum Begun {
    /// No recipe could be made: too much of what it reads is missing.
    Plan(StripeWrite),
    /// It waits for members.
    Work(Box<Work>),
}

/// What is left of a request.
enum Left {
    /// Its one stripe was written, and has to be taken off a bad-block log.
    Listed,
    /// Its one stripe was begun.
    Stripe(Rest),
    /// It has several, and none was.
    All(Data),
}

/// Rows and region of a write.
pub(super) struct Held {
    rows: KeptRows,
    intent: Option<KeptIntent>,
}

impl Held {
    fn keep((rows, intent): Guards<'_>) -> Self {
        Self { rows: rows.keep(), intent: intent.map(IntentGuard::keep) }
    }
}

/// The rest of a write that holds its rows and its region.
pub(super) fn waits(guards: Guards<'_>, begun: Begun) -> Progress {
    Progress::Waits(Rest::Begun(Held::keep(guards), begun))
}

impl Array {
    /// Writes `data` at `offset_bytes`. Starts at once, and goes to its end even if the future is dropped.
    ///
    /// # Errors
    /// [`ArrayError`]; on an error any part of the range may have been written.
    pub fn write(
        &self,
        offset_bytes: u64,
        data: SharedBuf,
        flags: WriteFlags,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        self.shared.start_write(offset_bytes, Data::One(data), flags)
    }

    /// As [`Array::write`], of data that lies in several buffers. Where all of them are whole blocks of 4 KiB, in memory and in the
    /// array, nothing is copied.
    ///
    /// # Errors
    /// [`ArrayError`]; on an error any part of the range may have been written.
    pub fn write_vectored(
        &self,
        offset_bytes: u64,
        bufs: WriteBufs,
        flags: WriteFlags,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        self.shared.start_write(offset_bytes, Data::of(bufs, offset_bytes), flags)
    }
}

impl Shared {
    /// Serves a write request, as far as that goes without waiting; what is left goes on by itself.
    pub(crate) fn start_write(
        &self,
        offset_bytes: u64,
        data: Data,
        flags: WriteFlags,
    ) -> Detached<Result<(), ArrayError>> {
        let request = self.requests.enter();
        if let Err(error) = self.check_change(offset_bytes, data.len() as u64) {
            return Detached::done(Err(error));
        }
        self.stats.count_write(data.len() as u64);
        let mut spans = self.geometry.split(offset_bytes..offset_bytes + data.len() as u64);
        let Some(span) = spans.next() else { return Detached::done(Ok(())) };
        let left = if spans.next().is_some() {
            Left::All(data)
        } else {
            match self.start_stripe(&request, StripeWrite { span, data, flags }, true) {
                Progress::Done(Ok(())) if self.must_unlist(flags) => Left::Listed,
                Progress::Done(result) => return Detached::done(result),
                Progress::Waits(Rest::Gathered(outcome)) => return outcome,
                Progress::Waits(rest) => Left::Stripe(rest),
            }
        };
        let (shared, kept, env) = (self.handle(), request.keep(), &self.env);
        match left {
            Left::Stripe(Rest::Begun(held, begun)) => Detached::go_on(env, async move {
                let _request = shared.requests.resume(kept);
                let written = shared.finish_begun(held, begun).await;
                shared.as_durable(flags, written).await
            }),
            // Its place among those that wait is taken by the first step.
            left => Detached::start(env, async move {
                let _request = shared.requests.resume(kept);
                let written = match left {
                    Left::Listed => Ok(()),
                    Left::Stripe(rest) => shared.finish_stripe(rest).await,
                    Left::All(data) => shared.write_spans(offset_bytes, &data, flags).await,
                };
                shared.as_durable(flags, written).await
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
        let window = stripes_in_flight(self.geometry.stripe_bytes());
        let (mut under_way, mut result) = (FuturesUnordered::new(), Ok(()));
        for span in self.geometry.split(offset_bytes..offset_bytes + data.len() as u64) {
            let data = data.slice(span.request_offset..span.request_offset + span.len);
            let write = StripeWrite { span: StripeSpan { request_offset: 0, ..span }, data, flags };
            match self.start_stripe(&self.requests.enter(), write, span.request_offset == 0) {
                Progress::Done(done) => result = result.and(done),
                Progress::Waits(rest) => under_way.push(self.finish_stripe(rest)),
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
        // To the end, whatever fails: a write that is dropped would let go of its rows while members still write.
        under_way.fold(result, async |all, done| all.and(done)).await
    }

    /// Announces a write to a stripe in the bitmap, if the level has one.
    pub(crate) async fn begin_intent(
        &self,
        stripe: StripeIndex,
    ) -> Result<Option<IntentGuard<'_>>, ArrayError> {
        match &self.intent {
            None => Ok(None),
            Some(intent) => intent.begin(self, stripe).await.map(Some).map_err(|_| ArrayError::Failed),
        }
    }

    /// Writes a stripe, as far as that goes without waiting: the steps of [`Shared::finish_stripe`], which goes on where
    /// this stops. `leads` tells whether the stripe is the first of its request.
    fn start_stripe(&self, request: &Reader<'_>, write: StripeWrite, leads: bool) -> Progress {
        let (stripe, place) = (write.span.stripe, write.place(leads));
        let rows = match self.locks.enter(&place, touched_rows(&write.span, self.geometry.chunk_bytes())) {
            Entry::Had(rows) => rows,
            Entry::Busy => return Progress::Waits(Rest::Rows(write)),
            Entry::Behind => return self.wait_behind(&place, write),
        };
        let intent = match &self.intent {
            None => None,
            Some(intent) => match intent.try_begin(stripe) {
                None => return Progress::Waits(Rest::Region(write, rows.keep())),
                marked => marked,
            },
        };
        self.begin_held(request, write, (rows, intent))
    }

    /// Goes on with a stripe's write to its end.
    pub(super) async fn finish_stripe(&self, rest: Rest) -> Result<(), ArrayError> {
        let (held, begun) = match rest {
            Rest::Begun(held, begun) => (held, begun),
            Rest::Gathered(outcome) => return outcome.await,
            waits => match Box::pin(self.begin_later(waits)).await? {
                Progress::Waits(Rest::Begun(held, begun)) => (held, begun),
                Progress::Waits(_) => unreachable!("rows and region are held"),
                Progress::Done(result) => return result,
            },
        };
        self.finish_begun(held, begun).await
    }

    /// Goes on with a write that has its rows and its region. What not every write comes to is in boxes: the task of a write is
    /// as large as the rest.
    async fn finish_begun(&self, held: Held, begun: Begun) -> Result<(), ArrayError> {
        let _guards = self.resume(held);
        match begun {
            Begun::Work(work) => self.finish_work(work).await,
            Begun::Plan(write) => Box::pin(self.write_around(write, Unreadable::new())).await,
        }
    }

    /// Waits for rows, or for the region to be marked, and begins then.
    async fn begin_later(&self, rest: Rest) -> Result<Progress, ArrayError> {
        let (write, rows) = match rest {
            Rest::Rows(write) => {
                let rows = touched_rows(&write.span, self.geometry.chunk_bytes());
                let rows = self.locks.lock_write(&write.place(false), rows).await;
                (write, rows)
            }
            Rest::Region(write, rows) => (write, self.locks.resume(rows)),
            rest => return Ok(Progress::Waits(rest)),
        };
        let intent = self.begin_intent(write.span.stripe).await?;
        Ok(self.begin_held(&self.requests.enter(), write, (rows, intent)))
    }

    fn resume(&self, held: Held) -> Guards<'_> {
        let intent = self.intent.as_ref().zip(held.intent).map(|(intent, kept)| intent.resume(kept));
        (self.locks.resume(held.rows), intent)
    }
}

/// How many stripes of one request are written at the same time.
fn stripes_in_flight(stripe_bytes: u64) -> usize {
    (BYTES_IN_FLIGHT / stripe_bytes).clamp(*STRIPES_IN_FLIGHT.start(), *STRIPES_IN_FLIGHT.end()) as usize
}

/// The rows of a stripe that a span touches, in any column.
pub(crate) fn touched_rows(span: &StripeSpan, chunk_bytes: usize) -> RowSet {
    if span.start / chunk_bytes == (span.start + span.len - 1) / chunk_bytes {
        return near_rows(RowSet::touching(span.start % chunk_bytes..span.start % chunk_bytes + span.len));
    }
    let rows = span
        .columns(chunk_bytes)
        .map(|column| RowSet::touching(span.in_column(column, chunk_bytes).0))
        .fold(RowSet::EMPTY, |all, rows| all | rows);
    near_rows(rows)
}

/// All of these rows; a mutant sees the first word of them only.
fn near_rows(rows: RowSet) -> RowSet {
    if !lives(Mutant::WideRowsUnseen) {
        return rows;
    }
    let near = rows & RowSet::range(0..64);
    if near.is_empty() { rows } else { near }
}
