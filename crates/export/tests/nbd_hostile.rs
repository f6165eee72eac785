//! Clients that do not keep to the protocol, while one that does is served correctly throughout.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use common::{Fixture, MIB, eventually, export, peek, verify};
use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, memory::MemoryDevice};
use stripewise_export::nbd::{
    Export, Limits,
    proto::{Command, CommandFlags, Cookie, NbdErrno, ReplyHeader, Request, reply::SIMPLE_REPLY_BYTES},
};

/// Runs `attack` while the own client verifies, and demands that both go well.
fn under_attack(fixture: &Fixture, attack: impl FnOnce()) {
    let client = fixture.client("good");
    let (stop, done) = (Arc::new(AtomicBool::new(false)), stripewise_device::sync::Event::default());
    let (stopped, set) = (stop.clone(), done.clone());
    fixture.runtime.env().spawn(Box::pin(async move {
        let mut seed = 0;
        // One round at least, so that the client is seen to work after the attack, too.
        while !stopped.load(Ordering::SeqCst) || seed == 0 {
            verify(&client, seed, 100, 0, MIB).await;
            seed += 1;
        }
        verify(&client, seed, 100, 0, MIB).await;
        set.set(seed);
    }));
    attack();
    stop.store(true, Ordering::SeqCst);
    assert!(fixture.runtime.block_on(async move { done.wait().await }) > 0);
}

fn exports() -> Vec<Export> {
    vec![export("bad", 256 * MIB), export("good", MIB)]
}

fn request(command: Command, offset_bytes: u64, len_bytes: u32, cookie: u64) -> Request {
    Request {
        flags: CommandFlags(0),
        command: command.code(),
        cookie: Cookie(cookie),
        offset_bytes,
        len_bytes,
    }
}

/// Reads a simple reply.
fn reply(socket: &mut UnixStream) -> (u64, Option<NbdErrno>) {
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    socket.read_exact(&mut bytes).unwrap();
    match ReplyHeader::decode(&bytes).unwrap() {
        ReplyHeader::Simple { cookie, error } => (cookie.0, error),
        other => panic!("{other:?}"),
    }
}

/// Asserts that the server hangs up.
fn hung_up(mut socket: UnixStream) {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[test]
fn garbage_and_broken_handshakes_are_hung_up_on() {
    let fixture = Fixture::unix(exports());
    under_attack(&fixture, || {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..50 {
            let mut socket = fixture.socket();
            let garbage: Vec<u8> = (0..random.usize(4..5000)).map(|_| random.u8(..) | 4).collect();
            // The server may hang up while we still send.
            let _ = socket.write_all(&garbage);
            let _ = socket.shutdown(Shutdown::Write);
            hung_up(socket);
        }
        for len in [0, 3, 4, 10, 19] {
            let mut socket = fixture.socket();
            socket.write_all(&b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\xff"[..len]).unwrap();
            drop(socket);
        }
        let mut socket = fixture.socket();
        socket.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff").unwrap();
        hung_up(socket);
        // A request magic that is none, after a good handshake.
        let mut socket = fixture.transmitting();
        socket.write_all(&[0x55; 28]).unwrap();
        hung_up(socket);
    });
    eventually("all but the good client are gone", || fixture.server.stats().connections <= 1);
}

#[test]
fn a_silent_client_is_hung_up_on_in_time() {
    let limits = Limits { handshake: Duration::from_millis(100), ..Limits::default() };
    let fixture = Fixture::with_limits(exports(), limits);
    let silent = fixture.socket();
    let slow = fixture.transmitting();
    hung_up(silent);
    drop(slow);
}

#[test]
fn requests_that_make_no_sense_are_answered_and_leave_step_intact() {
    let fixture = Fixture::unix(exports());
    under_attack(&fixture, || {
        let mut socket = fixture.transmitting();
        let mut ask = |request: Request, payload: usize, expected: NbdErrno| {
            socket.write_all(&request.encode()).unwrap();
            socket.write_all(&vec![9; payload]).unwrap();
            assert_eq!(reply(&mut socket), (request.cookie.0, Some(expected)), "{request:?}");
        };
        let unknown = Request { command: 4711, ..request(Command::Read, 0, 512, 1) };
        ask(unknown, 0, NbdErrno::Invalid);
        ask(request(Command::Read, 0, u32::MAX, 2), 0, NbdErrno::Invalid);
        ask(request(Command::Read, u64::MAX, 512, 3), 0, NbdErrno::Invalid);
        ask(request(Command::Read, 0, 64 << 20, 4), 0, NbdErrno::Overflow);
        let beyond = Request { flags: CommandFlags::FUA, ..request(Command::Write, 256 * MIB, 512, 5) };
        ask(beyond, 512, NbdErrno::NoSpace);
        ask(request(Command::Write, 1, 512, 6), 512, NbdErrno::Invalid);
        // Its 40 MiB are thrown away as they come.
        ask(request(Command::Write, 0, 40 << 20, 7), 40 << 20, NbdErrno::Invalid);
        ask(request(Command::BlockStatus, 0, 512, 8), 0, NbdErrno::Invalid);
        ask(
            Request { flags: CommandFlags(0x8000), ..request(Command::Flush, 0, 0, 9) },
            0,
            NbdErrno::Invalid,
        );
        socket.write_all(&request(Command::Read, 0, 0, 10).encode()).unwrap();
        assert_eq!(reply(&mut socket), (10, None));
        socket.write_all(&request(Command::Read, 100, 300, 11).encode()).unwrap();
        assert_eq!(reply(&mut socket), (11, None), "an unaligned read is served");
        let mut data = [1; 300];
        socket.read_exact(&mut data).unwrap();
        assert_eq!(data, [0; 300]);
        socket.write_all(&request(Command::Disconnect, 0, 0, 12).encode()).unwrap();
        hung_up(socket);
    });
    let peak = fixture.server.stats().connection_peak_bytes;
    assert!(peak <= 4 * MIB, "nothing refused was buffered, but {peak} bytes were");
}

#[test]
fn a_client_that_reads_no_replies_is_not_read_from() {
    let limits = Limits::default();
    let (bytes_max, requests_max) =
        (limits.connection_in_flight_bytes, u64::from(limits.connection_requests));
    let fixture = Fixture::with_limits(exports(), limits);
    under_attack(&fixture, || {
        for (size, count) in [(MIB as u32, 1000u64), (512, 100_000)] {
            let before = fixture.server.stats().requests;
            let mut socket = fixture.transmitting();
            socket.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            let all: Vec<u8> = (0..count).flat_map(|i| request(Command::Read, 0, size, i).encode()).collect();
            let blocked = socket.write_all(&all).is_err();
            thread::sleep(Duration::from_millis(300));
            let stats = fixture.server.stats();
            assert!(stats.connection_peak_bytes <= bytes_max, "{stats:?}");
            assert!(stats.connection_peak_requests <= requests_max, "{stats:?}");
            assert!(stats.requests > before, "some were taken");
            if size == 512 {
                assert!(blocked, "the socket's buffers are full, and the server reads no more");
            }
            drop(socket);
        }
    });
    eventually("its buffers are free again", || fixture.server.stats().in_flight_bytes == 0);
    eventually("it is gone", || fixture.server.stats().connections <= 1);
}

#[test]
fn what_was_not_read_is_still_there_for_who_reads_late() {
    let fixture = Fixture::unix(exports());
    let mut socket = fixture.transmitting();
    let mut writing = socket.try_clone().unwrap();
    let sender = thread::spawn(move || {
        for i in 0..1000 {
            writing.write_all(&request(Command::Read, i * 4096, 65_536, i).encode()).unwrap();
        }
    });
    thread::sleep(Duration::from_millis(300));
    let (mut seen, mut data) = (vec![false; 1000], vec![0; 65_536]);
    for _ in 0..1000 {
        let (cookie, error) = reply(&mut socket);
        assert!(error.is_none() && !std::mem::replace(&mut seen[cookie as usize], true));
        socket.read_exact(&mut data).unwrap();
    }
    sender.join().unwrap();
}

#[test]
fn a_write_cut_off_in_its_middle_never_happens() {
    let device = Arc::new(MemoryDevice::new("bad", 4 * MIB));
    let fixture = Fixture::unix(vec![Export::new("bad", device.clone()), export("good", MIB)]);
    under_attack(&fixture, || {
        for cut in [0, 1, 511, 32_768, (MIB - 1) as usize] {
            let mut socket = fixture.transmitting();
            socket.write_all(&request(Command::Write, 0, MIB as u32, 1).encode()).unwrap();
            socket.write_all(&vec![0xee; cut]).unwrap();
        }
    });
    eventually("all are gone", || fixture.server.stats().connections <= 1);
    assert!(peek(&*device, 0, MIB as usize).iter().all(|b| *b == 0));
    assert_eq!(fixture.server.stats().in_flight_bytes, 0);
}

#[test]
fn connections_beyond_the_limit_are_turned_away() {
    let fixture = Fixture::unix(exports());
    under_attack(&fixture, || {
        let sockets: Vec<_> = (0..200).map(|_| fixture.socket()).collect();
        eventually("the rest was turned away", || fixture.server.stats().turned_away >= 73);
        assert!(fixture.server.stats().connections <= 128);
        drop(sockets);
        eventually("their places are free", || fixture.server.stats().connections <= 1);
    });
    drop(fixture.transmitting());
}

#[test]
fn a_stop_does_not_wait_for_ever_for_one_who_does_not_read() {
    let limits = Limits { stop_grace: Duration::from_millis(200), ..Limits::default() };
    let fixture = Fixture::with_limits(exports(), limits);
    let mut socket = fixture.transmitting();
    for i in 0..64 {
        socket.write_all(&request(Command::Read, 0, MIB as u32, i).encode()).unwrap();
    }
    eventually("it is stuck", || fixture.server.stats().connection_peak_requests > 30);
    let Fixture { server, runtime, dir: _dir } = fixture;
    let server = Arc::new(server);
    let stopping = server.clone();
    runtime.block_on(async move { stopping.stop().await });
    assert_eq!((server.stats().connections, server.stats().in_flight_bytes), (0, 0));
    hung_up(socket);
}

/// Servers can be hostile as well: whatever one sends, the client ends with an error.
#[test]
fn a_server_that_sends_nonsense_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut good = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    let ack = |option: u8| {
        [b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0".as_slice(), &[option], b"\0\0\0\x01\0\0\0\0"].concat()
    };
    let info = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\x10\0\0\0\x01";
    good.extend([ack(8), ack(10), info.to_vec(), ack(7)].concat());
    let cookie = [0; 8];
    let foreign = [b"\x67\x44\x66\x98\0\0\0\0".as_slice(), &[9; 8]].concat();
    let short = [b"\x66\x8e\x33\xef\0\x01\0\0".as_slice(), &cookie, &[0; 4]].concat();
    let outside = [b"\x66\x8e\x33\xef\0\x01\0\x01".as_slice(), &cookie, b"\0\0\0\x09", &[0xff; 9]].concat();
    let huge = [b"\x66\x8e\x33\xef\0\x01\0\x05".as_slice(), &cookie, &[0xff; 4]].concat();
    let replies = [foreign, short, outside, huge, vec![0x11; 100]];
    let servers = thread::spawn({
        let replies = replies.clone();
        move || {
            for reply in replies {
                let (mut socket, _) = listener.accept().unwrap();
                socket.write_all(&good).unwrap();
                let mut request = [0; 28];
                let mut seen = 0;
                // Handshake, then the read: the magic tells where it begins.
                while seen < 4 {
                    let mut byte = [0];
                    socket.read_exact(&mut byte).unwrap();
                    seen = if byte[0] == [0x25, 0x60, 0x95, 0x13][seen] { seen + 1 } else { 0 };
                }
                socket.read_exact(&mut request[4..]).unwrap();
                socket.write_all(&reply).unwrap();
                // Until the client has left.
                let _ = socket.read_to_end(&mut Vec::new());
            }
        }
    });
    let fixture = Fixture::unix(exports());
    for _ in 0..replies.len() {
        let address = stripewise_export::nbd::NbdAddress {
            endpoint: stripewise_export::nbd::Endpoint::Unix(path.clone()),
            export: String::new(),
        };
        let env = fixture.runtime.env();
        fixture.runtime.block_on(async move {
            let client = stripewise_export::nbd::NbdClient::connect(&env, &address).await.unwrap();
            let done = client.read(0, smallvec![IoBuf::with_len(512)]).await;
            assert_eq!(done.result.unwrap_err().kind, stripewise_device::IoErrorKind::Gone);
            assert!(!client.is_connected());
        });
    }
    servers.join().unwrap();
}
