//! Clients that take all they can get: memory, places. Others are served all the same, and memory is bounded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    io::{ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use common::{Fixture, MIB, eventually, export, verify};
use smallvec::smallvec;
use stripewise_device::{Device, IoBuf};
use stripewise_export::nbd::{
    Export, Limits,
    proto::{Command, CommandFlags, Cookie, Request},
};

const KIB: u64 = 1 << 10;

fn exports() -> Vec<Export> {
    vec![export("bad", 256 * MIB), export("good", 16 * MIB)]
}

fn ask(socket: &mut UnixStream, command: Command, len_bytes: u32) {
    let request = Request {
        flags: CommandFlags(0),
        command: command.code(),
        cookie: Cookie(1),
        offset_bytes: 0,
        len_bytes,
    };
    socket.write_all(&request.encode()).unwrap();
}

/// Clients that ask for as much as this, and read no reply.
fn greedy(fixture: &Fixture, count: usize, requests: usize) -> Vec<UnixStream> {
    let mut sockets: Vec<_> = (0..count).map(|_| fixture.transmitting()).collect();
    for socket in &mut sockets {
        (0..requests).for_each(|_| ask(socket, Command::Read, MIB as u32));
    }
    sockets
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * KIB
}

/// Whether the server has hung up within the socket's patience.
fn is_hung_up(socket: &mut UnixStream) -> bool {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// 64 clients that ask for 64 MiB each and read nothing once held 4.2 GiB.
#[test]
fn clients_that_read_no_replies_share_bounded_memory_and_small_requests_pass_them() {
    let limits = Limits::default();
    let fixture = Fixture::with_limits(exports(), limits.clone());
    let before = resident_bytes();
    let sockets = greedy(&fixture, 64, 64);
    eventually("they have taken what they get", || {
        fixture.server.stats().in_flight_bytes + MIB > limits.in_flight_bytes
    });
    let client = fixture.client("good");
    fixture.runtime.block_on(async move { verify(&client, 1, 300, 0, MIB).await });
    let (held, grown) = (fixture.server.stats().in_flight_bytes, resident_bytes().saturating_sub(before));
    println!("64 clients that read nothing: {} MiB in flight, {} MiB more resident", held / MIB, grown / MIB);
    assert!(held <= limits.in_flight_bytes + 66 * MIB, "{held}");
    assert!(grown <= limits.memory_bound_bytes() + 32 * MIB, "{grown}");
    drop(sockets);
    eventually("all is given back", || fixture.server.stats().in_flight_bytes == 0);
}

#[test]
fn a_large_request_gets_the_memory_of_those_who_do_not_go_on() {
    let limits = Limits { in_flight_bytes: 64 * MIB, stall: Duration::from_millis(200), ..Limits::default() };
    let fixture = Fixture::with_limits(exports(), limits);
    let _unread = greedy(&fixture, 2, 64);
    // Writes of which no data follows hold memory too.
    let mut unsent: Vec<_> = (0..8).map(|_| fixture.transmitting()).collect();
    unsent.iter_mut().for_each(|socket| ask(socket, Command::Write, 8 * MIB as u32));
    eventually("all is taken", || fixture.server.stats().in_flight_bytes > 56 * MIB);
    let client = fixture.client("good");
    let read = client.clone();
    let done =
        fixture.runtime.block_on(async move { read.read(0, smallvec![IoBuf::with_len(16 << 20)]).await });
    done.result.unwrap();
    assert!(client.is_connected());
}

/// Once each of them got its turn to keep the others waiting.
#[test]
fn clients_that_stop_in_the_middle_of_a_write_take_no_turn_to_hold_memory() {
    let limits = Limits { in_flight_bytes: 64 * MIB, stall: Duration::from_millis(500), ..Limits::default() };
    let fixture = Fixture::with_limits(exports(), limits);
    let mut stopped: Vec<_> = (0..40).map(|_| fixture.transmitting()).collect();
    for socket in &mut stopped {
        ask(socket, Command::Write, 32 * MIB as u32);
        socket.write_all(&[7; 100_000]).unwrap();
    }
    eventually("two of them have the memory", || fixture.server.stats().in_flight_bytes > 60 * MIB);
    read_large(&fixture).join().unwrap();
    let patience = Some(Duration::from_millis(1));
    stopped.iter_mut().for_each(|socket| socket.set_read_timeout(patience).unwrap());
    let closed = stopped.iter_mut().filter_map(|socket| is_hung_up(socket).then_some(())).count();
    assert!(closed <= 2, "{closed} of 40 had the memory in turn");
}

/// The largest request, and how it is moved here: slower than it would have to be done within the time that a
/// client may stand still, and without ever standing still so long.
const LARGE: usize = 32 << 20;
const STEP: usize = 256 << 10;
const STEP_TIME: Duration = Duration::from_millis(50);
const STALL: Duration = Duration::from_secs(3);

fn slowly(mut step: impl FnMut()) {
    for _ in 0..LARGE / STEP {
        thread::sleep(STEP_TIME);
        step();
    }
}

/// A server whose memory one large request takes. Who waits for it looks for clients that stand still.
fn scarce() -> Fixture {
    Fixture::with_limits(exports(), Limits { in_flight_bytes: 40 * MIB, stall: STALL, ..Limits::default() })
}

/// Asks for as much as there is, on a connection of its own, and waits for the answer.
fn read_large(fixture: &Fixture) -> thread::JoinHandle<()> {
    let mut socket = fixture.transmitting();
    thread::spawn(move || {
        ask(&mut socket, Command::Read, LARGE as u32);
        socket.read_exact(&mut vec![0; 16 + LARGE]).unwrap();
    })
}

#[test]
fn a_slow_reader_that_goes_on_keeps_its_connection_while_others_wait_for_its_memory() {
    let fixture = scarce();
    let mut slow = fixture.transmitting();
    ask(&mut slow, Command::Read, LARGE as u32);
    eventually("it has the memory", || fixture.server.stats().in_flight_bytes >= LARGE as u64);
    let other = read_large(&fixture);
    let mut part = vec![0; STEP];
    slowly(|| slow.read_exact(&mut part).unwrap());
    slow.read_exact(&mut part[..16]).unwrap();
    other.join().unwrap();
}

#[test]
fn a_slow_writer_that_goes_on_keeps_its_connection_while_others_wait_for_its_memory() {
    let fixture = scarce();
    let mut slow = fixture.transmitting();
    ask(&mut slow, Command::Write, LARGE as u32);
    eventually("it has the memory", || fixture.server.stats().in_flight_bytes >= LARGE as u64);
    let other = read_large(&fixture);
    let part = vec![7; STEP];
    slowly(|| slow.write_all(&part).unwrap());
    slow.read_exact(&mut [0; 16]).unwrap();
    other.join().unwrap();
}

/// What it was sent last counts, not what it asked long before.
#[test]
fn a_client_that_was_busy_with_a_long_reply_is_not_idle() {
    let limits = Limits { idle: Some(Duration::from_secs(2)), ..Limits::default() };
    let fixture = Fixture::with_limits(exports(), limits);
    let mut slow = fixture.transmitting();
    ask(&mut slow, Command::Read, LARGE as u32);
    let mut part = vec![0; STEP];
    slowly(|| slow.read_exact(&mut part).unwrap());
    slow.read_exact(&mut part[..16]).unwrap();
    // Longer than from one look for idle clients to the next.
    thread::sleep(Duration::from_millis(700));
    ask(&mut slow, Command::Read, 4096);
    slow.read_exact(&mut part[..16 + 4096]).unwrap();
}

/// One that merely reads late, while nobody waits for its memory, keeps its connection.
#[test]
fn a_client_that_reads_late_is_waited_for_while_nobody_wants_its_memory() {
    let limits = Limits { stall: Duration::from_millis(20), ..Limits::default() };
    let fixture = Fixture::with_limits(exports(), limits);
    let mut late = greedy(&fixture, 1, 70).remove(0);
    thread::sleep(Duration::from_millis(300));
    let mut replies = vec![0; 70 * (16 + MIB as usize)];
    late.read_exact(&mut replies).unwrap();
}

#[test]
fn a_place_that_is_only_taken_goes_to_another_and_one_that_is_used_stays() {
    let limits = Limits { connections: 4, handshake: Duration::from_millis(300), ..Limits::default() };
    let fixture = Fixture::with_limits(exports(), limits);
    let used = fixture.client("good");
    let first = used.clone();
    fixture.runtime.block_on(async move { first.flush().await }).unwrap();
    let mut silent: Vec<_> = (0..3).map(|_| fixture.transmitting()).collect();
    assert!(is_hung_up(&mut fixture.socket()), "one that has just come has its place");
    thread::sleep(Duration::from_millis(400));
    let late = fixture.client("good");
    fixture.runtime.block_on(async move { late.flush().await }).unwrap();
    silent.iter_mut().for_each(|socket| socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap());
    let gone = silent.iter_mut().filter_map(|socket| is_hung_up(socket).then_some(())).count();
    assert_eq!(gone, 1, "no more than had to");
    fixture.runtime.block_on(async move { used.flush().await }).unwrap();
}

#[test]
fn clients_that_ask_nothing_for_too_long_go_where_the_operator_says_so() {
    let limits = Limits { idle: Some(Duration::from_millis(200)), ..Limits::default() };
    let fixture = Fixture::with_limits(exports(), limits);
    let mut silent = fixture.transmitting();
    let busy = fixture.client("good");
    for _ in 0..20 {
        let busy = busy.clone();
        fixture.runtime.block_on(async move { busy.flush().await }).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    assert!(is_hung_up(&mut silent));
    assert!(busy.is_connected());
}
