//! The runtime: a set of workers, and the `Env` they make.

use std::{
    future::Future,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{
    executor::{self, Inbox},
    ring::Ring,
    timer::Sleep,
};
use crate::{BoxFuture, Env, EnvHandle, IoFuture, Timestamp};

/// The number of workers, and the settings of their rings.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Running workers. Dropping it stops and joins them, and drops tasks that wait for I/O, for time or for
/// their turn. A task that only waits for another task may stay in memory: end those first (`Array::stop`).
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
        let inboxes = (0..count).map(|_| Inbox::new()).collect::<io::Result<Arc<[_]>>>()?;
        let env = Arc::new(UringEnv { inboxes, next: AtomicUsize::new(0), started: Instant::now() });
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

    /// Runs a future on the first worker and waits for it on this thread, which must not be a worker.
    ///
    /// # Panics
    /// If called on a worker, or if the runtime is stopped meanwhile.
    pub fn block_on<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.begin(future).recv().expect("the runtime runs while it is borrowed")
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
        match self.begin(future).recv_timeout(limit) {
            Ok(value) => Some(value),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the runtime runs while it is borrowed"),
        }
    }

    /// Runs a future on the first worker; its outcome comes through the channel.
    ///
    /// # Panics
    /// If called on a worker, which would wait for itself.
    pub fn begin<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Receiver<T> {
        assert!(executor::current_worker().is_none(), "block_on would stop the worker it waits for");
        let (sender, receiver) = mpsc::sync_channel(1);
        self.spawn_on(
            0,
            Box::pin(async move {
                let _ = sender.send(future.await);
            }),
        );
        receiver
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.env.inboxes.iter().for_each(|inbox| inbox.stop());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
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
    inboxes: Arc<[Arc<Inbox>]>,
    next: AtomicUsize,
    started: Instant,
}

impl Env for UringEnv {
    fn now(&self) -> Timestamp {
        Timestamp(self.started.elapsed().as_nanos() as u64)
    }

    fn wall_clock_us(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as u64)
    }

    fn sleep(&self, duration: Duration) -> IoFuture<()> {
        IoFuture::boxed(Sleep::until(Instant::now() + duration))
    }

    fn spawn(&self, task: BoxFuture<()>) {
        let here =
            executor::current_worker().and_then(|id| self.inboxes.iter().find(|inbox| inbox.id() == id));
        let next = || &self.inboxes[self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len()];
        here.unwrap_or_else(next).spawn(task);
    }

    fn threads(&self) -> usize {
        self.inboxes.len()
    }

    fn random_u64(&self) -> u64 {
        fastrand::u64(..)
    }
}
