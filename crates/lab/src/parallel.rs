//! Independent points of an experiment, spread over the cores, as far as there is memory for them.

use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// A callback for an experiment's progress: its name, points done, points in all.
pub type OnProgress<'a> = &'a (dyn Fn(&str, usize, usize) + Sync);

/// Memory for points.
pub struct Memory<'a, P> {
    /// Bytes that all at work may take together.
    pub bytes: u64,
    /// Bytes that one takes. If that is more than there are, it runs alone.
    pub of: &'a (dyn Fn(&P) -> u64 + Sync),
}

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
    map_within(&Memory { bytes: u64::MAX, of: &|_| 0 }, name, on_progress, points, run)
}

/// The same, with no more points at work than there is memory for.
///
/// # Panics
/// If `run` does.
pub fn map_within<P: Sync, R: Send>(
    memory: &Memory<'_, P>,
    name: &str,
    on_progress: OnProgress<'_>,
    points: &[P],
    run: impl Fn(&P) -> R + Sync,
) -> Vec<R> {
    let room = Room::of(memory.bytes);
    let (next, done) = (Mutex::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<Option<R>>> = Mutex::new(points.iter().map(|_| None).collect());
    on_progress(name, 0, points.len());
    let work = || {
        loop {
            // Points begin in their order: one that waits for memory is not passed by those that need less.
            let mut first = next.lock().expect("no holder panics");
            let index: usize = *first;
            let Some(point) = points.get(index) else { return };
            *first += 1;
            let taken = room.take((memory.of)(point));
            drop(first);
            let result = run(point);
            drop(taken);
            results.lock().expect("no holder panics")[index] = Some(result);
            on_progress(name, done.fetch_add(1, Ordering::Relaxed) + 1, points.len());
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(points.len());
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let results = results.into_inner().expect("no holder panics");
    results.into_iter().map(|result| result.expect("every point was run")).collect()
}

/// Memory that is shared.
struct Room {
    all: u64,
    free: Mutex<u64>,
    freed: Condvar,
}

/// A part of it, until dropped.
struct Taken<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Room {
    /// So many bytes. If there are none, points take turns.
    fn of(bytes: u64) -> Self {
        let all = bytes.max(1);
        Self { all, free: Mutex::new(all), freed: Condvar::new() }
    }

    /// Takes so many bytes, or all there are, once they are free.
    fn take(&self, bytes: u64) -> Taken<'_> {
        let bytes = bytes.min(self.all);
        let free = self.free.lock().expect("no holder panics");
        let mut free = self.freed.wait_while(free, |free| *free < bytes).expect("no holder panics");
        *free -= bytes;
        Taken { room: self, bytes }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.room.free.lock().expect("no holder panics") += self.bytes;
        self.room.freed.notify_all();
    }
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

    #[test]
    fn points_wait_for_memory_and_one_that_is_too_large_runs_alone() {
        let (at_work, most) = (Mutex::new((0, 0)), AtomicUsize::new(0));
        let room = Room::of(10);
        let work = |bytes: u64| {
            let _taken = room.take(bytes);
            let mut now = at_work.lock().unwrap();
            (now.0, now.1) = (now.0 + bytes, now.1 + 1);
            assert!(now.0 <= 10 || now.1 == 1, "{now:?}");
            most.fetch_max(now.1, Ordering::Relaxed);
            drop(now);
            thread::sleep(std::time::Duration::from_millis(2));
            let mut now = at_work.lock().unwrap();
            (now.0, now.1) = (now.0 - bytes, now.1 - 1);
        };
        thread::scope(|scope| {
            for bytes in [3, 4, 5, 99] {
                scope.spawn(move || (0..20).for_each(|_| work(bytes)));
            }
        });
        assert!(most.into_inner() > 1, "some fit beside one another");
        assert_eq!(room.free.into_inner().unwrap(), 10);
    }

    #[test]
    fn with_little_memory_points_take_turns_and_results_are_the_same() {
        let at_work = AtomicUsize::new(0);
        let run = |x: &u64| {
            assert_eq!(at_work.fetch_add(1, Ordering::Relaxed), 0, "another point is at work");
            thread::sleep(std::time::Duration::from_millis(1));
            at_work.fetch_sub(1, Ordering::Relaxed);
            x + 1
        };
        let points: Vec<u64> = (0..20).collect();
        for bytes in [0, 1, 7] {
            let memory = Memory { bytes, of: &|_| 4 };
            assert_eq!(map_within(&memory, "", &|_, _, _| (), &points, run)[19], 20);
        }
    }
}
