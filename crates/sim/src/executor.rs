//! A single-threaded executor with a virtual clock; a seed determines its choices.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

use async_task::{Runnable, Task};
use fastrand::Rng;
use parking_lot::{Mutex, MutexGuard};
use slab::Slab;
use smallvec::SmallVec;
use stripewise_device::{BoxFuture, Timestamp};

use crate::timers::{Due, EventSource, Fired, Timers, Wakers};

/// The most steps of one run by default: a bound against tasks that never sleep.
const STEPS_MAX: u64 = 500_000_000;

/// The events due at one time, in order.
type DueNow = SmallVec<[Due; 4]>;

pub(crate) struct Executor {
    /// Nanoseconds. Outside of the lock, because it is read so often; only the executor's thread changes it.
    now: AtomicU64,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    ready: Vec<Runnable>,
    timers: Timers,
    sources: Vec<Arc<dyn EventSource>>,
    /// With the order in which they were started.
    tasks: Slab<(u64, Task<()>)>,
    next_task: u64,
    steps: u64,
    steps_max: u64,
    trace: u64,
}

impl Executor {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            now: AtomicU64::new(0),
            state: Mutex::new(State {
                rng: Rng::with_seed(seed),
                ready: Vec::new(),
                timers: Timers::default(),
                sources: Vec::new(),
                tasks: Slab::new(),
                next_task: 0,
                steps: 0,
                steps_max: STEPS_MAX,
                trace: 0xcbf2_9ce4_8422_2325,
            }),
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Relaxed))
    }

    pub(crate) fn with_rng<R>(&self, f: impl FnOnce(&mut Rng) -> R) -> R {
        f(&mut self.state.lock().rng)
    }

    /// Mixes an event, and its time, into the trace's hash.
    pub(crate) fn note(&self, event: [u64; 4]) {
        let now = self.now();
        let mut state = self.state.lock();
        state.note(now.0);
        event.into_iter().for_each(|word| state.note(word));
    }

    pub(crate) fn trace(&self) -> u64 {
        self.state.lock().trace
    }

    pub(crate) fn set_steps_max(&self, steps_max: u64) {
        self.state.lock().steps_max = steps_max;
    }

    pub(crate) fn spawn(self: &Arc<Self>, task: BoxFuture<()>) {
        let (registry, ready) = (self.clone(), self.clone());
        let mut state = self.state.lock();
        let key = state.tasks.vacant_key();
        let wrapped = async move {
            task.await;
            let own = registry.state.lock().tasks.try_remove(key);
            own.into_iter().for_each(|(_, task)| task.detach());
        };
        let (runnable, task) =
            async_task::spawn(wrapped, move |runnable| ready.state.lock().ready.push(runnable));
        state.next_task += 1;
        let order = state.next_task;
        state.tasks.insert((order, task));
        state.ready.push(runnable);
    }

    /// Registers a waker for a time; returns the slot by which to change or remove it.
    pub(crate) fn add_timer(&self, deadline: Timestamp, waker: Waker) -> usize {
        self.state.lock().timers.add_waker(deadline, waker)
    }

    /// Sets another waker, or none, for a timer that is not due yet.
    pub(crate) fn change_timer(&self, slot: usize, waker: Option<Waker>) {
        let old = std::mem::replace(self.state.lock().timers.waker_mut(slot), waker);
        drop(old);
    }

    /// Adds a source of events; returns its number.
    pub(crate) fn add_source(&self, source: impl FnOnce(usize) -> Arc<dyn EventSource>) {
        let mut state = self.state.lock();
        let number = state.timers.add_source();
        state.sources.push(source(number));
    }

    /// Notes a request to a source, and the time of the source's next event.
    pub(crate) fn arm(&self, source: usize, next: Option<Timestamp>, asked: u64) {
        let now = self.now();
        let mut state = self.state.lock();
        state.note(now.0);
        state.note(asked);
        state.timers.arm(source, next);
    }

    /// Takes steps while `go_on`. In each step either one ready task, chosen by the seed, runs, or time
    /// passes to the next timer. False: nothing is left until then.
    pub(crate) fn run(&self, until: Timestamp, mut go_on: impl FnMut() -> bool) -> bool {
        // The lock is kept between steps: taking it again takes longer than much of the work under it.
        let mut state = self.state.lock();
        while go_on() {
            if !self.step(&mut state, until) {
                return false;
            }
        }
        true
    }

    fn step(&self, state: &mut MutexGuard<'_, State>, until: Timestamp) -> bool {
        state.steps += 1;
        assert!(state.steps < state.steps_max, "the simulation does not come to an end");
        if !state.ready.is_empty() {
            let count = state.ready.len();
            let chosen = state.rng.usize(..count);
            let runnable = state.ready.swap_remove(chosen);
            MutexGuard::unlocked(state, || runnable.run());
            return true;
        }
        let Some((time, first)) = state.timers.pop_due(until) else { return false };
        let now = self.now().max(time);
        self.now.store(now.0, Ordering::Relaxed);
        self.set_off(state, now, first);
        true
    }

    /// Lets everything that is due happen, in order.
    fn set_off(&self, state: &mut MutexGuard<'_, State>, now: Timestamp, first: Due) {
        let mut wakers = Wakers::new();
        // Mostly nothing else is due at that time.
        if state.timers.may_be_due(now) {
            let mut due = DueNow::new();
            due.push(first);
            due.extend(std::iter::from_fn(|| state.timers.pop_due(now)).map(|(_, due)| due));
            state.happen_all(now, due, &mut wakers);
        } else {
            state.happen(now, first, &mut wakers);
        }
        MutexGuard::unlocked(state, || wakers.into_iter().for_each(Waker::wake));
    }

    pub(crate) fn advance_to(&self, time: Timestamp) {
        self.now.fetch_max(time.0, Ordering::Relaxed);
    }

    /// Drops every task where it stands, as a power loss does.
    pub(crate) fn drop_all(&self) {
        loop {
            let (mut tasks, wakers, ready) = {
                let mut state = self.state.lock();
                let tasks: Vec<_> =
                    std::mem::take(&mut state.tasks).into_iter().map(|(_, task)| task).collect();
                (tasks, state.timers.take_wakers(), std::mem::take(&mut state.ready))
            };
            if tasks.is_empty() && wakers.is_empty() && ready.is_empty() {
                return;
            }
            // Cancelled tasks schedule themselves once more, to drop their futures; the oldest first.
            tasks.sort_by_key(|(order, _)| *order);
            drop(tasks);
            drop(wakers);
            for runnable in ready {
                runnable.run();
            }
        }
    }

    /// Drops the sources, which hold the executor in turn.
    pub(crate) fn drop_sources(&self) {
        let sources = std::mem::take(&mut self.state.lock().sources);
        drop(sources);
    }

    /// The clock after some time.
    pub(crate) fn after(&self, duration: Duration) -> Timestamp {
        Timestamp(self.now().0.saturating_add(duration.as_nanos() as u64))
    }
}

impl State {
    #[inline]
    fn happen(&mut self, now: Timestamp, due: Due, wakers: &mut Wakers) {
        match due {
            Due::Waker(waker) => wakers.push(waker),
            Due::Event(source) => {
                let fired = self.sources[source].fire(now, wakers);
                self.note_fired(now, source, fired);
            }
        }
    }

    /// Notes a source's next event only after everything due now has happened, even if the next event is due
    /// now, too.
    fn happen_all(&mut self, now: Timestamp, all: DueNow, wakers: &mut Wakers) {
        let mut fired: SmallVec<[(usize, Fired); 4]> = SmallVec::new();
        for due in all {
            match due {
                Due::Waker(waker) => wakers.push(waker),
                Due::Event(source) => fired.push((source, self.sources[source].fire(now, wakers))),
            }
        }
        fired.into_iter().for_each(|(source, fired)| self.note_fired(now, source, fired));
    }

    fn note_fired(&mut self, now: Timestamp, source: usize, Fired { event, next }: Fired) {
        self.note(now.0);
        self.note(event);
        self.timers.arm(source, next);
    }

    fn note(&mut self, event: u64) {
        // A word-wise FNV: the rotation brings back down the high bits to which the multiplication spreads.
        self.trace = (self.trace ^ event).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }
}
