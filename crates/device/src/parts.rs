//! What a thread is at, for whoever looks now and then: by which part the time of a request goes (scalaraid Fig. 2b).
//!
//! A thread that is watched notes each part that it enters, and the one that it comes back to: a store each. Nobody reads
//! a clock; a sampler looks at the threads many times. A thread that is not watched looks at one word of its own.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// Parts of a request's time, each without those within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// No request: the caller's own.
    Outside,
    /// Locks of stripes: taking and giving back, and waiting as long as that keeps the processor busy.
    StripeLock,
    /// Counters of regions, and the marks in the bitmap that they stand for.
    CounterLock,
    /// Parity arithmetic.
    Parity,
    /// Copies between buffers and members in memory.
    Copy,
    /// Asking members, beside what they copy at once.
    Submit,
    /// All else of a request: plans, counters of statistics, buffers, tasks.
    Rest,
}

impl Part {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Outside,
        Self::StripeLock,
        Self::CounterLock,
        Self::Parity,
        Self::Copy,
        Self::Submit,
        Self::Rest,
    ];

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outside => "outside",
            Self::StripeLock => "stripe lock",
            Self::CounterLock => "counter lock",
            Self::Parity => "parity",
            Self::Copy => "copy",
            Self::Submit => "submit",
            Self::Rest => "rest",
        }
    }
}

thread_local! {
    static WATCHED: Cell<Option<&'static AtomicU8>> = const { Cell::new(None) };
}

/// A thread that is watched.
#[derive(Debug, Clone, Copy)]
pub struct Watched(&'static AtomicU8);

impl Watched {
    /// This thread, watched from here on until it ends. A few bytes are never given back, once for each such thread.
    pub fn this_thread() -> Self {
        Self(WATCHED.get().unwrap_or_else(|| {
            let cell: &'static AtomicU8 = Box::leak(Box::new(AtomicU8::new(Part::Outside as u8)));
            WATCHED.set(Some(cell));
            cell
        }))
    }

    /// What it is at.
    pub fn part(self) -> Part {
        Part::ALL[usize::from(self.0.load(Relaxed))]
    }
}

/// The thread is in a part until this is dropped. Not to be held while a task waits: others run on the thread then.
#[derive(Debug)]
#[must_use = "the part ends when this is dropped"]
pub struct Within(Option<(&'static AtomicU8, u8)>);

/// The thread enters a part.
#[inline]
pub fn within(part: Part) -> Within {
    Within(WATCHED.get().map(|cell| {
        let before = cell.load(Relaxed);
        cell.store(part as u8, Relaxed);
        (cell, before)
    }))
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        if let Some((cell, before)) = self.0 {
            cell.store(before, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_places_and_nest() {
        for (number, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, number);
        }
        drop(within(Part::Copy));
        let watched = Watched::this_thread();
        assert_eq!(watched.part(), Part::Outside);
        let outer = within(Part::Submit);
        {
            let _inner = within(Part::Copy);
            assert_eq!(watched.part(), Part::Copy);
            assert_eq!(Watched::this_thread().part(), Part::Copy, "the same thread is watched once");
        }
        assert_eq!(watched.part(), Part::Submit);
        drop(outer);
        assert_eq!(watched.part(), Part::Outside);
    }

    #[test]
    fn others_can_look_at_a_thread() {
        let watched = std::thread::spawn(|| {
            let watched = Watched::this_thread();
            std::mem::forget(within(Part::Parity));
            watched
        });
        assert_eq!(watched.join().unwrap().part(), Part::Parity);
    }
}
