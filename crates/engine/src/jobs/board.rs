//! What is asked of the background jobs, and how they stand.

use std::{
    collections::VecDeque,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use stripewise_device::{
    Timestamp,
    sync::{WaitList, wake_all},
};

use crate::{
    mutants::{Mutant, lives},
    shape::geometry::MemberIndex,
};

/// The kinds of background job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Makes parity (or mirrors) agree with data after a crash or creation.
    Resync,
    /// Fills a new member.
    Rebuild,
    /// Fills a member that takes a living one's place.
    Replace,
    /// Reads all and counts what disagrees.
    Check,
    /// Reads all and mends what disagrees.
    Repair,
}

impl JobKind {
    /// The job's name, as `status` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resync => "resync",
            Self::Rebuild => "rebuild",
            Self::Replace => "replace",
            Self::Check => "check",
            Self::Repair => "repair",
        }
    }
}

/// How fast jobs may go, in bytes of each member a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpeedLimits {
    /// What jobs may take while clients are busy.
    pub min_bytes_per_s: u64,
    /// What jobs may take at most.
    pub max_bytes_per_s: u64,
}

impl Default for SpeedLimits {
    fn default() -> Self {
        Self { min_bytes_per_s: 50 << 20, max_bytes_per_s: u64::MAX }
    }
}

/// A stripe in which redundancy disagreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// The stripe's index.
    pub stripe: u64,
    /// How many of its rows disagreed.
    pub rows: u32,
}

/// Mismatching stripes kept for people; the counts go on beyond.
const MISMATCHES_KEPT_MAX: usize = 1000;

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// All done.
    Done,
    /// Stopped by request or with the array.
    Stopped,
    /// Could not go on, for this reason.
    Failed(String),
}

/// A job under way or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReport {
    /// Which.
    pub kind: JobKind,
    /// The role that is being filled, for rebuild and replace.
    pub slot: Option<MemberIndex>,
    /// Stripes done.
    pub done_stripes: u64,
    /// Stripes to do.
    pub total_stripes: u64,
    /// Bytes of each member that one stripe takes.
    pub chunk_bytes: u64,
    /// Rows (4 KiB of each member) that disagreed.
    pub mismatched_rows: u64,
    /// The first of the stripes that they were in.
    pub mismatches: Vec<Mismatch>,
    /// Where in the array something could not be read and was passed over: the block, or the stripe if it is parity that is lost.
    pub unreadable: Option<u64>,
    /// Whether an operator has paused it.
    pub paused: bool,
    /// Recent speed in bytes of each member a second.
    pub bytes_per_s: u64,
    /// When it was started (or went on).
    pub started: Timestamp,
    /// How it ended, if it has.
    pub outcome: Option<JobOutcome>,
}

impl JobReport {
    pub(crate) fn new(
        kind: JobKind,
        slot: Option<MemberIndex>,
        total_stripes: u64,
        chunk_bytes: u64,
    ) -> Self {
        Self {
            kind,
            slot,
            done_stripes: 0,
            total_stripes,
            chunk_bytes,
            mismatched_rows: 0,
            mismatches: Vec::new(),
            unreadable: None,
            paused: false,
            bytes_per_s: 0,
            started: Timestamp::default(),
            outcome: None,
        }
    }

    /// Goes on from what was found before.
    pub(crate) fn take_over(&mut self, found: Found) {
        let Found { mismatched_rows, mismatches, unreadable } = found;
        (self.mismatched_rows, self.mismatches, self.unreadable) = (mismatched_rows, mismatches, unreadable);
    }

    /// Where a scrub is to be gone on with that must be told without what cannot be read: there, at the latest; and what
    /// was found before.
    pub(crate) fn before_unreadable(&self, stripe_bytes: u64) -> (u64, Found) {
        let mut found = self.found();
        let Some(offset_bytes) = found.unreadable.take() else { return (self.done_stripes, found) };
        let stripe = self.done_stripes.min(offset_bytes / stripe_bytes);
        let behind = found.mismatches.iter().filter(|mismatch| mismatch.stripe >= stripe);
        let rows: u64 = behind.map(|mismatch| u64::from(mismatch.rows)).sum();
        found.mismatched_rows = found.mismatched_rows.saturating_sub(rows);
        found.mismatches.retain(|mismatch| mismatch.stripe < stripe);
        (stripe, found)
    }

    /// What was found so far.
    pub(crate) fn found(&self) -> Found {
        let (mismatched_rows, unreadable) = (self.mismatched_rows, self.unreadable);
        Found { mismatched_rows, mismatches: self.mismatches.clone(), unreadable }
    }

    pub(crate) fn add_mismatch(&mut self, mismatch: Mismatch) {
        self.mismatched_rows = self.mismatched_rows.saturating_add(mismatch.rows.into());
        if self.mismatches.len() < MISMATCHES_KEPT_MAX {
            self.mismatches.push(mismatch);
        }
    }
}

/// What an operator asked for and has not been started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: JobKind,
    pub(crate) start_stripe: u64,
    /// What was found before that stripe.
    pub(crate) found: Found,
}

/// What a scrub has found so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Found {
    pub(crate) mismatched_rows: u64,
    pub(crate) mismatches: Vec<Mismatch>,
    pub(crate) unreadable: Option<u64>,
}

/// What becomes of stripes that a resync is due in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Resync {
    /// They are resynced before anything else is done.
    #[default]
    Tried,
    /// The last resync could not read all: it is tried again after another job, or some time later, and keeps no rebuild waiting.
    Failed,
    /// An operator has stopped it: it is tried again when members change, or a scrub is asked for.
    Stopped,
}

impl Resync {
    /// What the end of a job makes of it.
    fn after(self, job: JobKind, outcome: &JobOutcome) -> Self {
        match (job, outcome) {
            (JobKind::Resync, JobOutcome::Done) => Self::Tried,
            (JobKind::Resync, JobOutcome::Failed(_)) => Self::Failed,
            (JobKind::Resync, JobOutcome::Stopped) => Self::Stopped,
            _ if self == Self::Failed => Self::Tried,
            _ => self,
        }
    }

    /// What a change of members, or the wish for a scrub, makes of it.
    fn after_wish(self) -> Self {
        if self == Self::Stopped { Self::Tried } else { self }
    }
}

#[derive(Default)]
struct State {
    current: Option<JobReport>,
    last: Option<JobReport>,
    /// The last check or repair, kept apart: `scrub status` wants it after later rebuilds.
    last_scrub: Option<JobReport>,
    requests: VecDeque<Request>,
    /// Requests were dropped that may be written down on the members.
    forgotten: bool,
    paused: bool,
    stop: bool,
    /// Grows with every change that somebody may wait for.
    changes: u64,
    /// Grows when there may be new work; a job's own end is none, or one that fails would be tried for ever.
    wishes: u64,
    /// The wish up to which the runner has done what can be done.
    idle_since: Option<u64>,
    /// A job that was taken from the requests, and is not current yet.
    beginning: Option<JobKind>,
    /// Members, by device number, whose filling has failed or was stopped: a scrub is no reason to try it again, a change
    /// of members is.
    unfilled: Vec<u32>,
    resync: Resync,
    /// Grows when members change.
    pokes: u64,
    limits: SpeedLimits,
    waiting: WaitList,
}

/// The board on which jobs are asked for and reported.
#[derive(Default)]
pub(crate) struct JobBoard(Mutex<State>);

impl JobBoard {
    fn change<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let (result, wakers) = {
            let mut state = self.0.lock();
            let result = f(&mut state);
            state.changes += 1;
            (result, state.waiting.take())
        };
        wake_all(wakers);
        result
    }

    /// Makes the runner look for work, and everybody who waits look again.
    pub(crate) fn poke(&self) {
        self.change(|state| {
            state.wishes += 1;
            state.unfilled.clear();
            state.resync = state.resync.after_wish();
            state.pokes += 1;
        });
    }

    /// How often members have changed.
    pub(crate) fn pokes(&self) -> u64 {
        self.0.lock().pokes
    }

    /// Filling a member has failed or was stopped; it began when members had changed so often.
    pub(crate) fn leave_unfilled(&self, dev_number: u32, pokes: u64) {
        let mut state = self.0.lock();
        if state.pokes == pokes {
            state.unfilled.push(dev_number);
        }
    }

    /// Whether a member may be filled: nobody gave that up since members last changed.
    pub(crate) fn may_fill(&self, dev_number: u32) -> bool {
        !self.0.lock().unfilled.contains(&dev_number)
    }

    /// Whether a job runs, or would if the runner had looked already.
    pub(crate) fn is_due(&self) -> bool {
        let state = self.0.lock();
        state.current.is_some() || state.idle_since != Some(state.wishes)
    }

    /// Waits for new work after the wish numbered `seen`, up to which nothing is left to be done.
    pub(crate) async fn wished(&self, seen: u64) {
        self.change(|state| state.idle_since = Some(seen));
        std::future::poll_fn(|cx: &mut Context<'_>| {
            let mut state = self.0.lock();
            if state.wishes != seen {
                return Poll::Ready(());
            }
            state.waiting.add(cx.waker());
            Poll::Pending
        })
        .await;
    }

    pub(crate) fn wishes(&self) -> u64 {
        self.0.lock().wishes
    }

    /// Waits for any change after the one numbered `seen`; returns the number of the latest.
    pub(crate) async fn changed(&self, seen: u64) -> u64 {
        std::future::poll_fn(|cx: &mut Context<'_>| {
            let mut state = self.0.lock();
            if state.changes != seen {
                return Poll::Ready(state.changes);
            }
            state.waiting.add(cx.waker());
            Poll::Pending
        })
        .await
    }

    pub(crate) fn changes(&self) -> u64 {
        self.0.lock().changes
    }

    pub(crate) fn request(&self, request: Request) {
        self.change(|state| {
            state.requests.push_back(request);
            state.wishes += 1;
        });
    }

    /// Asks for the rest of a job that gave way. False: an operator has stopped it meanwhile.
    pub(crate) fn request_rest(&self, request: Request) -> bool {
        self.change(|state| {
            if !state.stop {
                state.requests.push_front(request);
                state.wishes += 1;
            }
            !state.stop
        })
    }

    /// Whether a resync may begin where one is due.
    pub(crate) fn may_resync(&self) -> bool {
        self.0.lock().resync == Resync::Tried
    }

    /// A resync that failed may be tried again.
    pub(crate) fn retry_resync(&self) {
        self.change(|state| {
            if state.resync == Resync::Failed && !lives(Mutant::ResyncGivenUp) {
                state.resync = Resync::Tried;
                state.wishes += 1;
            }
        });
    }

    /// Whether requests were dropped since this was last asked.
    pub(crate) fn take_forgotten(&self) -> bool {
        std::mem::take(&mut self.0.lock().forgotten)
    }

    /// Asks for a job, unless one is under way or was asked for already: that one's kind.
    pub(crate) fn request_alone(&self, request: Request) -> Result<(), JobKind> {
        self.change(|state| {
            let current = state.current.as_ref().map(|job| job.kind);
            let asked = || state.requests.front().map(|request| request.kind);
            if let Some(kind) = current.or(state.beginning).or_else(asked) {
                return Err(kind);
            }
            state.requests.push_back(request);
            state.resync = state.resync.after_wish();
            state.wishes += 1;
            Ok(())
        })
    }

    /// Takes the next job that was asked for. It counts as under way from now on.
    pub(crate) fn next_request(&self) -> Option<Request> {
        let mut state = self.0.lock();
        let request = state.requests.pop_front();
        state.beginning = request.as_ref().map(|request| request.kind);
        request
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.change(|state| {
            state.paused = paused;
            state.current.iter_mut().for_each(|job| job.paused = paused);
        });
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.0.lock().paused
    }

    /// Asks the current job to end, and forgets what was asked for.
    pub(crate) fn stop(&self) {
        self.change(|state| {
            if !state.requests.is_empty() {
                state.requests.clear();
                state.forgotten = true;
                state.wishes += 1;
            }
            state.stop = state.current.is_some();
            state.paused = false;
        });
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.0.lock().stop
    }

    pub(crate) fn limits(&self) -> SpeedLimits {
        self.0.lock().limits
    }

    pub(crate) fn set_limits(&self, limits: SpeedLimits) {
        self.change(|state| state.limits = limits);
    }

    pub(crate) fn start(&self, mut job: JobReport) {
        self.change(|state| {
            state.stop = false;
            job.paused = state.paused;
            state.beginning = None;
            state.current = Some(job);
        });
    }

    pub(crate) fn update(&self, f: impl FnOnce(&mut JobReport)) {
        if let Some(job) = &mut self.0.lock().current {
            f(job);
        }
    }

    pub(crate) fn finish(&self, outcome: JobOutcome) {
        self.change(|state| {
            state.stop = false;
            let Some(mut job) = state.current.take() else { return };
            state.resync = state.resync.after(job.kind, &outcome);
            job.outcome = Some(outcome);
            if matches!(job.kind, JobKind::Check | JobKind::Repair) {
                state.last_scrub = Some(job.clone());
            }
            state.last = Some(job);
        });
    }

    pub(crate) fn current(&self) -> Option<JobReport> {
        self.0.lock().current.clone()
    }

    pub(crate) fn last(&self) -> Option<JobReport> {
        self.0.lock().last.clone()
    }

    pub(crate) fn last_scrub(&self) -> Option<JobReport> {
        self.0.lock().last_scrub.clone()
    }
}
