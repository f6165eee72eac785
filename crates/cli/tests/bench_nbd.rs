//! `bench nbd` on tiny exports: what it prints, not how fast anything is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    io::Read,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use common::{Need, Sandbox, can_run, eventually, run_bounded};
use serde_json::Value;

const TINY: &str = "--size 16M --seconds 0.02 --turns 1";
const LIMIT: Duration = Duration::from_secs(120);

fn names(figure: &Value) -> Vec<&str> {
    figure["servers"].as_array().unwrap().iter().map(|server| server["server"].as_str().unwrap()).collect()
}

fn assert_measured(figure: &Value) {
    for server in figure["servers"].as_array().unwrap() {
        assert!(server["requests_per_s"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(server["client_cpu_ns_per_request"].as_f64().unwrap() > 0.0, "{figure}");
    }
}

#[test]
fn every_case_is_measured_on_every_server_with_every_count_of_connections() {
    if !can_run(&[Need::Tool("nbdkit"), Need::Tool("qemu-nbd")]) {
        return;
    }
    let figures = Sandbox::new().json(&format!("bench nbd {TINY} --connections 1,2"));
    let figures = figures.as_array().unwrap();
    let cases = ["random-read", "random-write", "sequential-read", "sequential-write"];
    let expected: Vec<_> =
        cases.iter().flat_map(|case| [1, 2].map(|connections| (*case, connections))).collect();
    let of = |figure: &Value| {
        (figure["case"].as_str().unwrap().to_owned(), figure["connections"].as_u64().unwrap())
    };
    let measured: Vec<_> = figures.iter().map(of).collect();
    assert!(measured.iter().map(|(case, n)| (&**case, *n)).eq(expected), "{measured:?}");
    for figure in figures {
        assert_eq!(names(figure), ["stripewise", "nbdkit", "qemu-nbd"]);
        assert_measured(figure);
        let rate = |index: usize| figure["servers"][index]["requests_per_s"].as_f64().unwrap();
        let ratio = rate(0) / rate(1).max(rate(2));
        assert!((figure["ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9, "one turn: {figure}");
    }
}

/// Also: nothing is left in the folder for temporary files.
#[test]
fn peers_that_are_not_installed_are_left_out_with_a_word() {
    let sandbox = Sandbox::new();
    let temporary = sandbox.folder().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let run = |line: &str| {
        let mut command = sandbox.command();
        command.args(line.split_whitespace()).env("PATH", "").env("TMPDIR", &temporary);
        run_bounded(&mut command, LIMIT)
    };
    let said = run(&format!("bench nbd {TINY} --connections 2 --case random-write"));
    assert_eq!(said.code, Some(0), "{said:?}");
    for words in ["nbdkit is left out: not found", "qemu-nbd is left out: not found", "install-test-tools"] {
        assert!(said.err.contains(words), "{said:?}");
    }
    assert!(said.out.starts_with("random-write") && said.out.contains("stripewise"), "{said:?}");
    assert!(!said.out.contains("ratio"), "there is nothing to compare with: {said:?}");
    let said = run(&format!("bench nbd {TINY} --server nbdkit"));
    assert_eq!((said.code, said.err.contains("none of the servers")), (Some(1), true), "{said:?}");
    assert!(is_empty(&temporary));
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// The measured server. It ends with its standard input.
struct Server(Child);

impl Server {
    fn start(sandbox: &Sandbox, socket: &str) -> Self {
        let mut command = sandbox.command();
        command.args(["bench", "nbd-server", socket, "16777216", "2"]).stdin(Stdio::piped());
        let server = Self(command.spawn().unwrap());
        eventually("it listens", || UnixStream::connect(socket).is_ok());
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_that_leaves_at_once_does_not_end_the_server_but_its_caller_does() {
    let sandbox = Sandbox::new();
    let socket = sandbox.path("nbd");
    let mut server = Server::start(&sandbox, &socket);
    for _ in 0..50 {
        drop(UnixStream::connect(&socket).unwrap());
    }
    let mut greeting = [0; 18];
    UnixStream::connect(&socket).unwrap().read_exact(&mut greeting).unwrap();
    assert!(greeting.starts_with(b"NBDMAGICIHAVEOPT"));
    drop(server.0.stdin.take());
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let sandbox = Sandbox::new();
    let refused = |options: &str, words: &[&str]| {
        drop(sandbox.fails(1, &format!("bench nbd {options}"), &[""; 0], words))
    };
    for (option, words) in [
        ("--connections 0", "give a whole number from 1 to 1000"),
        ("--turns 0", "give a whole number from 1 to 1000"),
        ("--seconds=-1", "not a time"),
        ("--seconds 1e30", "not a time"),
    ] {
        drop(sandbox.fails(2, &format!("bench nbd {option}"), &[""; 0], &[words]));
    }
    refused("--size 16500K", &["--size", "not a multiple of 1 MiB"]);
    refused("--size 1M --connections 1,4", &["--size 1 MiB", "4 MiB"]);
}
