//! The primitives under all code that waits without blocking or shares without a lock: those of parking_lot,
//! `spinning_top` and the standard library, or, with the feature `loom`, those of loom, which tries every order
//! of their steps.
//!
//! Code whose orders are to be checked takes its primitives from here and nowhere else.

#[cfg(not(feature = "loom"))]
pub use std::sync::{Arc, atomic};

#[cfg(feature = "loom")]
pub use loom::sync::MutexGuard;
#[cfg(feature = "loom")]
pub use loom::sync::{Arc, atomic};
#[cfg(not(feature = "loom"))]
pub use parking_lot::{Mutex, MutexGuard, RwLock};

/// How often a thread looks at a taken lock before it sleeps: for one to about fifteen microseconds,
/// depending on how long the processor pauses between looks.
#[cfg(not(feature = "loom"))]
const LOOKS: u32 = 256;

/// How long a thread sleeps between looks at a [`CopyLock`] then.
#[cfg(not(feature = "loom"))]
const NAP: std::time::Duration = std::time::Duration::from_micros(20);

/// Takes a lock that is never held for long, as the kernel takes its spin locks: a thread that finds it taken
/// looks until it is free. Sleeping and waking takes far longer than the holder needs, and all threads that
/// arrive meanwhile would sleep too. A thread sleeps only when the holder must have lost its processor.
#[cfg(not(feature = "loom"))]
#[inline]
pub fn spin<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.try_lock().unwrap_or_else(|| spin_taken(mutex))
}

#[cfg(not(feature = "loom"))]
#[cold]
fn spin_taken<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOOKS {
        // Looking is cheap; trying takes the cache line from the holder.
        if !mutex.is_locked()
            && let Some(guard) = mutex.try_lock()
        {
            return guard;
        }
        std::hint::spin_loop();
    }
    mutex.lock()
}

/// A lock around what is copied under it. It is given back by a plain store: a locked instruction, as the unlocking of a
/// [`Mutex`] is, waits until the processor has stored all of the copy. A thread that finds it taken looks for a while,
/// and then leaves its processor to the holder, over and over.
#[cfg(not(feature = "loom"))]
pub type CopyLock<T> = parking_lot::lock_api::Mutex<spinning_top::RawSpinlock<Patience>, T>;
/// Holds a [`CopyLock`].
#[cfg(not(feature = "loom"))]
pub type CopyGuard<'a, T> = parking_lot::lock_api::MutexGuard<'a, spinning_top::RawSpinlock<Patience>, T>;

/// How often a thread has looked at a taken lock.
#[cfg(not(feature = "loom"))]
#[derive(Debug, Default)]
pub struct Patience(u32);

#[cfg(not(feature = "loom"))]
impl spinning_top::relax::Relax for Patience {
    fn relax(&mut self) {
        self.0 += 1;
        match self.0 {
            ..LOOKS => std::hint::spin_loop(),
            // The holder must have lost its processor.
            _ => std::thread::sleep(NAP),
        }
    }
}

/// Loom does not model how a lock is given back.
#[cfg(feature = "loom")]
pub type CopyLock<T> = Mutex<T>;
/// Holds a [`CopyLock`].
#[cfg(feature = "loom")]
pub type CopyGuard<'a, T> = MutexGuard<'a, T>;

/// Loom does not model whether threads sleep.
#[cfg(feature = "loom")]
pub fn spin<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Loom's lock with parking_lot's interface: no thread panics while holding it.
#[cfg(feature = "loom")]
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(feature = "loom")]
impl<T> Mutex<T> {
    /// A new lock around a value.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("nobody panics with a lock held")
    }
}

/// As [`Mutex`], for a readers-writer lock.
#[cfg(feature = "loom")]
#[derive(Debug, Default)]
pub struct RwLock<T>(loom::sync::RwLock<T>);

#[cfg(feature = "loom")]
impl<T> RwLock<T> {
    /// A new lock around a value.
    pub fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    /// Waits for the lock, beside other readers.
    pub fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
        self.0.read().expect("nobody panics with a lock held")
    }

    /// Waits for the lock alone.
    pub fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect("nobody panics with a lock held")
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    #[test]
    fn one_at_a_time_has_a_lock_that_spins() {
        let sum = Mutex::new(0_u64);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut sum = spin(&sum);
                        let before = *sum;
                        *sum = std::hint::black_box(before) + 1;
                    }
                });
            }
        });
        assert_eq!(*sum.lock(), 40_000);
    }

    #[test]
    fn one_at_a_time_has_a_lock_for_copies_and_others_are_patient() {
        let sum = CopyLock::new(0_u64);
        thread::scope(|scope| {
            for thread in 0..4 {
                let sum = &sum;
                scope.spawn(move || {
                    for turn in 0..10_000 {
                        let mut sum = sum.lock();
                        let before = *sum;
                        if thread == 0 && turn % 5_000 == 0 {
                            // Much longer than other threads look.
                            thread::sleep(Duration::from_millis(5));
                        }
                        *sum = std::hint::black_box(before) + 1;
                    }
                });
            }
        });
        assert_eq!(*sum.lock(), 40_000);
    }

    /// The holder keeps it for much longer than other threads look.
    #[test]
    fn who_has_looked_for_long_sleeps_and_is_woken() {
        let lock = Mutex::new(false);
        thread::scope(|scope| {
            let mut held = lock.lock();
            let waiter = scope.spawn(|| *spin(&lock));
            thread::sleep(Duration::from_millis(50));
            *held = true;
            drop(held);
            assert!(waiter.join().expect("it gets the lock"), "it had to wait for the holder");
        });
    }
}
