//! A few arrays under load by real threads. For hours of it: `stripewise-sim stress`.

use stripewise_sim::stress::{Round, round};

#[test]
fn real_threads_do_not_get_into_each_others_way() {
    for seed in 0..4 {
        for threads in [1, 3] {
            let plan = Round { seed, threads, requests: 150 };
            let tally = round(&plan).unwrap_or_else(|violation| panic!("{plan:?}: {violation}"));
            assert_eq!(tally.requests, threads as u64 * 3 * 150);
        }
    }
}
