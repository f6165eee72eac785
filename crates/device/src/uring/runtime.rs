//! The runtime: a set of workers, and the `Env` they make.

use std::{
    future::{Future, poll_fn},
    io::{self, Write},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{
    executor::{self, Inbox},
    lookout::{Lookout, look_out},
    ring::Ring,
    routed::Routed,
    started::Started,
    timer::Sleep,
};
use crate::{BoxFuture, Env, EnvHandle, IoFuture, Timestamp};

/// The number of workers, and the settings of their rings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// Worker threads.
    pub threads: usize,
    /// Submission queue entries per worker: how many requests one system call can carry.
    pub queue_depth: u32,
    /// Makes a kernel thread watch each worker's submission queue, so that submitting takes no system call.
    /// The thread sleeps after this long without work; until then it takes a core for itself. None: workers
    /// submit themselves.
    pub sq_poll_idle: Option<Duration>,
    /// Workers poll for completions of members' reads and writes instead of waiting for interrupts, on
    /// members whose queues can be polled. A worker with such I/O under way does not sleep.
    pub io_poll: bool,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self { threads: 1, queue_depth: 256, sq_poll_idle: None, io_poll: false }
    }
}

impl RuntimeOptions {
    /// Sets the number of [worker threads](#structfield.threads).
    #[must_use]
    pub const fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Sets the [submission queue entries](#structfield.queue_depth) of each worker.
    #[must_use]
    pub const fn queue_depth(self, queue_depth: u32) -> Self {
        Self { queue_depth, ..self }
    }

    /// Sets whether a kernel thread [watches the submission queues](#structfield.sq_poll_idle).
    #[must_use]
    pub const fn sq_poll_idle(self, sq_poll_idle: Option<Duration>) -> Self {
        Self { sq_poll_idle, ..self }
    }

    /// Sets whether workers [poll for completions](#structfield.io_poll).
    #[must_use]
    pub const fn io_poll(self, io_poll: bool) -> Self {
        Self { io_poll, ..self }
    }
}

/// Running workers. Dropping it stops and joins them, and drops all their tasks, whatever they wait for.
pub struct Runtime {
    env: Arc<UringEnv>,
    threads: Vec<JoinHandle<()>>,
}

impl Runtime {
    /// Starts the workers.
    ///
    /// # Errors
    /// If io_uring or threads are not available (`kernel.io_uring_disabled`, a seccomp filter, resource
    /// limits).
    pub fn start(options: &RuntimeOptions) -> io::Result<Self> {
        let count = options.threads.max(1);
        static NEXT_ID: AtomicUsize = AtomicUsize::new(1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let inboxes = (0..count).map(|_| Inbox::new(id)).collect::<io::Result<Arc<[_]>>>()?;
        let env = Arc::new(UringEnv { id, inboxes, next: AtomicUsize::new(0), started: Instant::now() });
        let mut runtime = Self { env, threads: Vec::new() };
        for inbox in runtime.env.inboxes.clone().iter() {
            let thread = start_worker(inbox.clone(), options.clone())?;
            runtime.threads.push(thread);
        }
        Ok(runtime)
    }

    /// The environment of these workers.
    pub fn env(&self) -> EnvHandle {
        self.env.clone()
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.env.inboxes.len()
    }

    /// Starts a task on the given worker (modulo their number).
    pub fn spawn_on(&self, worker: usize, task: BoxFuture<()>) {
        self.env.inboxes[worker % self.workers()].spawn(task);
    }

    /// Has every worker look at its requests to members at this interval, until the lookout is dropped.
    pub fn look_out(&self, interval: Duration) -> Arc<Lookout> {
        let lookout = Arc::new(Lookout::default());
        for worker in 0..self.workers() {
            self.spawn_on(worker, Box::pin(look_out(Arc::downgrade(&lookout), worker, interval)));
        }
        lookout
    }

    /// Runs a future on the first worker and waits for it on this thread, which must not be a worker. A panic
    /// of the future is the caller's.
    ///
    /// # Panics
    /// With the future's panic. If called on a worker.
    pub fn block_on<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.begin(future).wait()
    }

    /// As [`Runtime::block_on`], for at most this long; then the future continues, and its outcome is lost.
    ///
    /// # Panics
    /// As [`Runtime::block_on`].
    pub fn block_on_for<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        limit: Duration,
    ) -> Option<T> {
        self.begin(future).wait_for(limit)
    }

    /// Starts a future on the first worker.
    ///
    /// # Panics
    /// If called on a worker, which would wait for itself.
    pub fn begin<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Started<T> {
        assert!(executor::current_worker().is_none(), "block_on would stop the worker it waits for");
        Started::on(&self.env.inboxes[0], future)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.env.inboxes.iter().for_each(|inbox| inbox.stop());
        // A task of the runtime may drop it: that task's own worker ends after the task.
        let is_other = |worker: &JoinHandle<()>| worker.thread().id() != thread::current().id();
        for worker in self.threads.drain(..).filter(is_other) {
            let _ = worker.join();
        }
    }
}

/// Starts one worker thread and waits until its ring exists, so that the caller sees a refusal.
fn start_worker(inbox: Arc<Inbox>, options: RuntimeOptions) -> io::Result<JoinHandle<()>> {
    // The ring itself must be made on the worker (single issuer), so try one here first for the error.
    drop(Ring::new(&options)?);
    if options.io_poll {
        drop(Ring::polled(&options)?);
    }
    thread::Builder::new().name(format!("stripewise-io{}", inbox.id())).spawn(move || {
        let run = std::panic::AssertUnwindSafe(|| executor::run(&inbox, &options));
        // A dead worker would leave locked rows and silent clients behind: end the process, recovery is
        // exact.
        match std::panic::catch_unwind(run) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                // Not with `eprintln!`, which panics if standard error cannot be written.
                let _ = writeln!(io::stderr(), "stripewise: worker lost its io_uring: {error}");
                std::process::abort();
            }
            Err(_) => std::process::abort(),
        }
    })
}

struct UringEnv {
    /// Of the runtime; from 1.
    id: usize,
    inboxes: Arc<[Arc<Inbox>]>,
    next: AtomicUsize,
    started: Instant,
}

impl UringEnv {
    /// The worker whose turn it is to get a task from elsewhere.
    fn next_inbox(&self) -> &Arc<Inbox> {
        &self.inboxes[self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len()]
    }
}

impl Env for UringEnv {
    fn now(&self) -> Timestamp {
        Timestamp(self.started.elapsed().as_nanos() as u64)
    }

    fn wall_clock_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
    }

    fn sleep(&self, duration: Duration) -> IoFuture<()> {
        let deadline = Sleep::deadline_after(duration);
        let (mut sleep, mut routed, inbox) = (Sleep::until(deadline), None, self.next_inbox().clone());
        IoFuture::boxed(poll_fn(move |cx| {
            // A thread without timers of its own has a worker's.
            if routed.is_none() && executor::current_worker().is_some() {
                return Pin::new(&mut sleep).poll(cx);
            }
            let routed = routed.get_or_insert_with(|| Routed::spawn(&inbox, Sleep::until(deadline)));
            routed.poll(cx).map(|_| ())
        }))
    }

    fn spawn(&self, task: BoxFuture<()>) {
        let here =
            executor::current_worker().and_then(|id| self.inboxes.iter().find(|inbox| inbox.id() == id));
        here.unwrap_or_else(|| self.next_inbox()).spawn(task);
    }

    #[inline]
    fn is_here(&self) -> bool {
        executor::current_runtime() == self.id
    }

    fn threads(&self) -> usize {
        self.inboxes.len()
    }

    fn random_u64(&self) -> u64 {
        fastrand::u64(..)
    }
}
