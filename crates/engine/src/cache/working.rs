//! The reserve: a part of the cache's memory for what destages work with, old blocks and parity. So a destage never waits
//! for memory that only another destage could free. It waits for others to end, if they work with all of the reserve, and
//! then they take their queue.
//!
//! Memory that becomes free is granted to those in the queue by the task that frees it. Their own tasks may come to run
//! much later: while the reserve has room, no other destage waits for them to take what is theirs.

use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Poll, Waker},
};

use stripewise_device::sync::{seam::Mutex, wake_all};

use super::Cache;
use crate::{
    mutants::{Mutant, lives},
    shape::rows::BLOCK_BYTES,
};

/// One part of the memory in so many is the reserve.
const RESERVE_PARTS: usize = 16;
/// The most: as much keeps the queues of members full.
const RESERVE_MAX: usize = 32 << 20;

/// How much memory destages may work with, and which of them do, or wait.
pub(super) struct Reserve {
    bytes: usize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    used: usize,
    /// How many destages have waited.
    came: u64,
    waiting: VecDeque<Waits>,
}

/// A destage in the queue.
struct Waits {
    number: u64,
    bytes: usize,
    task: Option<Waker>,
}

impl Reserve {
    /// Of a cache of so many bytes.
    pub(super) fn of(size: usize) -> Self {
        Self { bytes: (size / RESERVE_PARTS).min(RESERVE_MAX), queue: Mutex::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes memory if there is enough and no destage waits; else lines up.
    fn take(&self, bytes: usize) -> Place<'_> {
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() && self.has(&queue, bytes) {
            queue.used += bytes;
            return Place { reserve: self, number: 0, bytes };
        }
        queue.came += 1;
        let number = queue.came;
        queue.waiting.push_back(Waits { number, bytes, task: None });
        Place { reserve: self, number, bytes }
    }

    /// One destage may always work, however much it takes.
    fn has(&self, queue: &Queue, bytes: usize) -> bool {
        queue.used == 0 || queue.used + bytes <= self.bytes
    }

    /// Changes the queue, and grants what is free to those that are first in it.
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let mut tasks = Vec::new();
        {
            let mut queue = self.queue.lock();
            change(&mut queue);
            while queue.waiting.front().is_some_and(|first| self.has(&queue, first.bytes)) {
                let granted = queue.waiting.pop_front().expect("there is a first one");
                queue.used += granted.bytes;
                tasks.extend(granted.task);
            }
        }
        wake_all(tasks);
    }
}

/// Memory that a destage works with, or its place in the queue for it, until this is dropped.
pub(crate) struct Place<'a> {
    reserve: &'a Reserve,
    /// Zero if it has not waited.
    number: u64,
    bytes: usize,
}

impl Place<'_> {
    /// Whether the memory is there. If not, the task is woken once it is.
    fn poll(&self, task: &Waker) -> Poll<()> {
        if self.number == 0 {
            return Poll::Ready(());
        }
        let mut queue = self.reserve.queue.lock();
        match queue.waiting.iter_mut().find(|waits| waits.number == self.number) {
            Some(waits) => {
                waits.task = Some(task.clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if lives(Mutant::ReserveKept) {
            return;
        }
        self.reserve.change(|queue| {
            match queue.waiting.iter().position(|waits| waits.number == self.number) {
                Some(at) => drop(queue.waiting.remove(at)),
                None => queue.used -= self.bytes,
            }
        });
    }
}

impl Cache {
    /// Waits until a destage may work with so many blocks. Those that do never wait for this. The caller holds its rows.
    pub(crate) async fn working_memory(&self, blocks: usize) -> Place<'_> {
        let place = self.reserve.take(blocks * BLOCK_BYTES);
        poll_fn(|context| place.poll(context.waker())).await;
        place
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn has(place: &Place<'_>) -> bool {
        place.poll(Waker::noop()).is_ready()
    }

    #[test]
    fn one_destage_may_always_work_and_others_within_the_reserve() {
        let reserve = Reserve::of(16 << 20);
        assert_eq!((reserve.bytes(), Reserve::of(1 << 40).bytes()), (1 << 20, 32 << 20));
        let (large, small) = (reserve.take(3 << 20), reserve.take(1));
        assert!(has(&large) && !has(&small));
        drop(large);
        let (half, nearly_half, too_much) =
            (reserve.take(1 << 19), reserve.take((1 << 19) - 1), reserve.take(1));
        assert!(has(&small) && has(&half) && has(&nearly_half) && !has(&too_much));
    }

    #[test]
    fn small_destages_do_not_overtake_a_large_one() {
        let reserve = Reserve::of(16 << 20);
        let (first, large, small) = (reserve.take(1 << 19), reserve.take(3 << 20), reserve.take(1));
        assert!(has(&first) && !has(&large) && !has(&small));
        drop(first);
        assert!(has(&large) && !has(&small));
        drop(large);
        assert!(has(&small));
    }

    /// The task of the one that waits may be far from running: it must be in nobody's way.
    #[test]
    fn what_was_granted_and_not_yet_seen_keeps_no_others_waiting() {
        let reserve = Reserve::of(16 << 20);
        let (first, waits) = (reserve.take(1 << 20), reserve.take(1 << 19));
        drop(first);
        assert!(has(&reserve.take(1 << 19)), "the other half is free");
        assert!(has(&waits));
    }

    #[test]
    fn one_that_is_given_up_is_in_nobodys_way() {
        let reserve = Reserve::of(16 << 20);
        let (first, given_up, next) = (reserve.take(1 << 19), reserve.take(3 << 20), reserve.take(1));
        drop(given_up);
        assert!(has(&next));
        let granted = reserve.take(3 << 20);
        drop((first, next, granted));
        assert_eq!(reserve.queue.lock().used, 0);
    }
}
