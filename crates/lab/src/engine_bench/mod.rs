//! The engine as it runs, with real threads, over members in memory, beside the limit of bare loops that move
//! the same bytes: what `stripewise bench engine` prints, and what real-time experiments are made of.
//!
//! Everything that is compared runs in turns in one process, and a ratio is the median of the turns, so a
//! noisy machine disturbs all alike. Figures belong to the machine that they were taken on, and are never the
//! same twice.

mod affinity;
mod arrays;
mod case;
mod client;
mod figure;
mod gate;
mod jobs;
mod limit;
mod locking;
pub mod memory;
mod options;
pub mod page;
mod parts;
mod round;
mod turn;

use std::io;

use stripewise_device::{
    SharedBuf,
    uring::{Runtime, RuntimeOptions},
};
use stripewise_engine::{ArrayError, AssembleError, CacheKind, CreateError};
use thiserror::Error;

use self::{
    affinity::Pinned,
    arrays::{Variant, choose, degrade, fill, variants},
    case::Work,
    client::source,
    figure::Turns,
    jobs::job_turn,
    limit::Limit,
    turn::{Done, Turn, destage, engine_turn},
};
pub use self::{
    case::Case,
    figure::{Figure, Latency, TurnFigure, median},
    locking::{LockSetting, LockSettingError},
    options::{BitmapMode, MemberKind, Options, cache_name},
    turn::own_processor_time,
};

/// Why nothing, or no more, was measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The workers did not start.
    #[error("the workers do not start: {0}")]
    Workers(#[from] io::Error),
    /// The requested array cannot be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// An array cannot be opened with these locks.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// An array failed although its members do not.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

/// Runs everything requested and returns the figures, calling `tell` for each when done: shapes, counts of
/// threads and cases one after the other, all else in turns.
///
/// # Errors
/// [`BenchError`].
///
/// # Panics
/// If members in memory fail.
pub fn run(options: &Options, mut tell: impl FnMut(&Figure)) -> Result<Vec<Figure>, BenchError> {
    let mut figures: Vec<Figure> = Vec::new();
    for members in options.raid_devices.iter().copied() {
        for threads in options.threads.iter().copied() {
            let bench = Bench::start(options, members, threads)?;
            figures.extend(bench.measure_all(&mut tell)?);
        }
    }
    Ok(figures)
}

/// As in "2 threads".
pub(crate) fn threads_text(count: usize) -> String {
    format!("{count} {}", if count == 1 { "thread" } else { "threads" })
}

/// The arrays of one shape, on so many workers. Fields are in the order in which they must be dropped.
struct Bench<'a> {
    options: &'a Options,
    variants: Vec<Variant>,
    limit: Option<Limit>,
    /// The data that each worker's clients write.
    sources: Vec<SharedBuf>,
    runtime: Runtime,
    _pinned: Option<Pinned>,
}

impl<'a> Bench<'a> {
    fn start(options: &'a Options, members: usize, threads: usize) -> Result<Self, BenchError> {
        let pinned = Pinned::to(threads);
        let cores = pinned.as_ref().map(Pinned::cores).unwrap_or_default();
        let runtime = Runtime::start(&RuntimeOptions::default().threads(threads))?;
        for worker in 0..runtime.workers() {
            let cores = cores.clone();
            runtime.spawn_on(worker, Box::pin(async move { cores.keep_to(worker) }));
        }
        let variants = variants(options, members, &runtime)?;
        let geometry = variants[0].array.geometry();
        let has_limit = options.limit && options.members == MemberKind::Memory;
        let largest = options.cases.iter().filter_map(|case| case.work(&geometry).written_bytes()).max();
        let source_bytes = largest.map_or(0, |bytes| bytes.max(options.source_bytes as usize));
        let sources: Vec<_> = (0..threads).map(|_| source(source_bytes)).collect();
        let limit = has_limit.then(|| Limit::new(&geometry, options.member_bytes as usize, &sources, cores));
        Ok(Self { options, variants, limit, sources, runtime, _pinned: pinned })
    }

    fn measure_all(mut self, tell: &mut impl FnMut(&Figure)) -> Result<Vec<Figure>, BenchError> {
        let mut figures = Vec::new();
        for case in self.options.cases_in_order() {
            let measured = self.measure(case)?;
            measured.iter().for_each(&mut *tell);
            figures.extend(measured);
        }
        for Variant { array, .. } in self.variants {
            // Variants with the same locks and bitmap share their array; later ones find it stopped.
            let _ = self.runtime.block_on(async move { array.stop().await });
        }
        Ok(figures)
    }

    /// Measures a case: in each turn all variants and the limit run, one after the other; each turn begins
    /// with another one.
    fn measure(&mut self, case: Case) -> Result<Vec<Figure>, BenchError> {
        for Variant { array, .. } in &self.variants {
            // What an earlier case left dirty in a cache is not this one's work.
            let array = array.clone();
            self.runtime.block_on(async move { array.flush().await })?;
        }
        let mut turns: Vec<Turns> = self.variants.iter().map(|_| Turns::default()).collect();
        for number in 0..=self.options.turns as u64 {
            let turn = Turn::new(case, &self.variants[0].array.geometry(), self.options, number);
            let (done, bare) = self.one_turn(&turn)?;
            if number > 0 {
                // The first turn only warms up.
                turns.iter_mut().zip(done).for_each(|(turns, done)| turns.add(done, bare));
            }
        }
        let (threads, queue) = (self.runtime.workers(), self.options.queue);
        let uncached: Vec<_> = self.variants.iter().map(|variant| self.uncached(variant, &turns)).collect();
        let figure = |((variant, turns), uncached): ((&Variant, Turns), Option<Vec<f64>>)| {
            turns.figure(case, variant, (threads, queue), uncached.as_deref())
        };
        Ok(self.variants.iter().zip(turns).zip(uncached).map(figure).collect())
    }

    /// The rates of the variant that differs only in that it has no cache; none for itself.
    fn uncached(&self, of: &Variant, turns: &[Turns]) -> Option<Vec<f64>> {
        let is_it = |one: &Variant| one.is_uncached(of);
        let at = self.variants.iter().position(is_it).filter(|_| of.cache != CacheKind::None)?;
        Some(turns[at].rates().collect())
    }

    /// The results of each variant, and of the limit.
    fn one_turn(&mut self, turn: &Turn) -> Result<(Vec<Done>, Option<f64>), BenchError> {
        let count = self.variants.len();
        let (mut done, mut bare): (Vec<Option<Done>>, _) = ((0..count).map(|_| None).collect(), None);
        let places = count + usize::from(self.limit.is_some());
        for place in 0..places {
            match (turn.seed as usize + place) % places {
                index if index < count => done[index] = Some(self.turn(turn, &self.variants[index])?),
                _ => bare = self.limit.as_mut().and_then(|limit| limit.turn(turn)),
            }
        }
        Ok((done.into_iter().flatten().collect(), bare))
    }

    fn turn(&self, turn: &Turn, variant: &Variant) -> Result<Done, BenchError> {
        let (array, runtime) = (&variant.array, &self.runtime);
        choose(runtime, variant)?;
        if turn.is_degraded {
            degrade(runtime, array)?;
        }
        match turn.work {
            Work::Check | Work::Rebuild => Ok(job_turn(turn, self.options, runtime, array)?),
            work if work.is_of_hits() => {
                fill(runtime, array, turn.held_bytes)?;
                let done = engine_turn(turn, runtime, array, &self.sources);
                destage(runtime, array);
                Ok(done)
            }
            Work::Read { .. } | Work::Write { .. } => Ok(engine_turn(turn, runtime, array, &self.sources)),
        }
    }
}
