//! `bench run`: figures, refusals, and the same load on real files and on modelled disks.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use stripewise_lab::{
    arrays::Shape,
    counters::{self, COUNTERS},
};
use stripewise_load::{Load, Offsets, Sizes, Stop};

use crate::common::{KIB, MIB, Sandbox, cpu_ticks, eventually};

/// How long a daemon waits for a command that says nothing.
const SILENCE: Duration = Duration::from_secs(5);

/// Requests under way: the n-th is the same one on every device, in whatever order they end.
const DEPTH: u32 = 4;

fn counted_by(figures: &Value) -> [u64; COUNTERS.len()] {
    COUNTERS.map(|name| figures["counters"][name].as_u64().unwrap())
}

#[test]
fn the_same_load_counts_the_same_on_files_and_on_modelled_disks() {
    let (by_counts, _) = counters::policies();
    for (shape, policy) in
        counters::ARRAYS.into_iter().flat_map(|shape| by_counts.iter().map(move |p| (shape, *p)))
    {
        let (sandbox, level) = (Sandbox::new(), shape.level.number());
        let members = sandbox.members(shape.drives.len(), 64 * MIB);
        sandbox.ok(&format!("create a --level {level} --assume-clean --policy {}", policy.name), &members);
        // As large as the array of files, so that the same places are drawn.
        let member_bytes = sandbox.status("a")["member_bytes"].as_u64();
        let modelled = Shape { member_bytes, ..*shape };
        for bytes in [4 * KIB, 20 * KIB, 100 * KIB, 128 * KIB, 300 * KIB] {
            let line = format!(
                "bench run a --rw randwrite --bs {bytes} --size 6M --iodepth {DEPTH} --seed {bytes} --force"
            );
            let real = counted_by(&sandbox.json(&line));
            let load = Load {
                depth: DEPTH,
                offsets: Offsets::Uniform,
                sizes: Sizes::Fixed(bytes),
                unit_bytes: bytes,
                span_bytes: Some(6 * MIB),
                stop: Stop::Requests(6 * MIB / bytes),
                seed: Some(bytes),
                ..Load::default()
            };
            let modelled = counters::counted(&counters::on_modelled(&modelled, policy, load).stats);
            assert_eq!(real, modelled, "level {level}, {}, {bytes} bytes", policy.name);
            assert!(real[5] + real[6] > 0, "rows were partly written: {real:?}");
        }
        sandbox.assert_consistent("a");
    }
}

#[test]
fn a_load_on_an_array_tells_its_figures() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 5 --assume-clean --threads 2", &sandbox.members(3, 24 * MIB));
    sandbox.fails(1, "bench run a --rw randrw --runtime 1", &[""; 0], &["overwritten", "--force"]);
    let figures = sandbox.json("bench run a --rw randrw --rwmixread 30 --iodepth 4 --size 4M --force");
    let (read, write) = (&figures["read"], &figures["write"]);
    assert_eq!(read["bytes"].as_u64().unwrap() + write["bytes"].as_u64().unwrap(), 4 << 20, "{figures}");
    assert!(read["requests"].as_u64() < write["requests"].as_u64(), "{figures}");
    assert!(write["p50_ns"].as_u64() <= write["p99_99_ns"].as_u64(), "{figures}");
    let said = sandbox.done("bench run a --rw write --bs 128K --size 2M --force");
    for words in ["p99.99", "iodepth 1", "256 full, 0 RMW, 0 RCW", "16 of them full"] {
        assert!(said.contains(words), "{said}");
    }
    let said = sandbox.done("bench run a --runtime 300ms");
    assert!(said.contains("read:") && !said.contains("rows"), "{said}");
    for (options, word) in [
        ("--bs 100", "multiple of 512"),
        ("--bs 1G", "--bs 1 GiB: give 64 MiB or less"),
        ("--bs 48M", "the device has"),
        ("--bs 1M --iodepth 1024 --numjobs 256", "under way at once"),
        ("--size 1K", "give one request, 4 KiB, or more"),
        ("--runtime 1e9", "give 7d or less"),
        ("--size 4T", "give no more, and a --runtime"),
    ] {
        sandbox.fails(1, &format!("bench run a {options}"), &[""; 0], &[word]);
    }
    sandbox.fails(1, "bench run b", &[""; 0], &["no such array", "stripewise status"]);
    let said =
        sandbox.fails(1, "bench run m0", &[""; 0], &["no such array", "the file of that name", "./m0"]);
    assert!(!said.contains("status"), "{said}");
}

/// As fio: the size is each job's, all of them work in that much of the target, and with a time they go over
/// it again.
#[test]
fn a_size_is_each_jobs_and_the_region() {
    let sandbox = Sandbox::new();
    let figures = |line: &str, file: &str| {
        let figures = sandbox.json(&format!("bench run {file} --bs 64K --force {line}"));
        let used =
            std::fs::read(file).unwrap().iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        (figures, used)
    };
    for rw in ["write", "randwrite"] {
        let file = sandbox.member(rw, 8 * MIB);
        let (found, used) = figures(&format!("--rw {rw} --size 1M --numjobs 3 --iodepth 2"), &file);
        assert_eq!(
            (&found["write"]["requests"], &found["ended"]),
            (&48.into(), &"complete".into()),
            "{found}"
        );
        assert!(used <= MIB as usize, "{used}");
        let (found, used) = figures(&format!("--rw {rw} --size 256K --runtime 400ms"), &file);
        assert!(found["write"]["bytes"].as_u64().unwrap() > 256 * KIB, "over and over: {found}");
        assert!(found["elapsed_s"].as_f64().unwrap() < 30.0 && used <= MIB as usize, "{found}");
    }
    // Every job goes through the whole region: fresh data in all of it.
    let file = sandbox.member("whole", 8 * MIB);
    figures("--rw write --size 2M --numjobs 2", &file);
    let content = std::fs::read(&file).unwrap();
    assert!(content[..2 << 20].chunks(64 << 10).all(|chunk| chunk.iter().any(|byte| *byte != 0)));
    let help = sandbox.done("bench run --help");
    assert!(
        help.contains("How much each job reads and writes in all") && help.contains("time_based"),
        "{help}"
    );
}

#[test]
fn rows_are_told_where_there_is_parity() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 0", &sandbox.members(2, 24 * MIB));
    let said = sandbox.done("bench run a --rw write --size 1M --force");
    assert!(said.contains("write: ") && !said.contains("rows") && !said.contains("stripes"), "{said}");
}

/// Two files after the same writes of a seed, and a third after those of another.
#[test]
fn what_is_written_follows_from_the_seed() {
    let sandbox = Sandbox::new();
    let written = |name: &str, seed: u64| {
        let file = sandbox.member(name, MIB);
        sandbox.done(&format!("bench run {file} --rw randwrite --bs 8K --size 1M --seed {seed} --force"));
        std::fs::read(file).unwrap()
    };
    let first = written("first", 7);
    assert!(first == written("second", 7), "the seed is the same");
    assert!(first != written("third", 8));
}

#[test]
fn a_load_that_fails_tells_how_far_it_came() {
    let sandbox = Sandbox::new();
    let file = sandbox.member("image", 8 * MIB);
    let mut load = sandbox.command();
    load.args(["--json", "bench", "run", &file, "--runtime", "1000"]).stdout(Stdio::piped());
    let load = load.spawn().unwrap();
    // It has computed for longer than it takes to begin.
    let pid = Pid::from_child(&load);
    eventually("it reads", || cpu_ticks(&format!("/proc/{}/stat", pid.as_raw_nonzero())) >= 30);
    std::fs::File::options().write(true).open(&file).unwrap().set_len(0).unwrap();
    let output = load.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&figures["ended"], &figures["read"]["errors"]), (&"failed".into(), &1.into()), "{figures}");
    assert!(figures["failure"].as_str().unwrap().starts_with("the read at byte "), "{figures}");
    assert_eq!(figures["done_bytes"], figures["read"]["bytes"]);
}

#[test]
fn a_load_that_is_interrupted_tells_how_far_it_came_and_leaves_the_array_free() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 5 --assume-clean", &sandbox.members(3, 24 * MIB));
    let image = sandbox.member("image", 8 * MIB);
    for (target, signal) in [("a", Signal::INT), ("a", Signal::TERM), (&image, Signal::INT)] {
        let writes = || sandbox.status("a")["counters"]["writes"].as_u64();
        let before = writes();
        let mut load = sandbox.command();
        load.args([
            "bench",
            "run",
            target,
            "--rw",
            "randwrite",
            "--runtime",
            "2h",
            "--size",
            "1M",
            "--force",
        ]);
        let load = load.stdout(Stdio::piped()).spawn().unwrap();
        let reads = |file: &str| std::fs::read(file).unwrap().iter().any(|byte| *byte != 0);
        eventually("it writes", || match target {
            "a" => writes() > before,
            file => reads(file),
        });
        kill_process(Pid::from_child(&load), signal).unwrap();
        let output = load.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("cut short: after ")
                && said.contains(" of 7200 s, ")
                && said.contains(": interrupted"),
            "{said}"
        );
        assert!(said.contains("write: ") && said.contains("p99.99"), "{said}");
        let next = sandbox.json(&format!("bench run {target} --size 1M"));
        assert_eq!(next["ended"], "complete", "at once: {next}");
    }
}

#[test]
fn jobs_that_run_beside_a_load_are_told() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 5 --assume-clean", &sandbox.members(3, 24 * MIB));
    assert_eq!(sandbox.json("bench run a --size 1M")["jobs"], serde_json::json!([]));
    sandbox.done("speed a --max 1M");
    sandbox.done("scrub a start");
    eventually("it is under way", || sandbox.status("a")["job"]["kind"] == "check");
    let said = sandbox.done("bench run a --size 1M");
    assert!(said.contains("jobs: check under way"), "{said}");
    sandbox.done("scrub a stop");
}

#[test]
fn a_load_on_a_file_needs_no_array() {
    let sandbox = Sandbox::new();
    let file = sandbox.member("image", 8 * MIB);
    let figures = sandbox.json(&format!("bench run {file} --rw write --bs 64K --size 8M --force"));
    assert_eq!(figures["write"]["bytes"], 8 << 20);
    assert!(figures["counters"].is_null());
    assert!(std::fs::read(&file).unwrap().iter().any(|byte| *byte != 0));
    sandbox.fails(1, &format!("bench run {file}.none"), &[""; 0], &["No such file"]);
}

/// How long after its command was killed a load is over.
fn time_to_notice(sandbox: &Sandbox) -> Duration {
    let reads = || sandbox.status("a")["counters"]["reads"].as_u64().unwrap();
    let before = reads();
    let mut killed = sandbox.command();
    let mut killed = killed.args(["bench", "run", "a", "--runtime", "1000"]).spawn().unwrap();
    eventually("it reads", || reads() > before);
    sandbox.fails(1, "bench run a", &[""; 0], &["another command loads it"]);
    killed.kill().unwrap();
    let gone = Instant::now();
    killed.wait().unwrap();
    eventually("it has ended", || sandbox.run("bench run a --size 1M", &[""; 0]).code == Some(0));
    gone.elapsed()
}

#[test]
fn a_load_ends_with_its_command_or_its_array() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 5 --assume-clean", &sandbox.members(3, 24 * MIB));
    let reads = || sandbox.status("a")["counters"]["reads"].as_u64().unwrap();
    // Seen at once, and not only because nothing was heard for a while: a busy machine may be late for once.
    assert!((0..4).any(|_| time_to_notice(&sandbox) < SILENCE / 2), "the daemon sees that it has gone");
    let mut stopped = sandbox.command();
    stopped.args(["bench", "run", "a", "--runtime", "1000"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let stopped = stopped.spawn().unwrap();
    let before = reads();
    eventually("it reads", || reads() > before);
    sandbox.done("stop a");
    let said = stopped.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    // The daemon stays until it has told how far the load came.
    let out = String::from_utf8_lossy(&said.stdout);
    assert!(out.contains("cut short: after ") && out.contains("read: "), "{said:?}");
}

#[test]
fn the_engine_benchmark_writes_a_report_of_all_that_was_asked_for() {
    let sandbox = Sandbox::new();
    let asked = "bench engine --size 32M --seconds 20ms --turns 1 --raid-devices 3,5 --threads 1,2 --queue 4 --source 1M --locking orig \
                 --locking orig+stripes=buckets+map=distributed --bitmap-chunk 1M --latency --parts --case full-stripe --out";
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("report.html");
    std::fs::write(&theirs, "my thesis").unwrap();
    sandbox.fails(
        1,
        &format!("{asked} {}", folder.path().display()),
        &[""; 0],
        &["is not empty", "figures.csv"],
    );
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "my thesis");

    let out = folder.path().join("results");
    let figures = sandbox.json(&format!("{asked} {}", out.display()));
    let figures = figures.as_array().unwrap();
    let keys: Vec<_> = figures
        .iter()
        .map(|figure| {
            assert_eq!(
                (&figure["queue"], &figure["latency_ns"]["p90"].is_u64()),
                (&4.into(), &true),
                "{figure}"
            );
            assert_eq!(figure["turns"].as_array().unwrap().len(), 1, "{figure}");
            let number = |key: &str| figure[key].as_u64().unwrap();
            (number("raid_devices"), number("threads"), figure["locking"].as_str().unwrap())
        })
        .collect();
    let of = |members| {
        let of_threads = |threads| {
            [(members, threads, "orig"), (members, threads, "orig+stripes=buckets+map=distributed")]
        };
        [of_threads(1), of_threads(2)].concat()
    };
    assert_eq!(keys, [of(3), of(5)].concat());
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let page = read("report.html");
    for told in [
        "2+1, 4+1",
        "1, 2, each with 4 under way",
        "from 1024 KiB of data",
        "--queue 4",
        "GiB",
        "cores to use",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    assert!(page.matches("<svg").count() == 12 && !page.contains("NaN"), "{page}");
    assert_eq!(read("figures.csv").lines().count(), 9);
    assert!(read("full-stripe-4+1-percentiles.csv").lines().count() == 11);
}

#[test]
fn with_several_under_way_an_operation_waits_for_those_before_it() {
    let sandbox = Sandbox::new();
    let of_queue = |queue: u32| {
        let line = format!(
            "bench engine --size 32M --seconds 50ms --turns 1 --latency --case full-stripe --queue {queue}"
        );
        sandbox.json(&line)[0]["latency_ns"]["p50"].as_u64().unwrap()
    };
    // Each of 32 is asked for together with 31 others of its thread.
    assert!(of_queue(32) > 4 * of_queue(1));
    sandbox.fails(2, "bench engine --queue 0", &[""; 0], &["from 1 to 1024"]);
    // A source is as large as what is written, whatever was asked for.
    sandbox.json(
        "bench engine --size 32M --seconds 20ms --turns 1 --chunk 4K --source 4K --case random-write-128k",
    );
    sandbox.fails(2, "bench engine --locking md", &[""; 0], &["no preset of locks", "scala"]);
    sandbox.fails(2, "bench engine --locking orig+counters", &[""; 0], &["+counters=atomic"]);
    sandbox.fails(2, "bench engine --source 2G", &[""; 0], &["from 4K to 256M"]);
}

/// What is at the start of the array is in the cache from the beginning on, so that destages read no members.
#[test]
fn random_writes_keep_to_a_span_and_flush_if_asked() {
    let sandbox = Sandbox::new();
    let figure = |more: &str| {
        let line = "bench engine --size 32M --seconds 50ms --turns 1 --case random-write --cache stripe";
        sandbox.json(&format!("{line} --cache-size 16M {more}"))[0].clone()
    };
    let number = |figure: &Value, key: &str| figure[key].as_f64().unwrap();
    let reads = |more: &str| number(&figure(more), "member_reads");
    let (few, many) = (reads("--span 16K"), reads(""));
    assert!(few < 0.1 && many > 1.0, "a few blocks stay in the cache, and many do not: {few}, {many}");
    assert!(number(&figure("--span 1K --flush-every 1000"), "engine_per_s") > 0.0);
    sandbox.fails(2, "bench engine --flush-every 0", &[""; 0], &["from 1 to"]);
}

#[test]
fn the_engine_is_measured_by_parts_too() {
    let sandbox = Sandbox::new();
    let figures = sandbox
        .json("bench engine --size 32M --seconds 100ms --turns 1 --parts --latency --case random-write");
    let figure = &figures[0];
    assert!(
        figure["engine_per_s"].as_f64().unwrap() > 0.0 && figure["latency_ns"]["p99_99"].is_u64(),
        "{figure}"
    );
    let parts = figure["parts"].as_object().unwrap();
    let names: Vec<_> = parts.keys().map(String::as_str).collect();
    assert_eq!(names, ["copy", "counter lock", "parity", "rest", "stripe lock", "submit"]);
    let all: f64 = parts.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((all - 1.0).abs() < 1e-6, "{figure}");
    let unasked = sandbox.json("bench engine --size 32M --seconds 10ms --turns 1 --case random-read");
    assert!(unasked[0]["parts"].as_object().unwrap().is_empty());
}
