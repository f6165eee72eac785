//! Nonsense on the control socket, and clients that die in the middle of a word.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use crate::common::{Client, MIB, Sandbox, cpu_ticks, noise};

fn array() -> Sandbox {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox
}

fn control(sandbox: &Sandbox) -> UnixStream {
    let stream = UnixStream::connect(sandbox.run_dir().join("a.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

#[test]
fn garbage_on_the_control_socket() {
    let sandbox = array();
    let noise = noise(1, 100_000);
    let deep = "[".repeat(60_000) + "\n";
    let garbage: [&[u8]; 7] = [
        b"\n",
        b"{}\n",
        b"{\"command\":\"explode\"}\n",
        b"{\"command\":\"add\",\"device\":3,\"force\":\"x\"}\n",
        b"\xff\xfe\x00\n",
        deep.as_bytes(),
        &noise,
    ];
    for bytes in garbage {
        let mut stream = control(&sandbox);
        // The daemon may have had enough before all is sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.is_empty() || answer.starts_with(b"{\"error\":"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    sandbox.done("detail a --test");
}

#[test]
fn clients_that_connect_and_say_nothing() {
    let sandbox = array();
    let silent: Vec<_> = (0..8).map(|_| control(&sandbox)).collect();
    let mut half = control(&sandbox);
    half.write_all(b"{\"command\":\"st").unwrap();
    sandbox.done("detail a --test");
    drop((silent, half));
    // More than it serves at once are told so; it serves again when they are gone. The first of them may be turned away in
    // favour of the ones above, whose end it has not seen yet: others take the places that these leave.
    let mut many = Vec::new();
    crate::common::eventually("it is full, and says so", || {
        many.extend((0..40).map(|_| control(&sandbox)));
        let said = sandbox.run("detail a", &[""; 0]);
        said.code == Some(1) && ["a: busy", "try again"].iter().all(|words| said.err.contains(words))
    });
    drop(many);
    crate::common::eventually("it answers", || sandbox.run("detail a --test", &[""; 0]).code == Some(0));
}

#[test]
fn a_daemon_without_descriptors_waits_for_some() {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let sandbox = array();
    let pid = sandbox.pid("a");
    let open = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap().count() as u64;
    // The daemon has our limits.
    let none_left = Rlimit { current: Some(open), ..getrlimit(Resource::Nofile) };
    let before = prlimit(Some(pid), Resource::Nofile, none_left).unwrap();
    // More than the descriptors of that question's connection, should it be there still.
    let waiting: Vec<_> = (0..4).map(|_| control(&sandbox)).collect();
    let is_told = || sandbox.log("a").contains("could not accept a command");
    crate::common::eventually("it finds none", is_told);
    let theirs = || cpu_ticks(&format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let ours = || cpu_ticks("/proc/thread-self/stat");
    let (began, spins_until) = (theirs(), ours() + 150);
    // Beside a thread that does spin, however little time the machine has for both.
    while ours() < spins_until {
        std::hint::spin_loop();
    }
    assert!(theirs() - began < 30, "it does not spin");
    prlimit(Some(pid), Resource::Nofile, before).unwrap();
    drop(waiting);
    sandbox.done("detail a --test");
}

#[test]
fn a_client_killed_in_the_middle_of_a_request() {
    let sandbox = array();
    let socket = sandbox.path("a.nbd");
    let uri = sandbox.serve("a");
    for seed in 0..8 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        stream.write_all(&[0, 0, 0, 3]).unwrap();
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut told = [0; 10];
        stream.read_exact(&mut told).unwrap();
        // A write of 64 KiB of which a part arrives, then the end.
        stream.write_all(b"\x25\x60\x95\x13\0\0\0\x01coookie!\0\0\0\0\0\0\0\0\0\x01\0\0").unwrap();
        stream.write_all(&noise(seed, 5000 * seed as usize)).unwrap();
    }
    let client = Client::connect(&uri);
    let data = noise(99, 1 << 20);
    client.write(0, &data).unwrap();
    assert!(client.read(0, data.len()).unwrap() == data);
    sandbox.assert_consistent("a");
}

#[test]
fn a_command_killed_while_it_waits() {
    let sandbox = array();
    sandbox.done("speed a --min 1M --max 1M");
    let mut child = sandbox.command().args(["scrub", "a", "start", "--wait"]).spawn().unwrap();
    crate::common::eventually("it is under way", || sandbox.status("a")["job"]["kind"] == "check");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(sandbox.status("a")["job"]["kind"], "check", "the job is the daemon's, not the command's");
    sandbox.done("scrub a stop");
    sandbox.done("wait a");
}
