//! Requests that go to their end whatever their caller does.
//!
//! A request that was dropped half way would let go of its rows and its intent while its I/O is under way. So
//! everything that changes data or state runs in one of these.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::task::noop_waker_ref;
use stripewise_device::{BoxFuture, EnvHandle};

/// A request that goes to its end whatever its caller does: started at once, and handed to a task of its own if it is
/// dropped before it is done.
pub(crate) struct Detached<T: Send + 'static> {
    request: Option<BoxFuture<T>>,
    done: Option<T>,
    env: EnvHandle,
}

impl<T: Send + Unpin + 'static> Detached<T> {
    pub(crate) fn start(env: EnvHandle, request: impl Future<Output = T> + Send + 'static) -> Self {
        let mut request: BoxFuture<T> = Box::pin(request);
        // The waker of this first step goes nowhere; whoever awaits polls again with their own.
        match request.as_mut().poll(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(value) => Self { request: None, done: Some(value), env },
            Poll::Pending => Self { request: Some(request), done: None, env },
        }
    }
}

impl<T: Send + Unpin + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.done.take() {
            return Poll::Ready(value);
        }
        let request = self.request.as_mut().expect("a request is polled until it is done");
        let poll = request.as_mut().poll(cx);
        if poll.is_ready() {
            self.request = None;
        }
        poll
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.env.spawn(Box::pin(async move {
                request.await;
            }));
        }
    }
}
