//! The end of a daemon: once its array has stopped, and those who asked for something have an answer.

use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The longest that a stopped daemon stays for answers that are still due.
const ANSWERS_WAIT: Duration = Duration::from_secs(20);

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

    /// The array has stopped.
    pub(super) fn stopped(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Waits until nothing is left to do.
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
