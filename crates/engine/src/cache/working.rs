//! The reserve: a part of the cache's memory for what destages work with, old blocks and parity. So a destage never waits
//! for memory that only another destage could free. It waits for others to end, if they work with all of the reserve, and
//! then they take their queue.

use std::{collections::BTreeSet, future::poll_fn, task::Poll};

use stripewise_device::sync::{WaitList, seam::Mutex, wake_all};

use super::Cache;
use crate::{
    mutants::{Mutant, lives},
    shape::rows::{BLOCK_BYTES, RowSet},
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
    /// How many destages have come.
    came: u64,
    /// Those that wait, by when they came.
    waiting: BTreeSet<u64>,
    tasks: WaitList,
}

impl Reserve {
    /// Of a cache of so many bytes.
    pub(super) fn of(size: usize) -> Self {
        Self { bytes: (size / RESERVE_PARTS).min(RESERVE_MAX), queue: Mutex::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A place in the queue of destages.
    fn line_up(&self) -> Place<'_> {
        let mut queue = self.queue.lock();
        queue.came += 1;
        let number = queue.came;
        queue.waiting.insert(number);
        Place { reserve: self, number }
    }

    /// Lets a part of the memory be used by others, or a place in the queue.
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let tasks = {
            let mut queue = self.queue.lock();
            change(&mut queue);
            queue.tasks.take()
        };
        wake_all(tasks);
    }
}

/// A destage in the queue, until this is dropped.
struct Place<'a> {
    reserve: &'a Reserve,
    number: u64,
}

impl Place<'_> {
    /// Takes so many bytes, if it is this one's turn. One destage may always work, however much it takes.
    fn take(&self, queue: &mut Queue, bytes: usize) -> bool {
        let may = queue.used == 0 || queue.used + bytes <= self.reserve.bytes;
        let takes = may && queue.waiting.first() == Some(&self.number);
        queue.used += if takes { bytes } else { 0 };
        takes
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.reserve.change(|queue| {
            queue.waiting.remove(&self.number);
        });
    }
}

/// Memory that a destage works with, until this is dropped.
pub(crate) struct Working<'a> {
    reserve: &'a Reserve,
    bytes: usize,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if !lives(Mutant::ReserveKept) {
            self.reserve.change(|queue| queue.used -= self.bytes);
        }
    }
}

impl Cache {
    /// Waits until a destage of some rows, of an array with so many members, may work. Those that do never wait for this.
    pub(crate) async fn working_memory(&self, rows: RowSet, members: usize) -> Working<'_> {
        let bytes = rows.len() * members * BLOCK_BYTES;
        let place = self.reserve.line_up();
        poll_fn(|context| {
            let mut queue = self.reserve.queue.lock();
            if place.take(&mut queue, bytes) {
                return Poll::Ready(Working { reserve: &self.reserve, bytes });
            }
            queue.tasks.add(context.waker());
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(place: &Place<'_>, bytes: usize) -> bool {
        let taken = place.take(&mut place.reserve.queue.lock(), bytes);
        if taken {
            place.reserve.queue.lock().waiting.remove(&place.number);
        }
        taken
    }

    #[test]
    fn one_destage_may_always_work_and_others_within_the_reserve() {
        let reserve = Reserve::of(16 << 20);
        assert_eq!((reserve.bytes(), Reserve::of(1 << 40).bytes()), (1 << 20, 32 << 20));
        let (large, small) = (reserve.line_up(), reserve.line_up());
        assert!(take(&large, 3 << 20) && !take(&small, 1));
        reserve.change(|queue| queue.used = 0);
        assert!(take(&small, 1 << 19) && take(&reserve.line_up(), 1 << 19) && !take(&reserve.line_up(), 1));
    }

    #[test]
    fn small_destages_do_not_overtake_a_large_one() {
        let reserve = Reserve::of(16 << 20);
        let (first, large, small) = (reserve.line_up(), reserve.line_up(), reserve.line_up());
        assert!(take(&first, 1 << 19) && !take(&large, 3 << 20) && !take(&small, 1));
        reserve.change(|queue| queue.used = 0);
        assert!(!take(&small, 1) && take(&large, 3 << 20));
        // One that is given up is in nobody's way.
        reserve.change(|queue| queue.used = 0);
        let given_up = reserve.line_up();
        drop((small, given_up));
        assert!(take(&reserve.line_up(), 1));
    }
}
