//! Items that other threads send to a thread, their owner, which sleeps when there are none. A sender wakes
//! the owner at most once per sleep, and no sleep begins over an item already sent.
//!
//! The flag needs no order of its own: a sender and an owner about to sleep both pass through the lock of the
//! items. The second to pass sees the first: either the owner finds the item before it sleeps, or the sender
//! sees that the sleep was announced.
//!
//! The owner swaps the flag too, where a store would do: loom does not know whether a store comes before or
//! after another thread's swap. The swap costs no more than the ordered store that it replaces.

use super::seam::{
    Mutex,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// The items sent to one thread, its owner.
#[derive(Debug)]
pub struct Mailbox<T> {
    sent: Mutex<Vec<T>>,
    /// Set by the owner before it sleeps. Cleared by the sender that is to wake it, or by the owner once
    /// awake.
    sleeping: AtomicBool,
    /// Set under the lock of the items, like an item.
    stopping: AtomicBool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self {
            sent: Mutex::new(Vec::new()),
            sleeping: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }
}

impl<T> Mailbox<T> {
    /// Sends an item. True: the owner sleeps, and the caller must wake it.
    #[must_use = "an owner that sleeps must be woken"]
    pub fn send(&self, item: T) -> bool {
        self.sent.lock().push(item);
        self.ends_sleep()
    }

    /// Asks the owner to stop. True: as for [`Mailbox::send`].
    #[must_use = "an owner that sleeps must be woken"]
    pub fn stop(&self) -> bool {
        let sent = self.sent.lock();
        self.stopping.store(true, Relaxed);
        drop(sent);
        self.ends_sleep()
    }

    /// Whether the owner sleeps or is about to; true for the first caller only.
    fn ends_sleep(&self) -> bool {
        self.sleeping.swap(false, Relaxed)
    }

    /// Whether the owner is to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Takes the items sent.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.sent.lock())
    }

    /// The owner announces that it is going to sleep: a sender wakes it from now on. It must still look for
    /// items sent before, see [`Mailbox::fall_asleep`].
    pub fn announce_sleep(&self) {
        self.sleeping.swap(true, Relaxed);
    }

    /// The owner is about to sleep, and may if this is true. Otherwise it was asked to stop, or there were
    /// items, which are now in `found`.
    pub fn fall_asleep(&self, found: &mut impl Extend<T>) -> bool {
        self.announce_sleep();
        let sent = self.take();
        let any = !sent.is_empty();
        found.extend(sent);
        !any && !self.is_stopping()
    }

    /// The owner is awake, whether or not a sender woke it.
    pub fn wake_up(&self) {
        self.sleeping.swap(false, Relaxed);
    }
}
