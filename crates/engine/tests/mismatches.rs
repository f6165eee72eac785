//! What a check counts.

#![allow(clippy::unwrap_used)]

mod common;

use common::{DATA_OFFSET, Lab, Shape};
use stripewise_engine::geometry::Level;

/// Once the larger of the two columns' numbers was told.
#[test]
fn rows_that_disagree_in_different_columns_of_a_stripe_are_two() {
    let raid6 = Shape { level: Level::Raid6, members: 5, chunk_bytes: 16384 };
    let raid1 = Shape { level: Level::Raid1, members: 3, chunk_bytes: 65536 };
    for (shape, first, second) in [(raid6, 4, 0), (raid1, 1, 2)] {
        let lab = Lab::new(18, shape);
        lab.run_clients(2, 30);
        lab.members[first].poke(DATA_OFFSET, &[0x5a; 512]);
        lab.members[second].poke(DATA_OFFSET + 4096, &[0x5a; 512]);
        lab.array.start_scrub(false).unwrap();
        lab.wait_for_jobs();
        assert_eq!(lab.array.last_scrub().unwrap().mismatched_rows, 2, "{shape:?}");
    }
}
