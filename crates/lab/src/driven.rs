//! A load on any array, modelled or real, with the array's counters for that time.

use std::sync::Arc;

use stripewise_engine::{Array, MemberStatsReport, StatsReport};
use stripewise_load::{Load, LoadReport};

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

async fn members(array: &Array) -> Vec<MemberStatsReport> {
    array.report().await.members.into_iter().map(|member| member.stats).collect()
}
