//! Waiting for several requests of members at once.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use smallvec::SmallVec;
use stripewise_device::{IoError, IoFuture};

use crate::members::member::Member;

/// Requests under way, in the order in which their results are wanted.
pub(super) type Requested<T> = SmallVec<[IoFuture<T>; 8]>;

/// As [`Requested`], with room for as many as most small writes have: what is kept while it is under way must
/// be cheap to move.
pub(super) type Few<T> = SmallVec<[IoFuture<T>; 3]>;

/// Whether all requests are done already, and well.
pub(super) fn are_ready<T>(requested: &[IoFuture<T>], is_well: fn(&T) -> bool) -> bool {
    requested.iter().all(|io| io.peek().is_some_and(is_well))
}

/// Waits for all requests, and leaves them as if they had been done at once. `watched` says that members are
/// metered. Then every request is polled whenever one of them wakes the task, so that its end is seen when it
/// happens. Otherwise they are polled one after the other, which is less work.
pub(super) async fn wait_all<T: Unpin>(requested: &mut [IoFuture<T>], watched: bool) {
    if watched {
        return poll_fn(|cx| {
            let left = requested.iter_mut().filter_map(|io| is_pending(io, cx).then_some(())).count();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    for io in requested {
        poll_fn(|cx| if is_pending(io, cx) { Poll::Pending } else { Poll::Ready(()) }).await;
    }
}

/// Polls a request, unless it is done. Its result stays in it.
fn is_pending<T: Unpin>(io: &mut IoFuture<T>, cx: &mut Context<'_>) -> bool {
    if io.peek().is_none() {
        match Pin::new(&mut *io).poll(cx) {
            Poll::Ready(result) => *io = IoFuture::ready(result),
            Poll::Pending => return true,
        }
    }
    false
}

/// The members that could not take what was written to them. All requests must be done.
pub(super) fn failures<'a>(
    mut members: impl Iterator<Item = &'a Arc<Member>>,
    requested: &mut [IoFuture<Result<(), IoError>>],
) -> Vec<(Arc<Member>, IoError)> {
    let done = requested.iter_mut().map(|io| io.take_ready().expect("all is done"));
    let of_members = done.map(|result| (members.next().expect("every request has its member"), result));
    of_members.filter_map(|(member, result)| Some((member.clone(), result.err()?))).collect()
}
