//! Requests to the background jobs, and the state of the jobs.

use std::{
    collections::VecDeque,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use stripewise_device::sync::{WaitList, wake_all};

use super::{
    events::{ArrayEvent, Listeners},
    report::{Found, JobKind, JobOutcome, JobReport},
};
use crate::mutants::{Mutant, lives};

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

/// A job that was requested and has not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: JobKind,
    pub(crate) start_stripe: u64,
    /// What was found before that stripe.
    pub(crate) found: Found,
}

/// What happens to stripes where a resync is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Resync {
    /// They are resynced before any other job runs.
    #[default]
    Tried,
    /// The last resync could not read everything. It is tried again after another job or some time later, and
    /// keeps no rebuild waiting.
    Failed,
    /// An operator has stopped the resync. It is tried again when members change or a scrub is requested.
    Stopped,
}

impl Resync {
    /// The state after a job has ended.
    fn after(self, job: JobKind, outcome: &JobOutcome) -> Self {
        match (job, outcome) {
            (JobKind::Resync, JobOutcome::Done) => Self::Tried,
            (JobKind::Resync, JobOutcome::Failed(_)) => Self::Failed,
            (JobKind::Resync, JobOutcome::Stopped) => Self::Stopped,
            _ if self == Self::Failed => Self::Tried,
            _ => self,
        }
    }

    /// The state after members have changed or a scrub was requested.
    fn after_wish(self) -> Self {
        if self == Self::Stopped { Self::Tried } else { self }
    }
}

#[derive(Default)]
struct State {
    current: Option<JobReport>,
    last: Option<JobReport>,
    /// The last check or repair, kept separately: `scrub status` needs it even after later rebuilds.
    last_scrub: Option<JobReport>,
    requests: VecDeque<Request>,
    /// Requests were dropped that may still be recorded on the members.
    forgotten: bool,
    paused: bool,
    stop: bool,
    /// Grows with every change that a task may wait for.
    changes: u64,
    /// Grows when there may be new work. The end of a job does not count, or a job that fails would be tried
    /// forever.
    wishes: u64,
    /// The wish up to which the runner has done all that it can.
    idle_since: Option<u64>,
    /// A job that was taken from the requests but is not current yet.
    beginning: Option<JobKind>,
    /// Members, by device number, whose filling has failed or was stopped. A change of members is a reason to
    /// try again; a scrub is not.
    unfilled: Vec<u32>,
    resync: Resync,
    /// Grows when members change.
    pokes: u64,
    limits: SpeedLimits,
    waiting: WaitList,
}

/// The board where jobs are requested and reported.
#[derive(Default)]
pub(crate) struct JobBoard {
    state: Mutex<State>,
    listeners: Listeners,
}

impl JobBoard {
    fn change<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let (result, wakers) = {
            let mut state = self.state.lock();
            let result = f(&mut state);
            state.changes += 1;
            (result, state.waiting.take())
        };
        wake_all(wakers);
        result
    }

    /// Makes the runner look for work, and every waiting task look again.
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
        self.state.lock().pokes
    }

    /// Gives up filling a member until members next change. Does nothing if they have changed since `pokes`
    /// was read.
    pub(crate) fn leave_unfilled(&self, dev_number: u32, pokes: u64) {
        let mut state = self.state.lock();
        if state.pokes == pokes {
            state.unfilled.push(dev_number);
        }
    }

    /// Whether a member may be filled: filling it was not given up since members last changed.
    pub(crate) fn may_fill(&self, dev_number: u32) -> bool {
        !self.state.lock().unfilled.contains(&dev_number)
    }

    /// Whether a job runs, or might run once the runner has looked.
    pub(crate) fn is_due(&self) -> bool {
        let state = self.state.lock();
        state.current.is_some() || state.idle_since != Some(state.wishes)
    }

    /// Waits for new work after the wish numbered `seen`. Up to that wish nothing is left to do.
    pub(crate) async fn wished(&self, seen: u64) {
        self.change(|state| state.idle_since = Some(seen));
        std::future::poll_fn(|cx: &mut Context<'_>| {
            let mut state = self.state.lock();
            if state.wishes != seen {
                return Poll::Ready(());
            }
            state.waiting.add(cx.waker());
            Poll::Pending
        })
        .await;
    }

    pub(crate) fn wishes(&self) -> u64 {
        self.state.lock().wishes
    }

    /// Waits for any change after the one numbered `seen`. Returns the number of the latest change.
    pub(crate) async fn changed(&self, seen: u64) -> u64 {
        std::future::poll_fn(|cx: &mut Context<'_>| {
            let mut state = self.state.lock();
            if state.changes != seen {
                return Poll::Ready(state.changes);
            }
            state.waiting.add(cx.waker());
            Poll::Pending
        })
        .await
    }

    pub(crate) fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    pub(crate) fn request(&self, request: Request) {
        self.change(|state| {
            state.requests.push_back(request);
            state.wishes += 1;
        });
    }

    /// Requests the rest of a job that gave way. False if an operator has stopped the job meanwhile.
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
        self.state.lock().resync == Resync::Tried
    }

    /// Lets a failed resync be tried again.
    pub(crate) fn retry_resync(&self) {
        self.change(|state| {
            if state.resync == Resync::Failed && !lives(Mutant::ResyncGivenUp) {
                state.resync = Resync::Tried;
                state.wishes += 1;
            }
        });
    }

    /// Whether requests were dropped since the last call.
    pub(crate) fn take_forgotten(&self) -> bool {
        std::mem::take(&mut self.state.lock().forgotten)
    }

    /// Requests a job. If another job is under way or was requested already, the error is that job's kind.
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

    /// Takes the next requested job. It counts as under way from now on.
    pub(crate) fn next_request(&self) -> Option<Request> {
        let mut state = self.state.lock();
        let request = state.requests.pop_front();
        state.beginning = request.as_ref().map(|request| request.kind);
        state.stop = false;
        request
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.change(|state| {
            state.paused = paused;
            state.current.iter_mut().for_each(|job| job.paused = paused);
        });
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().paused
    }

    /// Asks the current job to end and forgets all requests.
    pub(crate) fn stop(&self) {
        self.change(|state| {
            if !state.requests.is_empty() {
                state.requests.clear();
                state.forgotten = true;
                state.wishes += 1;
            }
            state.stop = state.current.is_some() || state.beginning.is_some();
            state.paused = false;
        });
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.state.lock().stop
    }

    pub(crate) fn limits(&self) -> SpeedLimits {
        self.state.lock().limits
    }

    pub(crate) fn set_limits(&self, limits: SpeedLimits) {
        self.change(|state| state.limits = limits);
    }

    pub(crate) fn start(&self, mut job: JobReport) {
        let started = ArrayEvent::JobStarted(job.kind);
        self.change(|state| {
            // A job that was asked for may have been stopped before it came here.
            if state.beginning.take().is_none() {
                state.stop = false;
            }
            job.paused = state.paused;
            state.current = Some(job);
        });
        self.listeners.tell(&started);
    }

    pub(crate) fn update(&self, f: impl FnOnce(&mut JobReport)) {
        if let Some(job) = &mut self.state.lock().current {
            f(job);
        }
    }

    pub(crate) fn finish(&self, outcome: JobOutcome) {
        let ended = self.change(|state| {
            state.stop = false;
            let mut job = state.current.take()?;
            state.resync = state.resync.after(job.kind, &outcome);
            job.outcome = Some(outcome.clone());
            if matches!(job.kind, JobKind::Check | JobKind::Repair) {
                state.last_scrub = Some(job.clone());
            }
            let JobReport { kind, mismatched_rows, .. } = job;
            state.last = Some(job);
            Some(ArrayEvent::JobEnded { kind, outcome, mismatched_rows })
        });
        ended.iter().for_each(|event| self.listeners.tell(event));
    }

    /// The listeners to the array's events.
    pub(crate) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    pub(crate) fn current(&self) -> Option<JobReport> {
        self.state.lock().current.clone()
    }

    pub(crate) fn last(&self) -> Option<JobReport> {
        self.state.lock().last.clone()
    }

    pub(crate) fn last_scrub(&self) -> Option<JobReport> {
        self.state.lock().last_scrub.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(kind: JobKind) -> JobReport {
        JobReport::new(kind, None, 10, 65536)
    }

    #[test]
    fn a_job_that_is_stopped_before_it_begins_stays_stopped() {
        let board = JobBoard::default();
        board.request(Request { kind: JobKind::Check, start_stripe: 0, found: Found::default() });
        board.next_request().unwrap();
        board.stop();
        board.start(job(JobKind::Check));
        assert!(board.stop_requested());
        board.finish(JobOutcome::Stopped);
        board.start(job(JobKind::Resync));
        assert!(!board.stop_requested(), "it was asked of another job");
    }
}
