//! The demo, ended before its end: nothing of it is left, whatever ended it.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::common::{Sandbox, eventually};

/// A demo in a process group of its own, as a terminal would start it, that has come to where it says `word`.
fn demo_at(sandbox: &Sandbox, word: &str) -> (Child, Pid) {
    let mut command = sandbox.command();
    command.args(["demo", "--data", "60M", "--folder"]).arg(sandbox.folder()).process_group(0);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let story = BufReader::new(child.stdout.take().unwrap());
    assert!(story.lines().map_while(Result::ok).any(|line| line.contains(word)), "it never came to '{word}'");
    let pid = Pid::from_child(&child);
    (child, pid)
}

fn assert_nothing_is_left(sandbox: &Sandbox) {
    let folder = sandbox.folder();
    eventually("its folder has gone", || std::fs::read_dir(folder).unwrap().next().is_none());
    let holds =
        |file: &str| std::fs::read_to_string(file).is_ok_and(|text| text.contains(folder.to_str().unwrap()));
    assert!(!holds("/proc/mounts"), "something is mounted there");
    let loops = std::fs::read_dir("/sys/block").unwrap().flatten();
    let bound = loops.map(|entry| entry.path().join("loop/backing_file"));
    assert!(!bound.into_iter().any(|file| holds(file.to_str().unwrap())), "a loop device is left");
}

#[test]
fn signals_end_it_at_any_moment() {
    let moments =
        ["a level 5 array", "copying", "dies in the middle", "the copy has ended", "takes its place"];
    let signals = [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
    for (moment, signal) in moments.into_iter().zip(signals) {
        let sandbox = Sandbox::new();
        let (mut child, pid) = demo_at(&sandbox, moment);
        // As the terminal does it: to everybody in the group.
        kill_process_group(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{moment}");
        assert_nothing_is_left(&sandbox);
    }
}

#[test]
fn nothing_is_left_of_a_killed_one() {
    for moment in ["copying", "dies in the middle", "the copy has ended", "takes its place"] {
        let sandbox = Sandbox::new();
        let (mut child, pid) = demo_at(&sandbox, moment);
        kill_process(pid, Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_nothing_is_left(&sandbox);
    }
}

#[test]
fn its_worker_clears_away_nothing_but_a_demo() {
    let sandbox = Sandbox::new();
    for name in ["precious", "stripewise-demo-precious"] {
        let folder = sandbox.folder().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("file"), b"data").unwrap();
        sandbox.fails(1, "demo-worker", &[folder.to_str().unwrap()], &["not the folder of a demo", name]);
        assert!(folder.join("file").exists());
    }
}
