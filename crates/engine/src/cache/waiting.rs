//! Waiting for the cache to change: writers wait for memory, or for the end of a write past the cache. The destager
//! waits for writers that lack memory.

use std::task::Poll;

use stripewise_device::sync::{WaitList, wake_all};

use super::{
    Cache, WAITS,
    line::{Line, Place},
};

/// How often something has changed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Changes {
    /// Changes that may let one writer go on: room, most often.
    any: u64,
    /// Changes that may let every writer in the line go on, also those whose turn it is not.
    for_all: u64,
    /// Another writer may be next.
    turns: u64,
}

/// Tasks that wait for the cache.
#[derive(Default)]
pub(super) struct Waiting {
    changes: Changes,
    writers: WaitList,
    pub(super) line: Line,
    /// As many blocks are dirty as may be.
    pub(super) is_over: bool,
    /// A writer lacks memory.
    lacks_room: bool,
    destager: WaitList,
}

impl Waiting {
    /// It may be another writer's turn.
    pub(super) fn note_turn(&mut self) {
        self.changes.turns += 1;
    }

    /// Every writer in the line may go on.
    pub(super) fn note_for_line(&mut self) {
        self.changes.for_all += 1;
    }
}

impl Cache {
    /// A writer lacks memory: wakes the destager.
    pub(crate) fn want_room(&self) {
        self.counts.add(WAITS, 1);
        let wakers = {
            let mut waiting = self.waiting.lock();
            waiting.lacks_room = true;
            waiting.destager.take()
        };
        wake_all(wakers);
    }

    /// Whether a writer has lacked memory since this was asked last.
    pub(crate) fn take_want_of_room(&self) -> bool {
        std::mem::take(&mut self.waiting.lock().lacks_room)
    }

    /// Waits until a writer has lacked memory since this was asked last. It is told once: a task that does nothing about it
    /// can rest all the same.
    pub(crate) async fn room_is_wanted(&self) {
        std::future::poll_fn(|cx| {
            let mut waiting = self.waiting.lock();
            if std::mem::take(&mut waiting.lacks_room) {
                return Poll::Ready(());
            }
            waiting.destager.add(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Wakes the writers that wait for a change.
    pub(crate) fn tell_waiting(&self) {
        let wakers = {
            let mut waiting = self.waiting.lock();
            waiting.changes.any += 1;
            waiting.changes.for_all += 1;
            let Waiting { writers, line, .. } = &mut *waiting;
            let mut wakers = writers.take();
            wakers.extend(line.take_all());
            wakers
        };
        wake_all(wakers);
    }

    /// Wakes the writer that is next in the line, if there is room for it perhaps, and those that wait for something else.
    pub(super) fn tell_of_room(&self) {
        let wakers = {
            let mut waiting = self.waiting.lock();
            waiting.changes.any += 1;
            let mut wakers = waiting.writers.take();
            wakers.extend(waiting.line.take_next());
            wakers
        };
        wake_all(wakers);
    }

    /// The number of changes so far.
    pub(crate) fn changes(&self) -> Changes {
        self.waiting.lock().changes
    }

    /// Waits until there were more changes; a writer in the line whose turn it was not, until it is its turn, or something has
    /// changed for all.
    pub(crate) async fn changed(&self, seen: Changes, place: Option<&Place>, was_next: bool) {
        std::future::poll_fn(|cx| {
            let mut waiting = self.waiting.lock();
            let ends = match place {
                Some(place) if !was_next => {
                    waiting.changes.for_all != seen.for_all || waiting.line.next() == Some(place.ticket)
                }
                Some(_) => (waiting.changes.any, waiting.changes.turns) != (seen.any, seen.turns),
                None => waiting.changes.any != seen.any,
            };
            if ends {
                return Poll::Ready(());
            }
            match place {
                Some(place) => waiting.line.wake_later(place.ticket, cx.waker()),
                None => waiting.writers.add(cx.waker()),
            }
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use crate::{
        cache::{Cache, CacheKind, CacheSettings},
        shape::geometry::{Geometry, Level},
    };

    /// A destager that does nothing about it, since its cache is being replaced, must be able to rest.
    #[test]
    fn that_a_writer_lacks_memory_is_told_once() {
        let geometry = Geometry::new(Level::Raid5, 3, 16384, 4 << 20, 512).unwrap();
        let cache = Cache::new(&CacheSettings::new(CacheKind::Stripe, 4 << 20), 4 << 20, &geometry);
        let cache = cache.unwrap().unwrap();
        assert_eq!(cache.room_is_wanted().now_or_never(), None);
        cache.want_room();
        assert_eq!(cache.room_is_wanted().now_or_never(), Some(()));
        assert_eq!(cache.room_is_wanted().now_or_never(), None);
    }
}
