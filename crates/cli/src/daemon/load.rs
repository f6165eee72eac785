//! Load that a daemon puts on its own array, for one command at a time. No socket, kernel or cache lies in
//! between.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use anyhow::{Context, ensure};
use stripewise::{Array, Device, Host, StatsReport, Timestamp};
use stripewise_load::{Control, run_controlled};
use stripewise_wire::{LoadFigures, LoadSpec, LoadStatus};

use super::attention::{Attention, Held};
use crate::load::{Spread, figures_of, load_on};

/// The load that a command runs on the array, if any.
#[derive(Default)]
pub(super) struct Loading {
    attention: Attention,
    running: Mutex<Option<Arc<Running>>>,
}

/// A command's load. It ends when this is dropped.
pub(super) struct OwnLoad {
    running: Arc<Running>,
    work: Option<JoinHandle<()>>,
    /// Released after the last request has ended.
    _held: Held,
}

struct Running {
    control: Arc<Control>,
    writes: bool,
    jobs: JobsSeen,
    /// Set once the load is over.
    figures: Mutex<Option<LoadFigures>>,
}

impl Running {
    fn figures(&self) -> MutexGuard<'_, Option<LoadFigures>> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loading {
    fn running(&self) -> MutexGuard<'_, Option<Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a load.
    pub(super) fn start(&self, host: &Host, array: &Array, spec: LoadSpec) -> anyhow::Result<OwnLoad> {
        let device: Arc<dyn Device> = Arc::new(array.device());
        let load = load_on(device.info(), &spec)?;
        ensure!(!spec.writes() || !array.is_read_only(), "the array is read-only");
        let held = self.attention.take().context("another command loads it; wait for that")?;
        let control = Arc::new(Control::until_error());
        let running = Arc::new(Running {
            control: control.clone(),
            writes: spec.writes(),
            jobs: JobsSeen::from_now(array),
            figures: Mutex::default(),
        });
        let (runtime, array, seen) = (host.runtime().clone(), array.clone(), running.clone());
        let env = Spread::over(&runtime);
        let work = move || {
            let before = array.stats().report();
            let steered = control.clone();
            let report = runtime.block_on(async move { run_controlled(env, device, load, steered).await });
            let counters = added(&before, &array.stats().report());
            let jobs = seen.jobs.look();
            let figures = figures_of(spec, &report, &control);
            *seen.figures() = Some(LoadFigures { counters: Some(counters), jobs, ..figures });
        };
        let work =
            thread::Builder::new().name("stripewise-load".into()).spawn(work).context("starting the load")?;
        *self.running() = Some(running.clone());
        Ok(OwnLoad { running, work: Some(work), _held: held })
    }

    /// Whether a load that overwrites the array is under way.
    pub(super) fn is_writing(&self) -> bool {
        self.running().as_ref().is_some_and(|running| running.writes && running.figures().is_none())
    }

    /// Ends the load before its time.
    pub(super) fn cut_short(&self) {
        if let Some(running) = &*self.running() {
            running.control.end();
        }
    }
}

impl OwnLoad {
    /// How the load stands. It is over once there are figures.
    pub(super) fn status(&self) -> LoadStatus {
        self.running.jobs.look();
        let figures = self.running.figures().clone();
        LoadStatus { done_bytes: self.running.control.done_bytes(), figures: figures.map(Box::new) }
    }

    /// Lets no more requests begin. The figures come when the last one has ended.
    pub(super) fn end(&self) {
        self.running.control.end();
    }
}

impl Drop for OwnLoad {
    fn drop(&mut self) {
        self.end();
        if let Some(work) = self.work.take()
            && work.join().is_err()
        {
            tracing::error!("the load's thread ended by itself");
        }
    }
}

/// The background jobs that ran during a load: its figures then measure both. A job that begins and ends
/// between two looks is seen by its end.
struct JobsSeen {
    array: Array,
    /// The start of the job that was the last to end before the load.
    last_before: Option<Timestamp>,
    kinds: Mutex<BTreeSet<&'static str>>,
}

impl JobsSeen {
    fn from_now(array: &Array) -> Self {
        let last_before = array.last_job().map(|job| job.started);
        let seen = Self { array: array.clone(), last_before, kinds: Mutex::default() };
        seen.look();
        seen
    }

    /// Looks again, and returns all kinds seen so far.
    fn look(&self) -> Vec<String> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.array.last_job().filter(|job| Some(job.started) != self.last_before);
        // A paused job disturbs nothing.
        let current = self.array.job().filter(|job| !job.paused);
        kinds.extend(current.into_iter().chain(ended).map(|job| job.kind.name()));
        kinds.iter().map(|kind| (*kind).to_owned()).collect()
    }
}

fn added(before: &StatsReport, after: &StatsReport) -> BTreeMap<String, u64> {
    let grown = after.fields().into_iter().zip(before.fields());
    grown.map(|((name, now), (_, then))| (name.to_owned(), now - then)).collect()
}
