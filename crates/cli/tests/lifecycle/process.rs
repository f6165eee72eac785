//! The daemon as a process, and what the binary prints about itself.

use std::{os::unix::fs::PermissionsExt, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal};

use crate::common::{Client, MIB, Need, Sandbox, eventually, has_ended, noise, run_bounded};

fn array() -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    (sandbox, members)
}

#[test]
fn sigterm_and_sigint_leave_the_array_clean() {
    for signal in [Signal::TERM, Signal::INT] {
        let (sandbox, members) = array();
        let data = noise(2, 2 << 20);
        Client::connect(&sandbox.serve("a")).write(4096, &data).unwrap();
        assert_eq!(sandbox.status("a")["dirty"], true);
        sandbox.signal(sandbox.pid("a"), signal);
        for member in &members {
            assert_eq!(sandbox.json(&format!("examine {member}"))[0]["clean"], true, "{signal:?}");
        }
        assert!(!sandbox.run_dir().join("a.sock").exists() && !sandbox.folder().join("a.nbd").exists());
        sandbox.ok("assemble a", &members);
        assert!(sandbox.status("a")["job"].is_null(), "a clean array is not resynced");
        assert!(Client::connect(&sandbox.serve("a")).read(4096, data.len()).unwrap() == data);
    }
}

#[test]
fn a_signal_while_the_array_is_opened_is_heeded() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    std::fs::create_dir(sandbox.run_dir()).unwrap();
    std::fs::set_permissions(sandbox.run_dir(), PermissionsExt::from_mode(0o700)).unwrap();
    // The daemon waits for its name for some seconds.
    let lock = std::fs::File::create(sandbox.run_dir().join("a.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut create = sandbox.command();
    create.args(["create", "a", "--level", "5", "--assume-clean"]).args(&members).stdout(Stdio::null());
    let mut create = create.spawn().unwrap();
    eventually("the daemon has its handler", || sandbox.opening_daemon().is_some_and(catches_sigterm));
    let daemon = sandbox.opening_daemon().unwrap();
    rustix::process::kill_process(daemon, Signal::TERM).unwrap();
    drop(lock);
    assert!(create.wait().unwrap().success());
    eventually("it has ended", || has_ended(daemon));
    assert_eq!(sandbox.json(&format!("examine {}", members[0]))[0]["clean"], true);
}

/// Whether a process has a handler for SIGTERM.
fn catches_sigterm(pid: Pid) -> bool {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).unwrap() >> (Signal::TERM.as_raw() - 1) & 1 == 1
}

#[test]
fn a_relative_run_directory_means_the_same_to_the_daemon() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    let mut create = sandbox.command();
    create.args(["create", "a", "--level", "5", "--assume-clean"]).args(&members);
    // Commands of a sandbox run in its folder.
    let said = run_bounded(create.env("STRIPEWISE_RUN_DIR", "run"), Duration::from_secs(60));
    assert_eq!(said.code, Some(0), "{said:?}");
    sandbox.done("detail a --test");
}

#[test]
fn sighup_is_no_reason_to_stop() {
    let (sandbox, _) = array();
    rustix::process::kill_process(sandbox.pid("a"), Signal::HUP).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    sandbox.done("detail a --test");
}

#[test]
fn what_is_in_the_run_directory_is_its_owners() {
    let (sandbox, _) = array();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(sandbox.run_dir()), 0o700);
    assert_eq!(mode(sandbox.run_dir().join("a.sock")), 0o600);
    assert_eq!(mode(sandbox.run_dir().join("a.lock")), 0o600);
    sandbox.done("stop a");
    assert!(!sandbox.run_dir().join("a.sock").exists());
    assert_eq!(sandbox.json("status"), serde_json::json!([]));
}

#[test]
fn a_daemon_keeps_nothing_of_its_caller() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    let held = sandbox.path("held");
    // The shell's descriptor 9 is not closed on exec: as with flock(1), whoever has it holds the lock.
    let script = format!("exec 9>{held}; exec \"$@\"");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(sandbox.command().get_program());
    command.args(["create", "a", "--level", "5", "--assume-clean"]).args(&members);
    let run_dir = sandbox.run_dir();
    let said = run_bounded(command.env("STRIPEWISE_RUN_DIR", run_dir), Duration::from_secs(60));
    assert_eq!(said.code, Some(0), "{said:?}");
    let folder = format!("/proc/{}/fd", sandbox.pid("a").as_raw_nonzero());
    let open: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter_map(|entry| Some((entry.file_name(), std::fs::read_link(entry.path()).ok()?)))
        .collect();
    assert!(open.iter().all(|(_, to)| *to != *held), "{open:?}");
    let standard = |number: &str| open.iter().find(|(name, _)| name == number).unwrap().1.to_str().unwrap();
    assert_eq!((standard("0"), standard("1")), ("/dev/null", "/dev/null"));
    assert!(standard("2").ends_with("run/a.log"), "{open:?}");
}

#[test]
fn nobody_reads_what_is_printed() {
    let (sandbox, _) = array();
    let mut child = sandbox.command();
    let mut child =
        child.arg("detail").arg("a").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "no panic");
}

#[test]
fn stops_at_the_same_time_wait_for_the_first() {
    for round in 0..4 {
        let (sandbox, members) = array();
        let client = Client::connect(&sandbox.serve("a"));
        client.write(0, &noise(round, 16 << 20)).unwrap();
        sandbox.done("scrub a start");
        std::thread::scope(|scope| {
            // Writes until it is no longer served.
            scope.spawn(|| while client.write(4096, &[3; 1 << 16]).is_ok() {});
            let stops: Vec<_> = (0..4).map(|_| scope.spawn(|| sandbox.run("stop a", &[""; 0]))).collect();
            let said: Vec<_> = stops.into_iter().map(|stop| stop.join().unwrap()).collect();
            assert!(said.iter().any(|said| said.code == Some(0)), "{said:?}");
            // One that came late may find nothing to stop.
            assert!(
                said.iter().all(|said| said.code == Some(0) || said.err.contains("no such array")),
                "{said:?}"
            );
        });
        for member in &members {
            assert_eq!(sandbox.json(&format!("examine {member}"))[0]["clean"], true, "round {round}");
        }
    }
}

#[test]
fn the_log_names_what_operators_asked_for() {
    let (sandbox, members) = array();
    sandbox.ok("fail a", &members[..1]);
    sandbox.fails(1, "remove a", &members[1..2], &["active"]);
    sandbox.done("stop a");
    let log = sandbox.log("a");
    let at = |words: [&str; 2]| log.lines().position(|line| words.iter().all(|word| line.contains(word)));
    let fail = at(["an operator asks", &format!("Fail {{ member: \"{}\" }}", members[0])]);
    let refused = at(["refused", "active; fail it first"]);
    let stop = at(["an operator asks", "Stop"]);
    assert!(fail.is_some() && fail < refused && refused < stop, "{log}");
}

#[test]
fn one_that_cannot_be_stopped_does_not_keep_the_others() {
    let (sandbox, _) = array();
    let more: Vec<_> = ["x", "y"].iter().map(|name| sandbox.member(name, 24 * MIB)).collect();
    sandbox.ok("create b --level 1 --assume-clean", &more);
    // A name that only looks like an array's.
    std::fs::write(sandbox.run_dir().join("0.sock"), "").unwrap();
    sandbox.run("stop --all", &[""; 0]);
    assert!(!sandbox.run_dir().join("a.sock").exists() && !sandbox.run_dir().join("b.sock").exists());
}

#[test]
fn a_killed_daemon_is_named_and_its_array_assembled_again() {
    let (sandbox, members) = array();
    sandbox.signal(sandbox.pid("a"), Signal::KILL);
    let words = ["a: its daemon has died", "assemble", "degraded", "--force"];
    sandbox.fails(1, "detail a", &[""; 0], &words);
    sandbox.fails(4, "detail a --test", &[""; 0], &["daemon has died"]);
    sandbox.fails(1, "status", &[""; 0], &["daemon has died"]);
    sandbox.fails(1, "status --json", &[""; 0], &["daemon has died"]);
    let listed = sandbox.run("status --json", &[""; 0]).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["state"]), (&"a".into(), &"dead".into()), "{listed}");
    assert!(listed[0]["warnings"][0].as_str().unwrap().contains("daemon has died"), "{listed}");
    assert_eq!(sandbox.run("status", &[""; 0]).out, "");
    sandbox.ok("assemble a", &members);
    sandbox.done("detail a --test");
    sandbox.signal(sandbox.pid("a"), Signal::KILL);
    sandbox.done("stop a");
    sandbox.fails(1, "detail a", &[""; 0], &["no such array"]);
}

#[test]
fn arrays_run_beside_each_other_and_stop_together() {
    let (sandbox, _) = array();
    let more: Vec<_> = ["x", "y"].iter().map(|name| sandbox.member(name, 24 * MIB)).collect();
    sandbox.ok("create b --level 1 --assume-clean", &more);
    assert_eq!(sandbox.json("status").as_array().unwrap().len(), 2);
    sandbox.done("stop --all");
    assert_eq!(sandbox.json("status"), serde_json::json!([]));
}

#[test]
fn completions_and_man_pages_are_made() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.done(&format!("completions {shell}"));
        assert!(script.contains("stripewise") && script.contains("assemble"), "{shell}");
    }
    sandbox.ok("man", &[sandbox.path("man")]);
    let page = std::fs::read_to_string(sandbox.folder().join("man/stripewise-create.1")).unwrap();
    assert!(page.contains("assume\\-clean"), "{page}");
    assert!(page.contains("<DEVICES>..."), "more than one is given: {page}");
    let main = std::fs::read_to_string(sandbox.folder().join("man/stripewise.1")).unwrap();
    for word in
        ["EXAMPLES", "\"EXIT STATUS\"", "FILES", "ENVIRONMENT", "STRIPEWISE_RUN_DIR", "STRIPEWISE_LOG"]
    {
        assert!(main.contains(word), "no {word} in\n{main}");
    }
    assert!(
        !sandbox.folder().join("man/stripewise-daemon.1").exists(),
        "an inner command is no user's business"
    );
}

#[test]
fn a_daemon_is_known_by_its_array_in_lists_of_processes() {
    let (sandbox, _) = array();
    let line = std::fs::read(format!("/proc/{}/cmdline", sandbox.pid("a").as_raw_nonzero())).unwrap();
    assert!(line.ends_with(b"\0daemon\0a\0"), "{}", String::from_utf8_lossy(&line));
}

#[test]
fn a_creation_tells_how_mdadm_is_kept_from_the_members() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    let said = sandbox.run("create a --level 5 --assume-clean", &members);
    if !crate::common::can_run(&[Need::Tool("mdadm")]) {
        return;
    }
    let brief = crate::common::tool("mdadm", &["--examine", "--brief", &members[0]]);
    let uuid = brief.split_whitespace().find(|word| word.starts_with("UUID=")).unwrap();
    assert!(said.err.contains(&format!("ARRAY <ignore> {uuid}")), "{said:?}\n{brief}");
}
