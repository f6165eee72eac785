//! An environment for tests: one thread, tasks in a random order, and a clock that goes on when nothing else can.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::{BoxFuture, Env, IoFuture, Timestamp};

/// An environment.
pub(crate) struct TestEnv(Mutex<State>);

#[derive(Default)]
struct State {
    now: Timestamp,
    tasks: Vec<Option<Arc<Task>>>,
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    count: u64,
    rng: fastrand::Rng,
}

struct Task {
    future: Mutex<Option<BoxFuture<()>>>,
    is_woken: AtomicBool,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
    }
}

impl TestEnv {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { rng: fastrand::Rng::with_seed(seed), ..State::default() })))
    }

    /// Drops all tasks. They hold the environment, and what they work on.
    pub(crate) fn end(&self) {
        let tasks = std::mem::take(&mut self.0.lock().tasks);
        for task in tasks.into_iter().flatten() {
            let future = task.future.lock().take();
            drop(future);
        }
    }

    /// Runs a future and all tasks until the future ends.
    pub(crate) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let told = Arc::new(Mutex::new(None));
        let tell = told.clone();
        self.spawn(Box::pin(async move { *tell.lock() = Some(future.await) }));
        for _ in 0..1_000_000 {
            if let Some(result) = told.lock().take() {
                return result;
            }
            assert!(self.step() || self.sleep_on(), "nothing can go on");
        }
        panic!("it does not end");
    }

    /// Lets time pass, and tasks run.
    pub(crate) fn pass(self: &Arc<Self>, time: Duration) {
        let sleep = self.sleep(time);
        self.run(sleep);
    }

    /// Polls a task that was woken. False if there is none.
    fn step(&self) -> bool {
        let task = {
            let State { tasks, rng, .. } = &mut *self.0.lock();
            tasks.retain(Option::is_some);
            let is_woken = |task: &&Arc<Task>| task.is_woken.load(Ordering::Acquire);
            let woken: Vec<Arc<Task>> = tasks.iter().flatten().filter(is_woken).cloned().collect();
            if woken.is_empty() {
                return false;
            }
            woken[rng.usize(..woken.len())].clone()
        };
        task.is_woken.store(false, Ordering::Release);
        let waker = Waker::from(task.clone());
        let mut future = task.future.lock();
        let is_done = future
            .as_mut()
            .is_none_or(|future| future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        if is_done {
            *future = None;
            let mut state = self.0.lock();
            for slot in &mut state.tasks {
                slot.take_if(|one| Arc::ptr_eq(one, &task));
            }
        }
        true
    }

    /// Goes on to when the next sleeper wakes. False if nobody sleeps.
    fn sleep_on(&self) -> bool {
        let waker = {
            let mut state = self.0.lock();
            let Some(((at, _), waker)) = state.sleepers.pop_first() else { return false };
            state.now = state.now.max(at);
            waker
        };
        waker.wake();
        true
    }
}

impl Env for TestEnv {
    fn now(&self) -> Timestamp {
        self.0.lock().now
    }

    fn wall_clock_us(&self) -> u64 {
        1_000_000 + self.0.lock().now.0 / 1000
    }

    fn sleep(&self, duration: Duration) -> IoFuture<()> {
        let mut state = self.0.lock();
        let at = Timestamp(state.now.0 + duration.as_nanos() as u64);
        state.count += 1;
        let key = (at, state.count);
        drop(state);
        let (done, slot) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None::<Waker>)));
        let woken = Waker::from(Arc::new(Alarm { done: done.clone(), waker: slot.clone() }));
        self.0.lock().sleepers.insert(key, woken);
        IoFuture::boxed(std::future::poll_fn(move |context| {
            if done.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            *slot.lock() = Some(context.waker().clone());
            Poll::Pending
        }))
    }

    fn spawn(&self, task: BoxFuture<()>) {
        let task = Task { future: Mutex::new(Some(task)), is_woken: AtomicBool::new(true) };
        self.0.lock().tasks.push(Some(Arc::new(task)));
    }

    fn is_here(&self) -> bool {
        true
    }

    fn threads(&self) -> usize {
        1
    }

    fn random_u64(&self) -> u64 {
        self.0.lock().rng.u64(..)
    }
}

/// What wakes a sleeper.
struct Alarm {
    done: Arc<AtomicBool>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.done.store(true, Ordering::Release);
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }
}
