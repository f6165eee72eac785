//! A load that changes, on a running array: what each phase came to, and when writes began to go another way.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::Timestamp;
use stripewise_engine::{Array, destage::Weighed};
use stripewise_load::{Load, LoadReport};

use crate::{
    driven::{Driven, whole},
    point::{LOOKS, PhaseOutcome, WayChange},
};

/// Runs loads one after another, and flushes the array then; the flush counts as part of them. Must be awaited on a task of
/// the array's environment.
///
/// # Panics
/// If a load does not fit the array, or the flush fails.
pub(crate) async fn drive_phases(array: &Array, loads: Vec<Load>) -> (Driven, Vec<PhaseOutcome>) {
    let (ways, mut phases) = (Ways::watch(array), Vec::new());
    let driven = whole(array, async {
        let mut all = LoadReport::default();
        for load in loads {
            let (begun, passed) = (array.env().now(), passed(array));
            *ways.seen.lock() = Seen::default();
            let report = stripewise_load::run(array.env().clone(), Arc::new(array.device()), load).await;
            all.reads.add(&report.reads);
            all.writes.add(&report.writes);
            let seen = std::mem::take(&mut *ways.seen.lock());
            phases.push(PhaseOutcome {
                ns: array.env().now().since(begun).as_nanos() as u64,
                bytes: report.reads.bytes + report.writes.bytes,
                passed: self::passed(array) - passed,
                changes: seen.changes.iter().map(|(at, weighed)| change(at.since(begun), weighed)).collect(),
                reasons: seen.reasons,
                costs_ns: seen.costs_ns,
            });
        }
        all
    })
    .await;
    ways.ended.store(true, Ordering::Relaxed);
    (driven, phases)
}

/// Parts of stripes that went past the cache so far.
fn passed(array: &Array) -> u64 {
    array.cache().map_or(0, |cache| cache.passed)
}

/// Notes when writes begin to go past the cache, when by way of it, and why.
#[derive(Default)]
struct Ways {
    seen: Mutex<Seen>,
    ended: AtomicBool,
}

/// What was noted in a phase.
#[derive(Default)]
struct Seen {
    changes: Vec<(Timestamp, Weighed)>,
    reasons: BTreeMap<String, u64>,
    costs_ns: Option<[u64; 2]>,
}

impl Ways {
    fn watch(array: &Array) -> Arc<Self> {
        let (ways, array) = (Arc::new(Self::default()), array.clone());
        let own = ways.clone();
        array.env().clone().spawn(Box::pin(async move {
            let mut was_past = false;
            while let Some(cache) = array.cache().filter(|_| !own.ended.load(Ordering::Relaxed)) {
                own.seen.lock().note(array.env().now(), cache.weighed, &mut was_past);
                array.env().sleep(LOOKS).await;
            }
        }));
        ways
    }
}

impl Seen {
    fn note(&mut self, now: Timestamp, weighed: Weighed, was_past: &mut bool) {
        if weighed.passes != *was_past {
            self.changes.push((now, weighed));
            *was_past = weighed.passes;
        }
        self.costs_ns = of_kib(&weighed);
        *self.reasons.entry(weighed.why.text().to_owned()).or_default() += 1;
    }
}

fn change(after: Duration, weighed: &Weighed) -> WayChange {
    WayChange {
        after_ns: after.as_nanos() as u64,
        past: weighed.passes,
        why: weighed.why.text().to_owned(),
        costs_ns: of_kib(weighed),
    }
}

/// What members are thought to be occupied for by a KiB past the cache, and by way of it.
fn of_kib(weighed: &Weighed) -> Option<[u64; 2]> {
    let costs = weighed.through_ns.zip(weighed.back_ns);
    costs.map(|(through, back)| [through, back].map(|of_byte| (of_byte * 1024.0) as u64))
}
