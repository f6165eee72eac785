//! Clients that each keep a number of requests under way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use parking_lot::Mutex;
use smallvec::smallvec;
use stripewise_device::{Device, EnvHandle, IoBuf, SharedBuf, Timestamp, WriteFlags};

use super::{
    gather::Gathering,
    offsets::{Offsets, Places},
    report::LoadReport,
    sizes::Sizes,
};

/// A closed loop: a new request begins when an old one ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Clients.
    pub clients: u32,
    /// Requests that each client keeps under way.
    pub depth: u32,
    /// How long a client waits after a request before it puts the next one in its place.
    pub think: Duration,
    /// Where.
    pub offsets: Offsets,
    /// How much.
    pub sizes: Sizes,
    /// Offsets are multiples of this.
    pub unit_bytes: u64,
    /// The part of the device that is used: from here,
    pub start_bytes: u64,
    /// so many bytes; all the rest if not given.
    pub span_bytes: Option<u64>,
    /// How many of a hundred requests read; the rest write.
    pub read_percent: u8,
    /// Writes are complete only when durable.
    pub fua: bool,
    /// When it ends.
    pub stop: Stop,
    /// Requests that begin before so much time has passed do not count.
    pub warm_up: Duration,
}

/// When a load ends. What is under way then still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// After so many requests of all clients together.
    Requests(u64),
    /// After a time, warming up included.
    Time(Duration),
    /// When the cursor of `Sequential` or `Stride` has come to the span's end; nothing else has one.
    Span,
}

impl Default for Load {
    /// One client that writes 4 KiB at a time anywhere, a thousand times.
    fn default() -> Self {
        Self {
            clients: 1,
            depth: 1,
            think: Duration::ZERO,
            offsets: Offsets::Uniform,
            sizes: Sizes::Fixed(4096),
            unit_bytes: 4096,
            start_bytes: 0,
            span_bytes: None,
            read_percent: 0,
            fua: false,
            stop: Stop::Requests(1000),
            warm_up: Duration::ZERO,
        }
    }
}

/// Source data beyond the longest request, so that successive writes differ.
const SOURCE_BYTES: u64 = 1 << 20;

/// How the owner of a load steers and watches it.
#[derive(Debug, Default)]
pub struct Control {
    /// Places, sizes and contents come from this, not from the environment.
    seed: Option<u64>,
    ends_at_error: bool,
    ended: AtomicBool,
    done_bytes: AtomicU64,
}

impl Control {
    /// The same requests for a seed wherever it runs, as far as the order of clients' requests is the same: with one at a
    /// time it is. A failed request ends the load.
    pub fn seeded(seed: u64) -> Self {
        Self { seed: Some(seed), ends_at_error: true, ..Self::default() }
    }

    /// No more requests begin.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Bytes read and written so far.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }
}

/// Runs a load to its end. Must be awaited on a task of the environment. In virtual time, a load that ends by time
/// needs requests that take some: over a device that is always ready the clock stands still.
///
/// # Panics
/// If the load does not fit the device: a span beyond its end, or a request longer than the span. If it would never end:
/// at the span's end, without a cursor that moves there.
pub async fn run(env: EnvHandle, device: Arc<dyn Device>, load: Load) -> LoadReport {
    run_controlled(env, device, load, Arc::default()).await
}

/// [`run`], under control.
///
/// # Panics
/// As [`run`].
pub async fn run_controlled(
    env: EnvHandle,
    device: Arc<dyn Device>,
    load: Load,
    control: Arc<Control>,
) -> LoadReport {
    let (clients, depth) = (load.clients, load.depth);
    let shared = Arc::new(Shared::new(env.clone(), device, load, control));
    let gathering = Gathering::new(u64::from(clients) * u64::from(depth));
    for _ in 0..clients {
        let report = Arc::new(Mutex::new(LoadReport::default()));
        for _ in 0..depth {
            let (lane, gathering) = (Lane::new(shared.clone(), report.clone()), gathering.clone());
            let report = report.clone();
            env.spawn(Box::pin(async move {
                lane.run().await;
                gathering.bring(&mut report.lock());
            }));
        }
    }
    gathering.wait().await
}

struct Shared {
    env: EnvHandle,
    device: Arc<dyn Device>,
    load: Load,
    control: Arc<Control>,
    /// Where seeds come from, if not from the environment.
    seeds: Option<Mutex<Rng>>,
    places: Places,
    source: SharedBuf,
    /// Requests begun.
    begun: AtomicU64,
    /// When warming up is over.
    from: Timestamp,
    /// When no more requests begin.
    until: Timestamp,
}

impl Shared {
    fn new(env: EnvHandle, device: Arc<dyn Device>, load: Load, control: Arc<Control>) -> Self {
        let rest_bytes = device.info().size_bytes.saturating_sub(load.start_bytes);
        let span_bytes = load.span_bytes.unwrap_or(rest_bytes);
        assert!(span_bytes <= rest_bytes, "the span ends beyond the device");
        assert!(
            load.stop != Stop::Span || load.offsets.come_to_an_end(),
            "a load without a cursor has no end"
        );
        let mut source = IoBuf::with_len((SOURCE_BYTES + load.sizes.longest()) as usize);
        let seeds = control.seed.map(|seed| Mutex::new(Rng::with_seed(seed)));
        Rng::with_seed(next_seed(&env, seeds.as_ref())).fill(&mut source);
        let now = env.now();
        let after = |time: Duration| Timestamp(now.0 + time.as_nanos() as u64);
        Self {
            places: Places::new(load.offsets, span_bytes, load.unit_bytes),
            source: source.freeze(),
            begun: AtomicU64::new(0),
            from: after(load.warm_up),
            until: if let Stop::Time(time) = load.stop { after(time) } else { Timestamp(u64::MAX) },
            env,
            device,
            load,
            control,
            seeds,
        }
    }

    /// Whether one more request may begin at this time.
    fn begin(&self, now: Timestamp) -> bool {
        if self.control.ended.load(Ordering::Relaxed) {
            return false;
        }
        let before = self.begun.fetch_add(1, Ordering::Relaxed);
        match self.load.stop {
            Stop::Requests(count) => before < count,
            Stop::Time(_) => now < self.until,
            Stop::Span => true,
        }
    }

    /// Different source data for each request, at multiples of 512 bytes.
    fn data(&self, number: u64, len_bytes: u64) -> SharedBuf {
        let at = (number * 512 % SOURCE_BYTES) as usize;
        self.source.slice(at..at + len_bytes as usize)
    }
}

fn next_seed(env: &EnvHandle, seeds: Option<&Mutex<Rng>>) -> u64 {
    seeds.map_or_else(|| env.random_u64(), |seeds| seeds.lock().u64(..))
}

/// One of a client's requests after the other.
struct Lane {
    shared: Arc<Shared>,
    rng: Rng,
    /// The client's.
    report: Arc<Mutex<LoadReport>>,
}

impl Lane {
    fn new(shared: Arc<Shared>, report: Arc<Mutex<LoadReport>>) -> Self {
        let rng = Rng::with_seed(next_seed(&shared.env, shared.seeds.as_ref()));
        Self { shared, rng, report }
    }

    async fn run(mut self) {
        let shared = self.shared.clone();
        let load = &shared.load;
        loop {
            let begin = shared.env.now();
            if !shared.begin(begin) {
                break;
            }
            let len_bytes = load.sizes.next(&mut self.rng);
            let Some(place) = shared.places.next(&mut self.rng, len_bytes, load.stop == Stop::Span) else {
                break;
            };
            self.request(begin, load.start_bytes + place, len_bytes).await;
            if load.think > Duration::ZERO {
                shared.env.sleep(load.think).await;
            }
        }
    }

    async fn request(&mut self, begin: Timestamp, offset_bytes: u64, len_bytes: u64) {
        let (shared, load) = (&self.shared, &self.shared.load);
        let read = load.read_percent > 0 && self.rng.u8(..100) < load.read_percent;
        let result = if read {
            let into = smallvec![IoBuf::with_len(len_bytes as usize)];
            shared.device.read(offset_bytes, into).await.result
        } else {
            let data = shared.data(shared.begun.load(Ordering::Relaxed), len_bytes);
            shared.device.write(offset_bytes, smallvec![data], WriteFlags { fua: load.fua }).await
        };
        shared.control.done_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        if result.is_err() && shared.control.ends_at_error {
            shared.control.end();
        }
        if begin < shared.from {
            return;
        }
        let end = shared.env.now();
        let mut report = self.report.lock();
        report.elapsed = end.since(shared.from);
        let op = if read { &mut report.reads } else { &mut report.writes };
        match result {
            Ok(()) => op.record(len_bytes, end.since(begin)),
            Err(_) => op.errors += 1,
        }
    }
}
