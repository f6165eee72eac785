//! Write selection, kinds of members, decisions as they are made, and members that wear out.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Client, MIB, Sandbox, eventually, noise};

/// The classes of four hard disks and an SSD, which is given first.
const CLASSES: &str = "--class m0=ssd --class m1=hdd --class m2=hdd --class m3=hdd --class m4=hdd";

fn mixed(options: &str) -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let members = sandbox.members(5, 24 * MIB);
    let parity = if options.contains("--parity") { "" } else { "--parity fastest" };
    sandbox.ok(&format!("create a --level 4 --assume-clean {CLASSES} {parity} {options}"), &members);
    (sandbox, members)
}

fn parity_of(sandbox: &Sandbox) -> String {
    let status = sandbox.status("a");
    let members = status["members"].as_array().unwrap();
    let parity = members.iter().find(|member| member["is_parity"] == true).unwrap();
    parity["device"].as_str().unwrap().to_owned()
}

#[test]
fn level_4_keeps_parity_where_it_is_told() {
    let (sandbox, members) = mixed("");
    assert_eq!(parity_of(&sandbox), members[0], "the fastest");
    assert!(sandbox.done("status").contains("ssd: m0 (parity)"));
    assert!(sandbox.done("detail a").contains("4 parity"));
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    assert_eq!(parity_of(&sandbox), members[0], "kept on the members");
    for (place, index) in [("last", 4), ("m2", 2)] {
        let (sandbox, members) = mixed(&format!("--parity {place}"));
        assert_eq!(parity_of(&sandbox), members[index], "{place}");
        let detail = sandbox.done("detail a");
        assert!(detail.contains("parity is on a hard disk and data on flash"), "{detail}");
    }
}

/// Members that are taken as they are keep their places, and new ones make a RAID4S.
#[test]
fn parity_moves_by_itself_only_where_nothing_is_kept() {
    for (assume_clean, index) in [("--assume-clean", 4), ("", 0)] {
        let sandbox = Sandbox::new();
        let members = sandbox.members(5, 24 * MIB);
        sandbox.ok(&format!("create a --level 4 {assume_clean} {CLASSES}"), &members);
        assert_eq!(parity_of(&sandbox), members[index], "{assume_clean}");
    }
}

#[test]
fn flash_in_the_wrong_place_is_warned_about_at_once() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    let said = sandbox.run("create a --level 5 --class m0=ssd --class m1=hdd --class m2=hdd", &members);
    assert!(said.code == Some(0) && said.err.contains("1 of 3 members are flash"), "{said:?}");
    let is_told = |words| said.err.contains(words);
    assert!(
        is_told("no member was measured to rotate, whatever --class says") || is_told("a member rotates, so"),
        "{said:?}"
    );
}

/// Level 4 over two SSDs, of which parity can have one, and over one while parity's member is still to come.
#[test]
fn flash_that_holds_data_beside_hard_disks_is_warned_about() {
    for (last, words) in [
        ("m3", "1 of 3 members that hold data are flash, and parity is on flash, too"),
        ("missing", "the member for parity is missing or of unknown kind"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.members(4, 24 * MIB);
        let classes = "--class m0=ssd --class m1=hdd --class m2=hdd";
        let classes = if last == "m3" { format!("{classes} --class m3=ssd") } else { classes.to_owned() };
        let said = sandbox.run(&format!("create a --level 4 {classes} m0 m1 m2 {last}"), &[""; 0]);
        assert!(said.code == Some(0) && said.err.contains(words), "{said:?}");
        assert!(sandbox.done("detail a").contains(words), "it stays true");
    }
}

#[test]
fn where_nothing_is_selected_there_is_no_policy() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 1 --assume-clean", &sandbox.members(2, 24 * MIB));
    sandbox.fails(1, "policy a cost", &[""; 0], &["a: ", "level 1 keeps no parity"]);
    sandbox.fails(1, "policy a", &[""; 0], &["a: ", "level 1 keeps no parity"]);
    sandbox.fails(1, "explain a --policy cost --write 0:4K", &[""; 0], &["level 1 keeps no parity"]);
    sandbox.fails(1, "explain --level 0 --policy cost --write 0:4K", &[""; 0], &["level 0 keeps no parity"]);
}

#[test]
fn a_class_is_said_when_a_member_comes_and_corrected_later() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(6, 24 * MIB);
    sandbox
        .ok("create a --level 5 --assume-clean --class m0=hdd --class m1=hdd --class m2=hdd", &members[..3]);
    let class_of = |index: usize| {
        let told = sandbox.json(&format!("class a {}", members[index]))[0].clone();
        (told["class"].as_str().unwrap().to_owned(), told["given"] == true)
    };
    sandbox.ok("add a --class m3=ssd --class m4=hdd", &members[3..5]);
    sandbox.ok("replace a m0 --wait --class m5=ssd --with", &members[5..]);
    for (index, class) in [(3, "ssd"), (4, "hdd"), (5, "ssd")] {
        assert_eq!(class_of(index), (class.to_owned(), true));
    }
    assert!(sandbox.done("status").contains("ssd: m3 m5"));
    let advice = "1 of 3 members are flash";
    assert!(sandbox.done("detail a").contains(advice));
    sandbox.done("class a m5 hdd");
    assert!(!sandbox.done("detail a").contains(advice), "it follows from what they are");
    sandbox.ok("replace a m1 --wait --class m3=hdd --with", &members[3..4]);
    assert_eq!(class_of(3), ("hdd".to_owned(), true), "a spare that was said to be something else");
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members[2..]);
    assert_eq!(class_of(5), ("hdd".to_owned(), true), "kept");
    let table = sandbox.done("class a");
    assert!(table.contains("hdd      as said   ") && table.lines().count() == 4, "{table}");
    sandbox.fails(1, "add a --class m9=ssd", &members[..1], &["--class m9", "none of the devices given"]);
    sandbox.fails(2, "add a --class m0=tape", &members[..1], &["DEVICE=hdd or DEVICE=ssd"]);
    sandbox.fails(2, "class a m5 tape", &[""; 0], &["hdd, ssd"]);
    sandbox.fails(1, "class a m9 ssd", &[""; 0], &["m9", "not a member"]);
}

#[test]
fn members_are_measured_unless_told_otherwise() {
    let (sandbox, _) = mixed("");
    let times = sandbox.status("a")["members"][0]["times"].clone();
    assert!(times["random_read_ns"].as_u64().unwrap() > 0);
    assert!(times["random_write_ns"].is_null(), "members that are taken as they are, are only read: {times}");
    assert!(sandbox.done("detail a").contains("Random read"));
    let status = sandbox.done("status");
    let line = status.lines().find(|line| line.contains("random read/write: ")).unwrap();
    assert_eq!(line.matches("s/-").count(), 5, "a unit of time, and no write: {line}");
    assert!(line.contains(" m0 ") && line.contains(", m4 "), "{line}");
    let (sandbox, _) = mixed("--no-measure");
    assert!(sandbox.status("a")["members"][0]["times"].is_null());
    assert!(!sandbox.done("detail a").contains("Random read"));
    assert!(!sandbox.done("status").contains("random read/write"));
}

#[test]
fn nonsense_about_members_is_refused() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    for (options, code, words) in [
        ("--level 5 --class m9=ssd", 1, &["--class m9", "none of the devices given"][..]),
        ("--level 5 --class m0=ssd --class m0=hdd", 1, &["--class m0", "cannot be both"]),
        ("--level 5 --class m0=tape", 2, &["m0=tape", "DEVICE=hdd or DEVICE=ssd"]),
        ("--level 5 --parity last", 1, &["--parity", "level 4"]),
        ("--level 4 --parity m9", 1, &["--parity m9", "none of the members"]),
        ("--level 1 --policy classic", 1, &["policy classic", "level 1 keeps no parity", "--policy"]),
        ("--level 0 --policy cost", 1, &["policy cost", "level 4, 5 or 6", "--policy"]),
        ("--level 5 --policy best", 2, &["best", "classic, modthresh, modified, cost"]),
    ] {
        sandbox.fails(code, &format!("create a {options}"), &members, words);
    }
    assert!(std::fs::read(&members[0]).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn the_policy_changes_while_the_array_runs_and_is_kept() {
    let (sandbox, members) = mixed("--policy modthresh");
    assert_eq!(sandbox.json("policy a")["policy"], "modthresh");
    let client = Client::connect(&sandbox.serve("a"));
    let rows = || {
        client.write(0, &noise(1, 128 << 10)).unwrap();
        let counters = sandbox.status("a")["counters"].clone();
        (counters["rows_rmw"].as_u64().unwrap(), counters["rows_rcw"].as_u64().unwrap())
    };
    assert_eq!(rows(), (16, 0), "rmw 3, rcw 2");
    sandbox.done("policy a classic");
    assert_eq!(rows(), (16, 16));
    let detail = sandbox.done("detail a");
    for line in ["Write Selection : classic", "Rows Written : 0 full, 16 RMW, 16 RCW", "times that"] {
        assert!(detail.contains(line), "{detail}");
    }
    // Two chunks and parity were written each time, of which one member has half.
    let status = sandbox.status("a");
    assert_eq!(status["write_amplification"], 1.5);
    assert_eq!(status["members"][4]["counters"]["blocks_rmw"], 16);
    drop(client);
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    assert!(sandbox.done("policy a").starts_with("a: classic: "));
    let list = sandbox.done("policy --list");
    for name in ["classic", "modthresh", "modified", "cost", "prefer-rmw", "new arrays with hard disks"] {
        assert!(list.contains(name), "{list}");
    }
    sandbox.fails(2, "policy a best", &[""; 0], &["classic, modthresh"]);
    sandbox.fails(2, "policy", &[""; 0], &["NAME"]);
}

/// They are written to members, too: 2 of data and 1 of parity, on either side.
#[test]
fn zeroes_count_for_clients_as_for_members() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 5 --assume-clean --no-measure", &sandbox.members(3, 24 * MIB));
    let client = Client::connect(&sandbox.serve("a"));
    client.write_zeroes(0, 1 << 20).unwrap();
    let status = sandbox.status("a");
    assert_eq!(
        (&status["write_amplification"], &status["counters"]["zeroed_bytes"]),
        (&1.5.into(), &(1 << 20).into())
    );
    // A part of a stripe reads and writes as data does.
    client.write_zeroes(1 << 20, 64 << 10).unwrap();
    assert_eq!(sandbox.status("a")["counters"]["zeroed_bytes"], (1 << 20) + (64 << 10));
}

/// What a rebuild writes to a member is no client's write.
#[test]
fn writes_of_jobs_are_told_apart_from_those_for_clients() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean --no-measure", &members[..3]);
    let client = Client::connect(&sandbox.serve("a"));
    client.write(0, &noise(1, 1 << 20)).unwrap();
    assert_eq!(sandbox.status("a")["write_amplification"], 1.5);
    assert_eq!(sandbox.status("a")["job_written_bytes"], 0);
    sandbox.ok("fail a", &members[..1]);
    sandbox.ok("add a --wait", &members[3..]);
    let status = sandbox.status("a");
    assert_eq!(status["write_amplification"], 1.5, "of clients' writes: {status}");
    assert_eq!(status["job_written_bytes"], status["member_bytes"], "the rebuild's");
    let detail = sandbox.done("detail a");
    let line = "Members Wrote : 1.50 times that for clients, ";
    assert!(detail.contains(line) && detail.contains(" for background jobs"), "{detail}");
}

#[test]
fn a_running_array_is_explained_with_its_devices() {
    let (sandbox, members) = mixed("--policy modthresh");
    let explained = sandbox.json("explain a --write 0:128K");
    let stripe = &explained["stripes"][0];
    assert_eq!(explained["policy"], "modthresh");
    assert_eq!((&stripe["bands"][0]["rmw"], &stripe["bands"][0]["cycle"]), (&3.into(), &"rmw".into()));
    assert_eq!(stripe["reads"][2]["device"], members[0]);
    let other = sandbox.json("explain a --policy classic --write 0:128K");
    assert_eq!(other["stripes"][0]["bands"][0]["cycle"], "rcw");
    sandbox.ok("fail a", &members[0..1]);
    assert!(sandbox.done("explain a --write 0:128K").contains("no parity is kept here"));
    let lost = ["2 columns are missing, with those that the array itself has lost", "survives the loss of 1"];
    sandbox.fails(1, "explain a --missing 0 --write 0:128K", &[""; 0], &lost);
    sandbox.fails(1, "explain a --write 0:1T", &[""; 0], &["ends at byte"]);
    sandbox.fails(2, "explain a --level 5 --write 0:4K", &[""; 0], &["cannot be used with"]);
}

/// RMW would be cheaper, and must not be where parity is not known to be right.
#[test]
fn stripes_that_are_not_resynced_are_explained_as_they_are_written() {
    let sandbox = Sandbox::new();
    // Sparse, and so large that the resync is still far from the last stripes when it is slowed.
    let members = sandbox.members(5, 2100 * MIB);
    sandbox.ok("create a --level 5 --no-measure --size 2000M --policy modified", &members);
    sandbox.done("speed a --max 1M");
    let explained = |place: &str| sandbox.json(&format!("explain a --write {place}:4K"));
    let late = explained("7G");
    assert_eq!(late["stripes"][0]["synced"], false, "{late}");
    assert_eq!(late["stripes"][0]["bands"][0]["cycle"], "rcw", "{late}");
    let said = sandbox.done("explain a --write 7G:4K");
    assert!(said.contains("note: stripe 28672 is not resynced yet"), "{said}");
    sandbox.done("speed a --max 0");
    sandbox.done("wait a");
    let synced = explained("7G");
    assert_eq!(synced["stripes"][0]["synced"], true, "{synced}");
    assert_eq!(synced["stripes"][0]["bands"][0]["cycle"], "rmw", "{synced}");
}

/// A member that is being rebuilt holds the stripes behind the rebuild, and lacks those before it.
#[test]
fn a_rebuild_is_explained_stripe_by_stripe() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 64 * MIB);
    sandbox.ok("create a --level 5 --assume-clean --no-measure", &members[..3]);
    sandbox.ok("fail a", &members[..1]);
    sandbox.done("speed a --max 4M");
    sandbox.ok("add a", &members[3..]);
    let missing = |place: &str| {
        let explained = sandbox.json(&format!("explain a --write {place}:4K"));
        let columns = explained["stripes"][0]["columns"].as_array().unwrap().clone();
        columns.iter().filter(|column| column["missing"] == true).count()
    };
    eventually("it has begun", || missing("0") == 0);
    assert_eq!(missing("110M"), 1);
}

#[test]
fn decisions_are_traced_while_somebody_looks() {
    let (sandbox, _) = mixed("--policy modthresh");
    let client = Client::connect(&sandbox.serve("a"));
    let mut trace = sandbox.command();
    trace.args(["--json", "trace", "a", "--cycle", "rmw", "--chosen", "--min", "64K", "--count", "2"]);
    let trace = trace.stdout(Stdio::piped()).spawn().unwrap();
    eventually("it traces", || sandbox.log("a").contains("Trace {"));
    sandbox.fails(1, "trace a", &[""; 0], &["another command is tracing it"]);
    for (offset, len) in [(0, 4096), (0, 256 << 10), (256 << 10, 128 << 10), (512 << 10, 65_536)] {
        client.write(offset, &noise(offset, len)).unwrap();
    }
    let said = trace.wait_with_output().unwrap();
    let lines: Vec<serde_json::Value> = String::from_utf8(said.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<_> =
        lines.iter().map(|line| (line["stripe"].as_u64(), line["len_bytes"].as_u64())).collect();
    assert_eq!(told, [(Some(1), Some(128 << 10)), (Some(2), Some(65_536))]);
    assert_eq!((&lines[0]["bands"][0]["rmw"], &lines[0]["bands"][0]["rcw"]), (&3.into(), &2.into()));
    assert_eq!(sandbox.done("trace a --seconds 0.1"), "");
    sandbox.fails(2, "trace a --stripes 5..5", &[""; 0], &["FIRST..END"]);
}

/// Typical disks, of which nothing is measured: as `explain` reckons with them.
#[test]
fn a_trace_tells_when_the_margin_decided() {
    let (sandbox, _) = mixed("--policy cost --no-measure");
    let explained = sandbox.done("explain a --write 0:200K");
    assert!(explained.contains("the other is estimated to cost less, but within the margin"), "{explained}");
    let client = Client::connect(&sandbox.serve("a"));
    let mut trace = sandbox.command();
    let trace = trace.args(["trace", "a", "--count", "2"]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("it traces", || sandbox.log("a").contains("Trace {"));
    client.write(0, &noise(1, 200 << 10)).unwrap();
    client.write(256 << 10, &noise(2, 4096)).unwrap();
    let said = trace.wait_with_output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let lines: Vec<_> = said.lines().collect();
    assert!(
        lines[0]
            .contains(" RCW rows 2-15 rmw=4 rcw=1 by cost (RMW 25.43 ms, RCW 25.81 ms, within the margin)"),
        "{said}"
    );
    assert!(!lines[1].contains("margin"), "{said}");
}

#[test]
fn a_trace_ends_with_its_command() {
    let (sandbox, _) = mixed("--no-measure");
    let mut killed = sandbox.command();
    let mut killed = killed.args(["trace", "a"]).stdout(Stdio::null()).spawn().unwrap();
    eventually("it traces", || sandbox.log("a").contains("Trace {"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    eventually("it is noticed", || sandbox.log("a").contains("what went on for it ends"));
    let next = sandbox.run("trace a --seconds 0.1", &[""; 0]);
    assert!(next.out.is_empty() && next.err.contains("no such stripe was written"), "{next:?}");
}

/// A command that hangs is waited for, but not for long.
#[test]
fn a_trace_ends_when_its_command_is_silent() {
    let (sandbox, _) = mixed("--no-measure");
    let mut silent = sandbox.command();
    let mut silent =
        silent.args(["trace", "a"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it traces", || sandbox.log("a").contains("Trace {"));
    kill_process(Pid::from_child(&silent), Signal::STOP).unwrap();
    sandbox.fails(1, "trace a --seconds 0.1", &[""; 0], &["another command is tracing it"]);
    eventually("it is given up", || sandbox.run("trace a --seconds 0.1", &[""; 0]).code == Some(0));
    kill_process(Pid::from_child(&silent), Signal::CONT).unwrap();
    let mut said = String::new();
    silent.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(silent.wait().unwrap().code(), Some(1));
    assert!(said.contains("asked nothing for some seconds"), "{said}");
}

#[test]
fn a_trace_that_is_interrupted_prints_what_it_has_and_leaves_the_array_free() {
    let (sandbox, _) = mixed("--policy modthresh --no-measure");
    let client = Client::connect(&sandbox.serve("a"));
    let mut trace = sandbox.command();
    trace.args(["--json", "trace", "a"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut trace = trace.spawn().unwrap();
    let mut hint = String::new();
    BufReader::new(trace.stderr.take().unwrap()).read_line(&mut hint).unwrap();
    assert_eq!(hint, "stripewise: a: waiting for stripe writes; Ctrl-C ends the trace\n", "before any comes");
    for stripe in 0..3 {
        client.write(stripe * (256 << 10), &noise(stripe, 4096)).unwrap();
    }
    kill_process(Pid::from_child(&trace), Signal::INT).unwrap();
    let output = trace.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3, "{output:?}");
    sandbox.done("trace a --seconds 0.1");
}

/// Requests over connections of our own: what goes on for one is no other's to ask for or to end.
#[test]
fn nobody_can_end_the_trace_of_another() {
    let (sandbox, _) = mixed("--no-measure");
    let connect = || UnixStream::connect(sandbox.run_dir().join("a.sock")).unwrap();
    let ask = |mut stream: &UnixStream, request: &str| {
        writeln!(stream, "{request}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    };
    let trace =
        r#"{"command":"trace","choice":{"cycles":[],"stripes":null,"chosen_only":false,"min_bytes":0}}"#;
    let first = connect();
    assert!(ask(&first, trace).contains("done"));
    assert!(ask(&connect(), trace).contains("another command is tracing it"));
    ask(&connect(), r#"{"command":"trace-end"}"#);
    for request in [r#"{"command":"traced","since":0}"#, r#"{"command":"load-end"}"#] {
        let answer = ask(&connect(), request);
        assert!(answer.contains("for this connection"), "{answer}");
    }
    assert!(ask(&first, r#"{"command":"traced","since":0}"#).contains("traced"), "it goes on");
    assert!(ask(&first, r#"{"command":"trace-end"}"#).contains("done"));
    let second = connect();
    assert!(ask(&second, trace).contains("done"), "free at once");
    // The end of the old connection comes late.
    drop(first);
    std::thread::sleep(Duration::from_millis(100));
    assert!(ask(&second, r#"{"command":"traced","since":0}"#).contains("traced"));
}

#[test]
fn members_that_wear_out_too_early_are_told() {
    let (sandbox, members) = mixed("");
    assert!(sandbox.done("endurance a").contains(" -  "));
    sandbox.ok("endurance a --tbw 980-pro-1t --warranty 5y --margin 30", &members[..1]);
    let known = sandbox.json(&format!("endurance a {}", members[0]))[0]["endurance"].clone();
    assert_eq!(known["rated_write_bytes"], 600_000_000_000_000_u64, "decimal");
    assert_eq!(known["warranty_margin_days"], 30);
    let early = "wear of m0: a forecast from ";
    for shown in [sandbox.done("status"), sandbox.done("detail a")] {
        assert!(!shown.contains("will be worn out"), "{shown}");
        assert!(shown.contains(" on, when a day was seen of how it is written"), "{shown}");
    }
    assert!(sandbox.done("status").contains(early));
    assert_eq!(known["no_forecast"]["reason"], "early");
    assert_eq!(
        known["no_forecast"]["from_s"].as_u64().unwrap(),
        known["written_since_s"].as_u64().unwrap() + 86_400
    );
    let table = sandbox.done("endurance a");
    assert!(table.contains(early), "{table}");
    assert!(sandbox.done("detail a").contains(" not rated\n"), "a hard disk");
    sandbox.done("class a m1 ssd");
    let unrated = "no forecast until `stripewise endurance a DEVICE --tbw` says what it is rated for";
    assert!(sandbox.done("detail a").contains(unrated));
    // So little that at the rate of the first seconds it does not last.
    let written =
        |member: usize| sandbox.json(&format!("endurance a {}", members[member]))[0]["endurance"].clone();
    let four_times = written(1)["written_bytes"].as_u64().unwrap() * 4;
    sandbox.ok(&format!("endurance a --tbw {four_times} --warranty 2099-12-31"), &members[1..2]);
    let status = sandbox.done("status");
    let words = ["m1 will be worn out on", "days before its warranty ends, on 2099-12-31. Write less"];
    assert!(words.iter().all(|words| status.contains(words)), "{status}");
    assert!(sandbox.done("detail a").contains("m1 will be worn out"));
    sandbox.ok("endurance a --warranty none", &members[1..2]);
    for shown in [sandbox.done("status"), sandbox.done("detail a")] {
        assert!(
            shown.contains("m1 will be worn out on ") && shown.contains(", within a day. Write less"),
            "{shown}"
        );
    }
    let said = sandbox.run("endurance a --warranty 2020-01-01", &members[1..2]);
    assert!(
        said.code == Some(0) && said.err.contains("a: that warranty ended on 2020-01-01 already"),
        "{said:?}"
    );
    let said = sandbox.run("endurance a --warranty 2099-12-31", &members[1..2]);
    assert!(said.code == Some(0) && said.err.is_empty(), "{said:?}");
    sandbox.ok("endurance a --margin 90", &members[1..2]);
    let status = sandbox.done("status");
    let words = "days before it should: 90 days after its warranty ends, on 2099-12-31.";
    assert!(status.contains(words), "{status}");
    // Less than was written already.
    let said = sandbox.run("endurance a --tbw 1K", &members[1..2]);
    assert!(said.code == Some(0) && said.err.contains("already, so by a rating of 1"), "{said:?}");
    let status = sandbox.done("status");
    assert!(
        status.contains("m1 has been written ") && status.contains("% of what it is rated for"),
        "{status}"
    );
    assert!(sandbox.done("endurance a").contains("already"));
    sandbox.ok("endurance a --tbw none --warranty none --margin 0", &members[1..2]);
    let unset = written(1);
    assert!(unset["rated_write_bytes"].is_null() && unset["warranty_end_s"].is_null(), "{unset}");
    assert!(!sandbox.done("status").contains("m1 has been written"));
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    let kept = sandbox.json(&format!("endurance a {}", members[0]))[0]["endurance"].clone();
    assert_eq!(kept["rated_write_bytes"], known["rated_write_bytes"]);
    assert!(kept["written_bytes"].as_u64() >= known["written_bytes"].as_u64());
    assert!(sandbox.done("endurance --models").contains("x25-e-64g            2 PB"));
    for (options, words) in [
        ("--tbw 12X", "neither a decimal size"),
        ("--tbw 0", "give `none` if what it is rated for is not known"),
        ("--tbw 0T", "give `none`"),
        ("--warranty soon", "neither a day"),
        ("--warranty 2027-02-30", "neither a day"),
        ("--warranty 1970-01-01", "neither a day"),
        ("--margin -1", "give a whole number from 0 to 36500"),
        ("--margin abc", "give a whole number from 0 to 36500"),
        ("--tbw 999999999999P", "'999999999999P' is too large: give 18446P or less"),
    ] {
        sandbox.fails(2, &format!("endurance a m0 {options}"), &[""; 0], &[words]);
    }
    sandbox.fails(2, "endurance a --tbw 1T", &[""; 0], &["DEVICE"]);
    sandbox.fails(1, "endurance a m9", &[""; 0], &["not a member"]);
}
