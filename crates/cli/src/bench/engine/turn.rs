//! One turn of the engine: clients, one on each worker, that each ask for the next operation when the last is done.

use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use hdrhistogram::Histogram;
use stripewise::{Array, Host, IoBuf, SharedBuf, WriteFlags};

use super::{BLOCK_BYTES, Case};

/// Source data of each client that rotates, so that it is neither all in cache nor the bottleneck: 4 MiB.
const SOURCE_BYTES: usize = 4 << 20;
/// Operations between two looks at the clock.
const BATCH: u64 = 64;

/// What a turn does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) case: Case,
    pub(super) length: Duration,
    pub(super) seed: u64,
    /// Whether the time of each operation is taken.
    pub(super) latency: bool,
}

/// What came of one turn.
pub(super) struct Done {
    pub(super) per_s: f64,
    /// Processor time of an operation.
    pub(super) cpu_ns: f64,
    /// Of each operation, in nanoseconds; empty, if that was not taken.
    pub(super) latency: Histogram<u64>,
}

/// Runs the engine for one turn.
pub(super) fn engine_turn(turn: &Turn, host: &Host, array: &Array) -> Done {
    let workers = host.runtime().workers();
    let (sender, receiver) = mpsc::channel();
    let cpu_before = cpu_time();
    for worker in 0..workers {
        let client = Client::new(*turn, array.clone(), worker, workers);
        let sender = sender.clone();
        let task = Box::pin(async move {
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
    Done { per_s, cpu_ns: (cpu_time() - cpu_before).as_nanos() as f64 / done as f64, latency }
}

/// Up to ten seconds, to a thousandth.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are possible")
}

/// Processor time of this process.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

struct Client {
    turn: Turn,
    array: Array,
    rng: Rng,
    source: SharedBuf,
    /// Its part of the array's stripes, for sequential writes.
    first_stripe: u64,
    stripes: u64,
}

impl Client {
    fn new(turn: Turn, array: Array, worker: usize, workers: usize) -> Self {
        let stripes = array.geometry().capacity_bytes() / array.geometry().stripe_bytes() / workers as u64;
        let rng = Rng::with_seed(turn.seed << 16 | worker as u64);
        Self { turn, array, rng, source: source(), first_stripe: stripes * worker as u64, stripes }
    }

    async fn run(mut self) -> (u64, Duration, Histogram<u64>) {
        let mut latency = histogram();
        let (mut done, mut block, start) = (0, IoBuf::with_len(BLOCK_BYTES), Instant::now());
        while start.elapsed() < self.turn.length {
            for _ in 0..BATCH {
                let begun = self.turn.latency.then(Instant::now);
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
        let geometry = self.array.geometry();
        let at = self.rng.u64(..geometry.capacity_bytes() / BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
        let (at, len) = match self.turn.case {
            Case::RandomRead => {
                return self.array.read(at, block).await.expect("members in memory do not fail");
            }
            Case::RandomWrite => (at, BLOCK_BYTES),
            Case::FullStripe => {
                let stripe = self.first_stripe + index % self.stripes.max(1);
                (stripe * geometry.stripe_bytes(), geometry.stripe_bytes() as usize)
            }
        };
        let data = slice(&self.source, index, len);
        self.array.write(at, data, WriteFlags::default()).await.expect("members in memory do not fail");
        block
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
