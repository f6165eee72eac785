//! Scrubs, speed limits, and waiting.

use std::os::unix::fs::FileExt;

use crate::common::{Client, MIB, Sandbox, eventually, noise};

fn array(size_bytes: u64) -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, size_bytes);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    (sandbox, members)
}

#[test]
fn a_scrub_finds_and_mends_what_disagrees() {
    let (sandbox, members) = array(24 * MIB);
    let data = noise(3, 4 << 20);
    let client = Client::connect(&sandbox.serve("a"));
    client.write(0, &data).unwrap();
    assert!(sandbox.done("scrub a status").contains("no scrub since it was opened"));
    sandbox.assert_consistent("a");
    // The parity of stripe 0 lies on the last member; one block of it goes wrong without an error.
    let offset = sandbox.json(&format!("examine {}", members[2]))[0]["data_offset_bytes"].as_u64().unwrap();
    let file = std::fs::File::options().write(true).open(&members[2]).unwrap();
    file.write_all_at(&[0x77; 4096], offset + 8192).unwrap();
    file.sync_all().unwrap();
    assert_eq!(sandbox.run("scrub a start --wait", &[""; 0]).code, Some(1));
    let scrub = sandbox.json("scrub a status");
    assert_eq!(scrub["mismatch_count"], 8, "{scrub}");
    assert_eq!(scrub["mismatched_stripes"], serde_json::json!([0]));
    assert_eq!(sandbox.run("scrub a repair --wait", &[""; 0]).code, Some(1), "a repair tells what it mended");
    sandbox.assert_consistent("a");
    assert!(client.read(0, data.len()).unwrap() == data);
}

#[test]
fn a_scrub_is_paused_resumed_and_stopped() {
    let (sandbox, _) = array(48 * MIB);
    sandbox.done("speed a --min 4M --max 4M");
    assert_eq!(sandbox.status("a")["speed_max_bytes_per_s"], 4 << 20);
    sandbox.done("scrub a start");
    let job = || sandbox.status("a")["job"].clone();
    eventually("it is under way", || job()["kind"] == "check" && job()["done_bytes"].as_u64() > Some(0));
    assert!(sandbox.done("scrub a status").contains("under way, mismatch_cnt 0"));
    assert!(sandbox.json("scrub a status")["outcome"].is_null());
    sandbox.fails(1, "scrub a start", &[""; 0], &["a check is under way", "stop it first", "scrub a stop"]);
    sandbox.done("scrub a pause");
    let waiting = sandbox.command().args(["wait", "a"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    assert_eq!(job()["paused"], true);
    assert!(sandbox.done("status a").contains("paused"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let held = job()["done_bytes"].as_u64();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(job()["done_bytes"].as_u64(), held, "a paused scrub goes on");
    sandbox.done("scrub a resume");
    eventually("it goes on", || job()["done_bytes"].as_u64() > held);
    sandbox.done("scrub a stop");
    eventually("it has ended", || job().is_null());
    let said = waiting.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("its check is paused"), "{said:?}");
    for action in ["pause", "resume", "stop"] {
        sandbox.fails(1, &format!("scrub a {action}"), &[""; 0], &["no job is under way"]);
    }
    assert_eq!(sandbox.json("scrub a status")["outcome"], "stopped");
    sandbox.done("speed a --min 1G --max 0");
    assert_eq!(sandbox.json("wait a")["last_scrub"]["outcome"], "stopped");
    sandbox.assert_consistent("a");
}

/// Stopped, it would leave an array without redundancy that says of itself that all is well.
#[test]
fn a_resync_is_paused_and_not_stopped() {
    let sandbox = Sandbox::new();
    // Sparse, and so large that the resync is still under way when it is slowed.
    sandbox.ok("create a --level 5", &sandbox.members(3, 2 << 30));
    sandbox.done("speed a --min 1M --max 1M");
    assert_eq!(sandbox.status("a")["job"]["kind"], "resync");
    sandbox.fails(1, "scrub a stop", &[""; 0], &["a resync is not stopped", "scrub a pause", "speed a"]);
    sandbox.fails(1, "scrub a start", &[""; 0], &["a resync is under way", "stripewise wait a"]);
    sandbox.done("scrub a pause");
    assert_eq!(sandbox.status("a")["job"]["paused"], true);
}

#[test]
fn who_waits_for_a_job_is_not_told_of_an_earlier_one() {
    let (sandbox, _) = array(24 * MIB);
    sandbox.done("speed a --min 1M --max 1M");
    sandbox.done("scrub a start");
    eventually("it is under way", || sandbox.status("a")["job"]["kind"] == "check");
    sandbox.done("scrub a stop");
    sandbox.done("wait a");
    assert_eq!(sandbox.status("a")["last_job"]["outcome"], "stopped");
    // A spare starts no job.
    let spare = sandbox.member("spare", 24 * MIB);
    sandbox.ok("add a --wait", &[spare]);
}

#[test]
fn no_limit_is_none_in_any_language() {
    let (sandbox, _) = array(24 * MIB);
    assert!(sandbox.done("speed a").contains("no limit"));
    assert!(sandbox.json("speed a")["max_bytes_per_s"].is_null());
    assert!(sandbox.status("a")["speed_max_bytes_per_s"].is_null());
    sandbox.done("speed a --max 2G");
    assert_eq!(sandbox.json("speed a")["max_bytes_per_s"], 2u64 << 30);
    sandbox.done("speed a --max 0");
    assert!(sandbox.json("speed a")["max_bytes_per_s"].is_null());
}

#[test]
fn the_speed_limit_holds() {
    let (sandbox, _) = array(24 * MIB);
    sandbox.done("speed a --min 1M --max 1M");
    let begin = std::time::Instant::now();
    sandbox.done("scrub a start");
    // It took at least as long as the limit has it, however slow the machine is; the last batch or two may be
    // ahead of that. Without a limit all 23 MiB are done at the first look.
    let done_bytes = || sandbox.status("a")["job"]["done_bytes"].as_u64();
    eventually("it is under way", || done_bytes().is_some());
    eventually("it has begun in earnest", || {
        let done = done_bytes().expect("it is under way for 20 seconds");
        let seconds = begin.elapsed().as_secs_f64();
        let due = (done as f64 / MIB as f64 - 2.0).max(0.0);
        assert!(seconds >= due, "{done} bytes at 1 MiB/s took {seconds} s");
        done >= 4 * MIB
    });
    sandbox.done("scrub a stop");
}

#[test]
fn an_interrupted_scrub_goes_on_after_the_next_assembly() {
    let (sandbox, members) = array(64 * MIB);
    sandbox.done("speed a --min 16M --max 16M");
    sandbox.done("scrub a start");
    eventually("it is under way", || {
        sandbox.status("a")["job"]["done_bytes"].as_u64().is_some_and(|done| done > 8 << 20)
    });
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    sandbox.done("wait a");
    let scrub = sandbox.json("scrub a status");
    assert_eq!((&scrub["kind"], &scrub["outcome"]), (&"check".into(), &"done".into()), "{scrub}");
    let log = sandbox.log("a");
    let starts: Vec<_> = log.lines().filter(|line| line.contains("job starts")).collect();
    assert!(!starts.last().unwrap().contains("done_stripes=0"), "it began anew: {starts:?}");
}
