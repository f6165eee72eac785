//! A future that a worker runs and that any thread may wait for.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use super::executor::Inbox;

/// Waits for a future that runs on a worker.
#[derive(Debug)]
pub(super) struct Routed<T>(Arc<Mutex<Seat<T>>>);

#[derive(Debug)]
enum Seat<T> {
    Waits(Option<Waker>),
    Done(T),
    /// The worker has gone, and the future with it; or the outcome was taken.
    Gone,
}

impl<T: Send + 'static> Routed<T> {
    /// Runs a future on the worker with this inbox.
    pub(super) fn spawn(inbox: &Arc<Inbox>, future: impl Future<Output = T> + Send + 'static) -> Self {
        let seat = Arc::new(Mutex::new(Seat::Waits(None)));
        let teller = Teller(seat.clone());
        inbox.spawn(Box::pin(async move {
            let outcome = pin!(future).await;
            teller.tell(Seat::Done(outcome));
        }));
        Self(seat)
    }

    /// The outcome; none, if the worker has gone.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut seat = self.0.lock();
        if let Seat::Waits(waker) = &mut *seat {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *seat, Seat::Gone) {
            Seat::Done(outcome) => Poll::Ready(Some(outcome)),
            _ => Poll::Ready(None),
        }
    }
}

/// Tells the outcome, or that there will be none when it is dropped before.
struct Teller<T>(Arc<Mutex<Seat<T>>>);

impl<T> Teller<T> {
    fn tell(&self, told: Seat<T>) {
        let mut seat = self.0.lock();
        let waker = match &mut *seat {
            Seat::Waits(waker) => waker.take(),
            _ => return,
        };
        *seat = told;
        drop(seat);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        self.tell(Seat::Gone);
    }
}
