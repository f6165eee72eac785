//! The turn: one task at a time writes out. A long write-out gives way between two batches.

use futures_util::lock::{Mutex, MutexGuard};

/// The right to write out.
#[derive(Debug, Default)]
pub(super) struct Turn {
    turn: Mutex<()>,
    /// Held by the task that has the turn next, while it waits.
    next: Mutex<()>,
}

/// The turn of a task; none for a moment while it gives way.
pub(super) type Taken<'turn> = Option<MutexGuard<'turn, ()>>;

impl Turn {
    pub(super) async fn take(&self) -> Taken<'_> {
        let _next = self.next.lock().await;
        Some(self.turn.lock().await)
    }

    /// Lets a task that waits have its turn, and takes the next one.
    pub(super) async fn give_way<'turn>(&'turn self, taken: &mut Taken<'turn>) {
        let is_wanted = self.next.try_lock().is_none();
        if is_wanted {
            *taken = None;
            // This waits until the task that waits has the turn.
            *taken = self.take().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use futures_util::task::noop_waker_ref;

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(noop_waker_ref()))
    }

    #[test]
    fn a_task_that_waits_comes_before_the_one_that_gives_way() {
        let turn = Turn::default();
        let Poll::Ready(mut first) = poll(pin!(turn.take())) else { panic!("nobody has it") };
        assert!(poll(pin!(turn.give_way(&mut first))).is_ready(), "nobody waits");
        assert!(first.is_some());
        let mut other = pin!(turn.take());
        assert!(poll(other.as_mut()).is_pending());
        {
            let mut given = pin!(turn.give_way(&mut first));
            assert!(poll(given.as_mut()).is_pending(), "the other one is first");
            let Poll::Ready(others) = poll(other.as_mut()) else { panic!("it was given") };
            assert!(poll(given.as_mut()).is_pending());
            drop(others);
            assert!(poll(given.as_mut()).is_ready());
        }
        assert!(first.is_some());
    }
}
