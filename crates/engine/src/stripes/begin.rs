//! A stripe's write gets its rows and its region, and is carried out.

use std::ops::Range;

use stripewise_device::sync::Reader;

use super::{
    RowGuard, Stripes,
    steps::{Begun, Guards, Held, Progress, Rest, StripeWrite, Unreadable},
};
use crate::{
    compute::Content,
    error::ArrayError,
    intent::IntentGuard,
    locks::Entry,
    shape::geometry::{Geometry, StripeIndex},
};

impl Stripes {
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

    /// Writes a stripe, as far as possible without waiting. [`Stripes::finish_stripe`] continues where this
    /// stops. `leads` tells whether the stripe is the first of its request.
    pub(super) fn start_stripe(
        &self,
        request: &Reader<'_>,
        geometry: &Geometry,
        write: StripeWrite,
        leads: bool,
    ) -> Progress {
        let place = write.place(leads);
        let rows = match self.locks.enter(&place, write.content.rows(geometry.chunk_bytes())) {
            Entry::Had(rows) => rows,
            Entry::Busy => return Progress::Waits(Rest::Rows(write)),
            Entry::Behind => return Progress::Waits(Rest::Behind(write, place, Rest::Rows)),
        };
        self.start_with_rows(request, write, rows)
    }

    /// As [`Stripes::start_stripe`], with the rows in hand.
    #[inline]
    pub(super) fn start_with_rows(
        &self,
        request: &Reader<'_>,
        write: StripeWrite,
        rows: RowGuard<'_>,
    ) -> Progress {
        let intent = match &self.intent {
            None => None,
            Some(intent) => match intent.try_begin(write.stripe) {
                None => return Progress::Waits(Rest::Region(write, rows.keep())),
                marked => marked,
            },
        };
        self.begin_held(request, write, (rows, intent))
    }

    /// Continues a stripe's write to its end.
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

    /// Continues a write that has its rows and its region. Steps that not every write takes are in boxes, so
    /// that the task of a write is only as large as the rest.
    pub(super) async fn finish_begun(&self, held: Held, begun: Begun) -> Result<(), ArrayError> {
        let mut guards = self.resume(held);
        let written = match begun {
            Begun::Work(work) => self.finish_work(&guards, work).await,
            Begun::Plan(write) => Box::pin(self.write_around(&guards, write, Unreadable::new())).await,
        };
        if written.is_ok() {
            guards.succeed();
        }
        written
    }

    /// Waits for rows, or for the region to be marked, and then begins.
    async fn begin_later(&self, rest: Rest) -> Result<Progress, ArrayError> {
        let (write, rows) = match rest {
            Rest::Rows(write) => {
                let rows = write.content.rows(self.geometry().chunk_bytes());
                let rows = match &write.content {
                    Content::Span(..) => self.locks.lock_write(&write.place(false), rows),
                    Content::Cells(..) => self.locks.lock(write.stripe, rows),
                };
                (write, rows.await)
            }
            Rest::Region(write, rows) => (write, self.locks.resume(rows)),
            rest => return Ok(Progress::Waits(rest)),
        };
        let intent = self.begin_intent(write.stripe).await?;
        Ok(self.begin_held(&self.requests.enter(), write, (rows, intent)))
    }

    fn resume(&self, held: Held) -> Guards<'_> {
        let intent = self.intent.as_ref().zip(held.intent).map(|(intent, kept)| intent.resume(kept));
        Guards { ending: held.ending, rows: self.locks.resume(held.rows), region: intent }
    }

    /// Locks all rows of some stripes.
    pub(crate) async fn lock_stripes(&self, stripes: Range<u64>) -> Vec<RowGuard<'_>> {
        let geometry = self.geometry();
        let mut guards = Vec::with_capacity((stripes.end - stripes.start) as usize);
        for stripe in stripes.map(StripeIndex) {
            guards.push(self.locks.lock(stripe, geometry.rows_of(stripe)).await);
        }
        guards
    }

    /// Locks the first of these stripes, and the next ones for as long as they are free. It must not wait for
    /// a stripe while it holds another: a rebuild keeps the rows of a batch until the batches before it are
    /// filled, and may wait for the first stripe.
    pub(super) async fn lock_run(&self, stripes: Range<u64>) -> Vec<RowGuard<'_>> {
        let geometry = self.geometry();
        let first = StripeIndex(stripes.start);
        let mut held = vec![self.locks.lock(first, geometry.rows_of(first)).await];
        let others = (stripes.start + 1..stripes.end).map(StripeIndex);
        held.extend(others.map_while(|stripe| self.locks.try_lock(stripe, geometry.rows_of(stripe))));
        held
    }
}
