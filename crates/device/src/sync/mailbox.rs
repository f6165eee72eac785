//! What other threads send to a thread that sleeps when there is nothing: it is woken at most once a sleep, and no sleep
//! begins over something that was sent.
//!
//! The flag needs no order of its own, since who sends and who goes to sleep both pass through the lock of what was sent.
//! Whoever is first there, the other one sees: either what was sent is found before the sleep, or the sleep was announced
//! before it was sent.
//!
//! The owner swaps the flag too, where a store would do: of stores loom does not know that one comes before a swap that was
//! made elsewhere, or after it. Nor is it dearer than the store with an order that it stands for.

use super::seam::{
    Mutex,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// What was sent to one thread, its owner.
#[derive(Debug)]
pub struct Mailbox<T> {
    sent: Mutex<Vec<T>>,
    /// Set by the owner before it sleeps, cleared by whoever is to wake it.
    sleeping: AtomicBool,
    /// Set under the lock of what was sent, as if it were sent.
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
    /// Sends something. True: the owner sleeps, and the caller is to wake it.
    #[must_use = "an owner that sleeps must be woken"]
    pub fn send(&self, item: T) -> bool {
        self.sent.lock().push(item);
        self.ends_sleep()
    }

    /// Asks the owner to stop. True: as [`Mailbox::send`].
    #[must_use = "an owner that sleeps must be woken"]
    pub fn stop(&self) -> bool {
        let sent = self.sent.lock();
        self.stopping.store(true, Relaxed);
        drop(sent);
        self.ends_sleep()
    }

    /// Whether the owner sleeps or is about to, for the first who asks.
    fn ends_sleep(&self) -> bool {
        self.sleeping.swap(false, Relaxed)
    }

    /// Whether the owner is to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Takes what was sent.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.sent.lock())
    }

    /// The owner says that it is going to sleep: who sends from now on wakes it. What was sent before it still has to look
    /// for, see [`Mailbox::fall_asleep`].
    pub fn announce_sleep(&self) {
        self.sleeping.swap(true, Relaxed);
    }

    /// The owner is about to sleep, and may if this is true. Otherwise it is asked to stop, or something was sent, which
    /// `found` has then.
    pub fn fall_asleep(&self, found: &mut impl Extend<T>) -> bool {
        self.announce_sleep();
        let sent = self.take();
        let any = !sent.is_empty();
        found.extend(sent);
        !any && !self.is_stopping()
    }

    /// The owner is awake, whether somebody woke it or not.
    pub fn wake_up(&self) {
        self.sleeping.swap(false, Relaxed);
    }
}
