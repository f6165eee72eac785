//! One turn of the engine: clients, one on each worker, that each ask for the next operation when the last is done.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use hdrhistogram::Histogram;
use stripewise::{
    Array, Host, IoBuf, SharedBuf, WriteFlags,
    parts::{Part, within},
};

use super::{
    case::Work,
    parts::{Sampler, Shares},
};
use crate::bench::cpu;

/// Source data of each client that rotates, so that it is neither all in cache nor the bottleneck: 4 MiB.
const SOURCE_BYTES: usize = 4 << 20;
/// Operations between two looks at the clock.
const BATCH: u64 = 64;

/// What a turn does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) work: Work,
    /// A member is lost.
    pub(super) is_degraded: bool,
    pub(super) length: Duration,
    pub(super) seed: u64,
    /// Whether the time of each operation is taken.
    pub(super) latency: bool,
    /// Whether a sampler looks at what the workers are at.
    pub(super) parts: bool,
}

/// What came of one turn.
pub(super) struct Done {
    pub(super) per_s: f64,
    /// Processor time of an operation.
    pub(super) cpu_ns: f64,
    /// Of each operation, in nanoseconds; empty, if that was not taken.
    pub(super) latency: Histogram<u64>,
    /// Looks at the workers, by part; none, if nobody looked.
    pub(super) parts: Shares,
}

/// Runs the engine for one turn.
pub(super) fn engine_turn(turn: &Turn, host: &Host, array: &Array) -> Done {
    let workers = host.runtime().workers();
    let (sender, receiver) = mpsc::channel();
    let sampler = turn.parts.then(Sampler::start);
    let cpu_before = cpu::own();
    for worker in 0..workers {
        let client = Client::new(*turn, array.clone(), worker, workers);
        let (sender, watch) = (sender.clone(), sampler.as_ref().map(Sampler::watch));
        let task = Box::pin(async move {
            watch.inspect(|watch| watch.this_thread());
            let _ = sender.send(client.run().await);
        });
        host.runtime().spawn_on(worker, task);
    }
    drop(sender);
    let (mut done, mut per_s, mut latency) = (0, 0.0, histogram());
    for (client_done, elapsed, client_latency) in receiver {
        done += client_done;
        per_s += client_done as f64 / elapsed.as_secs_f64();
        latency.add(client_latency).expect("histograms of one kind");
    }
    let parts = sampler.map(Sampler::stop).unwrap_or_default();
    Done { per_s, cpu_ns: (cpu::own() - cpu_before).as_nanos() as f64 / done as f64, latency, parts }
}

/// Up to ten seconds, to a thousandth.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are possible")
}

struct Client {
    turn: Turn,
    array: Array,
    rng: Rng,
    source: SharedBuf,
    /// How many bytes an operation has.
    bytes: usize,
    /// Its part of the places of operations, for sequential ones.
    first: u64,
    places: u64,
}

impl Client {
    fn new(turn: Turn, array: Array, worker: usize, workers: usize) -> Self {
        let bytes = match turn.work {
            Work::Read { bytes, .. } | Work::Write { bytes, .. } => bytes,
            Work::Check | Work::Rebuild => unreachable!("jobs have no clients"),
        };
        let places = array.geometry().capacity_bytes() / bytes as u64 / workers as u64;
        let rng = Rng::with_seed(turn.seed << 16 | worker as u64);
        Self { turn, array, rng, source: source(), bytes, first: places * worker as u64, places }
    }

    async fn run(mut self) -> (u64, Duration, Histogram<u64>) {
        let mut latency = histogram();
        let (mut done, mut block, start) = (0, IoBuf::with_len(self.bytes), Instant::now());
        while start.elapsed() < self.turn.length {
            for _ in 0..BATCH {
                let begun = self.turn.latency.then(Instant::now);
                // Members in memory are done at once. Who waits for rows all the same is found at the rest.
                let _part = within(Part::Rest);
                block = self.operation(done, block).await;
                if let Some(begun) = begun {
                    latency.saturating_record(begun.elapsed().as_nanos() as u64);
                }
                done += 1;
            }
        }
        (done, start.elapsed(), latency)
    }

    async fn operation(&mut self, index: u64, block: IoBuf) -> IoBuf {
        match self.turn.work {
            Work::Read { sequential, .. } => {
                let at = self.place(index, sequential);
                self.array.read(at, block).await.expect("members in memory do not fail")
            }
            Work::Write { sequential, .. } => {
                let (at, data) = (self.place(index, sequential), slice(&self.source, index, self.bytes));
                let written = self.array.write(at, data, WriteFlags::default()).await;
                written.expect("members in memory do not fail");
                block
            }
            Work::Check | Work::Rebuild => block,
        }
    }

    /// The next in its own part, or anywhere.
    fn place(&mut self, index: u64, sequential: bool) -> u64 {
        let all = self.array.geometry().capacity_bytes() / self.bytes as u64;
        let place = if sequential { self.first + index % self.places.max(1) } else { self.rng.u64(..all) };
        place * self.bytes as u64
    }
}

/// A client's data.
pub(super) fn source() -> SharedBuf {
    let mut source = IoBuf::with_len(SOURCE_BYTES);
    Rng::with_seed(1).fill(&mut source);
    source.freeze()
}

/// The data of an operation.
pub(super) fn slice(source: &SharedBuf, index: u64, len: usize) -> SharedBuf {
    let at = index as usize % (SOURCE_BYTES / len).max(1) * len;
    source.slice(at..at + len)
}

/// How long a loop's turn goes on, looking at the clock now and then.
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
