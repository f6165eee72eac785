//! Requests that complete whatever their caller does.
//!
//! A request dropped halfway would release its rows and its intent while its I/O is under way. A request that
//! is not polled would keep them while other requests wait. So everything that changes data or state starts
//! at once, and what is not done then continues as its own task. A request made outside the workers of the
//! array's environment is its own task from the beginning.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::{FutureExt, task::noop_waker_ref};
use parking_lot::Mutex;
use stripewise_device::{
    BoxFuture, Completion, EnvHandle, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, RequestKeeper,
};

use super::step::step;
use crate::error::ArrayError;

/// The result of a request whose environment ended before the request did.
pub(crate) trait Ended {
    fn ended() -> Self;
}

impl<T, E: From<ArrayError>> Ended for Result<T, E> {
    fn ended() -> Self {
        Err(ArrayError::Closed.into())
    }
}

impl Ended for ReadDone {
    fn ended() -> Self {
        Self { result: Err(IoError::new(IoErrorKind::NoRuntime)), bufs: ReadBufs::new() }
    }
}

/// The outcome of a request that completes on its own.
pub(crate) struct Detached<T>(State<T>);

enum State<T> {
    /// It was done at once.
    Done(Option<T>),
    /// It runs as a task.
    Running(Arc<Outcome<T>>),
}

/// The result of a task, and the waker of the task that awaits it.
struct Outcome<T>(Mutex<(Option<T>, Option<Waker>)>);

impl<T> Outcome<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((None, None))))
    }

    fn keep(&self, value: T) {
        let waker = {
            let mut outcome = self.0.lock();
            outcome.0 = Some(value);
            outcome.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<T> {
        let mut outcome = self.0.lock();
        if let Some(value) = outcome.0.take() {
            return Poll::Ready(value);
        }
        match &mut outcome.1 {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Drops the waker: no task waits any more.
    fn forget_waiter(&self) {
        let waker = self.0.lock().1.take();
        drop(waker);
    }
}

/// A change of an array that is itself a device. This keeper holds only one request.
impl RequestKeeper<Result<(), IoError>> for Outcome<Result<(), ArrayError>> {
    fn poll_request(&self, _: u64, cx: &mut Context<'_>) -> Poll<Result<(), IoError>> {
        self.poll(cx).map(|result| result.map_err(IoError::from))
    }

    fn abandon(&self, _: u64) {
        self.forget_waiter();
    }
}

impl<T> Detached<T> {
    /// A request that was done at once.
    pub(crate) fn done(value: T) -> Self {
        Self(State::Done(Some(value)))
    }

    /// Done, with the result of its task, which has ended.
    fn into_done(self) -> Self {
        match self.0 {
            State::Running(outcome) => Self(State::Done(outcome.0.lock().0.take())),
            done => Self(done),
        }
    }

    /// The outcome, if the request was done at once.
    pub(crate) fn try_done(self) -> Result<T, Self> {
        match self.0 {
            State::Done(Some(value)) => Ok(value),
            state => Err(Self(state)),
        }
    }
}

impl Detached<Result<(), ArrayError>> {
    /// Turns the request into a device's I/O.
    pub(crate) fn into_io(self) -> Completion {
        match self.0 {
            State::Done(result) => {
                IoFuture::ready(result.expect("its outcome was not taken").map_err(IoError::from))
            }
            State::Running(outcome) => IoFuture::kept(outcome, 0),
        }
    }
}

/// Where another task puts the outcome of a request. If this is dropped without an outcome, the request has
/// [`Ended`].
pub(crate) struct Promise<T: Ended>(Option<Arc<Outcome<T>>>);

impl<T: Ended> Promise<T> {
    /// A promise for a request that another task serves, and the request's outcome.
    pub(crate) fn new() -> (Self, Detached<T>) {
        let outcome = Outcome::new();
        (Self(Some(outcome.clone())), Detached(State::Running(outcome)))
    }

    /// The request is done.
    #[inline]
    pub(crate) fn keep(mut self, value: T) {
        if let Some(outcome) = self.0.take() {
            outcome.keep(value);
        }
    }
}

impl<T: Ended> Drop for Promise<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            outcome.keep(T::ended());
        }
    }
}

impl<T: Ended + Send + Unpin + 'static> Detached<T> {
    /// Runs a request, or the rest of one, as a task of its own.
    pub(crate) fn go_on(env: &EnvHandle, request: impl Future<Output = T> + Send + 'static) -> Self {
        let (promise, outcome) = Promise::new();
        env.spawn(Box::pin(request.map(|value| promise.keep(value))));
        outcome
    }

    /// Starts a request. If it is not done at once, it continues as a task of its own.
    pub(crate) fn start(env: &EnvHandle, request: impl Future<Output = T> + Send + 'static) -> Self {
        if !env.is_here() {
            return Self::go_on(env, request);
        }
        let (promise, outcome) = Promise::new();
        let mut task: BoxFuture<()> = Box::pin(request.map(|value| promise.keep(value)));
        // The waker of this first step does nothing; the task polls again with its own.
        if step(env, || task.as_mut().poll(&mut Context::from_waker(noop_waker_ref()))).is_ready() {
            return outcome.into_done();
        }
        env.spawn(task);
        outcome
    }
}

/// Runs a future on a worker of the environment: on this one, if the caller is a worker.
pub(crate) async fn on_worker<T: Ended + Send + Unpin + 'static>(
    env: &EnvHandle,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    match env.is_here() {
        true => future.await,
        false => Detached::go_on(env, future).await,
    }
}

impl<T: Unpin> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Done(value) => Poll::Ready(value.take().expect("a request is polled until it is done")),
            State::Running(outcome) => outcome.poll(cx),
        }
    }
}
