//! Writes.

use std::{ops::Range, sync::Arc};

use futures_util::future::join_all;
use smallvec::{SmallVec, smallvec};
use stripewise_device::{
    IoBuf, IoError, IoFuture, ReadDone, SharedBuf, WriteFlags,
    sync::{Reader, Seen},
};

use super::{
    Array, Asks, Shared,
    closed_form::{Content, Formed},
    detached::Detached,
    settle::{How, Writes},
    wait::{Requested, are_ready, wait_all},
};
use crate::{
    compute::{self, Extents, Fetched, NewData, Run, byte_range},
    error::ArrayError,
    geometry::{StripeIndex, StripeSpan},
    intent::{IntentGuard, KeptIntent},
    locks::{Entry, KeptRows, Place, RowGuard},
    mutants::{Mutant, lives},
    plan::{Plan, Presence, StripeState},
    rows::RowSet,
    stats::Cause,
    topology::{Member, Topology},
};

/// Stripes of one request that are worked on at the same time: enough to keep every member's queue busy, few enough
/// that one huge request does not take all memory.
pub(crate) const STRIPES_IN_FLIGHT: usize = 16;

/// A read of a plan.
pub(super) struct PlannedRead {
    pub(super) column: usize,
    pub(super) rows: Range<usize>,
}

/// Columns whose old content could not be read in this write.
pub(super) type Unreadable = SmallVec<[usize; 2]>;

/// What is known of a stripe, and how it is to be written. Large, so it is made in its place.
#[derive(Default)]
pub(super) struct Planned {
    pub(super) state: StripeState,
    pub(super) plan: Plan,
}

/// Reads under way.
#[derive(Default)]
pub(super) struct Reads {
    pub(super) requested: Requested<ReadDone>,
    pub(super) planned: SmallVec<[PlannedRead; 8]>,
}

impl Reads {
    /// Takes what was read into `fetched`, once all is done, and returns what could not be read.
    fn take_in(&mut self, fetched: &mut Fetched) -> Vec<(PlannedRead, IoError)> {
        let mut failed = Vec::new();
        let done = self.requested.iter_mut().filter_map(IoFuture::take_ready);
        for (read, done) in self.planned.drain(..).zip(done) {
            match done.into_one() {
                Ok(buf) => fetched.push(Run { column: read.column, rows: read.rows, buf }),
                Err(error) => failed.push((read, error)),
            }
        }
        self.requested.clear();
        failed
    }
}

/// A stripe's part of a write, with the bytes of that part alone.
pub(super) struct StripeWrite {
    pub(super) span: StripeSpan,
    pub(super) data: SharedBuf,
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
type Guards<'a> = (RowGuard<'a>, Option<IntentGuard<'a>>);

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

/// A plan whose reads are under way, and where it was made.
type Reading = (Arc<Topology>, Box<(Planned, Reads)>);

/// How far a stripe's write came that has its rows and its region.
pub(super) enum Begun {
    /// It is to be planned, and that is not simple.
    Plan(StripeWrite),
    /// All that the plan reads is asked for.
    Reads(StripeWrite, Reading),
    /// It has no plan, but a closed form; all that this reads is asked for.
    Formed(Box<Formed>),
    /// All that it writes is asked for.
    Writes(Arc<Topology>, Box<Requested<Result<(), IoError>>>, Vec<Arc<Member>>),
}

/// What is left of a request.
enum Left {
    /// Its one stripe was written, and has to be taken off a bad-block log.
    Listed,
    /// Its one stripe was begun.
    Stripe(Rest),
    /// It has several, and none was.
    All(SharedBuf),
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
fn waits(guards: Guards<'_>, begun: Begun) -> Progress {
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
        self.shared.start_write(offset_bytes, data, flags)
    }
}

impl Shared {
    /// Serves a write request, as far as that goes without waiting; what is left goes on by itself.
    pub(super) fn start_write(
        &self,
        offset_bytes: u64,
        data: SharedBuf,
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
            // By far the commonest, and less to move than all that might have been begun. Its guards go before the request.
            Left::Stripe(Rest::Begun(held, Begun::Formed(formed))) => Detached::go_on(env, async move {
                let (_request, guards) = (shared.requests.resume(kept), shared.resume(held));
                let written = shared.finish_formed(formed).await;
                drop(guards);
                shared.as_durable(flags, written).await
            }),
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

    /// Writes a range that has been checked, a bounded number of stripes at the same time.
    pub(crate) async fn write_spans(
        &self,
        offset_bytes: u64,
        data: &SharedBuf,
        flags: WriteFlags,
    ) -> Result<(), ArrayError> {
        let mut spans = self.geometry.split(offset_bytes..offset_bytes + data.len() as u64).peekable();
        while spans.peek().is_some() {
            let mut waiting = Vec::new();
            let mut result = Ok(());
            for span in spans.by_ref().take(STRIPES_IN_FLIGHT) {
                let data = data.slice(span.request_offset..span.request_offset + span.len);
                let write = StripeWrite { span: StripeSpan { request_offset: 0, ..span }, data, flags };
                match self.start_stripe(&self.requests.enter(), write, span.request_offset == 0) {
                    Progress::Done(done) => result = result.and(done),
                    Progress::Waits(rest) => waiting.push(self.finish_stripe(rest)),
                }
            }
            join_all(waiting).await.into_iter().fold(result, Result::and)?;
            if lives(Mutant::StripesCut) {
                return Ok(());
            }
        }
        Ok(())
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

    /// Writes a stripe whose rows and region are held, as far as that goes without waiting.
    fn begin_held(&self, request: &Reader<'_>, write: StripeWrite, guards: Guards<'_>) -> Progress {
        let topology = self.topology.get(request);
        if topology.failed {
            return Progress::Done(Err(ArrayError::Failed));
        }
        let selection = &**self.selection.get(request).value();
        let mut writes = Writes::default();
        if let Some(columns) = self.whole_stripe(&topology, &write.span) {
            self.request_whole_stripe(columns, write, &mut writes);
            return self.end_at_once(request, topology, guards, &mut writes);
        }
        if let Some(form) = self.closed_form(&topology, selection, &write.span) {
            let mut requested = Requested::new();
            form.ask(&mut requested);
            if !are_ready(&requested, |done| done.result.is_ok()) {
                return waits(guards, Begun::Formed(form.pending(write, topology.to_arc(), &mut requested)));
            }
            let mut content = Content::new();
            form.take(&mut requested, &mut content).expect("all could be read");
            self.request_closed_form(&form, write, &mut content, &mut writes);
            return self.end_at_once(request, topology, guards, &mut writes);
        }
        let (mut planned, mut reads) = (Planned::default(), Reads::default());
        self.look(&topology, &write.span, &Unreadable::new(), &mut planned.state);
        if self.plan(selection, &topology, &write.span, &mut planned).is_err() {
            return waits(guards, Begun::Plan(write));
        }
        self.request_reads(&topology, write.span.stripe, &planned.plan, &mut reads);
        if !are_ready(&reads.requested, |done| done.result.is_ok()) {
            return waits(guards, Begun::Reads(write, (topology.to_arc(), Box::new((planned, reads)))));
        }
        let mut fetched = Fetched::new();
        let failed = reads.take_in(&mut fetched);
        debug_assert!(failed.is_empty(), "all could be read");
        self.request_planned(&topology, write, &planned, fetched, &mut writes);
        self.end_at_once(request, topology, guards, &mut writes)
    }

    /// Ends a stripe's write whose writes are asked for, if they are done.
    fn end_at_once<'t>(
        &self,
        request: &Reader<'_>,
        topology: Seen<'t, Topology>,
        guards: Guards<'_>,
        writes: &mut Writes<'t>,
    ) -> Progress {
        let acknowledgement = topology.recorded.acknowledgement(|| self.topology.get(request).failed);
        let is_settled = matches!(acknowledgement, Some(Ok(())));
        if is_settled && are_ready(&writes.requested, Result::is_ok) {
            return Progress::Done(Ok(()));
        }
        let Writes { requested, members } = std::mem::take(writes);
        let members = members.into_iter().cloned().collect();
        waits(guards, Begun::Writes(topology.to_arc(), Box::new(requested), members))
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
            Begun::Formed(formed) => self.finish_formed(formed).await,
            Begun::Plan(write) => Box::pin(self.write_planned(write, None, Unreadable::new())).await,
            Begun::Reads(write, reading) => {
                Box::pin(self.write_planned(write, Some(reading), Unreadable::new())).await
            }
            Begun::Writes(topology, mut requested, members) => {
                self.end_writes(&topology, members.iter(), &mut requested).await
            }
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

    /// Writes a stripe by its plan, which may have been begun, around columns that could not be read. The caller holds its
    /// rows and its region.
    pub(super) async fn write_planned(
        &self,
        write: StripeWrite,
        mut begun: Option<Reading>,
        mut unreadable: Unreadable,
    ) -> Result<(), ArrayError> {
        let stripe = write.span.stripe;
        // Which block could not be mended, once that was tried.
        let mut healed: Option<Result<(), ArrayError>> = None;
        loop {
            let is_in_doubt = !self.is_trusted(stripe) && !lives(Mutant::DoubtfulPlannedAround);
            if is_in_doubt {
                unreadable.clear();
            }
            let (topology, mut begun) = match begun.take() {
                Some(begun) => begun,
                None => {
                    let topology = self.topology.load();
                    if topology.failed {
                        return Err(ArrayError::Failed);
                    }
                    let selection = self.selection.load();
                    let mut begun = Box::<(Planned, Reads)>::default();
                    let (planned, reads) = &mut *begun;
                    self.look(&topology, &write.span, &unreadable, &mut planned.state);
                    match self.plan(&**selection, &topology, &write.span, planned) {
                        Ok(()) => {
                            self.request_reads(&topology, stripe, &planned.plan, reads);
                            (topology, begun)
                        }
                        Err(_)
                            if !unreadable.is_empty()
                                && healed.is_none()
                                && !lives(Mutant::BadRowsNotMended) =>
                        {
                            // Bad blocks of several members in different rows: mended block by block, then tried once
                            // more. One that cannot be mended may be none that the write needs.
                            let rows = touched_rows(&write.span, self.geometry.chunk_bytes());
                            // In a box: rarely wanted, and so large that it would make up most of every write.
                            match Box::pin(self.heal_rows(stripe, &unreadable, rows)).await {
                                mended @ (Ok(()) | Err(ArrayError::Unreadable { .. })) => {
                                    healed = Some(mended)
                                }
                                Err(error) => return Err(error),
                            }
                            unreadable.clear();
                            continue;
                        }
                        Err(_) => return healed.unwrap_or(Ok(())).and(Err(self.lost(stripe))),
                    }
                }
            };
            let (planned, reads) = &mut *begun;
            wait_all(&mut reads.requested, self.is_metered()).await;
            let mut fetched = Fetched::new();
            let failed = reads.take_in(&mut fetched);
            if !failed.is_empty() {
                let errors = failed.iter().map(|(read, error)| (read.column, *error)).collect();
                self.note_unreadable(&topology, stripe, errors, &mut unreadable).await;
                if !is_in_doubt || !Arc::ptr_eq(&topology, &self.topology.load()) {
                    continue;
                }
                let lost = failed.into_iter().map(|(read, _)| read);
                Box::pin(self.fetch_finely(stripe, lost, &mut fetched)).await?;
            }
            let mut writes = Writes::default();
            self.request_planned(&topology, write, planned, fetched, &mut writes);
            let Writes { mut requested, members } = writes;
            return self.end_writes(&topology, members.into_iter(), &mut requested).await;
        }
    }

    /// Fetches blocks of a stripe where a resync is due and a read failed. The others may tell of another time: only blocks that
    /// their own members cannot read are recovered from them, not whole columns.
    async fn fetch_finely(
        &self,
        stripe: StripeIndex,
        lost: impl Iterator<Item = PlannedRead>,
        fetched: &mut Fetched,
    ) -> Result<(), ArrayError> {
        for PlannedRead { column, rows } in lost {
            let bytes = byte_range(&rows);
            let mut buf = IoBuf::with_len(bytes.len());
            self.recover_finely(stripe, column, bytes, &mut buf).await?;
            fetched.push(Run { column, rows, buf });
        }
        Ok(())
    }

    fn resume(&self, held: Held) -> Guards<'_> {
        let intent = self.intent.as_ref().zip(held.intent).map(|(intent, kept)| intent.resume(kept));
        (self.locks.resume(held.rows), intent)
    }

    /// Looks at what is there of a stripe.
    fn look(&self, topology: &Topology, span: &StripeSpan, unreadable: &Unreadable, state: &mut StripeState) {
        let trusted = self.is_trusted(span.stripe);
        state.set_for_write(&self.geometry, span, trusted, |column| {
            match topology.presence(&self.geometry, span.stripe, column) {
                Presence::Present if unreadable.contains(&column) => Presence::Unreadable,
                presence => presence,
            }
        });
    }

    /// Asks for what the plan reads, all at once.
    fn request_reads(&self, topology: &Topology, stripe: StripeIndex, plan: &Plan, reads: &mut Reads) {
        let start = self.geometry.chunk_start(stripe);
        for (column, ops) in plan.columns.iter().enumerate() {
            let wanted = ops.reads();
            if wanted.is_empty() {
                continue;
            }
            for rows in wanted.runs() {
                let bytes = byte_range(&rows);
                let member =
                    topology.reader(&self.geometry, stripe, column).expect("plans read present columns");
                let buf = IoBuf::with_len(bytes.len());
                reads.requested.push(member.read(start + bytes.start as u64, smallvec![buf]));
                reads.planned.push(PlannedRead { column, rows });
            }
        }
    }

    /// Computes what the plan writes, and asks for that, all at once.
    fn request_planned<'t>(
        &self,
        topology: &'t Topology,
        write: StripeWrite,
        planned: &Planned,
        fetched: Fetched,
        writes: &mut Writes<'t>,
    ) {
        let StripeWrite { span, data, flags } = write;
        let Planned { state, plan } = planned;
        self.count_plan(topology, span.stripe, plan);
        let new = NewData::new(span, self.geometry.chunk_bytes(), data);
        let mut extents = Extents::new();
        compute::compute(plan, state, new, fetched, &mut extents);
        if lives(Mutant::DropParityWrite) {
            extents.retain(|extent| extent.column < self.geometry.data_columns());
        }
        let after_read = |column: usize| !plan.columns[column].reads().is_empty();
        let how = How { flags, after_read: &after_read, cause: Cause::Client };
        self.request_writes(topology, span.stripe, &mut extents, how, writes);
    }

    /// Columns that could not be read: the member fails if it is gone, else its blocks here count as lost.
    pub(super) async fn note_unreadable(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        failed: Vec<(usize, IoError)>,
        unreadable: &mut Unreadable,
    ) {
        for (column, error) in failed {
            let member = topology.reader(&self.geometry, stripe, column).expect("it was just read").clone();
            self.note_read_error(&member, stripe, column, error, Asks::Client).await;
            if !unreadable.contains(&column) {
                unreadable.push(column);
            }
        }
    }

    fn lost(&self, stripe: StripeIndex) -> ArrayError {
        ArrayError::Unreadable { offset_bytes: stripe.0 * self.geometry.stripe_bytes() }
    }
}

/// The rows of a stripe that a span touches, in any column.
pub(crate) fn touched_rows(span: &StripeSpan, chunk_bytes: usize) -> RowSet {
    let rows = span
        .columns(chunk_bytes)
        .map(|column| RowSet::touching(span.in_column(column, chunk_bytes).0))
        .fold(RowSet::EMPTY, |all, rows| all | rows);
    let near = rows & RowSet::range(0..64);
    if lives(Mutant::WideRowsUnseen) && !near.is_empty() { near } else { rows }
}
