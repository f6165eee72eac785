//! `mount --foreground` of an array, whose daemon serves the mount.

use std::{
    fs::{self, File},
    process::{Child, Stdio},
    thread::sleep,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::{
    common::{MIB, eventually, noise},
    world::{World, can_mount},
};

/// The command, once it has mounted.
fn stays(world: &World) -> Child {
    let (sandbox, point) = (&world.sandbox, world.point());
    let mut command = sandbox.command();
    command.args(["mount", "a", &point, "--foreground", "--tt", "10m"]).stderr(Stdio::piped());
    let command = command.spawn().unwrap();
    eventually("it is mounted", || !sandbox.status("a")["mounted"].is_null());
    command
}

fn signal(command: &Child, signal: Signal) {
    kill_process(Pid::from_child(command), signal).unwrap();
}

/// Its exit code, and what it has said.
fn end(command: Child) -> (Option<i32>, String) {
    let said = command.wait_with_output().unwrap();
    (said.status.code(), String::from_utf8(said.stderr).unwrap())
}

#[test]
fn a_command_in_the_foreground_stays_with_the_arrays_mount_and_a_signal_ends_both() {
    if !can_mount(&[]) {
        return;
    }
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let members = sandbox.members(3, 64 * MIB);
    sandbox.ok("create a --level 5 --chunk 64K --assume-clean", &members);
    sandbox.done("mkfs a");
    sandbox.fails(
        1,
        &format!("mount a {point} --foreground --threads 2"),
        &[""; 0],
        &["leave out --threads"],
    );
    let is_mounted = || !sandbox.status("a")["mounted"].is_null();

    let content = noise(5, 3 << 20);
    for asked in [Signal::TERM, Signal::INT] {
        let mut command = stays(&world);
        fs::write(world.inside("file"), &content).unwrap();
        assert!(command.try_wait().unwrap().is_none(), "it stays");
        signal(&command, asked);
        // A process that another test is just starting may hold a file there for a moment: then it is tried again, and told.
        let (code, said) = end(command);
        assert_eq!(code, Some(0), "{said}");
        assert!(!is_mounted(), "it ends when all is written out");
    }
    let mut command = stays(&world);
    assert!(fs::read(world.inside("file")).unwrap() == content);
    assert!(command.try_wait().unwrap().is_none());
    world.umount();
    assert_eq!(end(command), (Some(0), String::new()));

    // In use: the first signal waits for that, the second one detaches, and after the third one nothing is waited for.
    let command = stays(&world);
    let held = File::create(world.inside("held")).unwrap();
    signal(&command, Signal::TERM);
    sleep(Duration::from_millis(300));
    assert!(world.inside("held").exists() && is_mounted());
    drop(held);
    assert_eq!(end(command).0, Some(0), "it was tried again");
    let mut command = stays(&world);
    let held = File::create(world.inside("held")).unwrap();
    signal(&command, Signal::TERM);
    sleep(Duration::from_millis(1500));
    assert!(world.inside("held").exists() && command.try_wait().unwrap().is_none());
    signal(&command, Signal::TERM);
    eventually("it is detached", || !world.inside("held").exists());
    assert!(is_mounted(), "it is still served");
    signal(&command, Signal::TERM);
    let (code, said) = end(command);
    assert!(
        code == Some(1) && said.contains("another signal detaches it") && said.contains("goes on"),
        "{said}"
    );
    drop(held);
    eventually("it is let go of", || !is_mounted());

    let command = stays(&world);
    sandbox.done("stop a --force");
    assert_eq!(end(command), (Some(0), String::new()));
}
