//! A caller's future that runs on a worker while its caller's thread waits.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    task::Poll,
    thread,
    time::Duration,
};

use super::executor::Inbox;

const ENDED: &str = "the runtime ended before the future did";

/// A future under way on a worker. Dropping this leaves it running.
#[derive(Debug)]
pub struct Started<T>(Receiver<thread::Result<T>>);

impl<T: Send + 'static> Started<T> {
    pub(super) fn on(inbox: &Arc<Inbox>, future: impl Future<Output = T> + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::sync_channel(1);
        inbox.spawn(Box::pin(async move {
            let _ = sender.send(caught(future).await);
        }));
        Self(receiver)
    }

    /// Waits for what the future results in.
    ///
    /// # Panics
    /// With the future's panic, if it panicked. If the runtime ended before it did.
    pub fn wait(self) -> T {
        self.0.recv().expect(ENDED).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// As [`Started::wait`], for at most this long. The future goes on after that, and may be waited for
    /// again.
    ///
    /// # Panics
    /// As [`Started::wait`]; if the outcome was taken before.
    pub fn wait_for(&self, limit: Duration) -> Option<T> {
        match self.0.recv_timeout(limit) {
            Ok(outcome) => Some(outcome.unwrap_or_else(|panic| resume_unwind(panic))),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("{ENDED}, or its outcome was taken"),
        }
    }
}

/// What a future results in, or how it panicked. It is a caller's: a panic of the engine inside it has ended
/// the process ([`crate::Env::engine_panicked`]).
async fn caught<T>(future: impl Future<Output = T>) -> thread::Result<T> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
