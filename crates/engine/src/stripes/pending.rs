//! A read that one member can serve, while the member is at it.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use stripewise_device::{IoBuf, IoFuture, ReadDone, sync::Kept};

use super::{Stripes, piece::Piece};
use crate::{error::ArrayError, life::detached::Detached, members::member::Member};

/// How far a read came at once.
pub(crate) enum ReadStart {
    /// To its end.
    Done(Result<IoBuf, ArrayError>),
    /// Its one member is at it.
    Pending(PendingRead),
    /// It goes to its end by itself.
    Runs(Detached<Result<IoBuf, ArrayError>>),
}

/// The outcome of a read that a member was asked for. It holds no rows, so that nobody waits for it but who stops the array or
/// removes a member, and needs no task of its own: who loses interest drops it.
pub(crate) struct PendingRead(State);

enum State {
    Waits(Asked),
    /// The member could not read it.
    Recovers(Detached<Result<IoBuf, ArrayError>>),
    Over,
}

struct Asked {
    piece: Piece,
    member: Arc<Member>,
    io: IoFuture<ReadDone>,
    /// The last: who waits for it relies on the member's being let go of.
    request: Request,
}

/// A request under way that has the array in hand.
struct Request {
    stripes: Arc<Stripes>,
    kept: Option<Kept>,
}

impl Drop for Request {
    fn drop(&mut self) {
        self.kept.take().into_iter().for_each(|kept| drop(self.stripes.requests.resume(kept)));
    }
}

impl PendingRead {
    pub(super) fn new(
        stripes: Arc<Stripes>,
        kept: Kept,
        piece: Piece,
        member: Arc<Member>,
        io: IoFuture<ReadDone>,
    ) -> Self {
        let request = Request { stripes, kept: Some(kept) };
        Self(State::Waits(Asked { piece, member, io, request }))
    }
}

impl Asked {
    /// Goes on by itself with what the member answered.
    fn recover(self, done: ReadDone) -> Detached<Result<IoBuf, ArrayError>> {
        let Self { request, piece, member, .. } = self;
        let env = request.stripes.life.env().clone();
        Detached::start(&env, async move {
            // In this order they are let go of backwards.
            let (request, member) = (request, member);
            request.stripes.take_read(&member, &piece, done).await
        })
    }
}

impl Future for PendingRead {
    type Output = Result<IoBuf, ArrayError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Waits(asked) = &mut self.0 {
            let mut done = ready!(Pin::new(&mut asked.io).poll(cx));
            let State::Waits(asked) = std::mem::replace(&mut self.0, State::Over) else { unreachable!() };
            if done.result.is_ok() {
                return Poll::Ready(Ok(done.bufs.pop().expect("a read returns the buffer it was lent")));
            }
            self.0 = State::Recovers(asked.recover(done));
        }
        match &mut self.0 {
            State::Recovers(recovery) => Pin::new(recovery).poll(cx),
            _ => panic!("a request is polled until it is done"),
        }
    }
}
