//! The events of an array, delivered to all listeners as they happen.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Weak},
    task::Poll,
};

use parking_lot::Mutex;
use stripewise_device::sync::{WaitList, wake_all};

use super::report::{JobKind, JobOutcome};
use crate::shape::geometry::MemberIndex;

/// How many events a listener may leave unread. Further events are counted but not kept.
const UNREAD_MAX: usize = 256;

/// An event of an array. The names in parentheses are those of `mdadm --monitor`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArrayEvent {
    /// A member has left the array: it failed, or was declared failed (`Fail`; `FailSpare` without a role).
    MemberFailed {
        /// The device.
        member: String,
        /// The role that it had, or was being filled for.
        role: Option<MemberIndex>,
    },
    /// More members are lost than the level tolerates: nothing is written any more.
    ArrayFailed,
    /// A device has become a spare.
    SpareAdded {
        /// The device.
        member: String,
    },
    /// A member that was filled is in sync now (`SpareActive`).
    MemberActive {
        /// The device.
        member: String,
        /// Its role.
        role: MemberIndex,
    },
    /// A failed member or a spare was removed.
    MemberRemoved {
        /// The device.
        member: String,
    },
    /// A job has begun or resumed (`RebuildStarted`).
    JobStarted(JobKind),
    /// A job has ended (`RebuildFinished`).
    JobEnded {
        /// The kind of job.
        kind: JobKind,
        /// How it ended.
        outcome: JobOutcome,
        /// Rows of 4 KiB of each member whose redundancy disagreed (`RebuildFinished mismatches found`).
        mismatched_rows: u64,
    },
    /// This many events came while too many were unread.
    Missed(u64),
}

/// The events of an array since this listener was created.
pub struct ArrayEvents(Arc<Queue>);

#[derive(Default)]
struct Queue(Mutex<Unread>);

#[derive(Default)]
struct Unread {
    events: VecDeque<ArrayEvent>,
    /// No more events will come.
    is_over: bool,
    waiting: WaitList,
}

impl Unread {
    fn add(&mut self, event: ArrayEvent) {
        if self.events.len() < UNREAD_MAX {
            return self.events.push_back(event);
        }
        match self.events.back_mut() {
            Some(ArrayEvent::Missed(count)) => *count += 1,
            _ => self.events.push_back(ArrayEvent::Missed(1)),
        }
    }
}

impl Queue {
    fn change(&self, f: impl FnOnce(&mut Unread)) {
        let wakers = {
            let mut unread = self.0.lock();
            f(&mut unread);
            unread.waiting.take()
        };
        wake_all(wakers);
    }
}

impl ArrayEvents {
    /// The next event; None once the array is stopped and all events were read.
    pub async fn next(&mut self) -> Option<ArrayEvent> {
        poll_fn(|cx| {
            let mut unread = self.0.0.lock();
            match unread.events.pop_front() {
                Some(event) => Poll::Ready(Some(event)),
                None if unread.is_over => Poll::Ready(None),
                None => {
                    unread.waiting.add(cx.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// All listeners.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<(Vec<Weak<Queue>>, bool)>);

impl Listeners {
    /// Adds a listener.
    pub(crate) fn listen(&self) -> ArrayEvents {
        let queue = Arc::new(Queue::default());
        let mut listeners = self.0.lock();
        queue.0.lock().is_over = listeners.1;
        listeners.0.retain(|listener| listener.strong_count() > 0);
        listeners.0.push(Arc::downgrade(&queue));
        ArrayEvents(queue)
    }

    /// Tells all listeners.
    pub(crate) fn tell(&self, event: &ArrayEvent) {
        self.for_each(|queue| queue.change(|unread| unread.add(event.clone())));
    }

    /// No more events will come.
    pub(crate) fn end(&self) {
        self.0.lock().1 = true;
        self.for_each(|queue| queue.change(|unread| unread.is_over = true));
    }

    /// Calls `f` without the lock: code that a waker runs or drops may come back here.
    fn for_each(&self, f: impl Fn(&Queue)) {
        let listening: Vec<_> = self.0.lock().0.iter().filter_map(Weak::upgrade).collect();
        listening.iter().for_each(|queue| f(queue));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn all(events: &mut ArrayEvents) -> Vec<Option<ArrayEvent>> {
        std::iter::from_fn(|| events.next().now_or_never()).take(2 * UNREAD_MAX).collect()
    }

    #[test]
    fn a_listener_hears_what_happens_from_then_on_and_the_end() {
        let listeners = Listeners::default();
        listeners.tell(&ArrayEvent::ArrayFailed);
        let mut events = listeners.listen();
        let started = ArrayEvent::JobStarted(JobKind::Check);
        listeners.tell(&started);
        assert_eq!(all(&mut events), [Some(started)]);
        listeners.end();
        assert_eq!(events.next().now_or_never(), Some(None));
        assert_eq!(listeners.listen().next().now_or_never(), Some(None), "it is over");
    }

    #[test]
    fn what_a_slow_listener_misses_is_counted_in_its_place() {
        let (listeners, failed) = (Listeners::default(), ArrayEvent::ArrayFailed);
        let mut events = listeners.listen();
        (0..UNREAD_MAX + 3).for_each(|_| listeners.tell(&failed));
        assert_eq!(events.next().now_or_never(), Some(Some(failed.clone())));
        assert_eq!(events.next().now_or_never(), Some(Some(failed.clone())));
        listeners.tell(&ArrayEvent::JobStarted(JobKind::Check));
        let heard = all(&mut events);
        assert_eq!(heard.len(), UNREAD_MAX);
        assert_eq!(heard[UNREAD_MAX - 2], Some(ArrayEvent::Missed(3)));
        assert_eq!(heard[UNREAD_MAX - 1], Some(ArrayEvent::JobStarted(JobKind::Check)));
    }
}
