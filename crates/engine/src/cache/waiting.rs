//! Waiting for the cache to change: writers wait for memory, or for the end of a write past the cache. The destager
//! waits for writers that lack memory.

use std::task::Poll;

use stripewise_device::sync::{WaitList, wake_all};

use super::{Cache, WAITS};

/// Tasks that wait for the cache.
#[derive(Default)]
pub(super) struct Waiting {
    changes: u64,
    writers: WaitList,
    /// A writer lacks memory.
    lacks_room: bool,
    destager: WaitList,
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
            waiting.changes += 1;
            waiting.writers.take()
        };
        wake_all(wakers);
    }

    /// The number of changes so far.
    pub(crate) fn changes(&self) -> u64 {
        self.waiting.lock().changes
    }

    /// Waits until there were more changes.
    pub(crate) async fn changed(&self, seen: u64) {
        std::future::poll_fn(|cx| {
            let mut waiting = self.waiting.lock();
            if waiting.changes != seen {
                return Poll::Ready(());
            }
            waiting.writers.add(cx.waker());
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
