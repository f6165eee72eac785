//! The end of a daemon: it comes once the array has stopped and every client has its answer.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::exports::Users;

/// The longest a stopped daemon waits for answers that are still due.
const ANSWERS_WAIT: Duration = Duration::from_secs(20);

/// How often a signal has asked for the end.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// Counts one more, and returns how many came before.
    pub(super) fn again(&self) -> usize {
        self.0.fetch_add(1, Ordering::AcqRel)
    }

    /// Whether a second signal has come: then the daemon takes the block device from its users.
    pub(super) fn is_hurried(&self) -> bool {
        self.0.load(Ordering::Acquire) > 1
    }

    /// Whether that cuts short what is waited for. What is taken from its users by force has limits of its own.
    pub(super) fn cuts_short(&self, users: Users) -> bool {
        users != Users::Force && self.is_hurried()
    }
}

#[derive(Default)]
pub(super) struct End {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// Requests that were read and have no answer yet.
    unanswered: usize,
}

/// A request that was read. It counts as answered when this is dropped.
pub(super) struct Unanswered<'a>(&'a End);

impl End {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ask(&self) -> Unanswered<'_> {
        self.state().unanswered += 1;
        Unanswered(self)
    }

    /// Notes that the array has stopped.
    pub(super) fn stopped(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Waits until the array has stopped, then, for a limited time, until no answer is due.
    pub(super) fn wait(&self) {
        let running = self.changed.wait_while(self.state(), |state| !state.stopped);
        let state = running.unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout_while(state, ANSWERS_WAIT, |state| state.unanswered > 0));
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.state().unanswered -= 1;
        self.0.changed.notify_all();
    }
}
