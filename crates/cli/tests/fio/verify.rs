//! fio writes, reads back and compares, while the array is in every state that it can serve in.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::common::{MIB, Need, Sandbox, can_run, run_bounded};

const JOBS: u64 = 4;
/// One pass over the array by one pattern.
const LIMIT: Duration = Duration::from_secs(1800);
/// How many times as long as fio's run a rebuild beside it is made to last.
const REBUILD_TIMES: f64 = 5.0;
/// Runs of fio in which a rebuild must be seen to advance: a machine that is no longer as busy as it was makes them short.
const PASSES_MAX: usize = 3;
/// So long does fio write before the cache is changed.
const BEFORE_CHANGE: Duration = Duration::from_millis(100);
/// Sizes from a sector to more than any stripe here.
const SIZES: &str = "--bssplit=512/12:1536/8:4k/30:12k/10:64k/25:200k/10:1m/5";

/// Bytes that each job covers.
fn job_bytes() -> u64 {
    let text = std::env::var("STRIPEWISE_FIO_SIZE").unwrap_or_else(|_| "6m".to_owned()).to_lowercase();
    let digits = text.trim_end_matches(['k', 'm', 'g']);
    let shift = match &text[digits.len()..] {
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => 0,
    };
    digits.parse::<u64>().unwrap() << shift
}

/// One pattern over distinct parts of the export, every block verified.
fn fio(uri: &str, rw: &str) {
    let (size, seed) = (job_bytes(), fastrand::u32(..));
    let mut command = Command::new("fio");
    command
        .args(["--name=verify", "--ioengine=nbd", "--iodepth=32", "--group_reporting", "--minimal"])
        .args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--verify_state_save=0"])
        .args(["--verify_backlog=64", "--blockalign=512", SIZES])
        .args([format!("--uri={uri}"), format!("--rw={rw}"), format!("--randseed={seed}")])
        .args([format!("--numjobs={JOBS}"), format!("--size={size}"), format!("--offset_increment={size}")]);
    let said = run_bounded(&mut command, LIMIT);
    assert_eq!(said.code, Some(0), "{rw}, {seed}: {command:?}\n{}{}", said.out, said.err);
    assert!(!said.err.contains("verify:") && !said.err.contains("error"), "{rw}, {seed}: {}", said.err);
}

fn all_patterns(uri: &str) {
    for rw in ["randwrite", "write", "randrw", "rw"] {
        fio(uri, rw);
    }
}

fn verify(level: i32, count: usize, data_members: u64) {
    if !can_run(&[Need::Tool("fio")]) {
        return;
    }
    let sandbox = Sandbox::new();
    // A little more than the jobs need, for metadata and whole chunks.
    let member_bytes = (JOBS * job_bytes() / data_members + 8 * MIB).next_multiple_of(MIB);
    let members = sandbox.members(count, member_bytes);
    sandbox.ok(&format!("create a --level {level} --chunk 64K"), &members);
    let uri = sandbox.serve("a");
    all_patterns(&uri);
    sandbox.assert_consistent("a");

    sandbox.ok("fail a", &members[1..2]);
    sandbox.ok("remove a", &members[1..2]);
    let begin = Instant::now();
    all_patterns(&uri);
    let speed = (member_bytes as f64 / (begin.elapsed().as_secs_f64() * REBUILD_TIMES)) as u64;
    assert_eq!(sandbox.status("a")["state"], "active, degraded");

    sandbox.done(&format!("speed a --min {speed}B --max {speed}B"));
    sandbox.ok("add a", &[sandbox.member("fresh", member_bytes)]);
    let advances = (0..PASSES_MAX).any(|_| {
        all_patterns(&uri);
        let job = &sandbox.status("a")["job"];
        assert_eq!(job["kind"], "rebuild", "it ended before fio did");
        job["done_bytes"].as_u64() > Some(0)
    });
    assert!(advances, "the rebuild did nothing beside fio: {}", sandbox.status("a")["job"]);
    sandbox.done("speed a --min 1G --max 0");
    sandbox.done("wait a");
    sandbox.done("detail a --test");
    sandbox.assert_consistent("a");
    let status = sandbox.status("a");
    let errors =
        status["members"].as_array().unwrap().iter().map(|member| member["read_errors"].as_u64().unwrap());
    assert_eq!(errors.sum::<u64>(), 0, "{status}");
}

/// A cache smaller than what is written, which is made smaller, turned off and turned on again while fio writes.
fn verify_cached(kind: &str) {
    if !can_run(&[Need::Tool("fio")]) {
        return;
    }
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, (JOBS * job_bytes() / 3 + 8 * MIB).next_multiple_of(MIB));
    sandbox.ok(&format!("create a --level 5 --chunk 64K --cache {kind} --cache-size 6M"), &members);
    sandbox.done("cache a --s-max-read 16 --s-max-write 16");
    let uri = sandbox.serve("a");
    all_patterns(&uri);
    for change in ["--size 3M", "none", &format!("{kind} --size 6M")] {
        thread::scope(|scope| {
            let written = scope.spawn(|| fio(&uri, "randrw"));
            thread::sleep(BEFORE_CHANGE);
            sandbox.done(&format!("cache a {change}"));
            written.join().unwrap();
        });
    }
    sandbox.assert_consistent("a");
}

#[test]
fn a_cache_gives_back_what_was_written() {
    for kind in ["stripe", "stripe+ct", "auto", "pbg"] {
        verify_cached(kind);
    }
}

#[test]
fn level_4_gives_back_what_was_written() {
    verify(4, 4, 3);
}

#[test]
fn level_5_gives_back_what_was_written() {
    verify(5, 4, 3);
}

#[test]
fn level_6_gives_back_what_was_written() {
    verify(6, 5, 3);
}
