//! Short workloads of the file system end well at every crash, are the same every time, and each is told once.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use stripewise_sim::{
    ace::{Bases, Bounds, Counts, Set, Size, Start, Teller, Workload},
    rafs::Ground,
};

const BOUNDS: Bounds = Bounds { states_max: 256, torn: false };

fn tell(bounds: Bounds, workloads: &[&str]) -> Counts {
    let workloads: Vec<Workload> = workloads.iter().map(|text| text.parse().unwrap()).collect();
    let mut teller = Teller::new(Bases::new(workloads[0].start), bounds, false);
    for workload in &workloads {
        teller.tell(workload).unwrap_or_else(|failure| {
            panic!("{}: {}: {:?}", failure.workload, failure.when, failure.violation);
        });
    }
    teller.counts()
}

#[test]
fn workloads_on_every_ground_end_well() {
    const OPS: &str = "append=foo,fsync=foo,replace=foo=A/bar,sync";
    for ground in Ground::ALL {
        for size in Size::ALL {
            let counts = tell(BOUNDS, &[&format!("{ground}:{size}:1:{OPS}")]);
            assert!(counts.distinct_states > 10, "{ground} {size}: {counts:?}");
        }
    }
}

#[test]
fn workloads_of_one_operation_end_well() {
    let start = Start { ground: Ground::File, size: Size::Blocks, seed: 3 };
    let mut teller = Teller::new(Bases::new(start), BOUNDS, false);
    let mut told = BTreeSet::new();
    for workload in Set::Seq1.lots(start).iter().flat_map(|lot| lot.workloads()) {
        teller.tell(&workload).unwrap_or_else(|failure| {
            panic!("{}: {}: {:?}", failure.workload, failure.when, failure.violation);
        });
        assert!(told.insert(workload.to_string()), "{workload} is told twice");
    }
    // As docs/testing.md tells it.
    assert_eq!((told.len(), teller.counts().violations), (SEQ_1, 0));
}

#[test]
fn a_workload_is_the_same_every_time_and_nothing_new_the_second_time() {
    const WORKLOAD: &str = "5:blocks:7:append=foo,fsync=foo,rename=foo=A/foo,sync";
    let (once, again) = (tell(BOUNDS, &[WORKLOAD]), tell(BOUNDS, &[WORKLOAD]));
    assert_eq!(once, again);
    let twice = tell(BOUNDS, &[WORKLOAD, WORKLOAD]);
    assert_eq!(twice.distinct_states, once.distinct_states);
    assert_eq!(twice.crash_points, 2 * once.crash_points);
}

#[test]
fn torn_writes_leave_more_and_what_is_left_out_is_counted() {
    const WORKLOAD: &str = "file:blocks:0:append=foo,fsync=foo";
    let (whole, torn) = (tell(BOUNDS, &[WORKLOAD]), tell(Bounds { torn: true, ..BOUNDS }, &[WORKLOAD]));
    assert!(torn.distinct_states > whole.distinct_states, "{torn:?}");
    assert_eq!((whole.skipped, whole.bounded_points), (0, 0));
    let few = tell(Bounds { states_max: 4, ..BOUNDS }, &["6:blocks:0:append=foo,fsync=foo"]);
    assert!(few.skipped > 0 && few.bounded_points > 0, "{few:?}");
}

/// Workloads of one operation.
const SEQ_1: usize = 215;
