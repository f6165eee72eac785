//! Points with tiny loads.

use stripewise_engine::{geometry::Level, plan::selection::policy};

use super::*;
use crate::arrays::{
    drives::{Drive, MEMBER_BYTES},
    shapes::{self, Shape},
};
use crate::ext3::{Copying, Files, Made, Sizes};

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
fn what_is_measured_is_the_steady_state() {
    // Half of the caches' size: without a lead, all of the first pass would end in them.
    for (shape, kib) in [(&shapes::RAID0, 64), (&shapes::RAID4S, 256), (&shapes::RAID5, 128)] {
        let load = WriteLoad::random(kib << 10, 10, 32 << 20, 3);
        let rates = measure(&Point::new(shape, policy("classic").unwrap(), load), 1).pass_mb_per_s();
        let later = rates[1..].iter().sum::<f64>() / 2.0;
        assert!((0.85..1.15).contains(&(rates[0] / later)), "{}: {rates:?}", shape.id);
    }
}

#[test]
fn what_is_written_in_sequence_goes_to_the_medium() {
    let load = WriteLoad { places: Places::Sequential, ..WriteLoad::random(1 << 20, 10, 32 << 20, 3) };
    let found = measure(&Point::new(&shapes::RAID0, policy("classic").unwrap(), load), 1);
    // Four disks of about 120 MB/s; data overwritten in their caches goes at the interfaces' 1200.
    assert!((300.0..600.0).contains(&found.mb_per_s()), "{:?}", found.pass_mb_per_s());
}

#[test]
fn what_comes_before_the_passes_is_in_no_figure() {
    let load = WriteLoad::random(64 << 10, 10, 8 << 20, 1);
    let point = Point::new(&shapes::RAID4S, policy("modthresh").unwrap(), load);
    assert!(point.lead_requests() > 8 * load.requests());
    let found = measure(&point, 1);
    assert_eq!((found.requests, found.rows_rmw, found.pass_ns.len()), (128, 128 * 16, 1));
    assert_eq!(found.members[4].read_bytes, 128 << 16);
    assert!(found.members.iter().all(|member| found.utilisation(member) <= 1.0));
}

#[test]
fn without_write_caches_there_is_nothing_to_fill() {
    let load = WriteLoad::random(64 << 10, 10, 8 << 20, 1);
    let point = Point::new(&shapes::RAID5, policy("classic").unwrap(), load);
    assert_eq!(point.lead_requests(), 5 * 16 * 16 * 3 / 2);
    let hdd = HddSetting { write_cache: false, ..point.hdd };
    assert_eq!(Point { hdd, ..point }.lead_requests(), 0);
}

#[test]
fn what_is_given_as_s_max_decides_what_is_filled() {
    let filled = |stride_max| {
        let places = Places::Skips { mean: 10, max: 64 };
        let load = WriteLoad { places, ..WriteLoad::random(4096, 32, 4096 * 600, 1) };
        let cache = CacheSetting {
            kind: stripewise_engine::CacheKind::StripeCt,
            size_bytes: 16 << 20,
            way: CacheWay::Paper,
            destage: Destage::PAPER,
            through: false,
        };
        let (cache, measured) = (Some(cache), Measured::Whole);
        let point = Point::new(&shapes::MSC, policy("classic").unwrap(), load);
        measure(&Point { cache, measured, stride_max, ..point }, 1).blocks_filled
    };
    let [none, few, many] = [1, 4, 64].map(|blocks| filled(Some(blocks)));
    assert!(none == 0 && 0 < few && few < many, "{none}, {few}, {many}");
    assert!(filled(None) > 0, "as measured");
}

#[test]
fn a_script_is_measured_with_its_reads_and_to_the_end_of_a_flush() {
    let made = Made { size_bytes: 1 << 30, journal_blocks: 256, dirty_blocks: 100 };
    let files = Files { count: 20, mean_bytes: 64 << 10, sizes: Sizes::Alike, a_directory: 10 };
    let script = Script::Copying(Copying { made, files, keeps_windows: false });
    let load = WriteLoad::script(script, 8);
    let point =
        Point { measured: Measured::Whole, ..Point::new(&shapes::RAID5, policy("classic").unwrap(), load) };
    let found = measure(&point, 1);
    assert_eq!((load.pass_bytes, found.errors, found.pass_ns.len()), (20 << 16, 0, 1));
    // All is read and written, and metadata and journal on top.
    let bytes = found.pass_bytes[0] as f64 / load.pass_bytes as f64;
    assert!((2.0..3.0).contains(&bytes), "{bytes}");
    assert_eq!(measure(&point, 1), found, "the same seed");
    assert!(point.key().contains("script copy 20 of 65536 alike"), "{}", point.key());
}

#[test]
fn keys_tell_points_apart() {
    let point = |depth| {
        Point::new(&shapes::RAID5, policy("cost").unwrap(), WriteLoad::random(4096, depth, 1 << 20, 3))
    };
    assert_eq!(
        point(4).key(),
        "raid5 cost random 4096 unit=4096 span=all depth=4 pass=1048576 passes=3 cache ncq=31"
    );
    assert_ne!(point(4).key(), point(5).key());
    assert_ne!(point(4).load_seed(1), point(4).load_seed(2));
}

/// Three data columns and one of parity: one column is written after two reads by either cycle.
#[test]
fn what_reads_as_many_blocks_either_way_is_better_shared_among_drives_by_rcw() {
    const SSD: Drive = Drive::Ssd;
    static SHAPE: Shape = Shape {
        id: "four-ssds",
        name: "4 SSDs",
        what: "level 5 of 4 SSDs",
        level: Level::Raid5,
        drives: &[SSD; 4],
        member_bytes: Some(MEMBER_BYTES),
    };
    let [rcw, rmw] = ["classic", "prefer-rmw"].map(|name| run(&SHAPE, name, 64));
    assert_eq!([rcw.rows_rcw, rmw.rows_rmw], [256 * 16; 2]);
    assert!(rcw.mb_per_s() > 1.02 * rmw.mb_per_s(), "{} and {} MB/s", rcw.mb_per_s(), rmw.mb_per_s());
}
