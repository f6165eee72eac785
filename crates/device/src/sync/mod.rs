//! Waiting without blocking a thread: a list of wakers under the caller's own lock, a one-shot event, and a
//! yield to other tasks. Also the mailbox of a thread that sleeps, and counting without sharing.

mod barrier;
pub(crate) mod cells;
mod counters;
mod id;
mod mailbox;
mod readers;
pub mod seam;

use std::{
    future::poll_fn,
    task::{Poll, Waker},
};

pub use cells::PerThread;
pub use counters::Counters;
pub use mailbox::Mailbox;
pub use readers::{Kept, Reader, Readers, Replaced, Seen};
use seam::{Arc, Mutex};

/// Lets the thread's other ready tasks run first.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Wakers of tasks that wait for some state to change. The state and the list belong under one lock, so that
/// no change falls between checking and waiting.
#[derive(Debug, Default)]
pub struct WaitList(Vec<Waker>);

impl WaitList {
    /// Adds a task, once.
    pub fn add(&mut self, waker: &Waker) {
        if !self.0.iter().any(|known| known.will_wake(waker)) {
            self.0.push(waker.clone());
        }
    }

    /// Takes all wakers, to be woken after the lock is released.
    #[must_use = "the wakers taken must be woken"]
    pub fn take(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.0)
    }
}

/// Wakes every task of a list.
pub fn wake_all(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

#[derive(Debug)]
struct Shared<T> {
    value: Option<T>,
    waiting: WaitList,
}

/// A value that is set once and awaited by any number of tasks.
#[derive(Debug)]
pub struct Event<T>(Arc<Mutex<Shared<T>>>);

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Event<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Shared { value: None, waiting: WaitList::default() })))
    }
}

impl<T: Clone> Event<T> {
    /// Sets the value, unless one is set already, and wakes all waiting tasks.
    pub fn set(&self, value: T) {
        let wakers = {
            let mut shared = self.0.lock();
            shared.value.get_or_insert(value);
            shared.waiting.take()
        };
        wake_all(wakers);
    }

    /// The value, if it is set.
    pub fn get(&self) -> Option<T> {
        self.0.lock().value.clone()
    }

    /// Waits for the value.
    pub async fn wait(&self) -> T {
        poll_fn(|cx| {
            let mut shared = self.0.lock();
            match &shared.value {
                Some(value) => Poll::Ready(value.clone()),
                None => {
                    shared.waiting.add(cx.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
