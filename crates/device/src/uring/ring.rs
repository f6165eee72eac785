//! One ring: its queues, the entries that did not fit into them, and the memory registered with the kernel
//! through it.

#![allow(unsafe_code)]

use std::{collections::VecDeque, io, os::fd::RawFd, time::Duration};

use io_uring::{Builder, IoUring, cqueue, squeue, types};

use super::RuntimeOptions;
use crate::arena;

/// Threads of the kernel that do what would make a worker wait, started as needed. A member that hangs takes
/// the threads it occupies from the others.
const KERNEL_THREADS_MAX: u32 = 256;

/// A ring and its bookkeeping.
pub(super) struct Ring {
    ring: IoUring,
    slabs: Slabs,
    /// Entries that found the submission queue full.
    backlog: VecDeque<squeue::Entry>,
    /// Entries and overflowed completions that the next call is for.
    unsubmitted: usize,
    /// Entries whose completions are still to come.
    under_way: usize,
}

impl Ring {
    /// A worker's main ring, for all requests.
    pub(super) fn new(options: &RuntimeOptions) -> io::Result<Self> {
        let mut builder = builder(options);
        builder.setup_single_issuer();
        match options.sq_poll_idle {
            Some(idle) => builder.setup_sqpoll(idle.as_millis().clamp(1, u32::MAX.into()) as u32),
            None => builder.setup_coop_taskrun().setup_taskrun_flag(),
        };
        let plain = |error| match options.sq_poll_idle {
            None => IoUring::new(options.queue_depth),
            Some(_) => Err(error),
        };
        Ok(Self::with(builder.build(options.queue_depth).or_else(plain)?))
    }

    /// A second ring, whose reads and writes the kernel completes when it is polled, without interrupts.
    pub(super) fn polled(options: &RuntimeOptions) -> io::Result<Self> {
        let mut builder = builder(options);
        builder.setup_single_issuer().setup_iopoll();
        Ok(Self::with(builder.build(options.queue_depth)?))
    }

    fn with(ring: IoUring) -> Self {
        // Before Linux 5.15 the limit is four per core; hanging requests may then hold up others sooner.
        let _ = ring.submitter().register_iowq_max_workers(&mut [KERNEL_THREADS_MAX, 0]);
        let slabs = Slabs::new(&ring);
        Self { ring, slabs, backlog: VecDeque::new(), unsubmitted: 0, under_way: 0 }
    }

    /// Queues an entry; it reaches the kernel with the next [`Ring::submit`].
    ///
    /// # Safety
    /// The memory that the entry points to stays valid and in place until its completion was taken.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry) {
        self.unsubmitted += 1;
        self.under_way += 1;
        if self.backlog.is_empty() {
            // SAFETY: as the caller vouches.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    /// The number under which the kernel knows the memory at `start`, if it does.
    pub(super) fn fixed(&mut self, start: *const u8) -> Option<u16> {
        self.slabs.number_of(&self.ring, start)
    }

    /// Makes room for registered files; false if the kernel refuses.
    pub(super) fn make_file_table(&self, files: u32) -> bool {
        self.ring.submitter().register_files_sparse(files).is_ok()
    }

    /// Registers a descriptor under a number, or with -1 clears the number; false if the kernel refuses.
    pub(super) fn set_file(&self, number: u32, fd: RawFd) -> bool {
        self.ring.submitter().register_files_update(number, &[fd]).is_ok()
    }

    /// Whether the kernel must be called: for entries that it does not have, or for completions that it posts
    /// only when called.
    pub(super) fn needs_call(&mut self) -> bool {
        self.unsubmitted > 0 || self.ring.submission().taskrun()
    }

    /// Whether completions are still to come.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// Hands queued entries to the kernel; with `wait`, sleeps until a completion comes or the given time is
    /// over.
    pub(super) fn submit(&mut self, wait: Option<Duration>) -> io::Result<()> {
        loop {
            match self.enter(wait.filter(|_| self.backlog.is_empty())) {
                Ok(_) => {}
                // EBUSY: the completion queue is full and must be reaped first. The others: nothing came in
                // time.
                Err(e)
                    if matches!(
                        e.raw_os_error(),
                        Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                    ) => {}
                Err(e) => return Err(e),
            }
            self.unsubmitted = self.backlog.len() + self.left_over();
            if self.backlog.is_empty() || !self.refill() {
                return Ok(());
            }
        }
    }

    /// Counts what to call the kernel again for: entries that it did not take, and completions that
    /// overflowed their queue.
    fn left_over(&mut self) -> usize {
        let by_kernel_thread = self.ring.params().is_setup_sqpoll();
        let queue = self.ring.submission();
        let entries = if by_kernel_thread { 0 } else { queue.len() };
        entries + usize::from(queue.cq_overflow())
    }

    fn enter(&self, wait: Option<Duration>) -> io::Result<usize> {
        let Some(timeout) = wait else { return self.ring.submit() };
        let timespec = types::Timespec::from(timeout);
        let args = types::SubmitArgs::new().timespec(&timespec);
        self.ring.submitter().submit_with_args(1, &args)
    }

    /// Moves backlog into the submission queue; returns whether anything moved.
    fn refill(&mut self) -> bool {
        let mut moved = false;
        let mut queue = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: vouched for by the caller that pushed the entry.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.backlog.pop_front();
            moved = true;
        }
        moved
    }

    /// Takes all completions. Those that overflowed their queue come with the next [`Ring::submit`].
    pub(super) fn completions(&mut self) -> impl Iterator<Item = cqueue::Entry> {
        self.unsubmitted = self.unsubmitted.max(usize::from(self.ring.submission().cq_overflow()));
        let under_way = &mut self.under_way;
        self.ring.completion().inspect(|_| *under_way -= 1)
    }

    /// Asks the kernel to cancel all requests under way.
    pub(super) fn cancel_all(&self) {
        let _ = self.ring.submitter().register_sync_cancel(None, types::CancelBuilder::any().all());
    }
}

fn builder(options: &RuntimeOptions) -> Builder {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(options.queue_depth * 4);
    builder
}

/// The slabs of buffers that a ring has registered, each when a request first uses one of its buffers. Their
/// pages are pinned from then on, and requests need not look them up. Where the kernel refuses (before Linux
/// 5.19, or beyond what the user may pin, RLIMIT_MEMLOCK), requests work without.
struct Slabs {
    state: Vec<SlabState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlabState {
    Unknown,
    Registered,
    Refused,
}

impl Slabs {
    fn new(ring: &IoUring) -> Self {
        let has_table = ring.submitter().register_buffers_sparse(arena::SLABS_MAX as u32).is_ok();
        let state = if has_table { SlabState::Unknown } else { SlabState::Refused };
        Self { state: vec![state; arena::SLABS_MAX] }
    }

    fn number_of(&mut self, ring: &IoUring, start: *const u8) -> Option<u16> {
        let slab = arena::slab_of(start)?;
        if self.state[slab] == SlabState::Unknown {
            self.state[slab] = Self::register(ring, slab);
        }
        (self.state[slab] == SlabState::Registered).then_some(slab as u16)
    }

    #[cold]
    fn register(ring: &IoUring, slab: usize) -> SlabState {
        let Some(start) = arena::slab(slab) else { return SlabState::Refused };
        let memory = libc::iovec { iov_base: start.cast(), iov_len: arena::SLAB_BYTES };
        // SAFETY: slabs are never given back to the system, so the memory is there as long as the ring.
        let registered = unsafe { ring.submitter().register_buffers_update(slab as u32, &[memory], None) };
        if registered.is_ok() { SlabState::Registered } else { SlabState::Refused }
    }
}
