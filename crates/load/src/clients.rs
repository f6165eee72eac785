//! Clients that each keep a number of requests under way.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use parking_lot::Mutex;
use smallvec::smallvec;
use stripewise_device::{Device, EnvHandle, IoBuf, IoError, SharedBuf, Timestamp, WriteBufs, WriteFlags};

use crate::{
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
    /// The start of the part of the device that is used.
    pub start_bytes: u64,
    /// The length of that part; all the rest if not given.
    pub span_bytes: Option<u64>,
    /// How many of a hundred requests read; the rest write.
    pub read_percent: u8,
    /// Writes are complete only when durable.
    pub fua: bool,
    /// When it ends.
    pub stop: Stop,
    /// Each client has its own cursor, and with [`Stop::Requests`] its own count, as fio's jobs have; else
    /// they share both.
    pub separate: bool,
    /// Requests that begin before this time has passed do not count.
    pub warm_up: Duration,
    /// The seed of places, lengths, kinds and contents of requests; without it they come from the
    /// environment's randomness. With a seed, the n-th request is the same one on every device, in virtual
    /// time and in real time.
    pub seed: Option<u64>,
}

/// When a load ends. Requests under way then still count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// After so many requests of all clients together; of each, if they are separate.
    Requests(u64),
    /// After a time, warming up included.
    Time(Duration),
    /// When the cursor of `Sequential` or `Stride` has reached the span's end; other kinds have no cursor.
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
            separate: false,
            warm_up: Duration::ZERO,
            seed: None,
        }
    }
}

/// From one request's seed to the next one's: 2^64 over the golden ratio.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Source data beyond the longest piece, so that successive writes differ.
const SOURCE_BYTES: u64 = 1 << 20;

/// Longer writes repeat pieces of this length.
const PIECE_BYTES: u64 = 16 << 20;

/// How the owner of a load steers and watches it.
#[derive(Debug, Default)]
pub struct Control {
    ends_at_error: bool,
    ended: AtomicBool,
    done_bytes: AtomicU64,
    failure: Mutex<Option<Failure>>,
}

/// A request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Whether it read.
    pub read: bool,
    /// Where.
    pub offset_bytes: u64,
    /// Why.
    pub error: IoError,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, offset_bytes, error } = self;
        write!(f, "the {} at byte {offset_bytes} failed: {error}", if *read { "read" } else { "write" })
    }
}

impl Control {
    /// A failed request ends the load.
    pub fn until_error() -> Self {
        Self { ends_at_error: true, ..Self::default() }
    }

    /// No more requests begin.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether it was ended, by its owner or by a failed request.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Bytes read and written so far.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// The first request that failed.
    pub fn failure(&self) -> Option<Failure> {
        *self.failure.lock()
    }

    fn note(&self, request: &Request, result: Result<(), IoError>) {
        let Err(error) = result else {
            self.done_bytes.fetch_add(request.len_bytes, Ordering::Relaxed);
            return;
        };
        let Request { read, offset_bytes, .. } = *request;
        self.failure.lock().get_or_insert(Failure { read, offset_bytes, error });
        if self.ends_at_error {
            self.end();
        }
    }
}

/// Runs a load to its end. Must be awaited on a task of the environment. In virtual time, a load that ends by
/// time needs requests that take time: over a device that is always ready the clock stands still.
///
/// # Panics If the load does not fit the device: a span beyond its end, or a request longer than the span. If
/// it would never end: it stops at the span's end, but has no cursor that moves there.
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
    for client in 0..clients as usize {
        let report = Arc::new(Mutex::new(LoadReport::default()));
        for _ in 0..depth {
            let lane = Lane { shared: shared.clone(), report: report.clone(), client };
            let gathering = gathering.clone();
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
    /// One for each client, or one for all.
    courses: Vec<Course>,
    source: SharedBuf,
    seed: u64,
    /// When warming up is over.
    from: Timestamp,
    /// When no more requests begin.
    until: Timestamp,
}

/// The progress of one client, or of all that share it.
struct Course {
    places: Places,
    /// Requests begun.
    begun: AtomicU64,
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
        let mut source = IoBuf::with_len((SOURCE_BYTES + load.sizes.longest().min(PIECE_BYTES)) as usize);
        // Drawn even if a seed is given, so that the environment's later draws do not depend on that.
        let drawn = env.random_u64();
        Rng::with_seed(load.seed.unwrap_or(drawn)).fill(&mut source);
        let seed = load.seed.unwrap_or_else(|| env.random_u64());
        let now = env.now();
        let course = |_| Course {
            places: Places::new(load.offsets, span_bytes, load.unit_bytes),
            begun: AtomicU64::new(0),
        };
        let courses = if load.separate { load.clients } else { 1 };
        let after = |time: Duration| Timestamp(now.0 + time.as_nanos() as u64);
        Self {
            courses: (0..courses).map(course).collect(),
            source: source.freeze(),
            seed,
            from: after(load.warm_up),
            until: if let Stop::Time(time) = load.stop { after(time) } else { Timestamp(u64::MAX) },
            env,
            device,
            load,
            control,
        }
    }

    /// A client's course, and the number of its next request, if one may begin at this time. No two requests
    /// of all courses have the same number.
    fn begin(&self, client: usize, now: Timestamp) -> Option<(&Course, u64)> {
        if self.control.ended.load(Ordering::Relaxed) {
            return None;
        }
        let courses = self.courses.len();
        let course = &self.courses[client % courses];
        let number = course.begun.fetch_add(1, Ordering::Relaxed);
        let may = match self.load.stop {
            Stop::Requests(count) => number < count,
            Stop::Time(_) => now < self.until,
            Stop::Span => true,
        };
        may.then_some((course, number * courses as u64 + (client % courses) as u64))
    }

    /// The source of the choices of one request, whichever client sends it.
    fn rng(&self, number: u64) -> Rng {
        Rng::with_seed(self.seed.wrapping_add(number.wrapping_mul(SEED_STEP)))
    }

    /// Different source data for each request, at multiples of 512 bytes.
    fn data(&self, number: u64, len_bytes: u64) -> WriteBufs {
        let at = (number * 512 % SOURCE_BYTES) as usize;
        let starts = (0..len_bytes).step_by(PIECE_BYTES as usize);
        let lens = starts.map(|start| (len_bytes - start).min(PIECE_BYTES) as usize);
        lens.map(|len| self.source.slice(at..at + len)).collect()
    }
}

/// A client's requests, one after the other.
struct Lane {
    shared: Arc<Shared>,
    /// The client's.
    report: Arc<Mutex<LoadReport>>,
    client: usize,
}

/// One request.
struct Request {
    number: u64,
    begin: Timestamp,
    read: bool,
    offset_bytes: u64,
    len_bytes: u64,
}

impl Lane {
    async fn run(self) {
        while let Some(request) = self.next() {
            self.send(request).await;
            if self.shared.load.think > Duration::ZERO {
                self.shared.env.sleep(self.shared.load.think).await;
            }
        }
    }

    fn next(&self) -> Option<Request> {
        let Shared { env, load, .. } = &*self.shared;
        let begin = env.now();
        let (course, number) = self.shared.begin(self.client, begin)?;
        let mut rng = self.shared.rng(number);
        let len_bytes = load.sizes.next(&mut rng);
        let place = course.places.next(&mut rng, len_bytes, load.stop == Stop::Span)?;
        let read = load.read_percent > 0 && rng.u8(..100) < load.read_percent;
        Some(Request { number, begin, read, offset_bytes: load.start_bytes + place, len_bytes })
    }

    async fn send(&self, request: Request) {
        let Request { number, begin, read, offset_bytes, len_bytes } = request;
        let shared = &self.shared;
        let result = if read {
            let into = smallvec![IoBuf::with_len(len_bytes as usize)];
            shared.device.read(offset_bytes, into).await.result
        } else {
            let data = shared.data(number, len_bytes);
            shared.device.write(offset_bytes, data, WriteFlags { fua: shared.load.fua }).await
        };
        shared.control.note(&request, result);
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
