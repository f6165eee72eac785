//! Power failures at random moments: flushed data survives, unflushed sectors are old or new, parity is
//! mended from the bitmap alone.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Lab, SHAPES};
use stripewise_engine::{
    AssembleOptions, JobKind, JobOutcome,
    locking::{PRESETS, Preset},
};

/// Returns how many of the crashes had a resync follow.
fn crash_and_check(seed: u64) -> usize {
    let shape = SHAPES[seed as usize % SHAPES.len()];
    let preset = &PRESETS[seed as usize / SHAPES.len() % PRESETS.len()];
    let mut lab = Lab::with_preset(seed, shape, preset);
    let mut resyncs = 0;
    for round in 0..3 {
        lab.start_clients(3, 1000);
        let steps = lab.world.random(4000);
        lab.world.run_steps(steps);
        lab.crash();
        lab.assemble_all(AssembleOptions::default())
            .unwrap_or_else(|e| panic!("seed {seed} round {round}: {e}"));
        lab.adopt();
        lab.wait_for_jobs();
        if let Some(job) = lab.array.last_job() {
            assert_eq!((job.kind, job.outcome), (JobKind::Resync, Some(JobOutcome::Done)), "seed {seed}");
            let stripes = lab.array.geometry().stripes();
            assert!((1..=stripes).contains(&job.total_stripes) && job.done_stripes == job.total_stripes);
            resyncs += 1;
        }
        lab.check_all();
        lab.check_parity(&lab.members);
    }
    resyncs
}

#[test]
fn crashes_lose_nothing_flushed_and_leave_parity_right() {
    let resyncs: usize = (0..60).map(crash_and_check).sum();
    // Hardly any comes before the first write.
    assert!(resyncs > 150, "{resyncs} of 180");
}

#[test]
fn what_a_resync_has_mended_survives_the_next_power_failure() {
    let is_resynced = |seed: u64| {
        let mut lab = Lab::new(seed, SHAPES[seed as usize % SHAPES.len()]);
        lab.start_clients(3, 1000);
        let steps = lab.world.random(4000);
        lab.world.run_steps(steps);
        lab.crash();
        lab.assemble_all(AssembleOptions::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        lab.wait_for_jobs();
        lab.crash();
        lab.check_parity(&lab.members);
        lab.array.last_job().is_some_and(|job| job.kind == JobKind::Resync)
    };
    let resynced = (0..40).filter(|seed| is_resynced(*seed)).count();
    assert!(resynced > 30, "{resynced} of 40");
}

/// The stripes that a resync walks after one block was written and power failed.
fn resynced_after_one_write(preset: &'static Preset) -> (u64, Lab) {
    let mut lab = Lab::with_preset(5, SHAPES[3], preset);
    let array = lab.array.clone();
    lab.world
        .run(async move {
            let block = stripewise_device::IoBuf::zeroed(4096).freeze();
            array.write(0, block, stripewise_device::WriteFlags::default()).await
        })
        .unwrap();
    lab.crash();
    lab.assemble_all(AssembleOptions::default()).unwrap();
    lab.wait_for_jobs();
    let job = lab.array.last_job().expect("a resync ran");
    assert_eq!(job.kind, JobKind::Resync);
    assert_eq!(job.done_stripes, job.total_stripes);
    (job.total_stripes, lab)
}

#[test]
fn only_marked_regions_are_resynced() {
    let (stripes, _) = resynced_after_one_write(Preset::named("orig").unwrap());
    assert_eq!(stripes, 65536 / 4096, "one region of 64 KiB");
}

#[test]
fn a_distributed_region_is_resynced_all_over_the_members() {
    let (stripes, lab) = resynced_after_one_write(Preset::named("scala").unwrap());
    let all = lab.array.geometry().stripes();
    let regions = 1 << (all * 4096 / 65536).ilog2();
    assert_eq!(stripes, all.div_ceil(regions), "every {regions}th of {all} stripes");
}

#[test]
fn idle_regions_are_cleared_and_the_array_becomes_clean() {
    let lab = Lab::new(6, SHAPES[4]);
    lab.run_clients(2, 20);
    let report = |lab: &Lab| {
        let array = lab.array.clone();
        lab.world.run(async move { array.report().await })
    };
    let busy = report(&lab);
    assert!(busy.dirty && busy.bitmap.unwrap().marked > 0);
    lab.pass(4);
    let idle = report(&lab);
    assert!(!idle.dirty && idle.bitmap.unwrap().marked == 0, "{idle:?}");
}
