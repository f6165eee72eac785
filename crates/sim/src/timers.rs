//! What happens at which time: wakers of sleeping tasks, and the next events of modelled disks.

use std::{cmp::Reverse, collections::BinaryHeap, task::Waker};

use stripewise_device::Timestamp;

/// A thing in the world that changes by itself at known times, such as a disk.
pub(crate) trait EventSource: Send + Sync {
    /// Its next event is due.
    fn fire(&self, now: Timestamp);
}

/// Timers and events, in the order of time, then of their being set.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Timestamp, u64, Alarm)>>,
    next_order: u64,
    /// By slot. A slot is reused only when its heap entry has come up.
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// By source: when its next event is, and which heap entry stands for it. Others of it are out of date.
    armed: Vec<Option<(Timestamp, u64)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Waker(usize),
    Event(usize),
}

/// Something due.
pub(crate) enum Due {
    /// A task to be woken.
    Waker(Waker),
    /// A source to be fired.
    Event(usize),
}

impl Timers {
    pub(crate) fn add_waker(&mut self, deadline: Timestamp, waker: Waker) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.wakers.push(None);
            self.wakers.len() - 1
        });
        self.wakers[slot] = Some(waker);
        self.push(deadline, Alarm::Waker(slot));
        slot
    }

    /// The waker in a slot that has not come up.
    pub(crate) fn waker_mut(&mut self, slot: usize) -> &mut Option<Waker> {
        &mut self.wakers[slot]
    }

    pub(crate) fn add_source(&mut self) -> usize {
        self.armed.push(None);
        self.armed.len() - 1
    }

    /// A source's next event is at that time, or never.
    pub(crate) fn arm(&mut self, source: usize, time: Option<Timestamp>) {
        if self.armed[source].map(|(time, _)| time) == time {
            return;
        }
        self.armed[source] = time.map(|time| (time, self.push(time, Alarm::Event(source))));
    }

    fn push(&mut self, time: Timestamp, alarm: Alarm) -> u64 {
        self.next_order += 1;
        self.heap.push(Reverse((time, self.next_order, alarm)));
        self.next_order
    }

    /// When the next thing is due, if anything is.
    pub(crate) fn next(&mut self) -> Option<Timestamp> {
        while let Some(&Reverse((time, order, alarm))) = self.heap.peek() {
            let current = match alarm {
                Alarm::Waker(slot) => self.wakers[slot].is_some(),
                Alarm::Event(source) => self.armed[source] == Some((time, order)),
            };
            if current {
                return Some(time);
            }
            self.heap.pop();
            self.retire(alarm);
        }
        None
    }

    /// Takes the next thing that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        let Reverse((.., alarm)) = self.heap.pop()?;
        let due = match alarm {
            Alarm::Waker(slot) => self.wakers[slot].take().map(Due::Waker),
            Alarm::Event(source) => self.armed[source].take().map(|_| Due::Event(source)),
        };
        self.retire(alarm);
        due
    }

    /// The heap entry is gone.
    fn retire(&mut self, alarm: Alarm) {
        if let Alarm::Waker(slot) = alarm {
            self.free.push(slot);
        }
    }

    /// Takes all wakers, for tasks that end. Events stay.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        self.wakers.iter_mut().filter_map(Option::take).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker;

    use super::*;

    fn due(timers: &mut Timers, now: u64) -> Vec<&'static str> {
        std::iter::from_fn(|| timers.pop_due(Timestamp(now)))
            .map(|due| match due {
                Due::Waker(_) => "waker",
                Due::Event(_) => "event",
            })
            .collect()
    }

    #[test]
    fn what_was_taken_back_does_not_come_up() {
        let mut timers = Timers::default();
        let early = timers.add_waker(Timestamp(10), noop_waker());
        timers.add_waker(Timestamp(30), noop_waker());
        assert_eq!(timers.next(), Some(Timestamp(10)));
        *timers.waker_mut(early) = None;
        assert_eq!(timers.next(), Some(Timestamp(30)));
        assert!(due(&mut timers, 29).is_empty());
        assert_eq!(due(&mut timers, 30), ["waker"]);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_source_has_one_event_at_a_time() {
        let mut timers = Timers::default();
        let source = timers.add_source();
        timers.arm(source, Some(Timestamp(20)));
        timers.arm(source, Some(Timestamp(10)));
        timers.add_waker(Timestamp(10), noop_waker());
        timers.arm(source, Some(Timestamp(10)));
        assert_eq!(due(&mut timers, 10), ["event", "waker"]);
        assert_eq!(timers.next(), None, "the event at 20 is out of date");
        timers.arm(source, Some(Timestamp(20)));
        timers.arm(source, None);
        assert!(due(&mut timers, 100).is_empty());
    }

    #[test]
    fn all_wakers_can_be_taken_and_events_stay() {
        let mut timers = Timers::default();
        let source = timers.add_source();
        timers.arm(source, Some(Timestamp(5)));
        timers.add_waker(Timestamp(1), noop_waker());
        assert_eq!(timers.take_wakers().len(), 1);
        assert_eq!(timers.next(), Some(Timestamp(5)));
    }
}
