//! Members that hang, and members that are not there: the operator has an answer in bounded time.

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{
    Client, Halted, Loop, MIB, Need, Sandbox, can_run, eventually, has_ended, noise, on_a_served_file,
    run_bounded,
};

/// A command's exit code and how long it took.
fn timed(sandbox: &Sandbox, line: &str, more: &[&str]) -> (Option<i32>, Duration) {
    let began = Instant::now();
    let mut command: Command = sandbox.command();
    command.args(line.split(' ')).args(more);
    let said = run_bounded(&mut command, Duration::from_secs(110));
    (said.code, began.elapsed())
}

#[test]
fn a_member_file_that_hangs_keeps_no_operator_waiting() {
    let Some((sandbox, server, served)) = on_a_served_file() else { return };
    let uri = sandbox.serve("a");
    let client = Client::connect(&uri);
    // From now on superblocks say dirty: only data is written to the member.
    client.write(0, &noise(1, 8 << 20)).unwrap();
    let under_way =
        thread::spawn(move || (0..40).all(|round| client.write(0, &noise(round, 8 << 20)).is_ok()));
    thread::sleep(Duration::from_millis(200));
    let halted = Halted::new(server);
    thread::sleep(Duration::from_millis(500));
    let (code, took) = timed(&sandbox, "status a", &[]);
    assert!(code == Some(0) && took < Duration::from_secs(9), "{code:?} {took:?}");
    let (code, took) = timed(&sandbox, "fail a", &[&served]);
    assert!(code == Some(0) && took < Duration::from_secs(30), "{code:?} {took:?}");
    assert_eq!(sandbox.member_state("a", &served).as_deref(), Some("faulty"));
    let (_, took) = timed(&sandbox, "stop a --force", &[]);
    assert!(took < Duration::from_secs(100), "{took:?}");
    drop(halted);
    let _ = under_way.join();
}

#[test]
fn what_an_array_cannot_answer_is_an_error_in_bounded_time() {
    let Some((sandbox, server, served)) = on_a_served_file() else { return };
    let uri = sandbox.serve("a");
    let client = Client::connect(&uri);
    let halted = Halted::new(server);
    // It has to say dirty on the member that hangs, first of all.
    let under_way = thread::spawn(move || client.write(0, &noise(1, 1 << 20)).is_ok());
    thread::sleep(Duration::from_millis(500));
    let said = sandbox.fails(1, "status a", &[""; 0], &["does not answer", &served, "s, so that it hangs"]);
    assert!(!said.contains("panicked"), "{said}");
    let (code, took) = timed(&sandbox, "detail a --test", &[]);
    assert!(code == Some(4) && took < Duration::from_secs(30), "{code:?} {took:?}");
    drop(halted);
    assert!(under_way.join().unwrap(), "it was only late");
    sandbox.done("detail a --test");
}

/// An array with a request of an NBD client under way that does not end, as `status` tells.
fn with_a_request_that_hangs() -> Option<(Sandbox, Halted, String, thread::JoinHandle<bool>)> {
    let (sandbox, server, served) = on_a_served_file()?;
    let client = Client::connect(&sandbox.serve("a"));
    // From now on superblocks say dirty: only data is written to the member.
    client.write(0, &noise(1, 1 << 20)).unwrap();
    let halted = Halted::new(server);
    let writing = thread::spawn(move || client.write(0, &noise(2, 1 << 20)).is_ok());
    eventually("it is told", || sandbox.done("status a").contains(&format!("{served} has not answered ")));
    Some((sandbox, halted, served, writing))
}

/// What an array waits for is the one member that hangs, and nothing once it answers.
#[test]
fn a_member_that_hangs_is_named_with_the_age_of_its_oldest_request() {
    let Some((sandbox, halted, served, writing)) = with_a_request_that_hangs() else { return };
    let status = sandbox.status("a");
    let slow: Vec<_> =
        status["members"].as_array().unwrap().iter().filter(|m| !m["slow"].is_null()).collect();
    let oldest_s = slow[0]["slow"]["oldest_s"].as_f64().unwrap();
    assert!(slow.len() == 1 && slow[0]["device"] == *served && oldest_s >= 5.0, "{status}");
    assert!(slow[0]["slow"]["requests"].as_u64() >= Some(1), "{status}");
    let detail = sandbox.done("detail a");
    let told = format!("Warning : {served} has not answered ");
    let advice = format!("`stripewise fail a {served}`");
    assert!(detail.contains(&told) && detail.contains(&advice), "{detail}");
    sandbox.ok("fail a", &[&served]);
    let detail = sandbox.done("detail a");
    let left = format!("`stripewise remove a {served}`");
    assert!(detail.contains(&told) && detail.contains(&left) && !detail.contains(&advice), "{detail}");
    drop(halted);
    assert!(writing.join().unwrap(), "it was only late");
    eventually("it answers", || !sandbox.done("status a").contains("has not answered"));
}

/// A signal ends the command at once. The stop comes to its end without it, as soon as the member answers.
#[test]
fn a_stop_that_waits_says_for_which_member_and_ends_at_a_signal() {
    let Some((sandbox, halted, served, writing)) = with_a_request_that_hangs() else { return };
    let (pid, said) = (sandbox.pid("a"), sandbox.path("said"));
    let mut stopping = sandbox.command();
    stopping.args(["stop", "a"]).stderr(std::fs::File::create(&said).unwrap()).stdout(Stdio::null());
    let mut stopping = stopping.spawn().unwrap();
    let said = || std::fs::read_to_string(&said).unwrap();
    eventually("it says what it waits for", || {
        said().contains(&format!("a: it waits: {served} has not answered "))
    });
    let began = Instant::now();
    kill_process(Pid::from_child(&stopping), Signal::INT).unwrap();
    let code = stopping.wait().unwrap().code();
    let took = began.elapsed();
    assert!(code == Some(1) && took < Duration::from_secs(1), "{code:?} {took:?}");
    let words = [&*format!("no longer waited for: {served} has not answered "), "it is stopped all the same"];
    assert!(words.iter().all(|word| said().contains(word)), "{}", said());
    assert!(!has_ended(pid), "it waits for the member");
    drop(halted);
    let _ = writing.join();
    eventually("it has stopped", || has_ended(pid));
}

/// Once a second signal wants the end, no wait for a request that hangs is sat out.
#[test]
fn a_second_signal_ends_a_daemon_although_a_request_hangs() {
    let Some((sandbox, halted, served, writing)) = with_a_request_that_hangs() else { return };
    let pid = sandbox.pid("a");
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it is asked", || sandbox.log("a").contains("asked to stop by a signal"));
    thread::sleep(Duration::from_secs(1));
    let began = Instant::now();
    kill_process(pid, Signal::TERM).unwrap();
    let unclean = format!("it has stopped, but is not clean: {served} has not answered ");
    while !sandbox.log("a").contains(&unclean) && began.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(100));
    }
    let (took, log) = (began.elapsed(), sandbox.log("a"));
    drop(halted);
    let _ = writing.join();
    assert!(took < Duration::from_secs(25), "{took:?}\n{log}");
    eventually("it has ended", || has_ended(pid));
}

/// A loop device opens although what lies below it hangs. Once that kept `status` waiting, of all arrays, and
/// nothing but a kill ended the daemon.
#[test]
fn an_array_that_is_being_opened_can_be_asked_and_stopped() {
    let Some((sandbox, server, served)) = on_a_served_file() else { return };
    sandbox.done("stop a");
    let below = Loop::new(&served);
    let members = [sandbox.path("m0"), sandbox.path("m1"), below.0.clone()];
    let halted = Halted::new(server);
    let mut assembling = sandbox.command();
    assembling.args(["assemble", "a", "--run"]).args(&members).stderr(Stdio::null()).stdout(Stdio::null());
    let mut assembling = assembling.spawn().unwrap();
    eventually("commands have an answer", || {
        sandbox.run("status a", &[""; 0]).err.contains("is being opened")
    });
    let (code, took) = timed(&sandbox, "stop a --force", &[]);
    let ended = assembling.wait();
    drop(halted);
    assert!(code == Some(0) && took < Duration::from_secs(30), "{code:?} {took:?}");
    assert!(!ended.unwrap().success());
    sandbox.ok("assemble a", &members);
    sandbox.done("stop a");
}

/// Has writes under way that do not end, and an attached device whose cache cannot be written out.
#[test]
fn stop_by_force_ends_in_bounded_time_where_writing_out_hangs() {
    let Some((sandbox, server, _)) = on_a_served_file() else { return };
    let device = sandbox.done("attach a --method fuse").trim().to_owned();
    let node = std::fs::canonicalize(&device).unwrap();
    let halted = Halted::new(server);
    // Into the cache alone. It needs every member to be marked as dirty, one of which does not answer. A
    // process of its own writes: a command that was started while this one has the file open would have it
    // too, and might hang at its last close.
    let mut writing = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M", "count=1", "conv=notrunc"])
        .arg(format!("of={}", node.display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let io = format!("/proc/{}/io", writing.id());
    eventually("it has written", || {
        let counts = std::fs::read_to_string(&io).unwrap_or_default();
        let written = counts.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok());
        written.is_some_and(|bytes: u64| bytes >= 1 << 20)
    });
    let (code, took) = timed(&sandbox, "stop a --force", &[]);
    let log = sandbox.log("a");
    drop(halted);
    let _ = writing.wait();
    // Whether its process is gone by then is the kernel's affair: it waits for what was asked of the member.
    assert!(code.is_some() && took < Duration::from_secs(100), "{code:?} {took:?}\n{log}");
    let told = log.lines().find(|line| line.contains("WARN") && line.contains(node.to_str().unwrap()));
    assert!(
        told.is_some_and(|line| line.contains("written out in time") || line.contains("writing out")),
        "{log}"
    );
}

/// An array with something dirty for a member that hangs.
fn dirty_beside_one_that_hangs() -> Option<(Sandbox, Halted)> {
    let (sandbox, server, _) = on_a_served_file()?;
    sandbox.done("cache a stripe --size 8M --idle off --age off --flush off");
    let client = Client::connect(&sandbox.serve("a"));
    // Some stripes are on the member that hangs. After the flush, superblocks say dirty: only data is left to be written.
    let write = || (0..40).for_each(|at| client.write(at * (128 << 10), &noise(at, 4 << 10)).unwrap());
    write();
    client.flush().unwrap();
    write();
    Some((sandbox, Halted::new(server)))
}

/// A stop by force loses what a member does not take, whether its command still waits or not.
#[test]
fn a_stop_by_force_comes_to_its_end_without_its_command() {
    let Some((sandbox, halted)) = dirty_beside_one_that_hangs() else { return };
    let mut stopping = sandbox.command();
    stopping.args(["stop", "a", "--force"]).stderr(Stdio::null()).stdout(Stdio::null());
    let mut stopping = stopping.spawn().unwrap();
    thread::sleep(Duration::from_secs(3));
    kill_process(Pid::from_child(&stopping), Signal::TERM).unwrap();
    stopping.wait().unwrap();
    let began = Instant::now();
    let is_told = || sandbox.log("a").contains("were in the cache only");
    while !is_told() && began.elapsed() < Duration::from_secs(100) {
        thread::sleep(Duration::from_millis(100));
    }
    let log = sandbox.log("a");
    drop(halted);
    assert!(
        log.contains("it has stopped, but is not clean")
            && log.contains("lost: 1")
            && log.contains("KiB of writes that were acknowledged, and were in the cache only"),
        "{log}"
    );
}

/// A cache is being emptied for good, its command is interrupted, and a setting is changed: neither comes in the way of the
/// other, and the cache does not come back.
#[test]
fn a_setting_of_a_cache_waits_for_its_replacement() {
    let Some((sandbox, halted)) = dirty_beside_one_that_hangs() else { return };
    let mut emptying = sandbox.command();
    emptying.args(["cache", "a", "none"]).stderr(Stdio::null()).stdout(Stdio::null());
    let mut emptying = emptying.spawn().unwrap();
    eventually("it is being emptied", || sandbox.json("cache a")["is_draining"] == true);
    let refused = || sandbox.run("cache a --age 7s", &[""; 0]).err.contains("for an earlier command");
    assert!(refused());
    emptying.kill().unwrap();
    emptying.wait().unwrap();
    assert!(refused(), "it still is");
    drop(halted);
    eventually("it is empty", || sandbox.run("cache a --age 7s", &[""; 0]).code == Some(0));
    let cache = &sandbox.status("a")["cache"];
    assert_eq!((&cache["kind"], &cache["age_ms"]), (&"none".into(), &7000.into()), "{cache}");
}

/// What hangs in several of a daemon's servers is waited for no longer than in one of them.
#[test]
fn the_waits_of_a_stop_do_not_add_up() {
    let Some((sandbox, server, _)) = on_a_served_file() else { return };
    let clients: Vec<_> = (0..5)
        .map(|index| {
            let socket = sandbox.path(&format!("{index}.nbd"));
            Client::connect(sandbox.ok("serve a --unix", &[socket]).trim())
        })
        .collect();
    let halted = Halted::new(server);
    let writes =
        clients.into_iter().map(|client| thread::spawn(move || client.write(0, &noise(1, 1 << 20)).is_ok()));
    let writes: Vec<_> = writes.collect();
    let (code, took) = timed(&sandbox, "stop a --force", &[]);
    drop(halted);
    writes.into_iter().for_each(|write| drop(write.join()));
    assert!(code.is_some() && took < Duration::from_secs(100), "{code:?} {took:?}");
}

#[test]
fn a_member_that_cannot_be_opened_is_left_out_where_the_array_may_lack_it() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox.done("stop a");
    let mut given = members.clone();
    if can_run(&[Need::Root]) {
        // A device whose driver is not there: ENXIO.
        given[1] = sandbox.path("gone");
        let (block, mode) =
            (rustix::fs::FileType::BlockDevice, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &given[1], block, mode, rustix::fs::makedev(511, 77)).unwrap();
    } else {
        given[1] = sandbox.path("absent");
    }
    sandbox.fails(1, "assemble a", &given, &[&given[1], "--run"]);
    let said = sandbox.run("assemble a --run", &given);
    assert!(said.code == Some(0) && said.err.contains("the member of role 1 is absent"), "{said:?}");
    assert!(sandbox.status("a")["left_out"][0].as_str().unwrap().contains(&*given[1]));
    assert_eq!(sandbox.status("a")["state"], "clean, degraded");
    sandbox.done("stop a");
    // One that somebody has is not passed over: it may be written to there.
    let file = std::fs::File::open(&members[2]).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    sandbox.fails(1, "assemble a --run", &members, &[&members[2], "in use"]);
}

#[test]
fn an_absent_member_is_told_by_its_role_and_by_who_has_the_others() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox.done("stop a");
    let given = [&members[2], &members[0]];
    let words =
        ["a member is absent, of role 1", &format!("0 on {}", members[0]), &format!("2 on {}", members[2])];
    sandbox.fails(1, "assemble a", &given, &words);
}
