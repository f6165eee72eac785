//! Points with tiny loads.

use stripewise_engine::plan::selection::policy;

use super::*;
use crate::arrays::shapes;

fn run(shape: &'static Shape, name: &str, kib: u64) -> Outcome {
    measure(&Point::new(shape, policy(name).unwrap(), WriteLoad::random(kib << 10, 10, kib << 17, 2)), 1)
}

#[test]
fn a_point_counts_what_was_written() {
    let found = run(&shapes::RAID4S, "modthresh", 64);
    assert_eq!((found.requests, found.errors, &found.pass_bytes[..]), (256, 0, &[128 << 16, 128 << 16][..]));
    assert_eq!(
        (found.rows_rmw, found.rows_rcw, found.rows_full),
        (256 * 16, 0, 0),
        "a chunk of a stripe each"
    );
    let drives: Vec<_> = found.members.iter().map(|member| member.drive.as_str()).collect();
    assert_eq!(drives, ["hdd", "hdd", "hdd", "hdd", "ssd"], "parity is on the SSD");
    assert_eq!(found.members[4].read_bytes, 256 << 16, "each write reads its parity");
    assert!(found.latency_p50_ns <= found.latency_p99_ns && found.latency_p99_ns <= found.latency_max_ns);
    assert!(
        found.members.iter().all(|member| (0.01..=1.0).contains(&found.utilisation(member))),
        "{found:?}"
    );
    assert_eq!(run(&shapes::RAID4S, "modthresh", 64), found, "the same seed");
}

#[test]
fn policies_are_asked_the_same_and_answer_as_they_do() {
    let [classic, modthresh, modified] =
        ["classic", "modthresh", "modified"].map(|name| run(&shapes::RAID4S, name, 128));
    assert_eq!((classic.rows_rcw, classic.rows_rmw), (256 * 16, 0));
    assert_eq!((modthresh.rows_rcw, modthresh.rows_rmw), (0, 256 * 16));
    assert_eq!(modthresh, modified);
}

#[test]
fn every_array_can_be_made_and_written_to() {
    let all = [
        &shapes::RAID0,
        &shapes::RAID4,
        &shapes::RAID4STUPID,
        &shapes::RAID5,
        &shapes::RAID5S,
        &shapes::RAID5S_ALL,
        &shapes::RAID5_SLOW,
        &shapes::RAID6_HYBRID,
    ];
    for shape in all {
        let found = run(shape, "cost", 4);
        assert_eq!(found.members.len(), shape.drives.len());
        assert!(found.errors == 0 && found.mb_per_s() > 0.1, "{}: {found:?}", shape.id);
    }
}

#[test]
fn sequential_writes_of_stripes_are_full() {
    let load = WriteLoad { places: Places::Sequential, ..WriteLoad::random(1 << 20, 10, 32 << 20, 1) };
    let found = measure(&Point::new(&shapes::RAID5, policy("classic").unwrap(), load), 1);
    assert_eq!((found.stripe_writes, found.stripe_writes_full), (128, 128));
    assert_eq!(found.members.iter().map(|member| member.reads).sum::<u64>(), 0);
}

#[test]
fn passes_before_those_that_count_are_in_no_figure() {
    let of = |passes, lead_passes| {
        let load = WriteLoad::random(64 << 10, 10, 8 << 20, passes);
        let point = Point::new(&shapes::RAID4S, policy("modthresh").unwrap(), load);
        measure(&Point { lead_passes, ..point }, 1)
    };
    let (counted, later) = (of(1, 0), of(1, 1));
    assert_eq!((later.requests, later.rows_rmw, later.pass_ns.len()), (128, 128 * 16, 1));
    assert_eq!(later.members[4].read_bytes, 128 << 16);
    assert!(later.members.iter().all(|member| later.utilisation(member) <= 1.0));
    assert_ne!(later.pass_ns, counted.pass_ns, "it comes after another");
}

#[test]
fn keys_tell_points_apart() {
    let point = |depth| {
        Point::new(&shapes::RAID5, policy("cost").unwrap(), WriteLoad::random(4096, depth, 1 << 20, 3))
    };
    assert_eq!(
        point(4).key(),
        "raid5 cost random 4096 unit=4096 span=all depth=4 pass=1048576 passes=3 lead=0 cache ncq=31"
    );
    assert_ne!(point(4).key(), point(5).key());
    assert_ne!(Point { lead_passes: 1, ..point(4) }.key(), point(4).key());
    assert_ne!(point(4).load_seed(1), point(4).load_seed(2));
}
