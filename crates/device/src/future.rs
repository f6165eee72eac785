//! The future of one member I/O: ready at once, waiting in the io_uring reactor or at its device, or any boxed future.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use crate::{
    BoxFuture,
    uring::op::{OpHandle, Outcome},
};

/// The future of one I/O. A concrete type, so that members can be used through `dyn Device` without an allocation
/// where the device is memory or io_uring, or keeps its requests itself.
pub struct IoFuture<T>(State<T>);

enum State<T> {
    Ready(Option<T>),
    Uring(OpHandle, fn(Outcome) -> T),
    Kept(Ticket<T>),
    Boxed(BoxFuture<T>),
}

/// A device that keeps the requests made of it, each under a number, until their callers have been told.
///
/// Each number is given to one [`IoFuture::kept`]. It may be used anew once [`RequestKeeper::poll_request`] has returned the
/// outcome, or after [`RequestKeeper::abandon`]; one of the two comes once.
pub trait RequestKeeper<T>: Send + Sync {
    /// The outcome of a request; else who asked last is woken, by `cx`, when there is one.
    fn poll_request(&self, number: u64, cx: &mut Context<'_>) -> Poll<T>;

    /// Nobody will ask for the outcome, which was not told. Does not cancel the request: what it reads into or writes stays
    /// until it is done. Called where a future is dropped, so it must not panic.
    fn abandon(&self, number: u64);
}

/// A request of which somebody wants to hear.
struct Ticket<T> {
    /// None once the outcome was told.
    keeper: Option<Arc<dyn RequestKeeper<T>>>,
    number: u64,
}

impl<T> Ticket<T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let keeper = self.keeper.as_ref().expect("an I/O future is polled until it is ready");
        let outcome = ready!(keeper.poll_request(self.number, cx));
        self.keeper = None;
        Poll::Ready(outcome)
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.abandon(self.number);
        }
    }
}

impl<T> IoFuture<T> {
    /// A request that was done at once.
    pub fn ready(value: T) -> Self {
        Self(State::Ready(Some(value)))
    }

    /// A request that some other future carries.
    pub fn boxed(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(State::Boxed(Box::pin(future)))
    }

    /// A request that its device keeps under a number. Keeps the device, too, and abandons the request when dropped before its
    /// outcome was told; after that, it is not polled again.
    pub fn kept(keeper: Arc<dyn RequestKeeper<T>>, number: u64) -> Self {
        Self(State::Kept(Ticket { keeper: Some(keeper), number }))
    }

    pub(crate) fn uring(op: OpHandle, finish: fn(Outcome) -> T) -> Self {
        Self(State::Uring(op, finish))
    }

    /// A look at the value, if the request was done at once.
    pub fn peek(&self) -> Option<&T> {
        match &self.0 {
            State::Ready(value) => value.as_ref(),
            _ => None,
        }
    }

    /// As [`IoFuture::peek`], to take something out of the value in its place.
    pub fn peek_mut(&mut self) -> Option<&mut T> {
        match &mut self.0 {
            State::Ready(value) => value.as_mut(),
            _ => None,
        }
    }

    /// Takes the value out, if the request was done at once and that was not asked before.
    pub fn take_ready(&mut self) -> Option<T> {
        match &mut self.0 {
            State::Ready(value) => value.take(),
            _ => None,
        }
    }

    /// The value, if the request was done at once.
    pub fn try_ready(self) -> Result<T, Self> {
        match self.0 {
            State::Ready(Some(value)) => Ok(value),
            state => Err(Self(state)),
        }
    }
}

impl<T: Unpin> Future for IoFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Ready(value) => {
                Poll::Ready(value.take().expect("an I/O future is polled once when ready"))
            }
            State::Uring(op, finish) => op.poll(cx).map(*finish),
            State::Kept(ticket) => ticket.poll(cx),
            State::Boxed(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for IoFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Ready(_) => "IoFuture(ready)",
            State::Uring(..) => "IoFuture(io_uring)",
            State::Kept(_) => "IoFuture(kept)",
            State::Boxed(_) => "IoFuture(boxed)",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::task::{ArcWake, waker};
    use parking_lot::Mutex;

    use super::*;

    /// Requests are done when they are told; keeps who asked last and who was abandoned.
    #[derive(Default)]
    struct Keeper {
        done: Mutex<Vec<u64>>,
        asked: Mutex<Option<Waker>>,
        abandoned: Mutex<Vec<u64>>,
    }

    impl RequestKeeper<u64> for Keeper {
        fn poll_request(&self, number: u64, cx: &mut Context<'_>) -> Poll<u64> {
            if self.done.lock().contains(&number) {
                return Poll::Ready(10 * number);
            }
            *self.asked.lock() = Some(cx.waker().clone());
            Poll::Pending
        }

        fn abandon(&self, number: u64) {
            self.abandoned.lock().push(number);
        }
    }

    /// A task that counts how often it is woken.
    #[derive(Default)]
    struct Woken(Mutex<u32>);

    impl ArcWake for Woken {
        fn wake_by_ref(task: &Arc<Self>) {
            *task.0.lock() += 1;
        }
    }

    #[test]
    fn a_kept_request_is_either_told_or_abandoned() {
        let (keeper, task) = (Arc::new(Keeper::default()), Arc::new(Woken::default()));
        let waker = waker(task.clone());
        let cx = &mut Context::from_waker(&waker);
        let mut told = IoFuture::kept(keeper.clone(), 7);
        let mut dropped = IoFuture::kept(keeper.clone(), 8);
        assert!(told.peek().is_none(), "nobody has asked");
        assert_eq!(Pin::new(&mut dropped).poll(cx), Poll::Pending);
        assert_eq!(Pin::new(&mut told).poll(cx), Poll::Pending);
        drop(dropped);
        assert_eq!(*keeper.abandoned.lock(), [8]);

        keeper.done.lock().push(7);
        keeper.asked.lock().take().expect("who asks is woken").wake();
        assert_eq!(*task.0.lock(), 1);
        assert_eq!(Pin::new(&mut told).poll(cx), Poll::Ready(70));
        drop(told);
        assert_eq!(*keeper.abandoned.lock(), [8], "whom the outcome was told has nothing to abandon");
    }
}
