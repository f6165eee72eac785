//! Stories of the file system end well, are the same every time, and those that once ended badly stay told.

#![allow(clippy::unwrap_used)]

use stripewise_sim::rafs::{Ground, Plan, tell};

fn ends_well(plan: &Plan) {
    if let Some(violation) = tell(plan).violation {
        panic!("seed {} on {}: {violation:?}", plan.seed, plan.ground);
    }
}

#[test]
fn the_first_seeds_on_every_ground_end_well() {
    for ground in Ground::ALL {
        (0..4).for_each(|seed| ends_well(&Plan::new(seed, ground)));
    }
}

#[test]
fn every_machine_tells_the_same_stories() {
    // Pinned, so that a machine that computes otherwise is noticed; to be changed when the file system's I/O changes, or the engine's, or
    // what the simulator draws.
    let last = |ground| *tell(&Plan::new(1, ground)).crash_points.last().unwrap();
    assert_eq!(
        Ground::ALL.map(last),
        [0x5d49_12e6_38e5_3c6f, 0x88f6_7854_3fe3_ac5a, 0x17e3_4944_945f_4ac6, 0x927b_ffb8_f199_81a1]
    );
}

/// Seeds whose stories ended badly. What they are about has tests of its own, which do not hang on how the simulator draws.
#[test]
fn stories_that_ended_badly_end_well() {
    // The journal was full for good; a hole was written over a hole; twice a resync was done before its parity was durable; an unfinished
    // checkpoint was taken for the newest; parity made an anchor of three versions.
    for seed in [25_432, 48_935, 41_754, 59_322, 102_307, 106_427] {
        ends_well(&Plan::new(seed, Ground::ALL[(seed % 4) as usize]));
    }
}

/// The hash covers all that has happened before a power failure.
#[test]
fn a_seed_tells_the_same_story_every_time_and_narrating_changes_nothing() {
    for (seed, ground) in (0..).zip(Ground::ALL) {
        let plain = tell(&Plan::new(seed, ground));
        let told = tell(&Plan { narrate: true, ..Plan::new(seed, ground) });
        assert!(!plain.crash_points.is_empty());
        assert_eq!(plain.crash_points, told.crash_points, "seed {seed} on {ground}");
        assert!(plain.narration.is_empty() && told.narration.len() > 12);
    }
}
