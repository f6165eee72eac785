//! A single-threaded executor with a virtual clock, whose choices come from a seed.

use std::{collections::BTreeMap, sync::Arc, task::Waker, time::Duration};

use async_task::{Runnable, Task};
use fastrand::Rng;
use parking_lot::Mutex;
use stripewise_device::{BoxFuture, Timestamp};

/// The largest number of steps one run may take: a bound against tasks that never sleep.
const STEPS_MAX: u64 = 500_000_000;

pub(crate) struct Executor {
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    now: Timestamp,
    ready: Vec<Runnable>,
    timers: BTreeMap<(Timestamp, u64), Waker>,
    next_timer: u64,
    tasks: BTreeMap<u64, Task<()>>,
    next_task: u64,
    steps: u64,
    trace: u64,
}

impl Executor {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                rng: Rng::with_seed(seed),
                now: Timestamp::default(),
                ready: Vec::new(),
                timers: BTreeMap::new(),
                next_timer: 0,
                tasks: BTreeMap::new(),
                next_task: 0,
                steps: 0,
                trace: 0xcbf2_9ce4_8422_2325,
            }),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.state.lock().now
    }

    pub(crate) fn with_rng<R>(&self, f: impl FnOnce(&mut Rng) -> R) -> R {
        f(&mut self.state.lock().rng)
    }

    /// Mixes an event into the trace's hash (FNV-1a).
    pub(crate) fn note(&self, event: u64) {
        let mut state = self.state.lock();
        for byte in event.to_le_bytes() {
            state.trace = (state.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn trace(&self) -> u64 {
        self.state.lock().trace
    }

    pub(crate) fn spawn(self: &Arc<Self>, task: BoxFuture<()>) {
        let id = {
            let mut state = self.state.lock();
            state.next_task += 1;
            state.next_task
        };
        let (registry, ready) = (self.clone(), self.clone());
        let wrapped = async move {
            task.await;
            let own = registry.state.lock().tasks.remove(&id);
            own.into_iter().for_each(Task::detach);
        };
        let (runnable, task) =
            async_task::spawn(wrapped, move |runnable| ready.state.lock().ready.push(runnable));
        self.state.lock().tasks.insert(id, task);
        runnable.schedule();
    }

    /// Registers a waker for a time; returns the key to take it back with.
    pub(crate) fn add_timer(&self, deadline: Timestamp, waker: Waker) -> (Timestamp, u64) {
        let mut state = self.state.lock();
        state.next_timer += 1;
        let key = (deadline, state.next_timer);
        state.timers.insert(key, waker);
        key
    }

    pub(crate) fn remove_timer(&self, key: (Timestamp, u64)) {
        let waker = self.state.lock().timers.remove(&key);
        drop(waker);
    }

    /// Runs one ready task, chosen by the seed, or lets time pass to the next timer. False: nothing is left.
    pub(crate) fn step(&self, until: Option<Timestamp>) -> bool {
        let (runnable, wakers) = {
            let mut state = self.state.lock();
            state.steps += 1;
            assert!(state.steps < STEPS_MAX, "the simulation does not come to an end");
            if state.ready.is_empty() {
                let Some((&(deadline, _), _)) = state.timers.first_key_value() else { return false };
                if until.is_some_and(|until| deadline > until) {
                    return false;
                }
                state.now = state.now.max(deadline);
                (None, state.due_wakers())
            } else {
                let count = state.ready.len();
                let chosen = state.rng.usize(..count);
                (Some(state.ready.swap_remove(chosen)), Vec::new())
            }
        };
        wakers.into_iter().for_each(Waker::wake);
        if let Some(runnable) = runnable {
            runnable.run();
        }
        true
    }

    pub(crate) fn advance_to(&self, time: Timestamp) {
        let mut state = self.state.lock();
        state.now = state.now.max(time);
    }

    /// Drops every task where it stands, as a power loss does.
    pub(crate) fn drop_all(&self) {
        loop {
            let (tasks, timers, ready) = {
                let mut state = self.state.lock();
                let state = &mut *state;
                (
                    std::mem::take(&mut state.tasks),
                    std::mem::take(&mut state.timers),
                    std::mem::take(&mut state.ready),
                )
            };
            if tasks.is_empty() && timers.is_empty() && ready.is_empty() {
                return;
            }
            // Cancelled tasks schedule themselves once more, to drop their futures.
            drop(tasks);
            drop(timers);
            for runnable in ready {
                runnable.run();
            }
        }
    }

    /// The clock after some time.
    pub(crate) fn after(&self, duration: Duration) -> Timestamp {
        Timestamp(self.now().0.saturating_add(duration.as_nanos() as u64))
    }
}

impl State {
    fn due_wakers(&mut self) -> Vec<Waker> {
        let later = self.timers.split_off(&(Timestamp(self.now.0 + 1), 0));
        std::mem::replace(&mut self.timers, later).into_values().collect()
    }
}
