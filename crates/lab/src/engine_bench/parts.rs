//! Where the time of operations goes: a thread that samples the workers thousands of times a second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::parts::{Part, Watched};

/// Time between two samples: short enough for thousands in a turn, long enough to take no more than a few
/// percent of a core.
const INTERVAL: Duration = Duration::from_micros(200);

/// How often workers were found in each part.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shares([u64; Part::ALL.len()]);

impl Shares {
    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(all, one)| *all += one);
    }

    /// How often a worker was found in an operation.
    pub(super) fn looks(&self) -> u64 {
        self.0.iter().skip(1).sum()
    }

    /// Each part's share of the time within operations; none if no worker was found in one.
    pub(super) fn of_operations(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let (looks, all) = (self.0, self.looks());
        let parts = Part::ALL.into_iter().filter(move |part| all > 0 && *part != Part::Outside);
        parts.map(move |part| (part.name(), looks[part as usize] as f64 / all as f64))
    }
}

/// The sampled threads.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch(Arc<Mutex<Vec<Watched>>>);

impl Watch {
    /// Adds the calling thread to the sampled ones.
    pub(super) fn this_thread(&self) {
        self.0.lock().push(Watched::this_thread());
    }
}

/// Samples threads until it is stopped.
pub(super) struct Sampler {
    watch: Watch,
    is_over: Arc<AtomicBool>,
    looking: JoinHandle<Shares>,
}

impl Sampler {
    pub(super) fn start() -> Self {
        let (watch, is_over) = (Watch::default(), Arc::new(AtomicBool::new(false)));
        let looking = thread::spawn({
            let (watch, is_over) = (watch.clone(), is_over.clone());
            move || look(&watch, &is_over)
        });
        Self { watch, is_over, looking }
    }

    pub(super) fn watch(&self) -> Watch {
        self.watch.clone()
    }

    pub(super) fn stop(self) -> Shares {
        self.is_over.store(true, Ordering::Relaxed);
        self.looking.join().expect("looking at threads does not fail")
    }
}

fn look(watch: &Watch, is_over: &AtomicBool) -> Shares {
    let mut shares = Shares::default();
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(INTERVAL);
        watch.0.lock().iter().for_each(|watched| shares.0[watched.part() as usize] += 1);
    }
    shares
}
