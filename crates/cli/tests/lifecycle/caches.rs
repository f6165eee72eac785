//! The write-back cache: chosen, changed while clients write, shown, kept, refused.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal};

use crate::common::{Client, KIB, MIB, Need, Sandbox, can_run, eventually, has_ended, noise, run_bounded};

fn array(options: &str) -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 40 * MIB);
    sandbox.ok(&format!("create a --level 5 --assume-clean {options}"), &members);
    (sandbox, members)
}

#[test]
fn a_cache_is_chosen_kept_and_changed() {
    let (sandbox, members) = array("--cache stripe --cache-size 8M --cache-flush-time 2s");
    let cache = sandbox.json("cache a");
    assert_eq!((&cache["kind"], &cache["size_bytes"]), (&"stripe".into(), &(8 * MIB).into()), "{cache}");
    assert_eq!(
        (&cache["when"], &cache["what"], &cache["flush_ms"]),
        (&"lt".into(), &"gain".into(), &2000.into())
    );
    let said =
        sandbox.done("cache a pbg --when hlm --what wow --low 10 --high 20 --age off --idle 2m --read none");
    let settings =
        "cache pbg of 8 MiB: when hlm (10 to 20 %), what wow, age off, idle 120s, flush 2s, read none";
    assert!(said.contains(settings), "{said}");
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    let shown = sandbox.done("cache a");
    assert!(shown.contains(settings), "kept on the members: {shown}");
    assert!(sandbox.done("detail a").contains("Cache : pbg, 8 MiB"));
    assert!(sandbox.done("status a").contains("cache: pbg, 0 B of 8 MiB dirty"));
    let off = "no cache; of one that is switched on: size 8 MiB, when hlm";
    assert!(sandbox.done("cache a none").contains(off));
    assert!(!sandbox.done("status a").contains("cache"));
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    let cache = sandbox.json("cache a");
    let expected = (&"none".into(), &0.into(), &(8 * MIB).into());
    assert_eq!((&cache["kind"], &cache["size_bytes"], &cache["chosen_bytes"]), expected, "{cache}");
    assert!(sandbox.done("cache a").contains(off));
}

#[test]
fn caches_that_cannot_be_are_refused() {
    let (sandbox, members) = array("--cache stripe --cache-size 8M");
    let none = &[""; 0];
    for (size, told) in [("0", "0 B"), ("4K", "4 KiB"), ("1000T", "1000 TiB")] {
        let told = format!("a cache of {told}: give a size from 496K, into which two stripes");
        sandbox.fails(
            1,
            &format!("cache a --size {size}"),
            none,
            &[&told, "M, the memory that the daemon has", "`none`"],
        );
    }
    let words = ["low mark, 90 %", "below the high mark, 80 %: give percents from 1 to 100"];
    sandbox.fails(1, "cache a --low 90 --high 80", none, &words);
    sandbox.fails(2, "cache a --age soon", none, &["not a time", "`off`"]);
    sandbox.fails(2, "cache a lru", none, &["pbg", "stripe"]);
    assert_eq!(sandbox.json("cache a")["size_bytes"], 8 * MIB, "as it was");
    sandbox.done("stop a");
    sandbox.ok("assemble a --readonly", &members);
    sandbox.fails(1, "cache a none", none, &["read-only"]);
    let mirror = Sandbox::new();
    let members = mirror.members(2, 24 * MIB);
    mirror.fails(
        1,
        "create m --level 1 --cache stripe",
        &members,
        &["level 1 has no parity", "levels 4, 5 and 6"],
    );
    mirror.ok("create m --level 1", &members);
    mirror.fails(1, "cache m", none, &["level 1 has no parity"]);
    mirror.fails(1, "cache m stripe", none, &["level 1 has no parity"]);
}

/// A former fault: the limits on strides were there, although the size was refused.
#[test]
fn a_change_of_which_a_part_is_refused_changes_nothing() {
    let (sandbox, _) = array("--no-measure --cache stripe --cache-size 8M");
    let words = ["give a size from 496K"];
    sandbox.fails(1, "cache a --s-max-read 9 --s-max-write 9 --size 4K", &[""; 0], &words);
    let strides = sandbox.json("detail a")["members"][0]["strides"].clone();
    assert!(strides["read"].is_null() && strides["write"].is_null(), "{strides}");
}

/// What is in memory alone goes with the daemon. The superblocks call the array clean then.
#[test]
fn an_array_that_was_killed_with_a_cache_says_what_may_be_lost() {
    let (sandbox, members) = array("--no-measure --cache stripe --cache-size 8M");
    let assembled = || sandbox.run("assemble a", &members).err;
    let is_told =
        |said: &str| said.contains("had a cache: what was written to it after the last flush may be lost");
    let kill = || {
        let pid = sandbox.pid("a");
        sandbox.signal(pid, Signal::KILL);
        eventually("it has ended", || has_ended(pid));
    };
    kill();
    let said = assembled();
    assert!(is_told(&said), "{said}");
    sandbox.done("stop a");
    let said = assembled();
    assert!(!is_told(&said), "it was stopped: {said}");
    sandbox.done("cache a none");
    kill();
    let said = assembled();
    assert!(!is_told(&said), "it had none: {said}");
    sandbox.done("cache a pbg");
    kill();
    assert!(is_told(&assembled()), "since it runs");
}

/// Without a terminal in a line.
#[test]
fn measuring_strides_is_told_while_it_is_waited_for() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(5, 40 * MIB);
    let line = |command: &str, members: &[String], more: &[String]| {
        let classes = members.iter().map(|member| format!("--class {member}=hdd"));
        let said = sandbox.run(&format!("{command} {}", classes.collect::<Vec<_>>().join(" ")), more);
        let told = said.err.matches("a: strides are being measured, which takes 15 s at most").count();
        assert!(said.code == Some(0) && told == 1, "{command}: {said:?}");
    };
    // Without writes it may be over at once.
    line("create a --level 5", &members[..3], &members[..3]);
    sandbox.done("wait a");
    line("add a", &members[3..4], &members[3..4]);
    sandbox.done(&format!("remove a {}", members[3]));
    line(&format!("replace a {} --with {}", members[0], members[4]), &members[4..], &[]);
    let strides = sandbox.json("detail a")["members"][3]["strides"].clone();
    assert!(strides["write"]["s_max"].as_u64().is_some(), "{strides}");
}

/// Every other block of a chunk: with gaps filled, one read and one write of each of two members.
#[test]
fn gaps_between_what_is_destaged_are_filled() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 80 * MIB);
    let options =
        "--level 5 --assume-clean --no-measure --cache stripe+ct --cache-size 8M --cache-flush-time off";
    sandbox.ok(&format!("create a {options}"), &members);
    sandbox.done("cache a --idle off --age off --s-max-read 9 --s-max-write 3");
    sandbox.done("policy a modified");
    sandbox.fails(
        2,
        "cache a --s-max-read 0",
        &[""; 0],
        &["from 1 (nothing is filled) to 256, or `measured`"],
    );
    assert!(sandbox.done("cache a").contains("gaps weighed, s-max-read 9, s-max-write 3"));
    let cache = sandbox.json("cache a");
    assert_eq!((&cache["s_max_read"], &cache["s_max_write"]), (&9.into(), &3.into()), "{cache}");
    let client = Client::connect(&sandbox.serve("a"));
    let all = noise(5, 64 * KIB as usize);
    client.write(0, &all).unwrap();
    client.flush().unwrap();
    let data = noise(6, 4 * KIB as usize);
    for row in (0..16).step_by(2) {
        client.write(row * 4 * KIB, &data).unwrap();
    }
    let explained = sandbox.done("explain a --stripe 0");
    let said = ["gaps between reads filled", "gaps between writes filled", "+r", "r,+w"];
    assert!(said.iter().all(|said| explained.contains(said)), "{explained}");
    assert!(explained.contains("requests: 16 reads and 16 writes; with gaps filled, 2 and 2"), "{explained}");
    client.flush().unwrap();
    let detail = sandbox.done("detail a");
    assert!(detail.contains("Gaps Filled : 28 blocks, 28 requests saved"), "{detail}");
    assert!(detail.contains("S_max read") && detail.contains("9*") && detail.contains("3*"), "{detail}");
    for row in 0..16 {
        let at = row as usize * 4 * KIB as usize;
        let expected = if row % 2 == 0 { &data[..] } else { &all[at..at + 4 * KIB as usize] };
        assert_eq!(client.read(row * 4 * KIB, 4 * KIB as usize).unwrap(), expected, "row {row}");
    }
    drop(client);
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    let strides = sandbox.json("detail a")["members"][0]["strides"].clone();
    assert_eq!(
        (&strides["read"]["s_max"], &strides["write"]["s_max_given"]),
        (&9.into(), &true.into()),
        "{strides}"
    );
    let said = sandbox.done("cache a --s-max-read measured --s-max-write measured");
    assert!(said.contains("s-max-read measured, s-max-write measured"), "{said}");
    let strides = sandbox.json("detail a")["members"][0]["strides"].clone();
    assert!(strides["read"].is_null() && strides["write"].is_null(), "never measured: {strides}");
    let said = sandbox.done("cache a --measure");
    assert!(
        said.contains("strides of its members were measured") && said.contains("cache stripe+ct"),
        "{said}"
    );
    let strides = sandbox.json("detail a")["members"][3]["strides"].clone();
    let is_known =
        |which: &str| strides[which]["s_max"].as_u64().is_some_and(|s_max| (1..=64).contains(&s_max));
    assert!(is_known("read") && is_known("write"), "{strides}");
    sandbox.assert_consistent("a");
    let (plain, _) = array("--no-measure");
    let said = plain.run("cache a stripe+ct", &[""; 0]).err;
    assert!(said.contains("no member's strides are known") && said.contains("cache a --measure"), "{said}");
}

/// A stop that its command no longer waits for comes to its end.
#[test]
fn an_interrupted_stop_ends_by_itself() {
    let (sandbox, members) = array("--no-measure --cache stripe --cache-size 64M --cache-flush-time off");
    sandbox.done("cache a --idle off --age off");
    let client = Client::connect(&sandbox.serve("a"));
    let (data, pid) = (noise(7, 4 * KIB as usize), sandbox.pid("a"));
    let writes = 4096;
    (0..writes).for_each(|n| client.write(n * 5 * 4 * KIB, &data).unwrap());
    drop(client);
    let mut stop = sandbox.command();
    let mut stop = stop.args(["stop", "a"]).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    sandbox.signal(Pid::from_child(&stop), Signal::INT);
    let is_over = stop.wait().unwrap().success();
    eventually("the stop ends", || has_ended(pid));
    sandbox.ok("assemble a", &members);
    let client = Client::connect(&sandbox.serve("a"));
    for n in [0, writes / 2, writes - 1] {
        assert_eq!(client.read(n * 5 * 4 * KIB, data.len()).unwrap(), data, "{is_over}");
    }
    sandbox.assert_consistent("a");
}

/// What is written is in the cache, is counted there, and is on the members after a flush, a stop and a change.
#[test]
fn what_is_cached_is_shown_and_written() {
    let (sandbox, members) = array("--cache stripe --cache-size 16M --cache-flush-time off");
    sandbox.done("cache a --idle off --age off");
    let (data, block) = (noise(3, 4 * KIB as usize), 64 * KIB);
    let client = Client::connect(&sandbox.serve("a"));
    for stripe in 0..10 {
        client.write(stripe * 3 * block, &data).unwrap();
    }
    let cache = sandbox.json("cache a");
    assert_eq!(cache["dirty_bytes"], 10 * 4 * KIB, "{cache}");
    assert_eq!(client.read(3 * block, data.len()).unwrap(), data);
    assert_eq!(sandbox.json("cache a")["read_hits"], 1);
    let cells = sandbox.done("explain a --stripe 2");
    assert!(cells.contains("cached in rows 0: D E E") && cells.contains("destaged"), "{cells}");
    client.flush().unwrap();
    let cache = sandbox.json("cache a");
    assert_eq!(
        (&cache["dirty_bytes"], &cache["clean_bytes"]),
        (&0.into(), &(10 * 4 * KIB).into()),
        "{cache}"
    );
    assert_eq!(cache["destaged"]["flush"]["bytes"], 10 * 4 * KIB, "{cache}");
    sandbox.fails(1, "explain a --stripe 2", &[""; 0], &["nothing of stripe 2"]);
    client.write(0, &noise(4, 4 * KIB as usize)).unwrap();
    sandbox.done("cache a none");
    client.write(block, &data).unwrap();
    sandbox.done("cache a stripe --idle 50ms");
    client.write(2 * block, &data).unwrap();
    eventually("what is idle is written", || sandbox.json("cache a")["dirty_bytes"] == 0);
    client.write(5 * block, &data).unwrap();
    drop(client);
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    let client = Client::connect(&sandbox.serve("a"));
    for (offset, seed) in [(0, 4), (block, 3), (2 * block, 3), (5 * block, 3)] {
        assert_eq!(client.read(offset, data.len()).unwrap(), noise(seed, data.len()), "{offset}");
    }
    drop(client);
    sandbox.assert_consistent("a");
}

/// The array goes on, and so do its exports: what is dirty can be copied off. By force it is lost, and how much is told.
#[test]
fn a_stop_that_fails_opens_the_exports_again() {
    let (sandbox, members) = array("--no-measure --cache stripe --cache-size 8M --cache-flush-time off");
    sandbox.done("cache a --idle off --age off");
    let (uri, other) =
        (sandbox.serve("a"), sandbox.done("serve a --bind 127.0.0.1:0 --read-only").trim().to_owned());
    let client = Client::connect(&uri);
    let data = noise(5, 12 * KIB as usize);
    client.write(100 * KIB, &data).unwrap();
    for member in &members[..2] {
        std::fs::File::options().write(true).open(member).unwrap().set_len(MIB).unwrap();
    }
    let acknowledged = "12 KiB of acknowledged writes are in the cache only";
    let said = sandbox.fails(1, "stop a", &[""; 0], &[acknowledged, "are open again", &uri, &other]);
    assert!(!said.contains("could not be"), "{said}");
    drop(client);
    let exports = sandbox.status("a")["exports"].clone();
    assert_eq!(exports, serde_json::json!([uri, other]), "as they were");
    let client = Client::connect(&uri);
    assert_eq!(client.read(100 * KIB, data.len()).unwrap(), data);
    assert!(Client::connect(&other).write(0, &data).is_err(), "read-only, as it was");
    // Now it is known that nothing can be written: the exports stay, with their clients.
    sandbox.fails(1, "stop a", &[""; 0], &[acknowledged]);
    assert_eq!(client.read(100 * KIB, data.len()).unwrap(), data);
    let said = sandbox.run("stop a --force", &[""; 0]);
    let lost = "lost: 12 KiB of writes that were acknowledged, and were in the cache only, as members did not take them";
    assert!(said.code == Some(0) && said.err.contains(lost), "{said:?}");
    assert!(sandbox.log("a").contains(lost));
}

/// What was written to the block device without a flush is on the members when it is taken away.
#[test]
fn detach_writes_what_is_cached() {
    if !can_run(&[Need::Root, Need::Device("/dev/fuse"), Need::Tool("losetup"), Need::Tool("dd")]) {
        return;
    }
    let (sandbox, _) = array("--cache stripe --cache-size 16M");
    sandbox.done("cache a --idle off --age off");
    let device = sandbox.done("attach a").trim().to_owned();
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/urandom", &format!("of={device}"), "bs=4k", "count=64", "oflag=direct"]);
    let written = run_bounded(&mut dd, Duration::from_secs(60));
    assert_eq!(written.code, Some(0), "{written:?}");
    sandbox.done("detach a");
    let cache = sandbox.json("cache a");
    assert_eq!(cache["dirty_bytes"], 0, "{cache}");
    sandbox.assert_consistent("a");
}

/// SIGTERM writes what is cached before the daemon ends.
#[test]
fn a_signal_loses_nothing() {
    let (sandbox, members) = array("--cache stripe --cache-size 16M");
    sandbox.done("cache a --idle off --age off");
    let data = noise(9, 12 * KIB as usize);
    let client = Client::connect(&sandbox.serve("a"));
    client.write(KIB * 100, &data).unwrap();
    drop(client);
    let pid = sandbox.pid("a");
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    eventually("the daemon has ended", || has_ended(pid));
    std::thread::sleep(Duration::from_millis(10));
    sandbox.ok("assemble a", &members);
    let client = Client::connect(&sandbox.serve("a"));
    assert_eq!(client.read(KIB * 100, data.len()).unwrap(), data);
}
