//! The primitives under everything that waits without blocking, or is shared without a lock: parking_lot's and the
//! standard library's, or with the feature `loom` those of loom, which tries every order of their steps.
//!
//! Code whose orders are to be checked takes its primitives from here and nowhere else.

#[cfg(not(feature = "loom"))]
pub use std::sync::{Arc, atomic};

#[cfg(feature = "loom")]
pub use loom::sync::{Arc, atomic};
#[cfg(not(feature = "loom"))]
pub use parking_lot::{Mutex, RwLock};

/// A lock of loom's with parking_lot's face: nobody panics while holding it.
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
    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
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
