//! The tasks of an open array: one runs jobs, one does housekeeping.

use std::{
    collections::BTreeSet,
    iter,
    ops::Range,
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt, future::select, stream};
use stripewise_device::Timestamp;
use stripewise_format::extension::{Job, JobKind as DiskJobKind};

use super::{
    JobKind, JobOutcome, Jobs, board::Request, report::JobReport, speed::Speed, sweep::Batching,
    verify::Verdict,
};
use crate::{
    error::ArrayError,
    intent::Intent,
    life::Life,
    members::{
        endurance::{NOTE_BYTES_MAX, NOTE_BYTES_MIN, NOTE_INTERVAL_S},
        topology::Incoming,
    },
    metadata::ledger::Ledger,
    mutants::{Mutant, lives},
    shape::geometry::{MemberIndex, StripeIndex},
};

/// Rounds of housekeeping (one a second unless tuned) after which even small amounts written to members are
/// noted.
const NOTE_ROUNDS: u64 = NOTE_INTERVAL_S;

/// Rounds of housekeeping after which blocks that could not be healed, and a resync that could not read
/// everything, are tried again: ten minutes.
const HEAL_RETRY_ROUNDS: u64 = 600;

/// Rounds of housekeeping after which the count of a member's failed reads is halved: an hour.
const READ_ERROR_HALF_LIFE_ROUNDS: u64 = 3600;

/// Clears the bitmap lazily and heals blocks until the array closes. Between rounds it keeps no member open.
pub(crate) async fn run_housekeeping(jobs: Weak<Jobs>, life: Arc<Life>, interval: Duration) {
    for round in 1.. {
        select(pin!(life.env().sleep(interval)), pin!(life.closed())).await;
        let Some(jobs) = jobs.upgrade() else { return };
        let _working = life.work();
        if life.is_closing() || jobs.roster.has_failed() {
            return;
        }
        jobs.keep_house(round).await;
    }
}

/// Runs jobs until the array closes. While there is no job, it keeps no member open.
pub(crate) async fn run_jobs(jobs: Weak<Jobs>) {
    while let Some(jobs) = jobs.upgrade() {
        let (seen, board) = (jobs.board.wishes(), jobs.board.clone());
        let ran = {
            let _working = jobs.life.work();
            if jobs.life.is_closing() {
                return;
            }
            !jobs.roster.has_failed() && jobs.run_next_job().await
        };
        drop(jobs);
        if !ran {
            board.wished(seen).await;
        }
    }
}

/// Why a walk over the stripes ended early.
enum Ended {
    Stopped,
    /// Something more urgent came up; the walk is resumed later.
    Yielded,
    Failed(ArrayError),
}

impl From<ArrayError> for Ended {
    fn from(error: ArrayError) -> Self {
        Self::Failed(error)
    }
}

/// One walk over the stripes. It is never dropped with batches under way: their writes would continue without
/// their rows locked. Instead it is halted and drained.
struct Walk {
    halted: AtomicBool,
    yields: Yields,
}

/// What a walk gives way to.
#[derive(Clone, Copy)]
enum Yields {
    Never,
    /// A change of members, or a member that waits to be filled.
    ToFilling,
    /// The rebuild of a vacant role other than this one. The walk fills a member that will replace one that
    /// still serves.
    ToRebuild(MemberIndex),
}

impl Walk {
    fn new(yields: Yields) -> Self {
        Self { halted: AtomicBool::new(false), yields }
    }

    /// Starts no new batches. Batches under way are waited for.
    fn halt(&self, result: Result<(), Ended>) -> Result<(), Ended> {
        self.halted.store(true, Ordering::Release);
        result
    }
}

/// How a verifying walk ended.
struct Verified {
    result: Result<(), Ended>,
    /// Batches with rows that could not be read but may be readable later.
    unverified: Vec<Range<u64>>,
}

impl Jobs {
    async fn keep_house(&self, round: u64) {
        self.stripes.heal_noted().await;
        if self.stripes.logs_are_behind()
            && let Err(error) = self.stripes.flush_and_unlist().await
        {
            tracing::warn!(%error, "bad blocks that were written back could not be taken off their member's log");
        }
        self.roster.reclaim();
        self.stripes.reclaim();
        if let Some(intent) = self.stripes.intent() {
            if self.roster.take_holders_changed() {
                self.stripes.retry_healing();
                intent.rewrite(&*self.stripes).await;
            }
            self.stripes.cache().iter().for_each(|cache| intent.expect_writes(cache.dirty_stripes()));
            intent.clear_idle(&*self.stripes).await;
        }
        let unnoted_max = if round.is_multiple_of(NOTE_ROUNDS) { NOTE_BYTES_MIN } else { NOTE_BYTES_MAX };
        self.roster.note_written(unnoted_max).await;
        if round.is_multiple_of(HEAL_RETRY_ROUNDS) {
            self.stripes.retry_healing();
            self.board.retry_resync();
        }
        if round.is_multiple_of(READ_ERROR_HALF_LIFE_ROUNDS) {
            for member in self.roster.topology().members() {
                let halve = |errors: u32| Some(errors / 2);
                let _ = member.read_errors.fetch_update(Ordering::Relaxed, Ordering::Relaxed, halve);
            }
        }
    }

    /// Runs the most urgent job. False if there was nothing to do.
    async fn run_next_job(self: &Arc<Self>) -> bool {
        self.roster.forget_change();
        if self.board.take_forgotten() {
            self.note_scrub(None).await;
        }
        let stale = self.stripes.intent().is_some_and(|intent| intent.stale_regions().next().is_some());
        if stale && self.board.may_resync() {
            self.resync().await;
            return true;
        }
        self.roster.take_up_spares().await;
        if let Some((slot, incoming)) = self.next_incoming() {
            self.rebuild(slot, incoming).await;
            return true;
        }
        match self.board.next_request() {
            Some(request) => {
                self.scrub(request).await;
                true
            }
            None => false,
        }
    }

    /// The member to fill next.
    fn next_incoming(&self) -> Option<(MemberIndex, Arc<Incoming>)> {
        let topology = self.roster.topology();
        let filling = topology.slots.iter().enumerate().filter_map(|(index, slot)| {
            Some((slot.primary.is_some(), MemberIndex(index), slot.incoming.clone()?))
        });
        // Vacant roles first: a replaced member still serves.
        filling
            .filter(|(_, _, incoming)| self.board.may_fill(incoming.member.dev_number))
            .min_by_key(|(replacing, slot, _)| (*replacing, *slot))
            .map(|(_, slot, incoming)| (slot, incoming))
    }

    fn start_job(&self, kind: JobKind, slot: Option<MemberIndex>, total_stripes: u64, done_stripes: u64) {
        let mut report = JobReport::new(kind, slot, total_stripes, self.geometry().chunk_bytes() as u64);
        report.started = self.life.env().now();
        report.done_stripes = done_stripes;
        tracing::info!(job = kind.name(), total_stripes, done_stripes, "job starts");
        self.board.start(report);
    }

    /// Notes how a job ended.
    fn end_job(&self, result: Result<(), Ended>) {
        let outcome = match result {
            Ok(()) => JobOutcome::Done,
            Err(Ended::Stopped | Ended::Yielded) => JobOutcome::Stopped,
            Err(Ended::Failed(error)) => JobOutcome::Failed(error.to_string()),
        };
        tracing::info!(?outcome, "job ends");
        self.board.finish(outcome);
    }

    async fn resync(&self) {
        let intent = self.stripes.intent().expect("only levels with a bitmap resync");
        let regions: Vec<usize> = intent.stale_regions().collect();
        let total = regions.iter().map(|region| intent.map.stripes_in(*region)).sum();
        self.start_job(JobKind::Resync, None, total, 0);
        let mut pace = self.pace();
        let (mut result, mut walked) = (Ok(()), Vec::new());
        let mut next_flush = self.next_checkpoint();
        for group in intent.map.groups(&regions) {
            let is_skipped = lives(Mutant::ResyncSkipsRegion) && group[0] % 2 == 1
                || lives(Mutant::ResyncOfFirstGroup) && group[0] != regions[0];
            if is_skipped {
                group.iter().for_each(|region| intent.resynced(*region));
                continue;
            }
            match self.resync_group(intent, group, &mut pace).await {
                Ok((regions, read)) => {
                    walked.extend(regions);
                    result = result.and(read);
                }
                Err(ended) => {
                    if lives(Mutant::StoppedResyncForgets) {
                        group.iter().for_each(|region| intent.resynced(*region));
                    }
                    result = Err(ended);
                    break;
                }
            }
            if self.life.env().now() >= next_flush || self.board.is_paused() {
                if let Err(ended) = self.count_resynced(intent, &mut walked).await {
                    result = Err(ended);
                    break;
                }
                next_flush = self.next_checkpoint();
            }
        }
        let counted = self.count_resynced(intent, &mut walked).await;
        self.end_job(result.and(counted));
        // The healing of bad blocks waited for the resync.
        self.stripes.retry_healing();
    }

    /// Walks some regions. Returns those that are resynced, and what could not be read: that stays marked, unless it is on record as lost,
    /// and the resync continues with the other regions.
    async fn resync_group(
        &self,
        intent: &Intent,
        group: &[usize],
        pace: &mut Speed,
    ) -> Result<(Vec<usize>, Result<(), Ended>), Ended> {
        if self.has_nothing_to_compare() {
            // What a member being filled has here was never compared with the rest: it is filled again.
            let first = intent.map.runs(group).map(|run| run.start).min().map(StripeIndex);
            if let Some(first) = first {
                self.roster.hold_back(first).await?;
            }
            intent.map.runs(group).for_each(|run| self.count_done(&run));
            return Ok((group.to_vec(), Ok(())));
        }
        let walked = self.verify_runs(intent.map.runs(group), true, pace, false).await;
        let unverified = walked.unverified.into_iter().flatten().map(StripeIndex);
        let stale: BTreeSet<usize> = unverified.map(|stripe| intent.map.region_of(stripe)).collect();
        match walked.result {
            Ok(()) | Err(Ended::Failed(ArrayError::Unreadable { .. })) => {
                let regions = group.iter().filter(|region| !stale.contains(region)).copied();
                Ok((regions.collect(), walked.result))
            }
            Err(ended) => Err(ended),
        }
    }

    /// Regions that were walked count as resynced once all that members had there is on the medium: what was mended, and what a program
    /// that was killed had written. Otherwise the next power failure undoes it, perhaps when a member is missing.
    async fn count_resynced(&self, intent: &Intent, walked: &mut Vec<usize>) -> Result<(), Ended> {
        if walked.is_empty() {
            return Ok(());
        }
        if !lives(Mutant::ResyncNotFlushed) {
            self.stripes.flush().await?;
        }
        walked.drain(..).for_each(|region| intent.resynced(region));
        Ok(())
    }

    /// Whether as many members are lost as the level tolerates. Then what is left, whatever it is, defines
    /// what the lost members held.
    fn has_nothing_to_compare(&self) -> bool {
        self.roster.unfailed().is_ok_and(|topology| {
            topology.spare() == 0 || lives(Mutant::DegradedResyncSkipped) && topology.degraded() > 0
        })
    }

    async fn scrub(&self, request: Request) {
        let Request { kind, start_stripe, found } = request;
        let stripes = self.geometry().stripes();
        self.start_job(kind, None, stripes, start_stripe);
        if !lives(Mutant::FindingsForgotten) {
            self.board.update(|job| job.take_over(found));
        }
        let result = match self.roster.check_redundancy_left() {
            Ok(()) => self.scrub_from(start_stripe, kind == JobKind::Repair).await,
            Err(error) => Err(error.into()),
        };
        let Some(job) = self.board.current() else { return };
        let rest = Request { kind, start_stripe: job.done_stripes, found: job.found() };
        // The next opening resumes a scrub that the array's closing interrupts. It also resumes one that gave
        // way, unless an operator stopped it meanwhile.
        let unfinished = match result {
            Err(Ended::Stopped) => self.life.is_closing(),
            Err(Ended::Yielded) => self.board.request_rest(rest) || lives(Mutant::StoppedScrubNoted),
            _ => false,
        };
        let (start_stripe, found) = job.before_unreadable(self.geometry().stripe_bytes());
        let start_stripe = start_stripe + u64::from(lives(Mutant::ScrubResumesLate));
        self.note_scrub(unfinished.then_some(Request { kind, start_stripe, found })).await;
        self.end_job(result);
    }

    async fn scrub_from(&self, start_stripe: u64, mend: bool) -> Result<(), Ended> {
        let mut pace = self.pace();
        let mut result = self
            .verify_runs(iter::once(start_stripe..self.geometry().stripes()), mend, &mut pace, true)
            .await
            .result;
        if mend
            && !lives(Mutant::RepairNotFlushed)
            && let Err(error) = self.stripes.flush().await
        {
            // Mended rows count only once they are on the medium.
            result = result.and(Err(error.into()));
        }
        // Members may have failed meanwhile: from then on there was nothing to compare.
        result = result.and(self.roster.check_redundancy_left().map_err(Ended::from));
        let unreadable = self.board.current().and_then(|job| job.unreadable);
        match unreadable {
            Some(offset_bytes) => result.and(Err(Ended::Failed(ArrayError::Unreadable { offset_bytes }))),
            None => result,
        }
    }

    /// Records where a scrub stands, or that there is none.
    async fn note_scrub(&self, position: Option<Request>) {
        let job = position.map_or(Job::default(), |request| Job {
            kind: if request.kind == JobKind::Repair { DiskJobKind::Repair } else { DiskJobKind::Check },
            paused: self.board.is_paused(),
            position_bytes: self.geometry().chunk_start(StripeIndex(request.start_stripe)),
            mismatches: request.found.mismatched_rows,
        });
        let set_job = |ledger: &mut Ledger| {
            ledger
                .entries
                .iter_mut()
                .filter_map(|entry| entry.header.as_mut())
                .for_each(|header| header.job = job);
        };
        if let Err(error) = self.roster.record(set_job).await {
            tracing::warn!(%error, "where the scrub stands could not be written down");
        }
    }

    /// When what a walk has done is made durable next.
    fn next_checkpoint(&self) -> Timestamp {
        Timestamp(self.life.env().now().0 + self.tuning.checkpoint_interval.as_nanos() as u64)
    }

    fn pace(&self) -> Speed {
        Speed::new(self.life.env().now(), self.life.requests().served())
    }

    /// Batches, each handed out when the job may start it: not paused, not stopped, within the speed limits.
    /// The wait comes before the batch's rows are locked.
    fn paced<'a>(
        &'a self,
        runs: impl Iterator<Item = Range<u64>> + 'a,
        batching: Batching,
        walk: &'a Walk,
        pace: &'a mut Speed,
    ) -> impl Stream<Item = Result<Range<u64>, Ended>> + 'a {
        let chunk_bytes = self.geometry().chunk_bytes();
        let batches = runs.flat_map(move |run| batching.cut(run, chunk_bytes));
        stream::unfold((batches, pace, false), async move |(mut batches, pace, ended)| {
            let over = ended || walk.halted.load(Ordering::Acquire);
            let batch = if over { None } else { batches.next() }?;
            let gate = self.gate(&batch, walk, pace).await;
            let ended = gate.is_err();
            Some((gate.map(|()| batch), (batches, pace, ended)))
        })
    }

    /// Waits until a batch may start.
    async fn gate(&self, batch: &Range<u64>, walk: &Walk, pace: &mut Speed) -> Result<(), Ended> {
        let range = self.geometry().member_range(batch);
        let (now, served, limits) =
            (self.life.env().now(), self.life.requests().served(), self.board.limits());
        let rest = pace.after_batch(now, range.end - range.start, served, limits).unwrap_or_default();
        let rested = Timestamp(now.0 + rest.as_nanos() as u64);
        self.board.update(|job| job.bytes_per_s = pace.bytes_per_s);
        loop {
            let seen = self.board.changes();
            if self.life.is_closing() || self.board.stop_requested() {
                return Err(Ended::Stopped);
            }
            if self.gives_way(walk) {
                return Err(Ended::Yielded);
            }
            if self.board.is_paused() {
                self.board.changed(seen).await;
                continue;
            }
            let now = self.life.env().now();
            if now >= rested || self.board.limits() != limits {
                return Ok(());
            }
            // Sleeps until the time is over, or until the job must stop, pause or take another limit. Other
            // changes do not end the rest.
            select(self.life.env().sleep(rested.since(now)), pin!(self.board.changed(seen))).await;
        }
    }

    fn count_done(&self, batch: &Range<u64>) {
        self.board.update(|job| job.done_stripes += batch.end - batch.start);
    }

    /// Verifies runs of stripes, which are in order. Unreadable rows do not end the walk.
    async fn verify_runs(
        &self,
        runs: impl Iterator<Item = Range<u64>>,
        mend: bool,
        pace: &mut Speed,
        is_scrub: bool,
    ) -> Verified {
        let mend = mend && !(is_scrub && lives(Mutant::RepairMendsNothing));
        let verify = async |batch: Result<Range<u64>, Ended>| {
            let batch = batch?;
            Ok::<_, Ended>((batch.clone(), self.verify(batch, mend).await))
        };
        let walk = Walk::new(if is_scrub { Yields::ToFilling } else { Yields::Never });
        let mut result = Ok(());
        let mut unverified = Vec::new();
        let batching = Batching::of(&self.tuning, &self.roster.topology(), self.geometry().chunk_bytes());
        let batches = self.paced(runs, batching, &walk, pace);
        let mut work = pin!(batches.map(verify).buffered(batching.in_flight));
        while let Some(done) = work.next().await {
            let (batch, Verdict { mismatches, result: verified, leaves_nothing }) = match done {
                Ok(done) => done,
                Err(ended) => {
                    result = walk.halt(Err(ended));
                    continue;
                }
            };
            self.board.update(|job| mismatches.into_iter().for_each(|m| job.add_mismatch(m)));
            match verified {
                Ok(()) => self.count_done(&batch),
                Err(error @ ArrayError::Unreadable { offset_bytes }) => {
                    self.count_done(&batch);
                    self.board.update(|job| job.unreadable = job.unreadable.or(Some(offset_bytes)));
                    if !leaves_nothing {
                        unverified.push(batch);
                    }
                    result = result.and(Err(Ended::Failed(error)));
                }
                Err(error) => result = walk.halt(Err(error.into())),
            }
        }
        Verified { result, unverified }
    }

    /// Whether something more urgent than a walk could start. This must not wait: batches are not polled
    /// while a checkpoint is written, and other tasks would wait behind this one forever.
    fn gives_way(&self, walk: &Walk) -> bool {
        let have_changed = self.roster.has_changed();
        match walk.yields {
            Yields::Never => false,
            Yields::ToFilling => have_changed || self.next_incoming().is_some(),
            Yields::ToRebuild(own) => {
                let is_vacant = |slot: MemberIndex| self.roster.topology().slots[slot.0].primary.is_none();
                let waits = self.next_incoming().is_some_and(|(slot, _)| slot != own && is_vacant(slot));
                // A change under way is no reason to wait here: the gate of the next batch looks again.
                waits || have_changed && self.roster.has_spare_for_role()
            }
        }
    }

    async fn rebuild(&self, slot: MemberIndex, incoming: Arc<Incoming>) {
        let replacing = self.roster.topology().slots[slot.0].primary.is_some();
        let kind = if replacing { JobKind::Replace } else { JobKind::Rebuild };
        let (done, total, pokes) = (incoming.done_stripes(), self.geometry().stripes(), self.board.pokes());
        self.start_job(kind, Some(slot), total, done);
        let yields = if replacing { Yields::ToRebuild(slot) } else { Yields::Never };
        let result = self.fill_range(slot, &incoming, done..total, Walk::new(yields)).await;
        let dev_number = incoming.member.dev_number;
        match &result {
            Ok(()) | Err(Ended::Yielded) => {}
            // The operator knew of all changes up to the stop.
            Err(Ended::Stopped) => self.board.leave_unfilled(dev_number, self.board.pokes()),
            Err(Ended::Failed(_)) => self.board.leave_unfilled(dev_number, pokes),
        }
        self.end_job(result);
    }

    async fn fill_range(
        &self,
        slot: MemberIndex,
        incoming: &Arc<Incoming>,
        stripes: Range<u64>,
        walk: Walk,
    ) -> Result<(), Ended> {
        let mut pace = self.pace();
        let mut next_checkpoint = self.life.env().now();
        let mut result = Ok(());
        {
            let fill = async |batch: Result<Range<u64>, Ended>| {
                Ok::<_, Ended>(self.fill(slot, incoming, batch?).await?)
            };
            let batching = Batching::of(&self.tuning, &self.roster.topology(), self.geometry().chunk_bytes());
            let last = StripeIndex(stripes.end - 1);
            let is_short = self.geometry().chunk_len(last) < self.geometry().chunk_bytes();
            let left_out = u64::from(is_short && lives(Mutant::TailLeftUnfilled));
            let stripes = stripes.start..stripes.end - left_out;
            let batches = self.paced(iter::once(stripes), batching, &walk, &mut pace);
            let mut work = pin!(batches.map(fill).buffered(batching.in_flight));
            while let Some(filled) = work.next().await {
                match filled {
                    // Batches after a failed one do not count.
                    Ok(_) if result.is_err() && !lives(Mutant::UnfilledBatchPassed) => continue,
                    Ok(filled) => {
                        incoming.advance(filled.stripes.end);
                        self.count_done(&filled.stripes);
                    }
                    Err(ended) => result = walk.halt(Err(ended)),
                }
                if result.is_ok() && self.life.env().now() >= next_checkpoint {
                    if let Err(error) = self.checkpoint(slot, incoming).await {
                        result = walk.halt(Err(error.into()));
                    }
                    next_checkpoint = self.next_checkpoint();
                }
            }
        }
        if result.is_err() {
            // What is filled so far is kept for the next opening.
            self.checkpoint(slot, incoming).await?;
            return result;
        }
        self.promote(slot, incoming).await?;
        Ok(())
    }
}
