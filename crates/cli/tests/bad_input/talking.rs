//! Nonsense on the control socket, and clients that die in the middle of a word.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::common::{Client, MIB, Need, Sandbox, cpu_ticks, eventually, noise};

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
    // More than it serves at once are told so; it serves again when they are gone. The first of them may be
    // turned away in favour of the ones above, whose end it has not seen yet: others take the places that
    // these leave.
    let mut many = Vec::new();
    eventually("it is full, and says so", || {
        many.extend((0..40).map(|_| control(&sandbox)));
        let said = sandbox.run("detail a", &[""; 0]);
        said.code == Some(1) && ["a: busy", "try again"].iter().all(|words| said.err.contains(words))
    });
    drop(many);
    eventually("it answers", || sandbox.run("detail a --test", &[""; 0]).code == Some(0));
}

/// A process that can open nothing more, until this is dropped.
struct WithoutDescriptors {
    pid: Pid,
    before: Rlimit,
}

impl WithoutDescriptors {
    fn of(pid: Pid) -> Self {
        let open = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).unwrap().count() as u64;
        // A daemon has our limits.
        let none_left = Rlimit { current: Some(open), ..getrlimit(Resource::Nofile) };
        let before = prlimit(Some(pid), Resource::Nofile, none_left).unwrap();
        Self { pid, before }
    }
}

impl Drop for WithoutDescriptors {
    fn drop(&mut self) {
        prlimit(Some(self.pid), Resource::Nofile, self.before).unwrap();
    }
}

#[test]
fn a_daemon_without_descriptors_waits_for_some() {
    let sandbox = array();
    let pid = sandbox.pid("a");
    let scarce = WithoutDescriptors::of(pid);
    // More than the descriptors of that connection, should it be there still.
    let waiting: Vec<_> = (0..4).map(|_| control(&sandbox)).collect();
    eventually("it finds none", || sandbox.log("a").contains("could not accept a command"));
    let theirs = || cpu_ticks(&format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let ours = || cpu_ticks("/proc/thread-self/stat");
    let (began, spins_until) = (theirs(), ours() + 150);
    // Beside a thread that does spin, however little time the machine has for both.
    while ours() < spins_until {
        std::hint::spin_loop();
    }
    assert!(theirs() - began < 30, "it does not spin");
    drop((scarce, waiting));
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
    eventually("it is under way", || sandbox.status("a")["job"]["kind"] == "check");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(sandbox.status("a")["job"]["kind"], "check", "the job is the daemon's, not the command's");
    sandbox.done("scrub a stop");
    sandbox.done("wait a");
}

#[test]
fn a_flood_of_connections_leaves_a_short_log() {
    let sandbox = array();
    let uri = sandbox.serve("a");
    let socket = sandbox.path("a.nbd");
    for _ in 0..2000 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let _ = stream.write_all(b"\0\0\0\x03nonsense nonsense nonsense");
    }
    assert_eq!(Client::connect(&uri).read(0, 4096).unwrap().len(), 4096);
    sandbox.done("serve a --stop");
    let log = sandbox.log("a");
    let told = log.lines().filter(|line| line.contains("connection")).count();
    assert!((1..30).contains(&told), "{told} lines");
    assert!(log.contains("untold="), "and how many more there were: {log}");
}

/// Microseconds of the day of a line of the log, which begins with its time.
fn logged_at_us(line: &str) -> u64 {
    let time = line.split_once('T').unwrap().1.split_once('Z').unwrap().0;
    let (clock, us) = time.split_once('.').unwrap();
    let seconds = clock.split(':').fold(0, |all, part| all * 60 + part.parse::<u64>().unwrap());
    seconds * 1_000_000 + us.parse::<u64>().unwrap()
}

/// Every failed attempt is a line as long as there are few of them, with the pause that follows: each is
/// twice the one before, and the next attempt comes after it.
fn assert_backs_off(sandbox: &Sandbox, message: &str) {
    let attempts = || {
        let log = sandbox.log("a");
        log.lines().filter(|line| line.contains(message)).map(str::to_owned).collect::<Vec<_>>()
    };
    eventually("it has tried four times", || attempts().len() >= 4);
    let attempts = attempts();
    for (index, line) in attempts.iter().take(4).enumerate() {
        let pause = format!("pause={}ms", 100 << index);
        assert!(line.contains(&pause) && line.contains("untold=0"), "attempt {index} is not {pause}: {line}");
    }
    for (index, two) in attempts.windows(2).take(3).enumerate() {
        let day_us = 24 * 3600 * 1_000_000;
        let apart = (logged_at_us(&two[1]) + day_us - logged_at_us(&two[0])) % day_us;
        assert!(apart >= 100_000 << index, "attempt {} came after {apart} us", index + 1);
    }
}

#[test]
fn listeners_without_descriptors_back_off() {
    let sandbox = array();
    let uri = sandbox.serve("a");
    let scarce = WithoutDescriptors::of(sandbox.pid("a"));
    let waiting: Vec<_> = (0..4).map(|_| UnixStream::connect(sandbox.path("a.nbd")).unwrap()).collect();
    let commands: Vec<_> = (0..4).map(|_| control(&sandbox)).collect();
    assert_backs_off(&sandbox, "could not accept a connection");
    assert_backs_off(&sandbox, "could not accept a command");
    drop((scarce, waiting, commands));
    assert_eq!(Client::connect(&uri).read(0, 4096).unwrap().len(), 4096);
}

/// Names of files and of superblocks are others' choice, and a terminal obeys escape codes.
#[test]
fn foreign_names_cannot_move_the_cursor_or_forge_lines() {
    use std::os::unix::fs::FileExt;
    let sandbox = Sandbox::new();
    let members = [sandbox.member("m\x1b[2J\nforged", 24 * MIB), sandbox.member("n", 24 * MIB)];
    sandbox.ok("create a --level 1 --assume-clean", &members);
    let harmless = |text: &str| {
        assert!(!text.contains('\x1b') && !text.lines().any(|line| line.starts_with("forged")), "{text:?}");
    };
    for line in ["status a", "detail a", "class a", "endurance a", "explain a --write 0:4K"] {
        harmless(&sandbox.done(line));
    }
    harmless(&sandbox.ok("fail a", &members[..1]));
    harmless(&sandbox.fails(1, "fail a", &members[..1], &["not active"]));
    sandbox.done("stop a");
    // A superblock that is right but for what it calls itself.
    let file = std::fs::File::options().read(true).write(true).open(&members[1]).unwrap();
    let mut block = [0; 4096];
    file.read_exact_at(&mut block, 4096).unwrap();
    block[32..64].fill(0);
    block[32..46].copy_from_slice(b"x:\x1b[31m\nforged");
    let summed = 256 + 2 * u32::from_le_bytes(block[220..224].try_into().unwrap()) as usize;
    block[216..220].fill(0);
    let words = block[..summed].chunks(4).map(|word| match *word {
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        _ => unreachable!("a superblock has whole words and one half at most"),
    });
    let sum: u64 = words.sum();
    block[216..220].copy_from_slice(&((sum & 0xffff_ffff) + (sum >> 32)).to_le_bytes()[..4]);
    file.write_all_at(&block, 4096).unwrap();
    let said = sandbox.ok("examine", &members[1..]);
    assert!(said.contains(r"x:\u{1b}[31m\nforged"), "{said}");
    harmless(&said);
}

/// Once that was a panic, and `add` seemed to have broken when it had added.
#[test]
fn a_command_whose_output_cannot_be_written_says_so() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    // What goes to standard error alone has no other place to be told.
    let create = format!("create a --level 1 --assume-clean {} {}", members[0], members[1]);
    let mut command = sandbox.command();
    assert!(command.args(create.split(' ')).stderr(full()).status().unwrap().success());
    for (line, happened) in [("status a", "clean"), (&*format!("fail a {}", members[1]), "degraded")] {
        let said = sandbox.command().args(line.split(' ')).stdout(full()).output().unwrap();
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(said.status.code() == Some(1) && text.contains("could not be written in full"), "{text}");
        assert!(sandbox.done("detail a").contains(happened) || line.starts_with("status"), "{line}");
    }
    sandbox.done("stop a");
}

/// In a folder where everybody may make one, somebody else's daemon must not be talked to.
#[test]
fn a_run_directory_of_another_user_is_refused() {
    if !crate::common::can_run(&[Need::Root]) {
        return;
    }
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    const USER: u32 = 65_534;
    let sandbox = Sandbox::new();
    let allow =
        |path: &std::path::Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o1777)).unwrap();
    allow(sandbox.folder());
    let binary = sandbox.folder().join("stripewise");
    std::fs::copy(sandbox.command().get_program(), &binary).unwrap();
    let trap = sandbox.folder().join(format!("stripewise-{USER}/stripewise"));
    std::fs::create_dir_all(&trap).unwrap();
    [trap.parent().unwrap(), &trap].into_iter().for_each(allow);
    let listener = std::os::unix::net::UnixListener::bind(trap.join("a.sock")).unwrap();
    allow(&trap.join("a.sock"));
    listener.set_nonblocking(true).unwrap();
    for line in ["status", "status a", "stop a", "detail a"] {
        let mut command = std::process::Command::new(&binary);
        command
            .args(line.split(' '))
            .env_clear()
            .env("TMPDIR", sandbox.folder())
            .current_dir("/")
            .uid(USER)
            .gid(USER);
        let said = crate::common::run_bounded(&mut command, Duration::from_secs(30));
        assert!(said.code == Some(1) && said.err.contains("belongs to"), "{line}: {said:?}");
    }
    assert!(listener.accept().is_err(), "it was talked to");
}
