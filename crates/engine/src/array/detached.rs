//! Requests that go to their end whatever their caller does.
//!
//! A request that was dropped half way would let go of its rows and its intent while its I/O is under way; one that
//! is not polled would keep them while others wait. So everything that changes data or state starts at once, and what
//! is not done by then goes on as a task of its own. Must be called on a worker of the array's environment.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::{FutureExt, task::noop_waker_ref};
use parking_lot::Mutex;
use stripewise_device::{BoxFuture, EnvHandle};

/// The outcome of a request that goes to its end by itself.
pub(crate) struct Detached<T>(State<T>);

enum State<T> {
    /// It was done at once.
    Done(Option<T>),
    /// It runs as a task.
    Running(Arc<Mutex<Outcome<T>>>),
}

struct Outcome<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

impl<T> Detached<T> {
    /// A request that was done at once.
    pub(crate) fn done(value: T) -> Self {
        Self(State::Done(Some(value)))
    }

    /// The outcome, if the request was done at once.
    pub(crate) fn try_done(self) -> Result<T, Self> {
        match self.0 {
            State::Done(Some(value)) => Ok(value),
            state => Err(Self(state)),
        }
    }
}

/// Where somebody else puts the outcome of a request.
pub(crate) struct Promise<T>(Arc<Mutex<Outcome<T>>>);

impl<T> Promise<T> {
    /// For a request that somebody else does, and its outcome.
    pub(crate) fn new() -> (Self, Detached<T>) {
        let outcome = Arc::new(Mutex::new(Outcome { value: None, waker: None }));
        (Self(outcome.clone()), Detached(State::Running(outcome)))
    }

    /// The request is done.
    pub(crate) fn keep(self, value: T) {
        let waker = {
            let mut outcome = self.0.lock();
            outcome.value = Some(value);
            outcome.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T: Send + Unpin + 'static> Detached<T> {
    /// A request that has been begun as far as that goes, and waits.
    pub(crate) fn go_on(env: &EnvHandle, request: impl Future<Output = T> + Send + 'static) -> Self {
        let (promise, outcome) = Promise::new();
        env.spawn(Box::pin(request.map(|value| promise.keep(value))));
        outcome
    }

    /// A request that nobody has begun.
    pub(crate) fn start(env: &EnvHandle, request: impl Future<Output = T> + Send + 'static) -> Self {
        let outcome = Arc::new(Mutex::new(Outcome { value: None, waker: None }));
        let promise = Promise(outcome.clone());
        let mut task: BoxFuture<()> = Box::pin(request.map(|value| promise.keep(value)));
        // The waker of this first step goes nowhere; the task polls again with its own.
        if task.as_mut().poll(&mut Context::from_waker(noop_waker_ref())).is_ready() {
            let value = outcome.lock().value.take();
            return Self(State::Done(value));
        }
        env.spawn(task);
        Self(State::Running(outcome))
    }
}

impl<T: Unpin> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Done(value) => Poll::Ready(value.take().expect("a request is polled until it is done")),
            State::Running(outcome) => {
                let mut outcome = outcome.lock();
                match outcome.value.take() {
                    Some(value) => Poll::Ready(value),
                    None => {
                        outcome.waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                }
            }
        }
    }
}
