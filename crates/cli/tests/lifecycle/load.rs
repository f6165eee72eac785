//! `bench run`: figures, refusals, and the same load on real files and on modelled disks.

use std::{
    collections::BTreeMap,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use stripewise::{Array, CreateOptions, Device, geometry::Level, plan::selection};
use stripewise_lab::load::{Control, Load, Offsets, Sizes, Stop, run_controlled};
use stripewise_sim::{
    World,
    model::{DiskOptions, hdd::Hdd, hdd::HddParams, ssd::Ssd, ssd::SsdParams},
};

use crate::common::{KIB, MIB, Sandbox, eventually};

/// What decides how rows are written.
const COUNTERS: [&str; 7] =
    ["writes", "written_bytes", "stripe_writes", "stripe_writes_full", "rows_full", "rows_rmw", "rows_rcw"];

/// How long a daemon waits for a command that says nothing.
const SILENCE: Duration = Duration::from_secs(5);

/// Requests under way: the n-th is the same one on every device, in whatever order they end.
const DEPTH: u32 = 4;

fn counters_of(figures: &Value) -> BTreeMap<&'static str, u64> {
    COUNTERS.map(|name| (name, figures["counters"][name].as_u64().unwrap())).into()
}

/// The counters of a load on an array of four modelled hard disks and an SSD, as large as the one given.
fn on_modelled_disks(status: &Value, policy: &str, load: Load) -> BTreeMap<&'static str, u64> {
    let mut world = World::new(99);
    let mut members: Vec<Arc<dyn Device>> = Vec::new();
    for index in 0..4 {
        let hdd = Hdd::new(HddParams::wd_caviar_black_640());
        members.push(world.add_disk(format!("hdd{index}"), hdd, DiskOptions::default()));
    }
    members.push(world.add_disk("ssd", Ssd::new(SsdParams::intel_x25e_64()), DiskOptions::default()));
    let mut options = CreateOptions::new("modelled", Level::Raid4, members);
    options.assume_clean = true;
    options.member_bytes = status["member_bytes"].as_u64();
    options.policy = Some(selection::policy(policy).unwrap());
    let env = world.env();
    let counted = world.run(async move {
        let array = Array::create(env.clone(), options).await.unwrap();
        let device: Arc<dyn Device> = Arc::new(array.device());
        let control = Arc::new(Control::until_error());
        run_controlled(env, device, load, control).await;
        array.stats().report()
    });
    let fields: BTreeMap<_, _> = counted.fields().into_iter().collect();
    COUNTERS.map(|name| (name, fields[name])).into()
}

#[test]
fn the_same_load_counts_the_same_on_files_and_on_modelled_disks() {
    for policy in ["classic", "modthresh", "modified"] {
        let sandbox = Sandbox::new();
        let members = sandbox.members(5, 64 * MIB);
        sandbox.ok(&format!("create a --level 4 --assume-clean --policy {policy}"), &members);
        for bytes in [4 * KIB, 20 * KIB, 100 * KIB, 128 * KIB, 300 * KIB] {
            let line = format!(
                "bench run a --rw randwrite --bs {bytes} --size 6M --iodepth {DEPTH} --seed {bytes} --force"
            );
            let real = counters_of(&sandbox.json(&line));
            let load = Load {
                depth: DEPTH,
                offsets: Offsets::Uniform,
                sizes: Sizes::Fixed(bytes),
                unit_bytes: bytes,
                stop: Stop::Requests(6 * MIB / bytes),
                seed: Some(bytes),
                ..Load::default()
            };
            let modelled = on_modelled_disks(&sandbox.status("a"), policy, load);
            assert_eq!(real, modelled, "{policy}, {bytes} bytes");
            assert!(real["rows_rmw"] + real["rows_rcw"] > 0, "{real:?}");
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
    let said = sandbox.done("bench run a --runtime 0.3");
    assert!(said.contains("read:") && !said.contains("rows"), "{said}");
    for (options, word) in [
        ("--bs 100", "multiple of 512"),
        ("--bs 1G", "at most"),
        ("--bs 48M", "the device has"),
        ("--bs 1M --iodepth 1024 --numjobs 256", "under way at once"),
        ("--size 1K", "at least one request"),
        ("--runtime 1e9", "at most a week"),
    ] {
        sandbox.fails(1, &format!("bench run a {options}"), &[""; 0], &[word]);
    }
    sandbox.fails(1, "bench run b", &[""; 0], &["no such array", "stripewise status"]);
    let said =
        sandbox.fails(1, "bench run m0", &[""; 0], &["no such array", "the file of that name", "./m0"]);
    assert!(!said.contains("status"), "{said}");
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
    std::thread::sleep(Duration::from_millis(300));
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
        let mut load = sandbox.command();
        load.args(["bench", "run", target, "--rw", "randwrite", "--size", "4T", "--force"]);
        let load = load.stdout(Stdio::piped()).spawn().unwrap();
        let reads = |file: &str| std::fs::read(file).unwrap().iter().any(|byte| *byte != 0);
        eventually("it writes", || match target {
            "a" => sandbox.status("a")["counters"]["writes"].as_u64() > Some(0),
            file => reads(file),
        });
        kill_process(Pid::from_child(&load), signal).unwrap();
        let output = load.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("cut short: after ") && said.contains(" of 4 TiB: interrupted"), "{said}");
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

#[test]
fn a_load_ends_with_its_command_or_its_array() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 5 --assume-clean", &sandbox.members(3, 24 * MIB));
    let reads = || sandbox.status("a")["counters"]["reads"].as_u64().unwrap();
    let mut killed = sandbox.command();
    let mut killed = killed.args(["bench", "run", "a", "--runtime", "1000"]).spawn().unwrap();
    eventually("it reads", || reads() > 0);
    sandbox.fails(1, "bench run a", &[""; 0], &["another command loads it"]);
    killed.kill().unwrap();
    let gone = Instant::now();
    killed.wait().unwrap();
    eventually("it has ended", || sandbox.run("bench run a --size 1M", &[""; 0]).code == Some(0));
    assert!(gone.elapsed() < SILENCE, "the daemon saw that it had gone: {:?}", gone.elapsed());
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
