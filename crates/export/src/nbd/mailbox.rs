//! A queue from any number of tasks, on any thread, to one task.

use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Poll, Waker},
};

use parking_lot::Mutex;

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    reader: Option<Waker>,
    closed: bool,
}

/// The queue. Unbounded by itself: the senders hold shares of some budget.
#[derive(Debug)]
pub(crate) struct Mailbox<T>(Mutex<State<T>>);

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self(Mutex::new(State { items: VecDeque::new(), reader: None, closed: false }))
    }
}

impl<T> Mailbox<T> {
    /// Adds an item and wakes the reader; gives it back if the mailbox is closed.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let reader = {
            let mut state = self.0.lock();
            if state.closed {
                return Err(item);
            }
            state.items.push_back(item);
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Takes no more items; the reader still gets those inside.
    pub(crate) fn close(&self) {
        let reader = {
            let mut state = self.0.lock();
            state.closed = true;
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }

    /// Closes the mailbox and returns the unread items, to be dropped outside of the lock.
    pub(crate) fn close_and_clear(&self) -> VecDeque<T> {
        self.close();
        std::mem::take(&mut self.0.lock().items)
    }

    /// Waits for items and moves as many into `batch` as `fits` allows, always the first. False: closed and
    /// empty.
    pub(crate) async fn receive(&self, batch: &mut Vec<T>, mut fits: impl FnMut(&[T], &T) -> bool) -> bool {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            while let Some(item) = state.items.front() {
                if !batch.is_empty() && !fits(batch, item) {
                    break;
                }
                batch.extend(state.items.pop_front());
            }
            if !batch.is_empty() || state.closed {
                return Poll::Ready(!batch.is_empty());
            }
            state.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
