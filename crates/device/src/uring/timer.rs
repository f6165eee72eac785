//! One worker's timers: the tasks that sleep on it, by the time at which each must be woken.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

thread_local! {
    static TIMERS: RefCell<Timers> = RefCell::default();
}

/// Where an id tells its thread.
const THREAD_SHIFT: u32 = 40;
/// A sleep that would end later than an [`Instant`] can tell lasts so long: 30 years.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);

struct Timers {
    wakers: BTreeMap<(Instant, u64), Waker>,
    thread: u64,
    next_id: u64,
}

impl Default for Timers {
    fn default() -> Self {
        // Ids differ between threads: a sleep dropped on another worker must not remove one of that worker's
        // timers.
        static THREADS: AtomicU64 = AtomicU64::new(0);
        let thread = THREADS.fetch_add(1, Ordering::Relaxed);
        Self { wakers: BTreeMap::new(), thread, next_id: thread << THREAD_SHIFT }
    }
}

impl Timers {
    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// The next deadline on this thread.
pub(super) fn next_deadline() -> Option<Instant> {
    TIMERS.with_borrow(|timers| timers.wakers.first_key_value().map(|((deadline, _), _)| *deadline))
}

/// Moves the wakers of all passed deadlines into `wakers`.
pub(super) fn expire(now: Instant, wakers: &mut Vec<Waker>) {
    TIMERS.with_borrow_mut(|timers| {
        while let Some(first) = timers.wakers.first_entry().filter(|first| first.key().0 <= now) {
            wakers.push(first.remove());
        }
    });
}

/// Takes the wakers of all tasks that still sleep on this thread, which ends.
pub(super) fn take_all() -> Vec<Waker> {
    TIMERS.take().wakers.into_values().collect()
}

/// Waits for a deadline on the worker that polls it.
pub(super) struct Sleep {
    deadline: Instant,
    id: Option<u64>,
}

impl Sleep {
    pub(super) fn until(deadline: Instant) -> Self {
        Self { deadline, id: None }
    }

    /// The end of a sleep that begins now.
    pub(super) fn deadline_after(duration: Duration) -> Instant {
        let now = Instant::now();
        now.checked_add(duration).unwrap_or(now + LONGEST)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        TIMERS.with_borrow_mut(|timers| {
            let deadline = self.deadline;
            // One that was moved here starts anew; where it was, its time passes unheard.
            let own = self.id.filter(|id| id >> THREAD_SHIFT == timers.thread);
            let id = own.unwrap_or_else(|| timers.next_id());
            self.id = Some(id);
            timers.wakers.insert((deadline, id), cx.waker().clone());
        });
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let _ = TIMERS.try_with(|timers| timers.borrow_mut().wakers.remove(&(self.deadline, id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sleep that was polled once.
    fn begun(duration: Duration) -> Sleep {
        let mut sleep = Sleep::until(Sleep::deadline_after(duration));
        let waits = Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop()));
        assert!(waits.is_pending());
        sleep
    }

    #[test]
    fn a_dropped_sleep_leaves_nothing_behind() {
        let later = begun(Duration::from_secs(3600));
        for _ in 0..1000 {
            drop(begun(Duration::from_secs(30)));
        }
        assert_eq!(next_deadline(), Some(later.deadline));
        assert_eq!(take_all().len(), 1);
    }

    #[test]
    fn the_longest_duration_is_a_sleep_like_any_other() {
        let sleep = begun(Duration::MAX);
        let mut wakers = Vec::new();
        expire(Instant::now(), &mut wakers);
        assert!(wakers.is_empty() && next_deadline() == Some(sleep.deadline));
    }
}
