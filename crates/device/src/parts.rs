//! Which part of the engine a thread is in, for a sampler: where the time of a request goes (scalaraid Fig.
//! 2b).
//!
//! A watched thread notes each part that it enters, and the outer part when it returns: one store each. It
//! reads no clock; a sampler looks at the threads many times. An unwatched thread reads one word of its own.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// Parts of a request's time, each without the parts nested in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// No request: the caller's own work.
    Outside,
    /// Locks of stripes: taking and releasing them, and waiting while that keeps the processor busy.
    StripeLock,
    /// Counters of regions, and the bitmap marks that they stand for.
    CounterLock,
    /// Parity arithmetic.
    Parity,
    /// Copies between buffers and members in memory.
    Copy,
    /// Calls to members, without the copies made during the call.
    Submit,
    /// Everything else in a request: plans, statistics, buffers, tasks.
    Rest,
}

impl Part {
    /// All parts, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Outside,
        Self::StripeLock,
        Self::CounterLock,
        Self::Parity,
        Self::Copy,
        Self::Submit,
        Self::Rest,
    ];

    /// The name shown in tables.
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

/// A watched thread.
#[derive(Debug, Clone, Copy)]
pub struct Watched(&'static AtomicU8);

impl Watched {
    /// Watches this thread from here on until it ends. Leaks a few bytes, once per thread.
    pub fn this_thread() -> Self {
        Self(WATCHED.get().unwrap_or_else(|| {
            let cell: &'static AtomicU8 = Box::leak(Box::new(AtomicU8::new(Part::Outside as u8)));
            WATCHED.set(Some(cell));
            cell
        }))
    }

    /// The part that the thread is in.
    pub fn part(self) -> Part {
        Part::ALL[usize::from(self.0.load(Relaxed))]
    }
}

/// The thread is in a part until this is dropped. Do not hold it while a task waits: other tasks run on the
/// thread then.
#[derive(Debug)]
#[must_use = "the part ends when this is dropped"]
pub struct Within(Option<(&'static AtomicU8, u8)>);

/// Enters a part.
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
