//! Zeroes that are to be fast or not at all, on a device that is fast when serving begins and not later: an
//! array that gets a member which does not unmap.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use common::{Fixture, MIB, peek};
use stripewise_device::{
    Device, DeviceInfo, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, WriteBufs, WriteFlags, ZeroFlags,
    memory::MemoryDevice,
};
use stripewise_export::nbd::{
    Export,
    proto::{Command, CommandFlags, Cookie, NbdErrno, ReplyHeader, Request, reply::SIMPLE_REPLY_BYTES},
};

/// Memory that zeroes fast until it is told otherwise.
struct Changing {
    memory: MemoryDevice,
    info: DeviceInfo,
    is_slow: AtomicBool,
}

impl Changing {
    fn new() -> Arc<Self> {
        let memory = MemoryDevice::new("m", 16 * MIB);
        let info = DeviceInfo { unmaps: Some(true), ..memory.info().clone() };
        Arc::new(Self { memory, info, is_slow: AtomicBool::new(false) })
    }
}

impl Device for Changing {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.memory.read(offset_bytes, into)
    }
    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> IoFuture<Result<(), IoError>> {
        self.memory.write(offset_bytes, from, flags)
    }
    fn flush(&self) -> IoFuture<Result<(), IoError>> {
        self.memory.flush()
    }
    fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        flags: ZeroFlags,
    ) -> IoFuture<Result<(), IoError>> {
        if flags.fast_only && self.is_slow.load(Ordering::SeqCst) {
            return IoFuture::ready(Err(IoError::new(IoErrorKind::Refused)));
        }
        self.memory.write_zeroes(offset_bytes, len_bytes, flags)
    }
}

fn ask(socket: &mut UnixStream, command: Command, flags: CommandFlags, payload: &[u8]) -> Option<NbdErrno> {
    let request =
        Request { flags, command: command.code(), cookie: Cookie(1), offset_bytes: 0, len_bytes: 4096 };
    socket.write_all(&request.encode()).unwrap();
    socket.write_all(payload).unwrap();
    let mut bytes = [0; SIMPLE_REPLY_BYTES];
    socket.read_exact(&mut bytes).unwrap();
    match ReplyHeader::decode(&bytes).unwrap() {
        ReplyHeader::Simple { error, .. } => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn fast_zeroes_are_not_supported_any_more_once_they_cost_as_much_as_writes() {
    let device = Changing::new();
    let fixture = Fixture::unix(vec![Export::new("", device.clone())]);
    let mut socket = fixture.transmitting();
    let (none, fast) = (CommandFlags(0), CommandFlags::FAST_ZERO);
    assert_eq!(ask(&mut socket, Command::WriteZeroes, fast, &[]), None);
    device.is_slow.store(true, Ordering::SeqCst);
    assert_eq!(ask(&mut socket, Command::Write, none, &[7; 4096]), None);
    assert_eq!(ask(&mut socket, Command::WriteZeroes, fast, &[]), Some(NbdErrno::NotSupported));
    assert!(peek(&device.memory, 0, 4096).iter().all(|byte| *byte == 7), "what is refused is not done");
    assert_eq!(ask(&mut socket, Command::WriteZeroes, none, &[]), None, "others are only slow");
    assert!(peek(&device.memory, 0, 4096).iter().all(|byte| *byte == 0));
}
