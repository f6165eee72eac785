//! The future of one member I/O: ready at once, waiting in the io_uring reactor, or any boxed future.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{
    BoxFuture,
    uring::op::{OpHandle, Outcome},
};

/// The future of one I/O. A concrete type, so that members can be used through `dyn Device` without an allocation
/// where the device is memory or io_uring.
pub struct IoFuture<T>(State<T>);

enum State<T> {
    Ready(Option<T>),
    Uring(OpHandle, fn(Outcome) -> T),
    Boxed(BoxFuture<T>),
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
            State::Boxed(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for IoFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Ready(_) => "IoFuture(ready)",
            State::Uring(..) => "IoFuture(io_uring)",
            State::Boxed(_) => "IoFuture(boxed)",
        })
    }
}
