//! How a request in the ring is waited for, and since when it was seen under way.

use std::{mem, task::Waker, time::Instant};

use crate::IoError;

/// A request's state, as its future and the completion find it.
pub(super) enum Waiting {
    /// Under way; the waker of the waiting task, if there is one.
    Task(Option<Waker>),
    /// The kernel is done and the outcome has not been fetched yet.
    Done(Result<u32, IoError>),
    /// The future was dropped: the slot is freed when the kernel is done.
    Orphan,
    /// As the one inside, which is under way; a look at slow requests has come by. Requests that are done before a look pay nothing
    /// for it.
    Seen(Box<Seen>),
}

/// A request that was seen under way.
pub(super) struct Seen {
    waiting: Waiting,
    /// When it was seen first.
    since: Instant,
}

impl Waiting {
    /// Keeps the waker of the task that polls a request under way.
    pub(super) fn keep(&mut self, waker: &Waker) {
        match self {
            Self::Task(Some(known)) if known.will_wake(waker) => {}
            Self::Seen(seen) => seen.waiting.keep(waker),
            waiting => *waiting = Self::Task(Some(waker.clone())),
        }
    }

    /// The future of a request under way was dropped.
    pub(super) fn give_up(&mut self) {
        match self {
            Self::Seen(seen) => seen.waiting.give_up(),
            waiting => *waiting = Self::Orphan,
        }
    }

    /// The kernel is done. Returns how it was waited for.
    pub(super) fn end(&mut self, result: Result<u32, IoError>) -> Self {
        match mem::replace(self, Self::Done(result)) {
            Self::Seen(seen) => seen.waiting,
            waiting => waiting,
        }
    }

    /// Since when a request was seen under way: since now, if it never was. None if the kernel is done.
    pub(super) fn see(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Self::Done(_) => return None,
            Self::Seen(seen) => return Some(seen.since),
            Self::Task(_) | Self::Orphan => {}
        }
        let waiting = mem::replace(self, Self::Orphan);
        *self = Self::Seen(Box::new(Seen { waiting, since: now }));
        Some(now)
    }
}
