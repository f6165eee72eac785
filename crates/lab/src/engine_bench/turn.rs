//! One turn of the engine: clients on each worker, each of which asks for the next operation when the last is
//! done.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use stripewise_device::{SharedBuf, uring::Runtime};
use stripewise_engine::{Array, geometry::Geometry};

use super::{
    Options,
    case::{Case, Work},
    client::{Client, Seat},
    gate::Gate,
    parts::{Sampler, Shares},
    round,
};

/// Of a cache, one part in so many is held for hits: below what is destaged to make room.
const HELD_PART: u64 = 2;
/// Operations of a thread between two checks of the clock.
pub(super) const BATCH: usize = 64;

/// The work of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) work: Work,
    /// A member is lost.
    pub(super) is_degraded: bool,
    /// Bytes at the start of the array that a cache can hold.
    pub(super) held_bytes: u64,
    /// Bytes at the start of the array in which random operations are.
    pub(super) span_bytes: u64,
    /// After so many writes, a worker's clients flush.
    pub(super) flush_every: Option<u64>,
    pub(super) length: Duration,
    pub(super) seed: u64,
    /// Operations under way for each thread.
    pub(super) queue: usize,
    /// Whether to measure the time of each operation.
    pub(super) latency: bool,
    /// Whether a sampler looks at which parts the workers are in.
    pub(super) parts: bool,
}

impl Turn {
    pub(super) fn new(case: Case, geometry: &Geometry, options: &Options, number: u64) -> Self {
        Self {
            work: case.work(geometry),
            is_degraded: case.is_degraded(),
            held_bytes: options.cache_bytes(geometry) / HELD_PART,
            span_bytes: options.span_bytes(geometry),
            flush_every: options.flush_every,
            length: options.turn,
            seed: number,
            queue: options.queue,
            latency: options.latency,
            parts: options.parts,
        }
    }
}

/// The results of one turn.
pub(super) struct Done {
    pub(super) per_s: f64,
    /// Processor time of an operation.
    pub(super) cpu_ns: f64,
    /// The time of each operation, in nanoseconds; empty if not measured.
    pub(super) latency: Histogram<u64>,
    /// Samples of the workers, by part; none without a sampler.
    pub(super) parts: Shares,
    pub(super) counts: Counts,
    pub(super) operations: u64,
}

/// What an array did in a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Rows that were written with all their data new.
    pub(super) rows_full: u64,
    /// Rows that were written.
    pub(super) rows: u64,
    /// Reads of members.
    pub(super) member_reads: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.rows_full += other.rows_full;
        self.rows += other.rows;
        self.member_reads += other.member_reads;
    }

    /// Of an array since it was opened.
    fn now(runtime: &Runtime, array: &Array) -> Self {
        let (stats, array) = (array.stats().report(), array.clone());
        let report = runtime.block_on(async move { array.report().await });
        Self {
            rows_full: stats.rows_full,
            rows: stats.rows_full + stats.rows_rmw + stats.rows_rcw,
            member_reads: report.members.iter().map(|member| member.stats.reads).sum(),
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            rows_full: self.rows_full - earlier.rows_full,
            rows: self.rows - earlier.rows,
            member_reads: self.member_reads - earlier.member_reads,
        }
    }
}

/// Times of the operations of one worker's clients; these run on one thread, so this lock never makes one
/// wait.
pub(super) type Latencies = Arc<Mutex<Histogram<u64>>>;

/// Runs the engine for one turn, its clients all at the same time, each with its worker's source of data. What a
/// cache holds at the end is destaged, which counts as time of the turn, but for hits.
pub(super) fn engine_turn(turn: &Turn, runtime: &Runtime, array: &Array, sources: &[SharedBuf]) -> Done {
    let workers = runtime.workers();
    assert_eq!(sources.len(), workers, "every worker has clients, for whom all wait");
    let (sender, receiver) = mpsc::channel();
    let sampler = turn.parts.then(Sampler::start);
    let gate = Arc::new(Gate::default());
    let counts_before = Counts::now(runtime, array);
    let mut latencies: Vec<Latencies> = Vec::new();
    for (worker, source) in sources.iter().enumerate() {
        let of_worker = Latencies::new(Mutex::new(histogram()));
        let client = |slot| {
            let seat = Seat { worker, workers, slot };
            Client::new(*turn, array.clone(), seat, source.clone(), of_worker.clone())
        };
        let clients = (0..turn.queue).map(client).collect();
        let watch = sampler.as_ref().map(Sampler::watch);
        let (sender, gate, length) = (sender.clone(), gate.clone(), turn.length);
        let task = Box::pin(async move {
            watch.inspect(|watch| watch.this_thread());
            let _ = sender.send(round::run(clients, &gate, length).await);
        });
        runtime.spawn_on(worker, task);
        latencies.push(of_worker);
    }
    drop(sender);
    gate.wait_for(workers);
    let cpu_before = own_processor_time();
    gate.open();
    let of_workers: Vec<(u64, Duration)> = receiver.iter().collect();
    let destaging = if turn.work.is_of_hits() { Duration::ZERO } else { destage(runtime, array) };
    let done: u64 = of_workers.iter().map(|(done, _)| done).sum();
    let rate = |(done, elapsed): &(u64, Duration)| *done as f64 / (*elapsed + destaging).as_secs_f64();
    let per_s = of_workers.iter().map(rate).sum();
    let cpu_ns = (own_processor_time() - cpu_before).as_nanos() as f64 / done as f64;
    let parts = sampler.map(Sampler::stop).unwrap_or_default();
    let counts = Counts::now(runtime, array).since(&counts_before);
    Done { per_s, cpu_ns, latency: all(&latencies), parts, counts, operations: done }
}

/// Writes to the members what only a cache holds, and tells how long it took.
pub(super) fn destage(runtime: &Runtime, array: &Array) -> Duration {
    let (start, array) = (Instant::now(), array.clone());
    runtime.block_on(async move { array.flush().await }).expect("members in memory do not fail");
    start.elapsed()
}

fn all(latencies: &[Latencies]) -> Histogram<u64> {
    let mut all = histogram();
    latencies.iter().for_each(|one| all.add(&*one.lock()).expect("histograms of one kind"));
    all
}

/// A histogram up to ten seconds, to a thousandth.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are possible")
}

/// Runs a loop's turn, checking the clock now and then.
pub(super) fn per_second(length: Duration, mut operation: impl FnMut(u64)) -> f64 {
    let (mut done, start) = (0, Instant::now());
    while start.elapsed() < length {
        for _ in 0..BATCH {
            operation(done);
            done += 1;
        }
    }
    done as f64 / start.elapsed().as_secs_f64()
}

/// Processor time of this process, all its threads together.
pub fn own_processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
