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
    experiments::Results,
    findings::LabReport,
    parallel,
    point::{Point, measure},
};

/// How far a run has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// What was finished last.
    pub experiment: &'a str,
    /// Work done, of this run and of those before it, in simulated requests to members or so.
    pub done: u64,
    /// Work in all.
    pub total: u64,
    /// Points finished.
    pub points: usize,
    /// Points in all.
    pub points_total: usize,
}

/// A point to be measured.
struct Task {
    experiment: &'static str,
    point: Point,
    key: String,
}

/// A fingerprint of the running program: points of another build are not mixed with its own.
///
/// # Errors
/// If the program's file cannot be read.
pub fn program() -> io::Result<String> {
    Ok(format!("{:016x}", xxh3_64(&fs::read(std::env::current_exe()?)?)))
}

/// Runs an order in a folder: measures the points that are not there, and makes the report of all.
///
/// # Errors
/// [`RunError`]: what the folder holds is not ours or is damaged, or the file system does not do its part.
///
/// # Panics
/// If an experiment has an impossible point.
pub fn run(
    order: &Order,
    folder: &Path,
    program: &str,
    on_progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<LabReport, RunError> {
    folder::take(folder)?;
    let (store, mut found) = Store::open(folder, order.seed, program)?;
    order.write(folder, program)?;
    let measured = measure_missing(order, &found.outcomes, &store, on_progress)?;
    found.outcomes.extend(measured);
    write(order, folder, found)
}

/// Makes the report of what is in a folder.
///
/// # Errors
/// As [`run`], and [`RunError::NoResults`].
pub fn report(folder: &Path) -> Result<LabReport, RunError> {
    let (order, program) = Order::read(folder)?;
    report_of(&order, folder, &program)
}

/// The report of an order, with what a folder holds of it.
pub(super) fn report_of(order: &Order, folder: &Path, program: &str) -> Result<LabReport, RunError> {
    write(order, folder, store::read(folder, order.seed, program)?)
}

fn write(order: &Order, folder: &Path, found: Found) -> Result<LabReport, RunError> {
    let results = Results::new(order.effort, found.outcomes);
    let report = LabReport::new(order, folder, &results, found.warnings);
    files::write(order, &results, &report, folder)?;
    Ok(report)
}

fn measure_missing(
    order: &Order,
    there: &Outcomes,
    store: &Store,
    on_progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Outcomes, RunError> {
    let tasks = tasks(order);
    let points_total = tasks.len();
    let total = tasks.iter().map(|task| task.point.weight()).sum();
    let (finished, mut missing): (Vec<_>, Vec<_>) =
        tasks.into_iter().partition(|task| there.contains_key(&task.key));
    // The longest first, so that no core is left with a long one at the end.
    missing.sort_by_key(|task| std::cmp::Reverse(task.point.weight()));
    let done = AtomicU64::new(finished.iter().map(|task| task.point.weight()).sum());
    let count = Mutex::new(finished.len());
    let first = missing.first().map_or("", |task| task.experiment);
    on_progress(Progress {
        experiment: first,
        done: done.load(Ordering::Relaxed),
        total,
        points: finished.len(),
        points_total,
    });
    let failed = Mutex::new(None);
    let outcomes = parallel::map("points", &|_, _, _| (), &missing, |task| {
        if failed.lock().is_some() {
            return None;
        }
        let outcome = measure(&task.point, order.seed);
        if let Err(error) = store.keep(&task.key, &outcome) {
            *failed.lock() = Some(error);
        }
        let weight = task.point.weight();
        let done = done.fetch_add(weight, Ordering::Relaxed) + weight;
        let mut points = count.lock();
        *points += 1;
        on_progress(Progress { experiment: task.experiment, done, total, points: *points, points_total });
        Some((task.key.clone(), outcome))
    });
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(outcomes.into_iter().flatten().collect()),
    }
}

/// The points of all experiments, each once.
fn tasks(order: &Order) -> Vec<Task> {
    let mut keys = BTreeSet::new();
    let mut tasks = Vec::new();
    for experiment in &order.experiments {
        for point in (experiment.points)(order.effort) {
            let key = point.key();
            if keys.insert(key.clone()) {
                tasks.push(Task { experiment: experiment.id, point, key });
            }
        }
    }
    tasks
}
