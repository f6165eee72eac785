//! Writes.

use std::{ops::Range, sync::Arc};

use futures_util::future::join_all;
use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, IoError, IoErrorKind, SharedBuf, WriteFlags};

use super::{
    Array, Shared,
    detached::Detached,
    wait::{Requested, wait_all},
};
use crate::{
    compute::{self, Fetched, NewData, Run, Runs, WriteExtent, byte_range},
    error::ArrayError,
    geometry::{StripeIndex, StripeSpan},
    intent::IntentGuard,
    meter::IoClass,
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
struct PlannedRead {
    column: usize,
    rows: Range<usize>,
}

/// Columns whose old content could not be read in this write.
type Unreadable = SmallVec<[usize; 2]>;

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
        let shared = self.shared.clone();
        Detached::start(self.env(), async move { shared.write(offset_bytes, data, flags).await })
    }
}

impl Shared {
    /// Serves a write request.
    pub(crate) async fn write(
        &self,
        offset_bytes: u64,
        data: SharedBuf,
        flags: WriteFlags,
    ) -> Result<(), ArrayError> {
        let _request = self.requests.enter();
        self.check_change(offset_bytes, data.len() as u64)?;
        self.stats.count_write(data.len() as u64);
        self.write_spans(offset_bytes, &data, flags).await
    }

    /// Writes a range that has been checked, a bounded number of stripes at the same time.
    pub(crate) async fn write_spans(
        &self,
        offset_bytes: u64,
        data: &SharedBuf,
        flags: WriteFlags,
    ) -> Result<(), ArrayError> {
        let mut spans = self.geometry.split(offset_bytes..offset_bytes + data.len() as u64);
        let Some(first) = spans.next() else { return Ok(()) };
        let Some(second) = spans.next() else { return self.write_stripe(first, data, flags).await };
        let mut batch: SmallVec<[StripeSpan; 2]> = smallvec![first, second];
        loop {
            batch.extend(spans.by_ref().take(STRIPES_IN_FLIGHT - batch.len()));
            if batch.is_empty() {
                return Ok(());
            }
            let writes = batch.drain(..).map(|span| self.write_stripe(span, data, flags));
            join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
        }
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

    async fn write_stripe(
        &self,
        span: StripeSpan,
        data: &SharedBuf,
        flags: WriteFlags,
    ) -> Result<(), ArrayError> {
        let new = NewData { span, chunk_bytes: self.geometry.chunk_bytes(), buf: data };
        let stripe = span.stripe;
        let rows = touched_rows(&span, self.geometry.chunk_bytes());
        let _rows = self.locks.lock(stripe, rows).await;
        let _intent = self.begin_intent(stripe).await?;
        let mut unreadable = Unreadable::new();
        let mut healed = false;
        loop {
            let topology = self.topology.load_full();
            if topology.failed {
                return Err(ArrayError::Failed);
            }
            let state = self.state_for(&topology, &span, &unreadable);
            let plan = self.plan(&topology, &span, &state);
            let plan = match plan {
                Ok(plan) => plan,
                Err(_) if !unreadable.is_empty() && !healed => {
                    healed = true;
                    // Bad blocks of several members in different rows: mended block by block, then tried once more.
                    self.heal_rows(&topology, stripe, &unreadable, rows).await?;
                    unreadable.clear();
                    continue;
                }
                Err(_) => return Err(self.lost(stripe)),
            };
            let fetched = match self.fetch(&topology, stripe, &plan).await {
                Ok(fetched) => fetched,
                Err(failed) => {
                    self.note_unreadable(&topology, stripe, failed, &mut unreadable).await;
                    continue;
                }
            };
            self.count_plan(&topology, stripe, &plan);
            let mut extents = compute::compute(&plan, &state, &new, fetched);
            if lives(Mutant::DropParityWrite) {
                extents.retain(|extent| extent.column < self.geometry.data_columns());
            }
            let after_read = |column: usize| !plan.columns[column].reads().is_empty();
            self.write_out(&topology, stripe, extents, flags, &after_read, Cause::Client).await?;
            return Ok(());
        }
    }

    fn state_for(&self, topology: &Topology, span: &StripeSpan, unreadable: &Unreadable) -> StripeState {
        let trusted = self.is_trusted(span.stripe);
        StripeState::for_write(&self.geometry, span, trusted, |column| {
            match topology.presence(&self.geometry, span.stripe, column) {
                Presence::Present if unreadable.contains(&column) => Presence::Unreadable,
                presence => presence,
            }
        })
    }

    /// Reads what the plan needs, all at once.
    async fn fetch(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        plan: &Plan,
    ) -> Result<Fetched, Vec<(usize, IoError)>> {
        let mut reads: SmallVec<[PlannedRead; 8]> = SmallVec::new();
        let mut requested = Requested::new();
        let start = self.geometry.chunk_start(stripe);
        for (column, ops) in plan.columns.iter().enumerate() {
            for rows in ops.reads().runs() {
                let bytes = byte_range(&rows);
                let member =
                    topology.reader(&self.geometry, stripe, column).expect("plans read present columns");
                let buf = IoBuf::with_len(bytes.len());
                requested.push(member.read(start + bytes.start as u64, smallvec![buf]));
                reads.push(PlannedRead { column, rows });
            }
        }
        let mut fetched: Fetched = plan.columns.iter().map(|_| Runs::new()).collect();
        let mut failed = Vec::new();
        let results = wait_all(requested, self.is_metered()).await;
        for (PlannedRead { column, rows }, done) in reads.into_iter().zip(results) {
            match done.into_one() {
                Ok(buf) => fetched[column].push(Run { rows, buf }),
                Err(error) => failed.push((column, error)),
            }
        }
        if failed.is_empty() { Ok(fetched) } else { Err(failed) }
    }

    /// Columns that could not be read: the member fails if it is gone, else its blocks here count as lost.
    async fn note_unreadable(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        failed: Vec<(usize, IoError)>,
        unreadable: &mut Unreadable,
    ) {
        for (column, error) in failed {
            let member = topology.reader(&self.geometry, stripe, column).expect("it was just read").clone();
            self.note_read_error(&member, stripe, column, error).await;
            if !unreadable.contains(&column) {
                unreadable.push(column);
            }
        }
    }

    fn lost(&self, stripe: StripeIndex) -> ArrayError {
        ArrayError::Unreadable { offset_bytes: stripe.0 * self.geometry.stripe_bytes() }
    }

    /// Writes all extents at once, fails the members that could not take theirs, and waits until what the write
    /// relied on is recorded. `after_read` tells of each column whether its chunk has just been read,
    /// `cause` for whom that is.
    pub(crate) async fn write_out(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        extents: SmallVec<[WriteExtent; 8]>,
        flags: WriteFlags,
        after_read: &(dyn Fn(usize) -> bool + Sync),
        cause: Cause,
    ) -> Result<(), ArrayError> {
        let flags = if lives(Mutant::AcknowledgeBeforeFua) { WriteFlags::default() } else { flags };
        let start = self.geometry.chunk_start(stripe);
        let mut members: SmallVec<[&Arc<Member>; 8]> = SmallVec::new();
        let mut requested = Requested::new();
        for extent in extents {
            let reader =
                topology.reader(&self.geometry, stripe, extent.column).filter(|_| after_read(extent.column));
            for member in topology.writers(&self.geometry, stripe, extent.column) {
                let was_read = reader.is_some_and(|reader| Arc::ptr_eq(reader, member));
                let class = if was_read { IoClass::Rewrite } else { IoClass::Write };
                let offset = start + extent.start as u64;
                requested.push(member.write_as(class, cause, offset, extent.bufs.clone(), flags));
                members.push(member);
            }
        }
        let results = wait_all(requested, self.is_metered()).await;
        let failed = members.into_iter().zip(results);
        let failed = failed.filter_map(|(member, result)| Some((member.clone(), result.err()?))).collect();
        self.settle(topology, failed).await
    }

    /// After writes: members that failed are dropped from the array, durably, before anything is acknowledged.
    pub(crate) async fn settle(
        &self,
        topology: &Topology,
        failed: Vec<(Arc<Member>, IoError)>,
    ) -> Result<(), ArrayError> {
        if !failed.is_empty() {
            self.fail_all(failed).await?;
        }
        topology.recorded.wait().await;
        // The array may have failed while that was being written down: then nothing was.
        if self.topology.load().failed { Err(ArrayError::Failed) } else { Ok(()) }
    }
}

/// The rows of a stripe that a span touches, in any column.
pub(crate) fn touched_rows(span: &StripeSpan, chunk_bytes: usize) -> RowSet {
    span.columns(chunk_bytes)
        .map(|column| RowSet::touching(span.in_column(column, chunk_bytes).0))
        .fold(RowSet::EMPTY, |all, rows| all | rows)
}

/// Whether a failed request means that the whole member is lost, rather than some of its blocks.
pub(crate) fn is_member_gone(error: &IoError) -> bool {
    matches!(error.kind, IoErrorKind::Gone | IoErrorKind::Truncated)
}
