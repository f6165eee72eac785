//! The `Env` trait: clock, tasks and randomness, so that one engine runs on io_uring and in virtual time.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::IoFuture;

/// A boxed future that may move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A shared handle to the environment.
pub type EnvHandle = Arc<dyn Env>;

/// A point in monotonic time: nanoseconds since the environment started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The world around the engine: everything that is not storage.
pub trait Env: Send + Sync + 'static {
    /// Monotonic time.
    fn now(&self) -> Timestamp;

    /// Civil time, microseconds since 1970-01-01 UTC, for superblocks and logs.
    fn wall_clock_us(&self) -> u64;

    /// Completes once `duration` has passed. Any thread may await it.
    fn sleep(&self, duration: Duration) -> IoFuture<()>;

    /// Runs `task` beside the caller, to its end. If the caller is a worker and the array's members are files
    /// or block devices, the task must run on that worker: only it sees the completions of its io_uring
    /// requests.
    fn spawn(&self, task: BoxFuture<()>);

    /// Whether the caller runs on one of its workers. Only there do arrays ask members for I/O; a request
    /// made elsewhere is spawned.
    fn is_here(&self) -> bool;

    /// A step of the engine has panicked inside its caller's future, and unwinds. It may have let go of rows
    /// that are half written, so nothing may run on: the process ends, and the next opening resyncs. Only an
    /// environment that stops everything itself, as a simulation does, returns.
    fn engine_panicked(&self) {
        std::process::abort();
    }

    /// How many worker threads run its tasks; the tables that they share are sized by it.
    fn threads(&self) -> usize;

    /// A random number: seeded in a simulation, unpredictable elsewhere. Not for secrets.
    fn random_u64(&self) -> u64;
}
