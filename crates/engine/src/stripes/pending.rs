//! The future of a read: it is done, waits for one member, or is a task.

use std::{
    future::Future,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use stripewise_device::{IoBuf, ReadDone, Waiting, sync::Kept};

use super::{Stripes, piece::Piece};
use crate::{
    error::ArrayError,
    life::{detached::Detached, step::step},
    members::member::Member,
};

/// The outcome of a read that has started. A read that waits for one member holds no rows, so only stopping
/// the array or removing that member waits for it. It needs no task of its own: a caller that loses interest
/// drops it.
pub(crate) struct Reading(State);

enum State {
    /// It was done at once; none once the caller has the outcome.
    Done(Option<Result<IoBuf, ArrayError>>),
    /// Its one member works on it.
    Waits(Asked),
    /// It runs to its end by itself.
    Runs(Detached<Result<IoBuf, ArrayError>>),
}

/// A read of one piece under way. Small, since callers move all of [`Reading`], even if it is done.
struct Asked {
    bytes: Range<u64>,
    member: Arc<Member>,
    io: Waiting<ReadDone>,
    /// Last, so that it drops last: a task that waits for the request's end relies on the member's handle
    /// being dropped by then.
    request: Request,
}

/// A request under way that holds the array's stripes.
struct Request {
    stripes: Arc<Stripes>,
    kept: Option<Kept>,
}

impl Drop for Request {
    fn drop(&mut self) {
        self.kept.take().into_iter().for_each(|kept| drop(self.stripes.requests.resume(kept)));
    }
}

impl Reading {
    pub(super) fn done(result: Result<IoBuf, ArrayError>) -> Self {
        Self(State::Done(Some(result)))
    }

    pub(super) fn pending(
        stripes: Arc<Stripes>,
        kept: Kept,
        bytes: Range<u64>,
        member: Arc<Member>,
        io: Waiting<ReadDone>,
    ) -> Self {
        let request = Request { stripes, kept: Some(kept) };
        Self(State::Waits(Asked { bytes, member, io, request }))
    }

    pub(super) fn runs(read: Detached<Result<IoBuf, ArrayError>>) -> Self {
        Self(State::Runs(read))
    }

    /// The outcome, if the read was done at once.
    pub(crate) fn try_done(self) -> Result<Result<IoBuf, ArrayError>, Self> {
        match self.0 {
            State::Done(Some(result)) => Ok(result),
            state => Err(Self(state)),
        }
    }
}

impl Asked {
    /// Continues as a task with what the member answered.
    fn recover(self, done: ReadDone) -> Detached<Result<IoBuf, ArrayError>> {
        let Self { request, bytes, member, .. } = self;
        let env = request.stripes.life.env().clone();
        Detached::start(&env, async move {
            // They are dropped in reverse order: the member before the request.
            let (request, member) = (request, member);
            let len = (bytes.end - bytes.start) as usize;
            let piece = Piece::only(&request.stripes.geometry(), bytes.start, len);
            let piece = piece.expect("one piece was asked for");
            request.stripes.take_read(&member, &piece, done).await
        })
    }
}

impl Future for Reading {
    type Output = Result<IoBuf, ArrayError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Done(result) = &mut self.0 {
            return Poll::Ready(result.take().expect("a request is polled until it is done"));
        }
        self.poll_waiting(cx)
    }
}

impl Reading {
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Result<IoBuf, ArrayError>> {
        if let State::Waits(asked) = &mut self.0 {
            let Asked { io, request, .. } = asked;
            let mut done = ready!(step(request.stripes.life.env(), || Pin::new(io).poll(cx)));
            let State::Waits(asked) = std::mem::replace(&mut self.0, State::Done(None)) else {
                unreachable!()
            };
            if done.result.is_ok() {
                return Poll::Ready(Ok(done.bufs.pop().expect("a read returns the buffer it was lent")));
            }
            self.0 = State::Runs(asked.recover(done));
        }
        match &mut self.0 {
            State::Runs(read) => Pin::new(read).poll(cx),
            _ => panic!("a request is polled until it is done"),
        }
    }
}
