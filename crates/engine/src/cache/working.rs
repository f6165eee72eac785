//! The reserve: a part of the cache's memory for what destages work with, old blocks and parity. So a destage never waits
//! for memory that only another destage could free. It waits for others to end, if they work with all of the reserve.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Cache;
use crate::{
    mutants::{Mutant, lives},
    shape::rows::{BLOCK_BYTES, RowSet},
};

/// One part of the memory in so many is the reserve.
const RESERVE_PARTS: usize = 16;
/// The most: as much keeps the queues of members full.
const RESERVE_MAX: usize = 32 << 20;

/// How much memory destages may work with, and how much they do.
pub(super) struct Reserve {
    bytes: usize,
    used: AtomicUsize,
}

impl Reserve {
    /// Of a cache of so many bytes.
    pub(super) fn of(size: usize) -> Self {
        Self { bytes: (size / RESERVE_PARTS).min(RESERVE_MAX), used: AtomicUsize::new(0) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes so many bytes. One destage may always work, however much it takes.
    fn take(&self, bytes: usize) -> bool {
        let more = |used: usize| (used == 0 || used + bytes <= self.bytes).then_some(used + bytes);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }
}

/// Memory that a destage works with, until this is dropped.
pub(crate) struct Working<'a> {
    cache: &'a Cache,
    bytes: usize,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if !lives(Mutant::ReserveKept) {
            self.cache.reserve.used.fetch_sub(self.bytes, Ordering::SeqCst);
        }
        self.cache.tell_waiting();
    }
}

impl Cache {
    /// Waits until a destage of some rows, of an array with so many members, may work. Those that do never wait for this.
    pub(crate) async fn working_memory(&self, rows: RowSet, members: usize) -> Working<'_> {
        let bytes = rows.len() * members * BLOCK_BYTES;
        loop {
            let seen = self.changes();
            if self.reserve.take(bytes) {
                return Working { cache: self, bytes };
            }
            self.changed(seen).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_destage_may_always_work_and_others_within_the_reserve() {
        let reserve = Reserve::of(16 << 20);
        assert_eq!((reserve.bytes(), Reserve::of(1 << 40).bytes()), (1 << 20, 32 << 20));
        assert!(reserve.take(3 << 20) && !reserve.take(1));
        reserve.used.store(0, Ordering::SeqCst);
        assert!(reserve.take(1 << 19) && reserve.take(1 << 19) && !reserve.take(1));
    }
}
