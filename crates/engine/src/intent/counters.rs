//! The counters of writes under way, one word for each region of the bitmap, and the locks that guard them.
//!
//! There are three kinds of lock, so that those of the ScalaRAID paper can be compared with ours: one lock
//! around all counters (md's), a lock for each counter under a readers-writer lock for changes of the bitmap
//! (ScalaRAID's), and atomic words without a lock. The words are always atomic.

use stripewise_device::sync::seam::{
    Mutex, RwLock,
    atomic::{AtomicU32, Ordering},
    spin,
};

/// How the counters of the bitmap's regions are guarded. A thread that finds a lock taken spins before it
/// sleeps, as in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CounterLocks {
    /// One lock for all of them, as md has.
    Global,
    /// One for each counter, and a readers-writer lock around changes of the bitmap itself (ScalaRAID).
    PerCounter,
    /// No lock: a write in a marked region is two atomic additions.
    #[default]
    Atomic,
    /// Nothing is counted: the first write marks all regions, and they stay marked until the array is
    /// stopped. The array behaves as one without a bitmap and is resynced as one after a crash.
    Uncounted,
}

enum Guards {
    Global(Mutex<()>),
    PerCounter { bitmap: RwLock<()>, counters: Box<[Mutex<()>]> },
    Atomic,
}

/// Words in a cache line: words this far apart never share one.
const LINE_WORDS: usize = if cfg!(feature = "loom") { 1 } else { 16 };
/// The most words that spreading the counters may take: a megabyte.
const WORDS_MAX: usize = 1 << 18;

/// Words that many writers change. The fewer they are, the further apart they lie: two cores whose counters
/// share a line wait for each other as if they shared a counter.
pub(crate) struct Words {
    words: Box<[AtomicU32]>,
    /// Each counter is the first of this many words.
    apart: usize,
    guards: Guards,
}

impl Words {
    pub(crate) fn new(values: impl ExactSizeIterator<Item = u32>, locks: CounterLocks) -> Self {
        let count = values.len();
        let apart = (WORDS_MAX / count.max(1)).clamp(1, LINE_WORDS);
        let spread = |value| std::iter::once(value).chain(std::iter::repeat_n(0, apart - 1));
        let words: Box<[_]> = values.flat_map(spread).map(AtomicU32::new).collect();
        let guards = match locks {
            CounterLocks::Global => Guards::Global(Mutex::default()),
            CounterLocks::PerCounter => Guards::PerCounter {
                bitmap: RwLock::default(),
                counters: (0..count).map(|_| Mutex::default()).collect(),
            },
            CounterLocks::Atomic | CounterLocks::Uncounted => Guards::Atomic,
        };
        Self { words, apart, guards }
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len() / self.apart
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU32 {
        &self.words[index * self.apart]
    }

    /// A word's current value.
    #[inline]
    pub(crate) fn load(&self, index: usize) -> u32 {
        self.word(index).load(Ordering::Acquire)
    }

    /// Runs `change` on a word as a writer does, under the locks that writers take.
    #[inline]
    pub(crate) fn as_writer<T>(&self, index: usize, change: impl FnOnce(&AtomicU32) -> T) -> T {
        let word = self.word(index);
        match &self.guards {
            Guards::Atomic => change(word),
            Guards::Global(lock) => {
                let _alone = spin(lock);
                change(word)
            }
            Guards::PerCounter { bitmap, counters } => {
                let _with_writers = bitmap.read();
                let _alone = spin(&counters[index]);
                change(word)
            }
        }
    }

    /// As [`Words::as_writer`], for a change of the bitmap.
    pub(crate) fn as_bitmap<T>(&self, index: usize, change: impl FnOnce(&AtomicU32) -> T) -> T {
        let word = self.word(index);
        match &self.guards {
            Guards::Atomic => change(word),
            Guards::Global(lock) => {
                let _alone = spin(lock);
                change(word)
            }
            Guards::PerCounter { bitmap, .. } => {
                let _alone = bitmap.write();
                change(word)
            }
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn few_counters_are_a_line_apart_and_many_lie_close() {
        for (count, apart) in
            [(1, 16), (1024, 16), (WORDS_MAX / 4, 4), (WORDS_MAX / 3, 3), (WORDS_MAX + 1, 1)]
        {
            let words = Words::new((0..count).map(|index| index as u32), CounterLocks::Atomic);
            assert_eq!((words.len(), words.apart), (count, apart));
            assert!((0..count).all(|index| words.load(index) == index as u32), "{count}");
        }
    }
}
