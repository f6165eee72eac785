//! Waiting for several requests of members at once.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use smallvec::SmallVec;
use stripewise_device::IoFuture;

/// Requests under way, in the order that their results are wanted.
pub(super) type Requested<T> = SmallVec<[IoFuture<T>; 8]>;

/// Whether all were done at once, and well.
pub(super) fn are_ready<T>(requested: &Requested<T>, is_well: fn(&T) -> bool) -> bool {
    requested.iter().all(|io| io.peek().is_some_and(is_well))
}

/// Waits for all. `watched` says that members are metered: each request is then looked at whenever one of them wakes
/// the task, so that its end is seen when it happens; else one after the other, which is less work.
pub(super) async fn wait_all<T: Unpin>(requested: Requested<T>, watched: bool) -> SmallVec<[T; 8]> {
    let mut results = SmallVec::new();
    if !watched {
        for io in requested {
            results.push(io.await);
        }
        return results;
    }
    let mut waited: SmallVec<[Waited<T>; 8]> = requested.into_iter().map(Waited::For).collect();
    poll_fn(|cx| {
        let left = waited.iter_mut().filter_map(|one| one.is_pending(cx).then_some(())).count();
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.extend(waited.into_iter().filter_map(|one| match one {
        Waited::Done(result) => Some(result),
        Waited::For(_) => None,
    }));
    results
}

enum Waited<T> {
    For(IoFuture<T>),
    Done(T),
}

impl<T: Unpin> Waited<T> {
    fn is_pending(&mut self, cx: &mut Context<'_>) -> bool {
        let Self::For(io) = self else { return false };
        match Pin::new(io).poll(cx) {
            Poll::Ready(result) => {
                *self = Self::Done(result);
                false
            }
            Poll::Pending => true,
        }
    }
}
