//! The programs in `examples/`, run as a reader would run them.

#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use stripewise::{Host, HostOptions, IoBuf, WriteFlags, export::nbd::NbdClient};
use stripewise_device::Device;

fn example(name: &str) -> Command {
    let mut run = Command::new(env!("CARGO"));
    run.args(["run", "--quiet", "--package", "stripewise", "--example", name, "--"]);
    run
}

fn told(name: &str, folder: &Path) -> Vec<String> {
    let output = example(name).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_store_keeps_what_threads_append() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(told("store", folder.path()), ["0 records", "4 records"]);
    assert_eq!(told("store", folder.path()), ["4 records", "8 records"]);
}

#[test]
fn the_file_system_keeps_what_is_appended_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk");
    assert_eq!(told("rafs", &file), ["a line"]);
    assert_eq!(told("rafs", &file), ["a line", "a line"]);
}

#[test]
fn the_watcher_sees_a_member_fail_and_a_spare_take_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let told = told("watch", folder.path());
    let at = |event: &str| told.iter().position(|line| line.starts_with(event)).expect(event);
    let order =
        ["MemberFailed", "SpareAdded", "JobStarted(Rebuild)", "MemberActive", "JobEnded { kind: Rebuild"];
    assert!(order.map(at).is_sorted(), "{told:?}");
    assert!(told.last().unwrap().contains("kind: Check, outcome: Done, mismatched_rows: 0"), "{told:?}");
}

#[test]
fn the_server_serves_an_array() {
    let folder = tempfile::tempdir().unwrap();
    told("store", folder.path());
    let socket = folder.path().join("socket");
    let members = (0..3).map(|number| folder.path().join(format!("member{number}")));
    let mut serving = example("serve")
        .arg(&socket)
        .args(members)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("serving "), "{first}");
    let host = Host::start(&HostOptions::default()).unwrap();
    let (env, address) = (host.env(), format!("nbd+unix:///array?socket={}", socket.display()));
    let read = host.block_on(async move {
        let client = NbdClient::connect(&env, &address.parse().unwrap()).await.unwrap();
        let block = IoBuf::copy_of(&[9; 4096]).freeze();
        client.write(1 << 20, [block].into_iter().collect(), WriteFlags { fua: true }).await.unwrap();
        client.read(1 << 20, [IoBuf::with_len(4096)].into_iter().collect()).await.into_one().unwrap()
    });
    assert!(read.iter().all(|byte| *byte == 9));
    drop(serving.stdin.take());
    assert!(serving.wait().unwrap().success());
    assert_eq!(told("store", folder.path())[0], "4 records");
}
