//! The future of one member I/O: ready at once, waiting in the io_uring reactor or at its device, or any
//! boxed future.

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

/// The future of one I/O. A concrete type, so that calls through `dyn Device` need no allocation where the
/// device is memory or io_uring, or keeps its requests itself.
pub struct IoFuture<T>(State<T>);

enum State<T> {
    /// None once the outcome was taken.
    Ready(Option<T>),
    Waits(Waiting<T>),
}

/// The future of one I/O that was not done at once. Its size does not depend on that of its outcome.
pub struct Waiting<T>(Place<T>);

/// Where it is under way.
enum Place<T> {
    Uring(OpHandle, fn(Outcome) -> T),
    Kept(Ticket<T>),
    Boxed(BoxFuture<T>),
}

/// A device that keeps its requests, each under a number, until it has told their callers the outcome.
///
/// Each number belongs to one [`IoFuture::kept`]. The device may reuse it once
/// [`RequestKeeper::poll_request`] has returned the outcome, or after [`RequestKeeper::abandon`]; exactly one
/// of the two happens, once.
pub trait RequestKeeper<T>: Send + Sync {
    /// Polls the request. If pending, keeps `cx`'s waker; only the latest caller is woken.
    fn poll_request(&self, number: u64, cx: &mut Context<'_>) -> Poll<T>;

    /// No caller will ask for the outcome, which was not told. Does not cancel the request: the buffers that
    /// it reads into or writes from stay until it is done. Called from a future's drop, so it must not panic.
    fn abandon(&self, number: u64);
}

/// A caller's claim to the outcome of a request.
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

    /// A request that another future carries.
    pub fn boxed(future: impl Future<Output = T> + Send + 'static) -> Self {
        Waiting(Place::Boxed(Box::pin(future))).into()
    }

    /// A request that its device keeps under a number. The future holds the device, and abandons the request
    /// if it is dropped before the outcome was told. After that it is not polled again.
    pub fn kept(keeper: Arc<dyn RequestKeeper<T>>, number: u64) -> Self {
        Waiting(Place::Kept(Ticket { keeper: Some(keeper), number })).into()
    }

    pub(crate) fn uring(op: OpHandle, finish: fn(Outcome) -> T) -> Self {
        Waiting(Place::Uring(op, finish)).into()
    }

    /// Borrows the value, if the request was done at once.
    pub fn peek(&self) -> Option<&T> {
        match &self.0 {
            State::Ready(value) => value.as_ref(),
            _ => None,
        }
    }

    /// As [`IoFuture::peek`], to take something out of the value in place.
    pub fn peek_mut(&mut self) -> Option<&mut T> {
        match &mut self.0 {
            State::Ready(value) => value.as_mut(),
            _ => None,
        }
    }

    /// Takes the value out, if the request was done at once and the value was not taken before.
    pub fn take_ready(&mut self) -> Option<T> {
        match &mut self.0 {
            State::Ready(value) => value.take(),
            _ => None,
        }
    }

    /// The value, if the request was done at once.
    ///
    /// # Panics
    /// If the value was taken before.
    #[inline]
    pub fn try_ready(self) -> Result<T, Waiting<T>> {
        match self.0 {
            State::Ready(value) => Ok(value.expect("a value is taken once")),
            State::Waits(waiting) => Err(waiting),
        }
    }
}

impl<T> From<Waiting<T>> for IoFuture<T> {
    fn from(waiting: Waiting<T>) -> Self {
        Self(State::Waits(waiting))
    }
}

impl<T: Unpin> Future for IoFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Ready(value) => {
                Poll::Ready(value.take().expect("an I/O future is polled once when ready"))
            }
            State::Waits(waiting) => Pin::new(waiting).poll(cx),
        }
    }
}

impl<T> Future for Waiting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            Place::Uring(op, finish) => op.poll(cx).map(*finish),
            Place::Kept(ticket) => ticket.poll(cx),
            Place::Boxed(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for IoFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            State::Ready(_) => f.write_str("IoFuture(ready)"),
            State::Waits(waiting) => write!(f, "IoFuture({waiting:?})"),
        }
    }
}

impl<T> fmt::Debug for Waiting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Place::Uring(..) => "io_uring",
            Place::Kept(_) => "kept",
            Place::Boxed(_) => "boxed",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::task::{ArcWake, waker};
    use parking_lot::Mutex;

    use super::*;

    /// Completes requests when told to; records the latest waker and the abandoned requests.
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
