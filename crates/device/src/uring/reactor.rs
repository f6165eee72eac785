//! One worker's rings and the slab of its requests in flight.

#![allow(unsafe_code)]

use std::{
    cell::RefCell,
    io, mem,
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
    task::Waker,
    time::{Duration, Instant},
};

use slab::Slab;

use super::{
    RuntimeOptions,
    executor::Inbox,
    files::{Files, OpenFile},
    lookout::Seen,
    op::{FileRequest, Outcome, Slot, Target},
    ring::Ring,
    waiting::Waiting,
};

/// How long a stopping worker waits for requests that are still in the kernel. After that it leaks their
/// buffers rather than free them while the kernel may use them.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How long it waits before it tries again to cancel them.
const DRAIN_STEP: Duration = Duration::from_millis(20);

thread_local! {
    static REACTOR: RefCell<Option<Reactor>> = const { RefCell::new(None) };
}

/// Runs `f` on this thread's reactor, which it has.
///
/// # Panics
/// If the thread is not a worker.
pub(super) fn with<R>(f: impl FnOnce(&mut Reactor) -> R) -> R {
    with_own(|reactor| f(reactor.expect("called on a worker")))
}

/// Runs `f` on this thread's reactor; none, if the thread is not a worker.
#[inline]
pub(super) fn with_own<R>(f: impl FnOnce(Option<&mut Reactor>) -> R) -> R {
    REACTOR.with_borrow_mut(|reactor| f(reactor.as_mut()))
}

/// Runs `f` on this thread's reactor, if the reactor is that worker's and not in use.
pub(super) fn with_here(worker: usize, f: impl FnOnce(&mut Reactor)) -> bool {
    let on_it = REACTOR.try_with(|cell| {
        let Ok(mut reactor) = cell.try_borrow_mut() else { return false };
        let Some(reactor) = reactor.as_mut().filter(|reactor| reactor.worker == worker) else { return false };
        f(reactor);
        true
    });
    on_it.unwrap_or(false)
}

/// Gives up waiting for a request, from any thread.
pub(super) fn abandon(worker: usize, index: usize) {
    if with_here(worker, |reactor| reactor.abandon(index)) {
        return;
    }
    if let Some(inbox) = Inbox::of_worker(worker).filter(|inbox| !inbox.is_stopping()) {
        inbox.spawn(Box::pin(async move { with(|reactor| reactor.abandon(index)) }));
    }
}

/// Installs a reactor on this thread.
pub(super) fn install(inbox: &Arc<Inbox>, options: &RuntimeOptions) -> io::Result<()> {
    let reactor = Reactor::new(inbox.clone(), options)?;
    REACTOR.set(Some(reactor));
    Ok(())
}

/// Waits for the requests in flight and removes this thread's reactor.
pub(super) fn remove() {
    if let Some(mut reactor) = REACTOR.take() {
        reactor.drain();
    }
}

pub(super) struct Reactor {
    worker: usize,
    inbox: Arc<Inbox>,
    ring: Ring,
    /// For reads and writes of members whose completions are polled; None unless the options ask for it.
    polled: Option<Ring>,
    files: Files,
    slots: Slab<Slot>,
    /// Registered files whose requests are done; empty except while completions are taken.
    done_files: Vec<usize>,
}

/// All rings of a reactor.
macro_rules! rings {
    ($reactor:ident) => {
        std::iter::once(&$reactor.ring).chain(&$reactor.polled)
    };
}

impl Reactor {
    fn new(inbox: Arc<Inbox>, options: &RuntimeOptions) -> io::Result<Self> {
        let ring = Ring::new(options)?;
        let polled = options.io_poll.then(|| Ring::polled(options)).transpose()?;
        let slots = Slab::with_capacity(options.queue_depth as usize);
        let files = Files::new(std::iter::once(&ring).chain(&polled));
        Ok(Self { worker: inbox.id(), inbox, ring, polled, files, slots, done_files: Vec::new() })
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

    /// As [`Reactor::submit`], for a member's file.
    pub(super) fn submit_to_file(&mut self, request: FileRequest<'_>) -> usize {
        let polled = self.polled.is_some() && request.is_to_be_polled();
        let polled = polled.then(|| request.can_poll.clone());
        let target = if self.files.enter(request.file, &self.inbox, rings!(self)) {
            Target::Registered(request.file.as_fd().as_raw_fd())
        } else {
            Target::File(request.file.clone())
        };
        self.submit(Slot::of_file(target, request, polled))
    }

    /// A file's owner releases it.
    pub(super) fn forget(&mut self, file: &Arc<OpenFile>) {
        self.files.forget(file, rings!(self));
    }

    fn queue(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let ring = match &mut self.polled {
            Some(polled) if slot.is_polled() => polled,
            _ => &mut self.ring,
        };
        let start = slot.prepare();
        let entry = slot.entry(start.and_then(|start| ring.fixed(start))).user_data(index as u64);
        // SAFETY: the entry points into the slot's buffers, iovec vector and message, whose heap memory
        // neither moves nor is freed while the slot is in the slab; the slot leaves it only after its
        // completion.
        unsafe { ring.push(entry) };
    }

    /// Takes the outcome of a request, or keeps the waker.
    pub(super) fn poll(&mut self, index: usize, waker: &Waker) -> Option<Outcome> {
        match &mut self.slots[index].waiting {
            Waiting::Done(result) => {
                let result = *result;
                Some(self.slots.remove(index).into_outcome(result))
            }
            waiting => {
                waiting.keep(waker);
                None
            }
        }
    }

    fn abandon(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        match slot.waiting {
            Waiting::Done(result) => self.slots.remove(index).into_outcome(result).discard(),
            _ => slot.waiting.give_up(),
        }
    }

    /// Whether the kernel must be called although there is other work.
    pub(super) fn needs_call(&mut self) -> bool {
        self.ring.needs_call()
    }

    /// Whether requests are under way that complete only when polled.
    pub(super) fn is_polling(&self) -> bool {
        self.polled.as_ref().is_some_and(Ring::is_busy)
    }

    /// Hands queued entries to the kernel; with `wait`, sleeps until a completion comes or the given time is
    /// over.
    pub(super) fn submit_and_wait(&mut self, wait: Option<Duration>) -> io::Result<()> {
        if let Some(polled) = self.polled.as_mut().filter(|ring| ring.is_busy()) {
            polled.submit(None)?;
        }
        self.ring.submit(wait)
    }

    /// Takes all completions and returns the wakers of the tasks that waited for them.
    pub(super) fn reap(&mut self, wakers: &mut Vec<Waker>) {
        let (mut again, mut done_files) = (Vec::new(), mem::take(&mut self.done_files));
        for ring in std::iter::once(&mut self.ring).chain(&mut self.polled) {
            for cqe in ring.completions() {
                let index = cqe.user_data() as usize;
                let slot = &mut self.slots[index];
                let Some(result) = slot.complete(cqe.result()) else {
                    again.push(index);
                    continue;
                };
                done_files.extend(slot.registered());
                match slot.waiting.end(result) {
                    Waiting::Task(Some(waker)) => wakers.push(waker),
                    Waiting::Orphan => self.slots.remove(index).into_outcome(result).discard(),
                    _ => {}
                }
            }
        }
        done_files.drain(..).for_each(|number| self.files.exit(number, rings!(self)));
        self.done_files = done_files;
        again.into_iter().for_each(|index| self.queue(index));
    }

    /// The requests to files that the kernel has, and since when each was seen. One that is seen for the first time is seen since
    /// `now`.
    pub(super) fn look(&mut self, now: Instant) -> Vec<Seen> {
        let mut seen = Vec::new();
        for (_, slot) in &mut self.slots {
            let file = slot.own_file().or_else(|| self.files.registered(slot.registered()?));
            let Some(name) = file.map(|file| file.name().clone()) else { continue };
            seen.extend(slot.waiting.see(now).map(|since| (name, since)));
        }
        seen
    }

    #[cfg(test)]
    pub(super) fn requests(&self) -> usize {
        self.slots.len()
    }

    fn in_kernel(&self) -> usize {
        self.slots.iter().filter(|(_, slot)| !matches!(slot.waiting, Waiting::Done(_))).count()
    }

    /// Cancels and awaits all requests still in the kernel, so that their buffers can be freed.
    fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN_MAX;
        let mut wakers = Vec::new();
        while self.in_kernel() > 0 && Instant::now() < deadline {
            // Submit first: queued entries cannot be cancelled. A backlog may take several rounds.
            let _ = self.submit_and_wait(None);
            self.ring.cancel_all();
            let wait = (!self.is_polling()).then_some(DRAIN_STEP);
            let _ = self.submit_and_wait(wait);
            self.reap(&mut wakers);
        }
        if self.in_kernel() > 0 {
            mem::forget(mem::take(&mut self.slots));
        }
        for slot in self.slots.drain() {
            if let Waiting::Done(result) = slot.waiting {
                slot.into_outcome(result).discard();
            }
        }
        // Into the worker's inbox, which drops them.
        wakers.into_iter().for_each(Waker::wake);
    }
}
