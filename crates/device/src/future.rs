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
pub trait RequestKeeper<T>: Send + Sync {
    /// The outcome of a request, after which its number means nothing any more; else `cx` is woken when there is one.
    fn poll_request(&self, number: u64, cx: &mut Context<'_>) -> Poll<T>;

    /// Nobody will ask for the outcome of a request any more, nor was told it.
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

    /// A request that its device keeps under a number.
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
