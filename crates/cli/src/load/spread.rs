//! An environment that spreads tasks over all workers, as clients are spread. The runtime's own keeps a task
//! where its parent runs. This one is for clients, not for an array: an array's requests stay where they
//! began.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use stripewise::{BoxFuture, Env, EnvHandle, IoFuture, Timestamp, internals::uring::Runtime};

pub(crate) struct Spread {
    env: EnvHandle,
    runtime: Arc<Runtime>,
    next: AtomicUsize,
}

impl Spread {
    pub(crate) fn over(runtime: &Arc<Runtime>) -> EnvHandle {
        Arc::new(Self { env: runtime.env(), runtime: runtime.clone(), next: AtomicUsize::new(0) })
    }
}

impl Env for Spread {
    fn now(&self) -> Timestamp {
        self.env.now()
    }

    fn wall_clock_us(&self) -> u64 {
        self.env.wall_clock_us()
    }

    fn sleep(&self, duration: Duration) -> IoFuture<()> {
        self.env.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.runtime.spawn_on(self.next.fetch_add(1, Ordering::Relaxed), task);
    }

    fn is_here(&self) -> bool {
        self.env.is_here()
    }

    fn threads(&self) -> usize {
        self.env.threads()
    }

    fn random_u64(&self) -> u64 {
        self.env.random_u64()
    }
}
