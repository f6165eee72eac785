//! The turn: one task at a time writes out, in the order in which they came. A long write-out gives way between two batches.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

/// The right to write out.
#[derive(Debug, Default)]
pub(super) struct Turn(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    is_taken: bool,
    /// The number of the next task that waits.
    next: u64,
    /// Tasks that wait, by their numbers, in order.
    waiting: VecDeque<(u64, Waker)>,
}

impl Queue {
    /// The one that is next, if nobody has the turn.
    fn wake_next(&self) -> Option<Waker> {
        self.waiting.front().filter(|_| !self.is_taken).map(|(_, waker)| waker.clone())
    }
}

impl Turn {
    /// Waits for the turn.
    pub(super) fn take(&self) -> Take<'_> {
        Take { turn: self, number: None }
    }

    /// Lets all tasks that wait have their turns, and takes the next one.
    pub(super) async fn give_way<'turn>(&'turn self, taken: &mut Option<Taken<'turn>>) {
        let is_wanted = !self.0.lock().waiting.is_empty();
        if is_wanted {
            *taken = None;
            *taken = Some(self.take().await);
        }
    }

    /// Changes the queue, and wakes the task that is next then.
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let waker = {
            let mut queue = self.0.lock();
            change(&mut queue);
            queue.wake_next()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The turn of a task, until it is dropped.
#[derive(Debug)]
pub(super) struct Taken<'turn>(&'turn Turn);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.change(|queue| queue.is_taken = false);
    }
}

/// Waits for the turn, behind all that came before.
pub(super) struct Take<'turn> {
    turn: &'turn Turn,
    /// While it waits.
    number: Option<u64>,
}

impl<'turn> Future for Take<'turn> {
    type Output = Taken<'turn>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Taken<'turn>> {
        let turn = self.turn;
        let mut queue = turn.0.lock();
        let first = queue.waiting.front().map(|(number, _)| *number);
        if !queue.is_taken && (first.is_none() || first == self.number) {
            queue.waiting.pop_front();
            queue.is_taken = true;
            self.number = None;
            return Poll::Ready(Taken(turn));
        }
        let waker = context.waker().clone();
        match self.number {
            Some(own) => {
                let waiting = queue.waiting.iter_mut().find(|(number, _)| *number == own);
                waiting.into_iter().for_each(|(_, old)| old.clone_from(&waker));
            }
            None => {
                let number = queue.next;
                queue.next += 1;
                queue.waiting.push_back((number, waker));
                self.number = Some(number);
            }
        }
        Poll::Pending
    }
}

impl Drop for Take<'_> {
    /// It waits no more.
    fn drop(&mut self) {
        if let Some(own) = self.number.take() {
            self.turn.change(|queue| queue.waiting.retain(|(number, _)| *number != own));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::task::noop_waker_ref;

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(noop_waker_ref()))
    }

    fn ready<F: Future>(future: Pin<&mut F>) -> F::Output {
        let Poll::Ready(output) = poll(future) else { panic!("it waits") };
        output
    }

    #[test]
    fn tasks_have_their_turns_in_order() {
        let turn = Turn::default();
        let mut first = Some(ready(pin!(turn.take())));
        ready(pin!(turn.give_way(&mut first)));
        assert!(first.is_some(), "nobody waits");
        let (mut second, mut third) = (pin!(turn.take()), pin!(turn.take()));
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        let mut given = pin!(turn.give_way(&mut first));
        assert!(poll(given.as_mut()).is_pending());
        assert!(poll(pin!(turn.take())).is_pending(), "a task that comes now is behind all others, and goes");
        assert!(poll(third.as_mut()).is_pending(), "the second one came before");
        let taken = ready(second.as_mut());
        assert!(poll(given.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        drop(taken);
        assert!(poll(given.as_mut()).is_pending(), "the third one came before");
        let taken = ready(third.as_mut());
        drop(taken);
        ready(given.as_mut());
    }

    #[test]
    fn a_task_that_waits_no_more_keeps_nobody_from_it() {
        let turn = Turn::default();
        let first = ready(pin!(turn.take()));
        let mut second = Box::pin(turn.take());
        let mut third = pin!(turn.take());
        assert!(poll(second.as_mut()).is_pending() && poll(third.as_mut()).is_pending());
        drop(first);
        drop(second);
        ready(third.as_mut());
    }
}
