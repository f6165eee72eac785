//! Independent points of an experiment, spread over the cores.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// A callback for an experiment's progress: its name, points done, points in all.
pub type OnProgress<'a> = &'a (dyn Fn(&str, usize, usize) + Sync);

/// The results of `run` for all `points`, in their order, whichever thread computed them.
///
/// # Panics
/// If `run` does.
pub fn map<P: Sync, R: Send>(
    name: &str,
    on_progress: OnProgress<'_>,
    points: &[P],
    run: impl Fn(&P) -> R + Sync,
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<Option<R>>> = Mutex::new(points.iter().map(|_| None).collect());
    on_progress(name, 0, points.len());
    let work = || {
        while let Some((index, point)) = Some(next.fetch_add(1, Ordering::Relaxed))
            .and_then(|index| points.get(index).map(|point| (index, point)))
        {
            let result = run(point);
            results.lock().expect("no holder panics")[index] = Some(result);
            on_progress(name, done.fetch_add(1, Ordering::Relaxed) + 1, points.len());
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(points.len());
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let results = results.into_inner().expect("no holder panics");
    results.into_iter().map(|result| result.expect("every point was run")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_points() {
        let points: Vec<u64> = (0..100).collect();
        let heard = AtomicUsize::new(0);
        let count = |_: &str, _: usize, _: usize| {
            heard.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(map("squares", &count, &points, |x| x * x)[99], 99 * 99);
        assert_eq!(heard.load(Ordering::Relaxed), 101);
    }
}
