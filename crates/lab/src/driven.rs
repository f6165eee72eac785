//! A load on any array, modelled or real, with the array's counters for that time.

use std::sync::Arc;

use stripewise_engine::{Array, MemberStatsReport, StatsReport};
use stripewise_load::{Load, LoadReport, Pace, Step};

/// A load's results for clients, and for the array.
#[derive(Debug, Clone)]
pub struct Driven {
    /// Throughput and latencies.
    pub load: LoadReport,
    /// Requests, and rows by cycle.
    pub stats: StatsReport,
    /// The counters of each member, in the order of their device numbers.
    pub members: Vec<MemberStatsReport>,
}

/// Runs a load on an array. Must be awaited on a task of the array's environment. With a seed in the load,
/// requests are the same on every array, and so are the counters of rows, if the policy goes by counts alone.
///
/// # Panics
/// If the load does not fit the array, as [`stripewise_load::run`].
pub async fn drive(array: &Array, load: Load) -> Driven {
    let (stats, members) = (array.stats().report(), members(array).await);
    let report = stripewise_load::run(array.env().clone(), Arc::new(array.device()), load).await;
    let after = self::members(array).await;
    Driven {
        load: report,
        stats: array.stats().report().since(&stats),
        members: after.iter().zip(&members).map(|(after, before)| after.since(before)).collect(),
    }
}

/// As [`drive`], and flushes the array then. The flush counts as part of the load.
///
/// # Panics
/// Also if the flush fails.
pub async fn drive_whole(array: &Array, load: Load) -> Driven {
    whole(array, stripewise_load::run(array.env().clone(), Arc::new(array.device()), load)).await
}

/// Runs steps of requests on an array, and flushes it then. The flush counts as part of them. Must be awaited on a task of the
/// array's environment.
///
/// # Panics
/// If the steps have requests of which none may be under way, or the flush fails.
pub async fn drive_steps(array: &Array, steps: Vec<Step>, pace: Pace) -> Driven {
    whole(array, stripewise_load::run_steps(array.env().clone(), Arc::new(array.device()), steps, pace)).await
}

/// A load and a flush after it.
pub(crate) async fn whole(array: &Array, load: impl Future<Output = LoadReport>) -> Driven {
    let (begun, stats, before) = (array.env().now(), array.stats().report(), members(array).await);
    let report = load.await;
    array.flush().await.expect("the array can be flushed");
    let elapsed = array.env().now().since(begun);
    let after = members(array).await;
    Driven {
        load: LoadReport { elapsed, ..report },
        stats: array.stats().report().since(&stats),
        members: after.iter().zip(&before).map(|(after, before)| after.since(before)).collect(),
    }
}

async fn members(array: &Array) -> Vec<MemberStatsReport> {
    array.report().await.members.into_iter().map(|member| member.stats).collect()
}

#[cfg(test)]
mod tests {
    use stripewise_engine::{CacheKind, CacheSettings, plan::selection::DEFAULT_POLICY};
    use stripewise_load::{Offsets, Sizes, Stop};

    use super::*;
    use crate::arrays::{HddSetting, Rig, shapes};

    const WRITE_BYTES: u64 = 4 << 10;

    /// Writes in sequence, one after the other, and a flush. Returns how many there were in a second, and what was done.
    fn in_sequence(cache: CacheKind, write_cache: bool, writes: u64) -> (f64, Driven) {
        let hdd = HddSetting { write_cache, ..HddSetting::default() };
        let rig = Rig::new(&shapes::RAID5, DEFAULT_POLICY, hdd, 1);
        let array = rig.array().clone();
        rig.run(async move {
            array.set_cache(CacheSettings::new(cache, 32 << 20)).await.unwrap();
            let load = Load {
                depth: 1,
                offsets: Offsets::Sequential,
                sizes: Sizes::Fixed(WRITE_BYTES),
                unit_bytes: WRITE_BYTES,
                stop: Stop::Requests(writes),
                seed: Some(1),
                ..Load::default()
            };
            let driven = drive_whole(&array, load).await;
            (writes as f64 / driven.load.elapsed.as_secs_f64(), driven)
        })
    }

    #[test]
    fn on_hard_disks_a_cache_makes_whole_stripes_of_small_writes() {
        let writes = 1 << 14;
        for write_cache in [false, true] {
            let (without, _) = in_sequence(CacheKind::None, write_cache, 1 << 9);
            let (with, done) = in_sequence(CacheKind::Stripe, write_cache, writes);
            let (rows, reads) = (&done.stats, done.members.iter().map(|member| member.reads).sum::<u64>());
            // A client that takes no time fills the cache: a few rows are destaged before they are whole.
            assert!(rows.rows_full > 100 * (rows.rows_rmw + rows.rows_rcw), "{rows:?}");
            assert!(reads < writes / 100, "{reads} reads of members");
            assert!(with > 50.0 * without, "{without} and {with} writes a second");
            println!("drives' caches {write_cache}: {:.0} times", with / without);
        }
    }
}
