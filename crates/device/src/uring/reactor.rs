//! One worker's ring and the slab of its requests in flight.

#![allow(unsafe_code)]

use std::{
    cell::RefCell,
    collections::VecDeque,
    io, mem,
    task::Waker,
    time::{Duration, Instant},
};

use io_uring::{IoUring, squeue, types};
use slab::Slab;

use super::op::{Outcome, Slot, Waiting};

/// How long a stopping worker waits for requests that are still in the kernel. After that their buffers are leaked
/// rather than freed under it.
const DRAIN_MAX: Duration = Duration::from_secs(10);

thread_local! {
    static REACTOR: RefCell<Option<Reactor>> = const { RefCell::new(None) };
}

/// Runs `f` on this thread's reactor.
///
/// # Panics
/// If the thread is not a worker: I/O on a file member must be asked for by a task of a `Runtime`.
pub(super) fn with<R>(f: impl FnOnce(&mut Reactor) -> R) -> R {
    REACTOR.with_borrow_mut(|r| f(r.as_mut().expect("io_uring I/O is done by tasks on a Runtime's workers")))
}

/// Gives up waiting for a request. A handle dropped on a foreign thread leaves its slot to the reactor's own end.
pub(super) fn abandon(worker: usize, index: usize) {
    let _ = REACTOR.try_with(|cell| {
        if let Ok(mut reactor) = cell.try_borrow_mut()
            && let Some(reactor) = reactor.as_mut()
            && reactor.worker == worker
        {
            reactor.abandon(index);
        }
    });
}

/// Installs a reactor on this thread.
pub(super) fn install(worker: usize, queue_depth: u32) -> io::Result<()> {
    let reactor = Reactor::new(worker, queue_depth)?;
    REACTOR.set(Some(reactor));
    Ok(())
}

/// Waits for what is in flight and removes this thread's reactor.
pub(super) fn remove() {
    if let Some(mut reactor) = REACTOR.take() {
        reactor.drain();
    }
}

pub(super) struct Reactor {
    worker: usize,
    ring: IoUring,
    slots: Slab<Slot>,
    /// Entries that found the submission queue full.
    backlog: VecDeque<squeue::Entry>,
    unsubmitted: usize,
}

impl Reactor {
    fn new(worker: usize, queue_depth: u32) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_cqsize(queue_depth * 4)
            .build(queue_depth)
            .or_else(|_| IoUring::new(queue_depth))?;
        let slots = Slab::with_capacity(queue_depth as usize);
        Ok(Self { worker, ring, slots, backlog: VecDeque::new(), unsubmitted: 0 })
    }

    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    /// Queues a request; it reaches the kernel at the end of the worker's turn.
    pub(super) fn submit(&mut self, slot: Slot) -> usize {
        let index = self.slots.insert(slot);
        self.queue(index);
        index
    }

    fn queue(&mut self, index: usize) {
        let entry = self.slots[index].entry().user_data(index as u64);
        self.unsubmitted += 1;
        if self.backlog.is_empty() {
            // SAFETY: the entry points into the slot's buffers and iovec vector, whose heap memory neither moves
            // nor is freed while the slot is in the slab; the slot leaves it only after its completion.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    /// Fetches the outcome of a request, or leaves a waker.
    pub(super) fn poll(&mut self, index: usize, waker: &Waker) -> Option<Outcome> {
        match &mut self.slots[index].waiting {
            Waiting::Done(result) => {
                let result = *result;
                Some(self.slots.remove(index).into_outcome(result))
            }
            Waiting::Task(Some(known)) if known.will_wake(waker) => None,
            waiting => {
                *waiting = Waiting::Task(Some(waker.clone()));
                None
            }
        }
    }

    fn abandon(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        match slot.waiting {
            Waiting::Done(_) => drop(self.slots.remove(index)),
            _ => slot.waiting = Waiting::Orphan,
        }
    }

    pub(super) fn has_unsubmitted(&self) -> bool {
        self.unsubmitted > 0
    }

    /// Hands queued entries to the kernel; with `wait`, sleeps until a completion or the given time.
    pub(super) fn submit_and_wait(&mut self, wait: Option<Duration>) -> io::Result<()> {
        loop {
            let result = match wait {
                _ if !self.backlog.is_empty() => self.ring.submit(),
                None => self.ring.submit(),
                Some(timeout) => {
                    let timespec = types::Timespec::from(timeout);
                    let args = types::SubmitArgs::new().timespec(&timespec);
                    self.ring.submitter().submit_with_args(1, &args)
                }
            };
            match result {
                Ok(_) => {}
                // EBUSY: the completion queue is full and must be reaped first. The rest: nothing came in time.
                Err(e)
                    if matches!(
                        e.raw_os_error(),
                        Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                    ) => {}
                Err(e) => return Err(e),
            }
            self.unsubmitted = self.backlog.len();
            if self.backlog.is_empty() || !self.refill() {
                return Ok(());
            }
        }
    }

    /// Moves backlog into the submission queue; tells whether anything moved.
    fn refill(&mut self) -> bool {
        let mut moved = false;
        let mut queue = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: as in `queue`.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
            moved = true;
        }
        moved
    }

    /// Takes all completions and returns the wakers of the tasks that waited for them.
    pub(super) fn reap(&mut self, wakers: &mut Vec<Waker>) {
        let mut again = Vec::new();
        for cqe in self.ring.completion() {
            let index = cqe.user_data() as usize;
            let slot = &mut self.slots[index];
            let Some(result) = slot.complete(cqe.result()) else {
                again.push(index);
                continue;
            };
            match mem::replace(&mut slot.waiting, Waiting::Done(result)) {
                Waiting::Task(Some(waker)) => wakers.push(waker),
                Waiting::Orphan => drop(self.slots.remove(index)),
                _ => {}
            }
        }
        again.into_iter().for_each(|index| self.queue(index));
    }

    fn in_kernel(&self) -> usize {
        self.slots.iter().filter(|(_, slot)| !matches!(slot.waiting, Waiting::Done(_))).count()
    }

    /// Cancels and awaits everything still in the kernel, so that its buffers can be freed.
    fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN_MAX;
        let mut wakers = Vec::new();
        while self.in_kernel() > 0 && Instant::now() < deadline {
            // Submit first: what is still queued cannot be cancelled. A backlog may take several rounds.
            let _ = self.submit_and_wait(None);
            let _ = self.ring.submitter().register_sync_cancel(None, types::CancelBuilder::any().all());
            let _ = self.submit_and_wait(Some(Duration::from_millis(20)));
            self.reap(&mut wakers);
        }
        if self.in_kernel() > 0 {
            mem::forget(mem::take(&mut self.slots));
        }
    }
}
