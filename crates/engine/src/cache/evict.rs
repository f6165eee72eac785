//! Eviction: which clean cells go when memory is needed.
//!
//! Buckets with clean cells are in one order, and those that were not read lately go first. What a stream of whole stripes
//! has left goes before all others, and goes to the thread that destaged it: its blocks are in that processor's caches.

use std::collections::VecDeque;

use stripewise_device::{
    IoBuf,
    sync::{PerThread, seam::Mutex},
};

use super::{Bucket, Cache, shown::Dropped};
use crate::{
    mutants::{Mutant, lives},
    shape::rows::BLOCK_BYTES,
};

/// Clean blocks that a writer without memory drops at a time.
const EVICTED_AT_ONCE: usize = 32;
/// Buckets that a thread keeps for itself: some stripes of a stream. A queue of as many takes no more memory than these.
const LATELY_MAX: usize = 4;

/// Whose free frames may be taken.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reach {
    /// This thread's, and those that no thread has.
    Own,
    /// Those of other threads, too, which these will lack: there are no clean cells to drop.
    All,
}

/// When eviction looks at a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) enum Turn {
    /// Before all that are in order, and first on this thread.
    First,
    Last,
}

/// The buckets with clean cells, each once.
pub(super) struct Clean {
    /// Its room is made at the beginning.
    order: Mutex<VecDeque<u32>>,
    /// Those that each thread destaged lately.
    lately: PerThread<Mutex<VecDeque<u32>>>,
}

impl Clean {
    /// Of so many buckets.
    pub(super) fn of(buckets: usize) -> Self {
        Self { order: Mutex::new(VecDeque::with_capacity(buckets)), lately: PerThread::default() }
    }

    /// Bytes that it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        let lately = LATELY_MAX * size_of::<u32>() * self.lately.all().count();
        self.order.lock().capacity() * size_of::<u32>() + PerThread::<Mutex<VecDeque<u32>>>::BYTES + lately
    }

    fn add(&self, bucket: u32, turn: Turn) {
        match turn {
            Turn::First => {
                let first = {
                    let mut lately = self.lately.mine().lock();
                    let first = if lately.len() == LATELY_MAX { lately.pop_front() } else { None };
                    lately.push_back(bucket);
                    first
                };
                first.into_iter().for_each(|bucket| self.order.lock().push_front(bucket));
            }
            Turn::Last => self.order.lock().push_back(bucket),
        }
    }

    fn take(&self) -> Option<u32> {
        let own = || self.lately.mine().lock().pop_back();
        let next = || self.order.lock().pop_front();
        let others = || self.lately.used().find_map(|lately| lately.lock().pop_front());
        own().or_else(next).or_else(others)
    }
}

impl Cache {
    /// A frame that is free.
    #[inline]
    pub(super) fn free_frame(&self, reach: Reach) -> Option<IoBuf> {
        let frame = match reach {
            Reach::Own => self.frames.take(),
            Reach::All => self.frames.take_of_any(),
        };
        frame.or_else(|| lives(Mutant::CacheOverBudget).then(|| IoBuf::with_len(BLOCK_BYTES)))
    }

    /// A frame, perhaps from clean cells.
    pub(super) fn frame(&self) -> Option<IoBuf> {
        loop {
            let frame = self.free_frame(Reach::Own);
            if frame.is_some() {
                return frame;
            }
            if self.evict() == 0 {
                return self.free_frame(Reach::All);
            }
        }
    }

    /// Drops some clean cells, those that were not read lately first. Returns how many.
    #[cold]
    pub(super) fn evict(&self) -> usize {
        let (mut dropped, mut left) = (Dropped::of(self), 2 * self.buckets.len());
        while dropped.len() < EVICTED_AT_ONCE && left > 0 {
            left -= 1;
            let Some(at) = self.clean.take() else { break };
            let mut bucket = self.buckets[at as usize].lock();
            bucket.is_listed = false;
            let mut keeps = false;
            for slot in &mut bucket.slots {
                if self.recent.take(slot.unit) {
                    keeps |= slot.has_clean();
                    continue;
                }
                slot.drop_clean(&mut dropped);
                if lives(Mutant::DirtyEvicted) {
                    let all = slot.cells.lend(slot.cells.dirty_rows());
                    self.dirty.add(1, slot.drop_same(&all, &mut dropped) as u64);
                }
            }
            self.forget_empty(&mut bucket);
            if keeps {
                self.list(&mut bucket, at as usize, Turn::Last);
            }
        }
        dropped.len()
    }

    /// Notes that a bucket has clean cells.
    pub(super) fn list(&self, bucket: &mut Bucket, at: usize, turn: Turn) {
        if !std::mem::replace(&mut bucket.is_listed, true) {
            self.clean.add(at as u32, turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use stripewise_device::{Timestamp, WriteBufs};

    use super::*;
    use crate::{
        cache::{CacheKind, CacheSettings, Way},
        compute::Data,
        shape::geometry::{Geometry, Level, StripeIndex, StripeSpan},
    };

    /// Its own tables leave the least cache room for what it is to hold.
    #[test]
    fn the_least_cache_holds_two_stripes() {
        for (members, blocks) in [(3, 1), (3, 2), (5, 1), (5, 16)] {
            let chunk_bytes = (blocks * BLOCK_BYTES) as u32;
            let geometry = Geometry::new(Level::Raid5, members, chunk_bytes, 4 << 20, 512).unwrap();
            let size_bytes = CacheSettings::min_bytes(&geometry);
            let settings = CacheSettings::new(CacheKind::Stripe, size_bytes);
            let cache = Cache::new(&settings, size_bytes, &geometry).unwrap().unwrap();
            for stripe in [0, 1].map(StripeIndex) {
                for start in (0..geometry.stripe_bytes() as usize).step_by(BLOCK_BYTES) {
                    let span = StripeSpan { stripe, start, len: BLOCK_BYTES, request_offset: 0 };
                    let data = Data::of(WriteBufs::from_iter([IoBuf::zeroed(BLOCK_BYTES).freeze()]), 0);
                    let put = cache.put(&span, &data, Way::Back, Timestamp::default());
                    assert!(put.is_ok(), "{members} members, {blocks} blocks, {stripe:?} at {start}");
                }
            }
        }
    }

    #[test]
    fn what_a_thread_destaged_lately_goes_first_on_it_and_last_on_others() {
        let clean = Clean::of(16);
        (0..2).for_each(|bucket| clean.add(bucket, Turn::Last));
        (2..8).for_each(|bucket| clean.add(bucket, Turn::First));
        let of_another = std::thread::scope(|scope| {
            let took = || std::array::from_fn(|_| clean.take());
            scope.spawn(took).join().unwrap()
        });
        // The two that its thread no longer keeps, the others in order, and then its oldest.
        assert_eq!(of_another, [3, 2, 0, 1, 4].map(Some));
        clean.add(9, Turn::Last);
        assert_eq!(std::array::from_fn(|_| clean.take()), [Some(7), Some(6), Some(5), Some(9), None]);
    }
}
