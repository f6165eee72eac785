//! Stories end well, are the same every time, and those that once ended badly stay told.

#![allow(clippy::unwrap_used)]

use stripewise_engine::geometry::Level;
use stripewise_sim::story::{Plan, tell};

fn ends_well(plan: &Plan) {
    let outcome = tell(plan);
    if let Some(violation) = outcome.violation {
        panic!("seed {}, life {}: {violation}", plan.seed, outcome.life);
    }
}

#[test]
fn the_first_seeds_of_every_level_end_well() {
    for level in [Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6] {
        (0..8).for_each(|seed| ends_well(&Plan { level: Some(level), ..Plan::new(seed) }));
    }
}

/// The hash covers every request to every member: when, where, how long, and what was to be written.
#[test]
fn a_seed_tells_the_same_story_every_time_and_narrating_changes_nothing() {
    for seed in 0..6 {
        let plain = tell(&Plan::new(seed));
        let told = tell(&Plan { narrate: true, ..Plan::new(seed) });
        assert!(!plain.crash_points.is_empty());
        assert_eq!(plain.crash_points, told.crash_points, "seed {seed}");
        assert!(plain.narration.is_empty() && told.narration.len() > 12 && !told.events.is_empty());
    }
    assert_ne!(tell(&Plan::new(0)).crash_points, tell(&Plan::new(1)).crash_points);
}

#[test]
fn every_machine_tells_the_same_stories() {
    // Pinned, so that a machine that computes otherwise is noticed; to be changed when the engine's I/O
    // changes, or what the simulator draws.
    let trace = |level| tell(&Plan { level: Some(level), ..Plan::new(1) }).trace;
    assert_eq!(
        [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6].map(trace),
        [0xc369_aae3_8d81_47ab, 0xf327_7d09_e251_3588, 0x158d_9aef_d759_16ef, 0xf347_b7de_54e8_ff11]
    );
}

/// Seeds whose stories ended badly, and why. What they are about has tests of its own, which do not hang on
/// how the simulator draws: in the engine's `transitions.rs`, `jobs.rs` and `faults.rs`.
#[test]
fn stories_that_ended_badly_end_well() {
    // Power failed between the superblocks of a replacement that was just over, and a checker, which knew
    // nothing of members that are filled as a whole, took the role for vacant.
    ends_well(&Plan::new(254));
}
