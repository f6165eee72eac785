//! What was written to members outlives their daemon.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{MIB, Sandbox, eventually};

/// What is not noted at most, but for what came in the last second or two.
const UNNOTED_MAX: u64 = 512 * MIB;

fn wear(sandbox: &Sandbox) -> (u64, u64) {
    let member: Value = sandbox.status("a")["members"][0]["endurance"].clone();
    (member["written_bytes"].as_u64().unwrap(), member["noted_written_bytes"].as_u64().unwrap())
}

/// The array is written without a pause, so that no change of its state notes anything by the way.
#[test]
fn a_killed_daemon_forgets_no_more_than_the_bound() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(2, 24 * MIB);
    sandbox.ok("create a --level 1 --assume-clean --no-measure", &members);
    let mut load = sandbox.command();
    load.args([
        "bench",
        "run",
        "a",
        "--rw",
        "write",
        "--bs",
        "1M",
        "--iodepth",
        "4",
        "--runtime",
        "1h",
        "--force",
    ]);
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("it writes", || wear(&sandbox).0 > 64 * MIB);
    let events = sandbox.status("a")["events"].clone();
    let begun = std::time::Instant::now();
    let before = wear(&sandbox).0;
    eventually("it is noted", || wear(&sandbox).1 >= UNNOTED_MAX / 2);
    assert_eq!(sandbox.status("a")["events"], events, "no event is spent");
    let (written, noted) = wear(&sandbox);
    let per_s = (written - before) as f64 / begun.elapsed().as_secs_f64();
    sandbox.signal(sandbox.pid("a"), Signal::KILL);
    load.wait().unwrap();
    sandbox.ok("assemble a", &members);
    let found = wear(&sandbox).0;
    assert!(found >= noted, "{found} of {noted}");
    let bound = UNNOTED_MAX + (3.0 * per_s) as u64;
    assert!(found + bound >= written, "{found} of {written}, at {per_s:.0} bytes a second");
    let help = sandbox.done("endurance --help");
    let words: Vec<_> = help.split_whitespace().collect();
    assert!(words.join(" ").contains("never more than 512 MiB"), "{help}");
}
