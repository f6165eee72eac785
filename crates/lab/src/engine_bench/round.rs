//! A worker's clients, one after another, round after round, in one task.
//!
//! With a task for each client, waking it and taking it from the queue would cost some 50 ns, more than half
//! of a read that is done at once. So this task polls the clients in turn, as a loop of callbacks would; only
//! a client that waits for rows, for a region's mark or for a member has to be woken.

use std::{
    future::poll_fn,
    mem::replace,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use super::{client::Client, gate::Gate, turn::BATCH};

/// Checks of the clock before the worker's other tasks have their turn.
const LOOKS: usize = 16;

/// The clients of a worker pass this from one to the next: it says whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Baton {
    is_passed: AtomicBool,
    is_over: AtomicBool,
}

impl Baton {
    /// Lets the others have their turns; returns whether there is another one.
    pub(super) async fn pass(&self) -> bool {
        let mut has_passed = false;
        poll_fn(|_| {
            if replace(&mut has_passed, true) {
                return Poll::Ready(());
            }
            self.is_passed.store(true, Relaxed);
            Poll::Pending
        })
        .await;
        !self.is_over.load(Relaxed)
    }

    /// Whether the client that had its turn passed the baton on, and waits for nothing else.
    fn was_passed(&self) -> bool {
        self.is_passed.load(Relaxed) && {
            self.is_passed.store(false, Relaxed);
            true
        }
    }
}

/// Wakes the worker for a client that waits.
#[derive(Debug)]
struct Bell {
    rang: AtomicBool,
    worker: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, SeqCst);
        self.worker.wake_by_ref();
    }
}

/// A client and its state.
struct Runner<F> {
    /// None once it has ended.
    client: Option<Pin<Box<F>>>,
    bell: Arc<Bell>,
    waker: Waker,
    /// It passed the baton on, and waits only for its turn.
    is_ready: bool,
}

impl<F: Future<Output = u64>> Runner<F> {
    fn new(client: F, worker: &Waker) -> Self {
        let bell = Arc::new(Bell { rang: AtomicBool::new(false), worker: worker.clone() });
        Self { client: Some(Box::pin(client)), waker: bell.clone().into(), bell, is_ready: true }
    }

    fn waits(&self) -> bool {
        self.client.is_some() && !self.is_ready
    }

    /// Runs its turn, unless it waits; returns how many operations it has done if it ends.
    fn turn(&mut self, baton: &Baton) -> Option<u64> {
        let is_called = self.bell.rang.load(Relaxed) && self.bell.rang.swap(false, SeqCst);
        if !self.is_ready && !is_called {
            return None;
        }
        let ended = match self.client.as_mut()?.as_mut().poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        };
        self.is_ready = ended.is_none() && baton.was_passed();
        if ended.is_some() {
            self.client = None;
        }
        ended
    }
}

/// Runs a worker's clients for a length of time once all workers are at the gate; returns the number of
/// operations and the time.
pub(super) async fn run(clients: Vec<Client>, gate: &Gate, length: Duration) -> (u64, Duration) {
    gate.pass().await;
    let worker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
    let (baton, start) = (Arc::new(Baton::default()), Instant::now());
    let mut runners: Vec<_> =
        clients.into_iter().map(|client| Runner::new(client.run(baton.clone()), &worker)).collect();
    // The same number of operations between two checks of the clock, however many are under way.
    let rounds = if runners.len() > 1 { BATCH.div_ceil(runners.len()) } else { 1 };
    let mut done = 0;
    poll_fn(|context| {
        for round in 0..LOOKS * rounds {
            if round % rounds == 0 && start.elapsed() >= length {
                baton.is_over.store(true, Relaxed);
            }
            done += runners.iter_mut().filter_map(|runner| runner.turn(&baton)).sum::<u64>();
            if runners.iter().all(|runner| runner.client.is_none()) {
                return Poll::Ready(());
            }
            // A client that waits does so for another task, maybe of this worker.
            if runners.iter().any(Runner::waits) {
                break;
            }
        }
        if runners.iter().any(|runner| runner.is_ready) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    (done, start.elapsed())
}
