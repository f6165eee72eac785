//! One worker's timers: a heap of deadlines with the wakers that wait for them.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
    time::Instant,
};

thread_local! {
    static TIMERS: RefCell<Timers> = RefCell::default();
}

/// Where an id tells its thread.
const THREAD_SHIFT: u32 = 40;

struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64)>>,
    wakers: BTreeMap<u64, Waker>,
    thread: u64,
    next_id: u64,
}

impl Default for Timers {
    fn default() -> Self {
        // Ids differ between threads: a sleep dropped on another worker must not remove one of that worker's
        // timers.
        static THREADS: AtomicU64 = AtomicU64::new(0);
        let thread = THREADS.fetch_add(1, Ordering::Relaxed);
        Self { heap: BinaryHeap::new(), wakers: BTreeMap::new(), thread, next_id: thread << THREAD_SHIFT }
    }
}

impl Timers {
    fn add(&mut self, deadline: Instant) -> u64 {
        self.next_id += 1;
        self.heap.push(Reverse((deadline, self.next_id)));
        self.next_id
    }
}

/// The next deadline on this thread.
pub(super) fn next_deadline() -> Option<Instant> {
    TIMERS.with_borrow(|timers| timers.heap.peek().map(|Reverse((deadline, _))| *deadline))
}

/// Moves the wakers of all passed deadlines into `wakers`.
pub(super) fn expire(now: Instant, wakers: &mut Vec<Waker>) {
    TIMERS.with_borrow_mut(|timers| {
        while let Some(&Reverse((deadline, id))) = timers.heap.peek() {
            if deadline > now {
                break;
            }
            timers.heap.pop();
            wakers.extend(timers.wakers.remove(&id));
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
            let id = own.unwrap_or_else(|| timers.add(deadline));
            self.id = Some(id);
            timers.wakers.insert(id, cx.waker().clone());
        });
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // The heap entry stays until its time and then finds no waker.
            let _ = TIMERS.try_with(|timers| timers.borrow_mut().wakers.remove(&id));
        }
    }
}
