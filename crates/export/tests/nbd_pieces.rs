//! Requests as sockets deliver them: in any pieces, many at once, and beside a client that never stops
//! asking.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    cell::Cell,
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use common::{Fixture, MIB, eventually, export, peek};
use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, memory::MemoryDevice};
use stripewise_export::nbd::{
    Export,
    proto::{Command, CommandFlags, Cookie, Request, reply::SIMPLE_REPLY_BYTES},
};

fn request(command: Command, offset_bytes: u64, len_bytes: usize, cookie: u64) -> Vec<u8> {
    let (command, cookie, len_bytes) = (command.code(), Cookie(cookie), len_bytes as u32);
    Request { flags: CommandFlags(0), command, cookie, offset_bytes, len_bytes }.encode().to_vec()
}

/// Reads so many replies without data, all of which must tell success.
fn take_replies(socket: &mut UnixStream, count: usize) {
    let mut bytes = vec![0; count * SIMPLE_REPLY_BYTES];
    socket.read_exact(&mut bytes).unwrap();
    for reply in bytes.chunks(SIMPLE_REPLY_BYTES) {
        assert_eq!(reply[4..8], [0; 4], "an error: {reply:?}");
    }
}

#[test]
fn writes_arrive_whole_in_whatever_pieces_they_come() {
    for seed in 0..4 {
        let mut random = fastrand::Rng::with_seed(seed);
        let device = Arc::new(MemoryDevice::new("disk", 16 * MIB));
        let fixture = Fixture::unix(vec![Export::new("disk", device.clone())]);
        let (mut stream, mut model, mut count, mut at) = (Vec::new(), vec![0; 16 << 20], 0, 0);
        // Below and above what is received in place, and larger than the read-ahead.
        while at < model.len() {
            let most = [4096, 40_960, 262_144][random.usize(..3)].min(model.len() - at);
            let len = random.usize(1..=most / 512) * 512;
            model[at..at + len].fill_with(|| random.u8(..));
            stream.extend(request(Command::Write, at as u64, len, count));
            stream.extend_from_slice(&model[at..at + len]);
            (count, at) = (count + 1, at + len);
        }
        let mut socket = fixture.transmitting();
        let mut writing = socket.try_clone().unwrap();
        let sender = thread::spawn(move || {
            let mut rest = &stream[..];
            while !rest.is_empty() {
                let most = [30, 5000, 200_000][random.usize(..3)].min(rest.len());
                let (piece, behind) = rest.split_at(random.usize(1..=most));
                writing.write_all(piece).unwrap();
                rest = behind;
                if random.u8(..) == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        take_replies(&mut socket, count as usize);
        sender.join().unwrap();
        assert!(peek(&*device, 0, model.len())[..] == model, "seed {seed}");
    }
}

#[test]
fn of_writes_that_come_together_the_last_that_is_cut_off_never_happens() {
    let device = Arc::new(MemoryDevice::new("disk", MIB));
    let fixture = Fixture::unix(vec![Export::new("disk", device.clone())]);
    let mut socket = fixture.transmitting();
    let mut stream = Vec::new();
    for index in 0..20 {
        stream.extend(request(Command::Write, index * 4096, 4096, index));
        stream.extend([7; 4096]);
    }
    stream.truncate(stream.len() - 1);
    socket.write_all(&stream).unwrap();
    take_replies(&mut socket, 19);
    drop(socket);
    eventually("it is gone", || fixture.server.stats().connections == 0);
    let written = peek(&*device, 0, 20 * 4096);
    assert!(written[..19 * 4096].iter().all(|byte| *byte == 7));
    assert!(written[19 * 4096..].iter().all(|byte| *byte == 0));
    assert_eq!(fixture.server.stats().in_flight_bytes, 0);
}

#[test]
fn a_client_that_never_stops_asking_does_not_keep_another_waiting() {
    let fixture = Fixture::unix(vec![export("disk", MIB)]);
    let busy = fixture.transmitting();
    let (mut asking, mut taking) = (busy.try_clone().unwrap(), busy.try_clone().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let asker = thread::spawn(move || {
        let batch: Vec<u8> = (0..64).flat_map(|cookie| request(Command::Read, 0, 4096, cookie)).collect();
        while !stopped.load(Ordering::Relaxed) && asking.write_all(&batch).is_ok() {}
    });
    let taker = thread::spawn(move || {
        let mut replies = vec![0; 1 << 20];
        while taking.read(&mut replies).is_ok_and(|len| len > 0) {}
    });
    let requests = || fixture.server.stats().requests;
    eventually("it asks", || requests() > 1000);
    let client = Arc::new(fixture.client("disk"));
    let (before, own) = (requests(), Cell::new(0));
    // The system may let the other's threads wait for longer than some reads take.
    eventually("both are served", || {
        let client = client.clone();
        fixture.runtime.block_on(async move {
            for _ in 0..100 {
                client.read(0, smallvec![IoBuf::with_len(4096)]).await.result.unwrap();
            }
        });
        own.set(own.get() + 100);
        requests() - before > own.get() + 1000
    });
    stop.store(true, Ordering::Relaxed);
    busy.shutdown(std::net::Shutdown::Both).unwrap();
    asker.join().unwrap();
    taker.join().unwrap();
}
