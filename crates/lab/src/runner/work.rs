//! The run itself.

use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Order, Outcomes, RunError, files, folder,
    store::{self, Found, Store},
};
use crate::{
    engine_bench::BenchError,
    experiments::{AnyOutcome, Results},
    findings::LabReport,
    parallel::{self, Memory},
    point::{Point, measure},
    realtime::RealTimePoint,
};

/// The progress of a run.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The experiment of the last finished point.
    pub experiment: &'a str,
    /// Work done, by this run and earlier ones, in about simulated requests to members; of real-time points,
    /// in as much time.
    pub done: u64,
    /// Work in all.
    pub total: u64,
    /// Points finished.
    pub points: usize,
    /// Points in all.
    pub points_total: usize,
}

/// A point to measure.
struct Task {
    experiment: &'static str,
    point: AnyPoint,
    key: String,
}

enum AnyPoint {
    Modelled(Point),
    RealTime(RealTimePoint),
}

impl Task {
    fn weight(&self) -> u64 {
        match &self.point {
            AnyPoint::Modelled(point) => point.weight(),
            AnyPoint::RealTime(point) => point.weight(),
        }
    }

    /// Memory that a point on modelled disks takes; those in real time run alone.
    fn memory_bytes(&self) -> u64 {
        match &self.point {
            AnyPoint::Modelled(point) => point.memory_bytes(),
            AnyPoint::RealTime(_) => 0,
        }
    }

    fn is_real_time(&self) -> bool {
        matches!(self.point, AnyPoint::RealTime(_))
    }

    fn measure(&self, seed: u64) -> Result<AnyOutcome, BenchError> {
        match &self.point {
            AnyPoint::Modelled(point) => Ok(measure(point, seed).into()),
            AnyPoint::RealTime(point) => point.measure().map(AnyOutcome::from),
        }
    }
}

/// A fingerprint of the running program: points of another build are not mixed with its own.
///
/// # Errors
/// If the program's file cannot be read.
pub fn program() -> io::Result<String> {
    Ok(format!("{:016x}", xxh3_64(&fs::read(std::env::current_exe()?)?)))
}

/// Runs an order in a folder: measures the missing points, as many side by side as there are cores and this memory holds, and
/// makes the report of all.
///
/// # Errors
/// [`RunError`]: the folder is not ours or is damaged, or the file system fails.
///
/// # Panics
/// If an experiment has an impossible point.
pub fn run(
    order: &Order,
    folder: &Path,
    program: &str,
    memory_bytes: u64,
    on_progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<LabReport, RunError> {
    folder::take(folder)?;
    let (store, mut found) = Store::open(folder, order.seed, program)?;
    order.write(folder, program)?;
    let run = Run::new(order, &found.outcomes, &store, on_progress);
    let measured = run.measure_missing(order, &found.outcomes, memory_bytes)?;
    found.outcomes.extend(measured);
    found.warnings.extend(run.warnings.into_inner());
    write(order, folder, found)
}

/// Makes the report of a folder's points.
///
/// # Errors
/// As [`run`], and [`RunError::NoResults`].
pub fn report(folder: &Path) -> Result<LabReport, RunError> {
    let (order, program) = Order::find(folder)?.ok_or_else(|| folder::no_results(folder))?;
    report_of(&order, folder, &program)
}

/// The report of an order, with its points in a folder.
pub(super) fn report_of(order: &Order, folder: &Path, program: &str) -> Result<LabReport, RunError> {
    write(order, folder, store::read(folder, order.seed, program)?)
}

fn write(order: &Order, folder: &Path, found: Found) -> Result<LabReport, RunError> {
    let results = Results::new(order.effort, order.machine.clone(), found.outcomes)
        .with_loadfile(order.loadfile)
        .beside(found.others);
    let report = LabReport::new(order, folder, &results, found.warnings);
    files::write(order, &results, &report, folder)?;
    Ok(report)
}

/// A run at work.
struct Run<'a> {
    seed: u64,
    store: &'a Store,
    on_progress: &'a (dyn Fn(Progress<'_>) + Sync),
    total: u64,
    points_total: usize,
    done: AtomicU64,
    points: Mutex<usize>,
    /// Why points could not be kept.
    failed: Mutex<Option<RunError>>,
    /// Why real-time points could not be measured.
    warnings: Mutex<Vec<String>>,
}

impl<'a> Run<'a> {
    fn new(
        order: &Order,
        there: &Outcomes,
        store: &'a Store,
        on_progress: &'a (dyn Fn(Progress<'_>) + Sync),
    ) -> Self {
        let tasks = tasks(order);
        let finished = || tasks.iter().filter(|task| there.contains_key(&task.key));
        Self {
            seed: order.seed,
            store,
            on_progress,
            total: tasks.iter().map(Task::weight).sum(),
            points_total: tasks.len(),
            done: AtomicU64::new(finished().map(Task::weight).sum()),
            points: Mutex::new(finished().count()),
            failed: Mutex::new(None),
            warnings: Mutex::default(),
        }
    }

    /// Measures points on modelled disks side by side, and then those in real time, one after the other and
    /// alone.
    fn measure_missing(
        &self,
        order: &Order,
        there: &Outcomes,
        memory_bytes: u64,
    ) -> Result<Outcomes, RunError> {
        let missing = tasks(order).into_iter().filter(|task| !there.contains_key(&task.key));
        let (real_time, mut modelled): (Vec<_>, Vec<_>) = missing.partition(Task::is_real_time);
        // The longest first, so that no core is left with a long one at the end.
        modelled.sort_by_key(|task| std::cmp::Reverse(task.weight()));
        let first = modelled.iter().chain(&real_time).next().map_or("", |task| task.experiment);
        self.tell(first, *self.points.lock());
        let memory = Memory { bytes: memory_bytes, of: &Task::memory_bytes };
        let mut outcomes =
            parallel::map_within(&memory, "points", &|_, _, _| (), &modelled, |task| self.measure(task));
        outcomes.extend(real_time.iter().map(|task| self.measure(task)));
        match self.failed.lock().take() {
            Some(error) => Err(error),
            None => Ok(outcomes.into_iter().flatten().collect()),
        }
    }

    /// Measures a point and keeps it; does nothing once a point could not be kept.
    fn measure(&self, task: &Task) -> Option<(String, AnyOutcome)> {
        if self.failed.lock().is_some() {
            return None;
        }
        let outcome = match task.measure(self.seed) {
            Ok(outcome) => outcome,
            Err(error) => {
                self.warnings.lock().push(format!("not measured: {}: {error}", task.key));
                return None;
            }
        };
        if let Err(error) = self.store.keep(&task.key, &outcome) {
            *self.failed.lock() = Some(error);
        }
        self.done.fetch_add(task.weight(), Ordering::Relaxed);
        let mut points = self.points.lock();
        *points += 1;
        self.tell(task.experiment, *points);
        Some((task.key.clone(), outcome))
    }

    fn tell(&self, experiment: &str, points: usize) {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total);
        (self.on_progress)(Progress { experiment, done, total, points, points_total: self.points_total });
    }
}

/// The points of all experiments, each once.
fn tasks(order: &Order) -> Vec<Task> {
    let mut keys = BTreeSet::new();
    let mut tasks = Vec::new();
    for experiment in &order.experiments {
        let modelled = experiment.modelled(order.effort, order.loadfile).into_iter();
        let modelled = modelled.map(|point| (point.key(), AnyPoint::Modelled(point)));
        let real_time = experiment.real_time(order.effort, &order.machine).into_iter();
        let real_time = real_time.map(|point| (point.key(&order.machine), AnyPoint::RealTime(point)));
        for (key, point) in modelled.chain(real_time) {
            if keys.insert(key.clone()) {
                tasks.push(Task { experiment: experiment.id, point, key });
            }
        }
    }
    tasks
}
