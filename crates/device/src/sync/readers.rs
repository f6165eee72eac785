//! Counts requests under way without sharing, and holds values that requests read while others replace them
//! (read, copy, update).
//!
//! A request calls [`Readers::enter`] once and may read any [`Replaced`] value of these readers until it
//! ends, without a lock and without a count that processors share. A replaced value is dropped once all
//! requests that were under way at the replacement have ended; no thread waits for that.
//!
//! Requests are counted as one of two kinds, which take turns, as in the kernel's SRCU. A replaced value is
//! dropped once the requests of the kind current at the time have ended. The kinds change only once the
//! requests of the other kind have ended.

#![allow(unsafe_code)]

use std::{marker::PhantomData, num::NonZeroU64, ops::Deref, ptr, sync::Arc as Counted};

use super::{
    barrier,
    cells::{CELLS, my_cell},
    id::new_id,
    seam::{
        Mutex,
        atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    },
};

/// One thread's counts, by kind. They only grow.
#[derive(Debug)]
#[repr(align(128))]
struct Cell {
    entered: [AtomicU64; 2],
    left: [AtomicU64; 2],
    served: AtomicU64,
}

/// Counts requests under way.
#[derive(Debug)]
pub struct Readers {
    /// Unique in this process: no other readers have or had it.
    id: NonZeroU64,
    /// The kind that a request entering now is counted as.
    kind: AtomicUsize,
    cells: Box<[Cell]>,
    /// Held while the kind is changed.
    turn: Mutex<()>,
}

impl Default for Readers {
    fn default() -> Self {
        let counts = || [AtomicU64::new(0), AtomicU64::new(0)];
        let cells = (0..CELLS)
            .map(|_| Cell { entered: counts(), left: counts(), served: AtomicU64::new(0) })
            .collect();
        Self { id: new_id(), kind: AtomicUsize::new(0), cells, turn: Mutex::new(()) }
    }
}

#[inline]
fn add_one(cell: &AtomicU64, is_own: bool, order: Ordering) {
    if is_own {
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(1), order);
    } else {
        cell.fetch_add(1, order);
    }
}

impl Readers {
    /// Counts a request in.
    #[inline]
    pub fn enter(&self) -> Reader<'_> {
        self.enter_as(true)
    }

    fn enter_as(&self, is_request: bool) -> Reader<'_> {
        let kind = self.kind.load(Ordering::Relaxed);
        let (cell, is_own) = my_cell();
        add_one(&self.cells[cell].entered[kind], is_own, Ordering::Relaxed);
        // The count comes before everything that the request reads from here on.
        barrier::light();
        Reader { readers: self, kind, is_request }
    }

    /// Continues a request that was [kept](Reader::keep).
    ///
    /// # Panics
    /// If other readers counted the request.
    pub fn resume(&self, kept: Kept) -> Reader<'_> {
        assert_eq!(kept.readers, self.id, "a request is resumed where it was counted in");
        Reader { readers: self, kind: kept.kind, is_request: true }
    }

    fn sum(&self, counts: impl Fn(&Cell) -> &AtomicU64) -> u64 {
        self.cells.iter().map(|cell| counts(cell).load(Ordering::Acquire)).fold(0, u64::wrapping_add)
    }

    /// How many requests of a kind are under way; one that ends meanwhile may still be counted. A request
    /// that this misses sees everything that the caller did before.
    fn of_kind(&self, kind: usize) -> u64 {
        // Sum `left` first: then every request seen to leave is also seen to have entered.
        let left = self.sum(|cell| &cell.left[kind]);
        barrier::heavy();
        self.sum(|cell| &cell.entered[kind]).wrapping_sub(left)
    }

    /// How many requests are under way. A request not counted here sees everything that the caller did
    /// before.
    pub fn active(&self) -> u64 {
        self.of_kind(0) + self.of_kind(1)
    }

    /// Changes the kind if no request of the other kind is under way; returns whether it did. After two
    /// changes in a row, all requests that were under way before the first have ended.
    fn turn(&self) -> bool {
        let _one_at_a_time = self.turn.lock();
        let kind = self.kind.load(Ordering::Relaxed);
        let turns = self.of_kind(1 - kind) == 0;
        if turns {
            self.kind.store(1 - kind, Ordering::Relaxed);
        }
        turns
    }

    /// Grows with each request that ends.
    pub fn served(&self) -> u64 {
        self.sum(|cell| &cell.served)
    }
}

/// A request under way.
#[derive(Debug)]
pub struct Reader<'a> {
    readers: &'a Readers,
    kind: usize,
    /// A request, not a brief look by this module.
    is_request: bool,
}

/// A request under way that is to be resumed elsewhere. If this is lost, the request stays under way for
/// ever.
#[derive(Debug)]
#[must_use = "the request stays under way until it is resumed"]
pub struct Kept {
    kind: usize,
    /// The id of the readers that counted it. Not their address, which other readers may have later.
    readers: NonZeroU64,
}

impl Reader<'_> {
    /// Keeps the request under way until it is resumed.
    pub fn keep(self) -> Kept {
        let kept = Kept { kind: self.kind, readers: self.readers.id };
        std::mem::forget(self);
        kept
    }
}

impl Drop for Reader<'_> {
    #[inline]
    fn drop(&mut self) {
        let (cell, is_own) = my_cell();
        let cell = &self.readers.cells[cell];
        if self.is_request {
            add_one(&cell.served, is_own, Ordering::Relaxed);
        }
        add_one(&cell.left[self.kind], is_own, Ordering::Release);
    }
}

/// A value that requests read and others replace.
pub struct Replaced<T> {
    readers: Counted<Readers>,
    /// From `Arc::into_raw`; this field holds one count of it.
    current: AtomicPtr<T>,
    retired: Mutex<Retired<T>>,
}

/// Replaced values that requests may still read.
struct Retired<T> {
    /// The kind has changed once since these were replaced: they are dropped at the next change.
    waiting: Vec<Counted<T>>,
    /// Replaced since then.
    next: Vec<Counted<T>>,
}

impl<T> Retired<T> {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.next.is_empty()
    }
}

// SAFETY: the value is handed out by reference and by `Arc` to any thread, which is what these bounds allow.
unsafe impl<T: Send + Sync> Send for Replaced<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Replaced<T> {}

impl<T: Send + Sync> Replaced<T> {
    /// A value for these readers.
    pub fn new(readers: Counted<Readers>, value: Counted<T>) -> Self {
        let current = AtomicPtr::new(Counted::into_raw(value).cast_mut());
        Self { readers, current, retired: Mutex::new(Retired { waiting: Vec::new(), next: Vec::new() }) }
    }

    /// The current value, for as long as the request is under way.
    ///
    /// # Panics
    /// If other readers counted the request.
    #[inline]
    pub fn get<'r>(&'r self, reader: &'r Reader<'_>) -> Seen<'r, T> {
        assert!(ptr::eq(reader.readers, &*self.readers), "a request looks at the values of its own readers");
        let value = self.current.load(Ordering::Acquire);
        Seen { value, _request: PhantomData }
    }

    /// The current value, to be kept.
    pub fn load(&self) -> Counted<T> {
        self.get(&self.readers.enter_as(false)).to_arc()
    }

    /// Reads the current value.
    pub fn look<R>(&self, at: impl FnOnce(&T) -> R) -> R {
        at(&self.get(&self.readers.enter_as(false)))
    }

    /// Replaces the value. The old one is dropped later, see [`Replaced::reclaim`].
    pub fn store(&self, value: Counted<T>) {
        let mut retired = self.retired.lock();
        let old = self.current.swap(Counted::into_raw(value).cast_mut(), Ordering::AcqRel);
        // SAFETY: the pointer came from `Arc::into_raw`, and the swap passes its count on exactly once.
        retired.next.push(unsafe { Counted::from_raw(old) });
        let gone = self.advance(&mut retired);
        drop(retired);
        drop(gone);
    }

    /// Drops replaced values that no request can read any more; returns whether none are left. Call it now
    /// and then.
    pub fn reclaim(&self) -> bool {
        let mut retired = self.retired.lock();
        if retired.is_empty() {
            return true;
        }
        let mut gone = self.advance(&mut retired);
        gone.extend(self.advance(&mut retired));
        let all = retired.is_empty();
        drop(retired);
        drop(gone);
        all
    }

    /// Takes out the values that can be dropped.
    fn advance(&self, retired: &mut Retired<T>) -> Vec<Counted<T>> {
        if !self.readers.turn() {
            return Vec::new();
        }
        std::mem::replace(&mut retired.waiting, std::mem::take(&mut retired.next))
    }
}

impl<T> Drop for Replaced<T> {
    fn drop(&mut self) {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: the pointer came from `Arc::into_raw`; nothing borrows from a value that is being dropped.
        drop(unsafe { Counted::from_raw(current) });
    }
}

/// A value that a request reads.
#[derive(Debug)]
pub struct Seen<'r, T> {
    /// From `Arc::into_raw`. `current` or `retired` holds a count of it and drops that only after the request
    /// has ended; the request was under way before this was loaded.
    value: *const T,
    _request: PhantomData<&'r T>,
}

// SAFETY: it is equivalent to a reference to the value.
unsafe impl<T: Sync> Send for Seen<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Seen<'_, T> {}

impl<T> Clone for Seen<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Seen<'_, T> {}

impl<'r, T> Seen<'r, T> {
    /// The value itself.
    pub fn value(self) -> &'r T {
        // SAFETY: the value lives as long as the request is under way, and the request is borrowed for as
        // long.
        unsafe { &*self.value }
    }

    /// The value, to be kept.
    pub fn to_arc(self) -> Counted<T> {
        // SAFETY: the pointer is from `Arc::into_raw`, and the value lives at least as long as this request.
        unsafe {
            Counted::increment_strong_count(self.value);
            Counted::from_raw(self.value)
        }
    }
}

impl<T> Deref for Seen<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        (*self).value()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    };

    use super::*;

    /// Counts its drops.
    struct Watched(Arc<AtomicUsize>, u64);

    impl Drop for Watched {
        fn drop(&mut self) {
            self.1 = u64::MAX;
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn what_was_replaced_goes_when_those_who_saw_it_are_through() {
        let (readers, dropped) = (Arc::new(Readers::default()), Arc::new(AtomicUsize::new(0)));
        let value = |number| Arc::new(Watched(dropped.clone(), number));
        let replaced = Replaced::new(readers.clone(), value(1));
        let request = readers.enter();
        let seen = replaced.get(&request);
        replaced.store(value(2));
        (0..4).for_each(|_| _ = replaced.reclaim());
        assert_eq!((seen.1, dropped.load(Ordering::SeqCst)), (1, 0), "it is being looked at");
        assert_eq!(replaced.get(&request).1, 2, "a look sees what is there now");
        assert_eq!(readers.active(), 1);
        drop(readers.resume(request.keep()));
        (0..2).for_each(|_| _ = replaced.reclaim());
        assert_eq!((dropped.load(Ordering::SeqCst), readers.active(), readers.served()), (1, 0, 1));
        let kept = replaced.load();
        assert_eq!((replaced.look(|value| value.1), readers.served()), (2, 1), "looks are no requests");
        drop(replaced);
        assert_eq!((kept.1, dropped.load(Ordering::SeqCst)), (2, 1), "a kept one stays");
    }

    #[test]
    #[should_panic(expected = "where it was counted in")]
    fn a_request_is_not_resumed_elsewhere() {
        let (here, there) = (Readers::default(), Readers::default());
        drop(there.resume(here.enter().keep()));
    }

    #[test]
    fn nobody_sees_what_is_gone() {
        let (readers, dropped) = (Arc::new(Readers::default()), Arc::new(AtomicUsize::new(0)));
        let replaced = Replaced::new(readers.clone(), Arc::new(Watched(dropped.clone(), 0)));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let request = readers.enter();
                        let (first, second) = (replaced.get(&request), replaced.get(&request));
                        assert!(first.1 <= second.1 && second.1 != u64::MAX && first.1 != u64::MAX);
                    }
                });
            }
            for number in 1..=2000 {
                replaced.store(Arc::new(Watched(dropped.clone(), number)));
            }
            over.store(true, Ordering::Relaxed);
        });
        (0..2).for_each(|_| _ = replaced.reclaim());
        assert_eq!(dropped.load(Ordering::SeqCst), 2000, "all but the last");
    }
}
