//! The events of each time: wakers of sleeping tasks, and the next events of modelled disks.

use std::{cmp::Reverse, collections::BinaryHeap, task::Waker};

use smallvec::SmallVec;
use stripewise_device::Timestamp;

/// A thing in the world that changes by itself at known times, such as a disk.
pub(crate) trait EventSource: Send + Sync {
    /// Its next event is due. It adds the wakers of tasks that wait for the event's results to `wakers`. It
    /// must not call the executor meanwhile.
    fn fire(&self, now: Timestamp, wakers: &mut Wakers) -> Fired;
}

/// Tasks to be woken, in order.
pub(crate) type Wakers = SmallVec<[Waker; 4]>;

/// The result of a source's event.
pub(crate) struct Fired {
    /// A word that stands for it in the trace.
    pub(crate) event: u64,
    /// The time of its next event.
    pub(crate) next: Option<Timestamp>,
}

/// Timers and events, in the order of time, then in the order in which they were set.
#[derive(Default)]
pub(crate) struct Timers {
    /// Wakers by slot.
    heap: BinaryHeap<Reverse<(Turn, usize)>>,
    next_order: u64,
    /// By slot. A slot is reused only when its heap entry has come up.
    wakers: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// By source: its next event. Searching these few is faster than keeping a heap in which most entries
    /// become stale.
    armed: Vec<Turn>,
    /// The first of them.
    first_event: Turn,
}

/// When something is due: the time in the upper half of a number, then the order of setting, then the source,
/// if it is one. The first of several is their minimum, found without unpredictable branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(u128);

/// Bits of a turn for the source's number; 48 are left for the order.
const SOURCE_BITS: u32 = 16;
/// The most sources that turns can tell apart.
const SOURCES_MAX: usize = 1 << SOURCE_BITS;

impl Default for Turn {
    fn default() -> Self {
        Self::NEVER
    }
}

impl Turn {
    const NEVER: Self = Self(u128::MAX);

    fn new(time: Timestamp, order: u64, source: usize) -> Self {
        Self(u128::from(time.0) << 64 | u128::from(order << SOURCE_BITS | source as u64))
    }

    fn source(self) -> usize {
        self.0 as usize & (SOURCES_MAX - 1)
    }

    fn time(self) -> Timestamp {
        Timestamp((self.0 >> 64) as u64)
    }

    /// The time, unless it is never.
    fn known(self) -> Option<Timestamp> {
        (self != Self::NEVER).then(|| self.time())
    }
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
        let turn = self.turn(deadline, 0);
        self.heap.push(Reverse((turn, slot)));
        slot
    }

    /// The waker in a slot that is not due yet.
    pub(crate) fn waker_mut(&mut self, slot: usize) -> &mut Option<Waker> {
        &mut self.wakers[slot]
    }

    pub(crate) fn add_source(&mut self) -> usize {
        assert!(self.armed.len() < SOURCES_MAX, "a world has at most {SOURCES_MAX} modelled disks");
        self.armed.push(Turn::NEVER);
        self.armed.len() - 1
    }

    /// A source's next event is at that time, or never.
    pub(crate) fn arm(&mut self, source: usize, time: Option<Timestamp>) {
        if self.armed[source].known() != time {
            let turn = time.map_or(Turn::NEVER, |time| self.turn(time, source));
            self.set_event(source, turn);
        }
    }

    fn set_event(&mut self, source: usize, turn: Turn) {
        let before = std::mem::replace(&mut self.armed[source], turn);
        self.first_event = if before == self.first_event {
            self.armed.iter().copied().min().unwrap_or_default()
        } else {
            self.first_event.min(turn)
        };
    }

    /// The turn of an entry that is set now.
    fn turn(&mut self, time: Timestamp, source: usize) -> Turn {
        self.next_order += 1;
        Turn::new(time, self.next_order, source)
    }

    /// The turn of the next waker, if one comes before the next event.
    fn first_waker(&mut self) -> Option<Turn> {
        while let Some(&Reverse((turn, slot))) = self.heap.peek()
            && turn < self.first_event
        {
            if self.wakers[slot].is_some() {
                return Some(turn);
            }
            // The timer was removed.
            self.heap.pop();
            self.free.push(slot);
        }
        None
    }

    /// A quick check whether something may be due by a time.
    #[inline]
    pub(crate) fn may_be_due(&self, by: Timestamp) -> bool {
        let is_due = |turn: Turn| turn.time() <= by;
        is_due(self.first_event) || self.heap.peek().is_some_and(|Reverse((turn, _))| is_due(*turn))
    }

    /// Takes the next entry that is due by a time, and returns when it is due.
    pub(crate) fn pop_due(&mut self, by: Timestamp) -> Option<(Timestamp, Due)> {
        if let Some(turn) = self.first_waker() {
            let Reverse((_, slot)) = (turn.time() <= by).then(|| self.heap.pop())??;
            self.free.push(slot);
            return self.wakers[slot].take().map(|waker| (turn.time(), Due::Waker(waker)));
        }
        let source = self.first_event.source();
        let time = self.first_event.known().filter(|time| *time <= by)?;
        self.set_event(source, Turn::NEVER);
        Some((time, Due::Event(source)))
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

    fn due(timers: &mut Timers, by: u64) -> Vec<(u64, &'static str)> {
        std::iter::from_fn(|| timers.pop_due(Timestamp(by)))
            .map(|(time, due)| match due {
                Due::Waker(_) => (time.0, "waker"),
                Due::Event(_) => (time.0, "event"),
            })
            .collect()
    }

    #[test]
    fn what_was_taken_back_does_not_come_up() {
        let mut timers = Timers::default();
        let early = timers.add_waker(Timestamp(10), noop_waker());
        timers.add_waker(Timestamp(30), noop_waker());
        *timers.waker_mut(early) = None;
        assert!(due(&mut timers, 29).is_empty());
        assert_eq!(due(&mut timers, 30), [(30, "waker")]);
        assert!(due(&mut timers, 100).is_empty());
    }

    #[test]
    fn a_source_has_one_event_at_a_time() {
        let mut timers = Timers::default();
        let source = timers.add_source();
        timers.arm(source, Some(Timestamp(20)));
        timers.arm(source, Some(Timestamp(10)));
        timers.add_waker(Timestamp(10), noop_waker());
        timers.arm(source, Some(Timestamp(10)));
        assert_eq!(due(&mut timers, 100), [(10, "event"), (10, "waker")], "the event at 20 is out of date");
        timers.arm(source, Some(Timestamp(20)));
        timers.arm(source, None);
        assert!(due(&mut timers, 100).is_empty());
    }

    #[test]
    fn all_comes_in_the_order_of_time_and_of_being_set() {
        let mut timers = Timers::default();
        let sources: Vec<_> = (0..3).map(|_| timers.add_source()).collect();
        timers.add_waker(Timestamp(7), noop_waker());
        timers.arm(sources[2], Some(Timestamp(5)));
        timers.arm(sources[0], Some(Timestamp(7)));
        timers.arm(sources[1], Some(Timestamp(5)));
        timers.add_waker(Timestamp(5), noop_waker());
        // Postpones the earliest event.
        timers.arm(sources[2], Some(Timestamp(7)));
        let came = std::iter::from_fn(|| timers.pop_due(Timestamp(7))).map(|(time, due)| match due {
            Due::Waker(_) => (time.0, None),
            Due::Event(source) => (time.0, Some(source)),
        });
        let came: Vec<_> = came.collect();
        assert_eq!(came, [(5, Some(1)), (5, None), (7, None), (7, Some(0)), (7, Some(2))]);
    }

    #[test]
    fn all_wakers_can_be_taken_and_events_stay() {
        let mut timers = Timers::default();
        let source = timers.add_source();
        timers.arm(source, Some(Timestamp(5)));
        timers.add_waker(Timestamp(1), noop_waker());
        assert_eq!(timers.take_wakers().len(), 1);
        assert_eq!(due(&mut timers, 100), [(5, "event")]);
    }
}
