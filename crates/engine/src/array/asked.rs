//! A read that one member can serve, while the member is at it.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use stripewise_device::{IoBuf, IoFuture, ReadDone};

use super::{Shared, detached::Detached, read::Piece};
use crate::{error::ArrayError, topology::Member};

/// How far a read came at once.
pub(super) enum Started {
    /// To its end.
    Done(Result<IoBuf, ArrayError>),
    /// Its one member is at it.
    Asked(Asked),
    /// It goes to its end by itself.
    Runs(Detached<Result<IoBuf, ArrayError>>),
}

/// The outcome of a read that a member was asked for. It holds nothing that anybody waits for, no rows and no place among
/// the requests under way, and so needs no task of its own: who loses interest drops it, and an array that is stopped
/// meanwhile is stopped.
pub(super) struct Asked(State);

enum State {
    Waits(Question),
    /// The member could not read it.
    Recovers(Detached<Result<IoBuf, ArrayError>>),
    Over,
}

struct Question {
    shared: Arc<Shared>,
    offset_bytes: u64,
    piece: Piece,
    member: Arc<Member>,
    io: IoFuture<ReadDone>,
}

impl Asked {
    pub(super) fn of(
        shared: Arc<Shared>,
        offset_bytes: u64,
        piece: Piece,
        member: Arc<Member>,
        io: IoFuture<ReadDone>,
    ) -> Self {
        Self(State::Waits(Question { shared, offset_bytes, piece, member, io }))
    }
}

impl Question {
    /// Goes on by itself with what the member answered, as a request again: the array may have been stopped.
    fn recover(self, done: ReadDone) -> Detached<Result<IoBuf, ArrayError>> {
        let Self { shared, offset_bytes, piece, member, .. } = self;
        let env = shared.env.clone();
        Detached::start(&env, async move {
            let _request = shared.requests.enter();
            shared.check_request(offset_bytes, piece.bytes.len() as u64)?;
            shared.take_read(&member, &piece, done).await
        })
    }
}

impl Future for Asked {
    type Output = Result<IoBuf, ArrayError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Waits(question) = &mut self.0 {
            let mut done = ready!(Pin::new(&mut question.io).poll(cx));
            let State::Waits(question) = std::mem::replace(&mut self.0, State::Over) else { unreachable!() };
            if done.result.is_ok() {
                return Poll::Ready(Ok(done.bufs.pop().expect("a read returns the buffer it was lent")));
            }
            self.0 = State::Recovers(question.recover(done));
        }
        match &mut self.0 {
            State::Recovers(recovery) => Pin::new(recovery).poll(cx),
            _ => panic!("a request is polled until it is done"),
        }
    }
}
