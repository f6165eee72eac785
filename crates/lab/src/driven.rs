//! A load on any array, modelled or real, with what the array counted meanwhile.

use std::sync::Arc;

use stripewise_engine::{Array, MemberStatsReport, StatsReport};
use stripewise_sim::load::{self, Load, LoadReport};

/// What a load was for clients, and for the array.
#[derive(Debug, Clone)]
pub struct Driven {
    /// Throughput and latencies.
    pub load: LoadReport,
    /// Requests, and rows by cycle.
    pub stats: StatsReport,
    /// Of each member, in the order of their device numbers.
    pub members: Vec<MemberStatsReport>,
}

/// Runs a load on an array. Must be awaited on a task of the array's environment. With a seed in the load, requests are the
/// same on every array, and so are its counters of rows, if the policy goes by counts alone.
///
/// # Panics
/// If the load does not fit the array, as [`load::run`].
pub async fn drive(array: &Array, load: Load) -> Driven {
    let (stats, members) = (array.stats().report(), members(array).await);
    let report = load::run(array.env().clone(), Arc::new(array.device()), load).await;
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

#[cfg(test)]
mod tests {
    use stripewise_device::{
        Device,
        memory::MemoryDevice,
        uring::{Runtime, RuntimeOptions},
    };
    use stripewise_engine::{CreateOptions, geometry::Level, plan::selection::policy};
    use stripewise_sim::load::{Sizes, Stop};

    use super::*;
    use crate::arrays::{HddSetting, Rig, shapes};

    fn load() -> Load {
        let sizes = Sizes::Range { from: 4096, to: 512 << 10, step: 4096 };
        let span_bytes = Some(192 << 20);
        Load { depth: 8, sizes, span_bytes, stop: Stop::Requests(300), seed: Some(7), ..Load::default() }
    }

    #[test]
    fn modelled_and_real_members_count_the_same_rows() {
        let rig = Rig::new(&shapes::RAID5, policy("modthresh").unwrap(), HddSetting::default(), 1);
        let array = rig.array().clone();
        let modelled = rig.run(async move { drive(&array, load()).await });

        let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
        let env = runtime.env();
        let real = runtime.block_on(async move {
            let member =
                |index| Arc::new(MemoryDevice::new(format!("memory{index}"), 80 << 20)) as Arc<dyn Device>;
            let mut options = CreateOptions::new("lab:real", Level::Raid5, (0..5).map(member).collect());
            options.assume_clean = true;
            options.policy = Some(policy("modthresh").unwrap());
            let array = Array::create(env, options).await.unwrap();
            drive(&array, load()).await
        });
        assert_eq!(real.stats, modelled.stats);
        assert!(real.stats.rows_rmw > 0 && real.stats.rows_rcw > 0 && real.stats.rows_full > 0);
        assert_eq!(real.load.writes.bytes, modelled.load.writes.bytes);
        let blocks = |driven: &Driven| -> u64 { driven.members.iter().map(|member| member.blocks_rmw).sum() };
        assert_eq!(blocks(&real), blocks(&modelled));
    }
}
