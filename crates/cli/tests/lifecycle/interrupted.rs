//! Signals to commands that wait, and to daemons that a command stops.

use std::{
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use stripewise_wire::{Connection, socket_in};

use crate::common::{
    Client, Halted, MIB, Sandbox, can_serve_files, eventually, has_ended, noise, on_a_served_file,
    served_file,
};

/// A command under way. What it says is in a file, so that it can be read meanwhile.
struct Running<'a> {
    sandbox: &'a Sandbox,
    child: Child,
}

impl<'a> Running<'a> {
    fn begin(sandbox: &'a Sandbox, words: &[&str]) -> Self {
        let said = std::fs::File::create(sandbox.path("said")).unwrap();
        let mut command = sandbox.command();
        command.args(words).stdout(said.try_clone().unwrap()).stderr(said).stdin(Stdio::null());
        Self { sandbox, child: command.spawn().unwrap() }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.sandbox.path("said")).unwrap()
    }

    fn eventually_says(&self, words: &str) {
        eventually(words, || self.said().contains(words));
    }

    /// Sends SIGINT, which must end it at once with code 1 and these words.
    fn interrupt(mut self, words: &[&str]) {
        let began = Instant::now();
        assert!(self.child.try_wait().unwrap().is_none(), "it has ended before: {}", self.said());
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let ended = loop {
            match self.child.try_wait().unwrap() {
                Some(ended) => break Some(ended),
                None if began.elapsed() > Duration::from_secs(10) => break None,
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let (took, said) = (began.elapsed(), self.said());
        assert_eq!(ended.and_then(|ended| ended.code()), Some(1), "{ended:?} after {took:?}: {said}");
        assert!(took < Duration::from_secs(2), "{took:?}: {said}");
        words.iter().for_each(|word| assert!(said.contains(word), "no '{word}': {said}"));
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mirror of two small files.
fn mirror(sandbox: &Sandbox, name: &str) {
    let members: Vec<_> = (0..2).map(|index| sandbox.member(&format!("{name}{index}"), 16 * MIB)).collect();
    sandbox.ok(&format!("create {name} --level 1 --assume-clean"), &members);
}

/// What the first wait had done at a signal was done in the second one too, to a socket that was closed: SIGPIPE ended the command
/// without a word.
#[test]
fn a_signal_in_the_second_of_two_waits_is_told_as_in_the_first() {
    let sandbox = Sandbox::new();
    ["a", "b"].iter().for_each(|name| mirror(&sandbox, name));
    let halted = Halted::new(sandbox.pid("b"));
    let stopping = Running::begin(&sandbox, &["stop", "--all"]);
    stopping.eventually_says("a: stopped");
    thread::sleep(Duration::from_secs(2));
    stopping.interrupt(&["b: no longer waited for", "it is stopped all the same"]);
    drop(halted);
}

/// Connections to a daemon that it has not accepted, and the socket on which it listens.
fn connections(sandbox: &Sandbox, name: &str) -> usize {
    let socket = socket_in(&sandbox.run_dir(), name);
    let all = std::fs::read_to_string("/proc/net/unix").unwrap();
    all.lines().filter(|line| line.ends_with(socket.to_str().unwrap())).count()
}

/// A daemon that stands still accepts nothing. Each look at what it waits for took a place in its queue, and the one for which
/// there was no room could not be interrupted.
#[test]
fn a_wait_for_a_daemon_that_stands_still_fills_no_queue_and_ends_at_a_signal() {
    let sandbox = Sandbox::new();
    mirror(&sandbox, "a");
    let halted = Halted::new(sandbox.pid("a"));
    let stopping = Running::begin(&sandbox, &["stop", "a"]);
    // Two while it begins, and the first look.
    eventually("it looks", || connections(&sandbox, "a") >= 4);
    let before = connections(&sandbox, "a");
    thread::sleep(Duration::from_secs(4));
    assert_eq!(connections(&sandbox, "a"), before, "{}", stopping.said());
    stopping.interrupt(&["a: no longer waited for", "it is stopped all the same"]);

    let before = connections(&sandbox, "a");
    let stopping = Running::begin(&sandbox, &["stop", "a"]);
    eventually("it has asked", || connections(&sandbox, "a") >= before + 2);
    let socket = socket_in(&sandbox.run_dir(), "a");
    while Connection::open_within(&socket, Duration::from_millis(10)).is_ok() {}
    thread::sleep(Duration::from_secs(3));
    stopping.interrupt(&["a: no longer waited for", "it is stopped all the same"]);
    drop(halted);
}

/// An array whose superblocks say dirty, beside a member that hangs: it cannot be told that it is clean.
fn dirty_on_one_that_hangs() -> Option<(Sandbox, Halted)> {
    let (sandbox, server, _) = on_a_served_file()?;
    sandbox.done("cache a none");
    let client = Client::connect(&sandbox.serve("a"));
    client.write(0, &noise(1, 1 << 20)).unwrap();
    client.flush().unwrap();
    Some((sandbox, Halted::new(server)))
}

/// Only the command knew it, and forgot it at a signal while it waited for the daemon's end.
#[test]
fn what_is_not_clean_is_told_before_the_end_of_the_daemon_is_waited_for() {
    let Some((sandbox, halted)) = dirty_on_one_that_hangs() else { return };
    let stopping = Running::begin(&sandbox, &["stop", "a", "--force"]);
    stopping.eventually_says("a: it has stopped, but is not clean: ");
    stopping.interrupt(&["a: no longer waited for", "it has stopped, and its daemon ends once"]);
    drop(halted);
}

/// A second signal hurried a stop only if the first one had begun it.
#[test]
fn a_second_signal_hurries_a_stop_that_a_command_began() {
    let Some((sandbox, halted)) = dirty_on_one_that_hangs() else { return };
    let pid = sandbox.pid("a");
    let mut stopping = Running::begin(&sandbox, &["stop", "a"]);
    eventually("it is asked", || sandbox.log("a").contains("an operator asks"));
    thread::sleep(Duration::from_secs(2));
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it is asked", || sandbox.log("a").contains("asked to stop by a signal"));
    thread::sleep(Duration::from_secs(1));
    let began = Instant::now();
    kill_process(pid, Signal::TERM).unwrap();
    let has_stopped = || sandbox.log("a").contains("it has stopped, but is not clean: ");
    while !has_stopped() && began.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(100));
    }
    let took = began.elapsed();
    drop(halted);
    assert!(took < Duration::from_secs(25), "{took:?}\n{}", sandbox.log("a"));
    let ended = stopping.child.wait().unwrap();
    assert!(ended.code() == Some(1) && stopping.said().contains("is not clean"), "{}", stopping.said());
    eventually("it has ended", || has_ended(pid));
}

/// The last requests of a stop that no command waits for any more took longer than one look at it, which was an error in the
/// log: a member hangs.
#[test]
fn a_stop_without_its_command_may_take_longer_than_a_look() {
    const STRIPE_BYTES: u64 = 3 * (64 << 10);
    if !can_serve_files() {
        return;
    }
    let sandbox = Sandbox::new();
    let [(cached, with_cached), (last, with_last)] =
        ["below", "beneath"].map(|name| served_file(&sandbox, name));
    // What is cached is the first one's. Parity is on the last, so that the third has part in the end alone.
    let members = [with_cached, sandbox.member("m1", 48 * MIB), with_last, sandbox.member("m3", 48 * MIB)];
    sandbox.ok("create a --level 4 --chunk 64K --policy prefer-rmw --assume-clean", &members);
    sandbox.done("cache a stripe --size 8M --idle off --age off --flush off");
    let client = Client::connect(&sandbox.serve("a"));
    let write = || (0..40).for_each(|at| client.write(at * STRIPE_BYTES, &noise(at, 4 << 10)).unwrap());
    write();
    client.flush().unwrap();
    write();
    let pid = sandbox.pid("a");
    let (cached, last) = (Halted::new(cached), Halted::new(last));
    let stopping = Running::begin(&sandbox, &["stop", "a"]);
    eventually("it is asked", || sandbox.log("a").contains("an operator asks"));
    thread::sleep(Duration::from_secs(2));
    stopping.interrupt(&["a: no longer waited for", "it is stopped all the same"]);
    // From now on it is looked after.
    thread::sleep(Duration::from_secs(3));
    drop(cached);
    thread::sleep(Duration::from_secs(4));
    assert!(!has_ended(pid), "a member does not answer");
    drop(last);
    eventually("it has ended", || has_ended(pid));
    let log = sandbox.log("a");
    assert!(!log.contains("ERROR"), "{log}");
}
