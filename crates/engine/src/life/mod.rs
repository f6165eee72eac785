//! The array's life: the requests and the work under way, and the end of both.

pub(crate) mod detached;
pub(crate) mod step;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::time::Duration;

use stripewise_device::{
    EnvHandle,
    sync::{Event, Reader, Readers},
};

use crate::{error::ArrayError, life::detached::Detached};

/// How often stopping checks whether the last request has ended.
const QUIET_POLL: Duration = Duration::from_millis(1);

/// What all parts of an array ask before they begin work and tell when they have ended it.
pub(crate) struct Life {
    env: EnvHandle,
    read_only: bool,
    /// Requests being served, for stopping and for background jobs that give way.
    requests: Arc<Readers>,
    /// Commands and background work that must not be cut off.
    working: Readers,
    closing: AtomicBool,
    /// Set when the array closes. Wakes resting tasks.
    closed: Event<()>,
    /// Tasks that live as long as the array is open.
    tasks: AtomicUsize,
}

impl Life {
    pub(crate) fn new(env: EnvHandle, read_only: bool) -> Arc<Self> {
        Arc::new(Self {
            env,
            read_only,
            requests: Arc::default(),
            working: Readers::default(),
            closing: AtomicBool::new(false),
            closed: Event::default(),
            tasks: AtomicUsize::new(0),
        })
    }

    pub(crate) fn env(&self) -> &EnvHandle {
        &self.env
    }

    /// The counter of requests under way.
    pub(crate) fn requests(&self) -> &Arc<Readers> {
        &self.requests
    }

    /// Counts in work of the array itself. Stopping waits for it.
    pub(crate) fn work(&self) -> Reader<'_> {
        self.working.enter()
    }

    /// Whether nothing is written, not even metadata.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Accepts no more requests. False if the array was closed already.
    pub(crate) fn close(&self) -> bool {
        let is_first = !self.closing.swap(true, Ordering::SeqCst);
        self.closed.set(());
        is_first
    }

    /// Waits until the array closes.
    pub(crate) async fn closed(&self) {
        self.closed.wait().await;
    }

    /// Waits until no request is under way, and the array's own work and tasks have ended. The array must be
    /// closed.
    pub(crate) async fn quiet(&self) {
        let is_busy = || {
            self.requests.active() > 0 || self.working.active() > 0 || self.tasks.load(Ordering::SeqCst) > 0
        };
        while is_busy() {
            self.env.sleep(QUIET_POLL).await;
        }
    }

    /// Runs a command to its end even if its caller goes away. Stopping waits for it.
    pub(crate) fn run<T: Send + Unpin + 'static>(
        self: &Arc<Self>,
        command: impl Future<Output = Result<T, ArrayError>> + Send + 'static,
    ) -> Detached<Result<T, ArrayError>> {
        let life = self.clone();
        Detached::start(&self.env, async move {
            let _working = life.work();
            if life.is_closing() {
                return Err(ArrayError::Closed);
            }
            command.await
        })
    }

    /// Starts a task that ends soon after the array closes. Stopping waits for it.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let running = Running::begin(self.clone());
        self.env.spawn(Box::pin(async move {
            task.await;
            drop(running);
        }));
    }
}

/// A task that is under way.
struct Running(Arc<Life>);

impl Running {
    fn begin(life: Arc<Life>) -> Self {
        life.tasks.fetch_add(1, Ordering::SeqCst);
        Self(life)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::SeqCst);
    }
}
