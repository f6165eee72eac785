//! A signal that ends fsck.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    common::{Halted, Loop, Sandbox, eventually, on_a_served_file},
    world::can_mount,
};

/// An fsck that waits for storage which stands still.
fn waits(sandbox: &Sandbox, target: &str) -> Child {
    let mut command = sandbox.command();
    let command = command.args(["fsck", "-y", target]).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it hears signals", || {
        let status = fs::read_to_string(format!("/proc/{}/status", command.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::TERM.as_raw() - 1) != 0
    });
    command
}

#[test]
fn a_check_that_is_canceled_ends_with_the_code_of_fsck_for_that() {
    if !can_mount(&[]) {
        return;
    }
    let Some((sandbox, server, served)) = on_a_served_file() else { return };
    sandbox.done("mkfs a");
    let halted = Halted::new(server);
    // The array's daemon waits for a member, and the command for the daemon.
    let command = waits(&sandbox, "a");
    kill_process(Pid::from_child(&command), Signal::INT).unwrap();
    let said = command.wait_with_output().unwrap();
    let told = String::from_utf8(said.stderr).unwrap();
    assert!(said.status.code() == Some(32) && told.contains("the fsck goes on"), "{:?}: {told}", said.status);
    drop(halted);
    sandbox.done("stop a --force");

    // Here the command itself does, and ends once the kernel lets it.
    let device = Loop::new(&served);
    let target = &device.0;
    sandbox.done(&format!("mkfs --force {target}"));
    let halted = Halted::new(server);
    let mut command = waits(&sandbox, target);
    kill_process(Pid::from_child(&command), Signal::TERM).unwrap();
    let mut told = String::new();
    BufReader::new(command.stderr.take().unwrap()).read_line(&mut told).unwrap();
    drop(halted);
    let code = command.wait().unwrap().code();
    assert!(code == Some(32) && told.contains("nothing was changed"), "{code:?}: {told}");
    assert_eq!(sandbox.json(&format!("fsck {target}"))["clean"], true);
}
