//! Steps of reads and writes that are known beforehand: each begins when all requests of the one before have ended.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use smallvec::smallvec;
use stripewise_device::{Device, EnvHandle, IoBuf, SharedBuf, WriteFlags};

use crate::{gather::Gathering, report::LoadReport};

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// From the device's start, in bytes.
    pub offset_bytes: u64,
    /// How much.
    pub len_bytes: u64,
}

/// Reads in their order, and beside them writes in theirs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Reads.
    pub reads: Vec<Extent>,
    /// Writes.
    pub writes: Vec<Extent>,
}

/// How many requests of a step are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Reads.
    pub reads: u32,
    /// Writes.
    pub writes: u32,
    /// Writes are complete only when durable.
    pub fua: bool,
}

impl Step {
    /// Whether nothing is done in it.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }
}

/// Runs the steps, one after another. Must be awaited on a task of the environment.
///
/// # Panics
/// If there are requests of a kind of which none may be under way.
pub async fn run_steps(env: EnvHandle, device: Arc<dyn Device>, steps: Vec<Step>, pace: Pace) -> LoadReport {
    let writes = steps.iter().flat_map(|step| &step.writes);
    let longest = writes.map(|write| write.len_bytes).max().unwrap_or(0);
    let source = IoBuf::zeroed(longest as usize).freeze();
    let (begin, mut report) = (env.now(), LoadReport::default());
    for step in steps {
        let lanes = Lanes { env: env.clone(), device: device.clone(), source: source.clone(), fua: pace.fua };
        report.add(&lanes.run(step, pace).await);
    }
    report.elapsed = env.now().since(begin);
    report
}

/// The requests of one step.
#[derive(Clone)]
struct Lanes {
    env: EnvHandle,
    device: Arc<dyn Device>,
    source: SharedBuf,
    fua: bool,
}

/// Requests of one kind, which several lanes take one by one.
struct Queue {
    read: bool,
    extents: Vec<Extent>,
    taken: AtomicUsize,
    report: Mutex<LoadReport>,
}

impl Lanes {
    async fn run(&self, step: Step, pace: Pace) -> LoadReport {
        let kinds = [(true, step.reads, pace.reads), (false, step.writes, pace.writes)];
        let kinds = kinds.map(|(read, extents, under_way)| {
            assert!(under_way > 0 || extents.is_empty(), "none of these requests may ever begin");
            let lanes = extents.len().min(under_way as usize);
            let (taken, report) = (AtomicUsize::new(0), Mutex::default());
            (Arc::new(Queue { read, extents, taken, report }), lanes)
        });
        let lanes: usize = kinds.iter().map(|(_, lanes)| lanes).sum();
        if lanes == 0 {
            return LoadReport::default();
        }
        let gathering = Gathering::new(lanes as u64);
        for (queue, lanes) in kinds {
            for _ in 0..lanes {
                let (own, queue, gathering) = (self.clone(), queue.clone(), gathering.clone());
                self.env.spawn(Box::pin(async move {
                    own.empty(&queue).await;
                    gathering.bring(&mut queue.report.lock());
                }));
            }
        }
        gathering.wait().await
    }

    async fn empty(&self, queue: &Queue) {
        while let Some(extent) = queue.extents.get(queue.taken.fetch_add(1, Ordering::Relaxed)) {
            let begin = self.env.now();
            let result = self.send(queue.read, *extent).await;
            queue.note(extent.len_bytes, self.env.now().since(begin), result.is_ok());
        }
    }

    async fn send(
        &self,
        read: bool,
        Extent { offset_bytes, len_bytes }: Extent,
    ) -> Result<(), stripewise_device::IoError> {
        if read {
            let into = smallvec![IoBuf::with_len(len_bytes as usize)];
            self.device.read(offset_bytes, into).await.result
        } else {
            let from = smallvec![self.source.slice(0..len_bytes as usize)];
            self.device.write(offset_bytes, from, WriteFlags { fua: self.fua }).await
        }
    }
}

impl Queue {
    fn note(&self, len_bytes: u64, latency: Duration, is_ok: bool) {
        let mut report = self.report.lock();
        let op = if self.read { &mut report.reads } else { &mut report.writes };
        if is_ok { op.record(len_bytes, latency) } else { op.errors += 1 }
    }
}
