//! A server over memory, and what the tests of it share.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use smallvec::smallvec;
use stripewise_device::{
    Device, DeviceInfo, Extent, IoBuf, IoError, IoFuture, ReadBufs, ReadDone, WriteBufs, WriteFlags,
    ZeroFlags,
    memory::MemoryDevice,
    uring::{Runtime, RuntimeOptions},
};
use stripewise_export::nbd::{Endpoint, Export, Limits, NbdAddress, NbdClient, Server};
use stripewise_testkit::{Need, can_run};

pub const MIB: u64 = 1 << 20;
/// The grain in which [`Holey`] tells holes.
const HOLE_BYTES: u64 = 64 << 10;

/// Memory that tells its zeroes as holes.
pub struct Holey(pub MemoryDevice);

impl Device for Holey {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }
    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.0.read(offset_bytes, into)
    }
    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> IoFuture<Result<(), IoError>> {
        self.0.write(offset_bytes, from, flags)
    }
    fn flush(&self) -> IoFuture<Result<(), IoError>> {
        self.0.flush()
    }
    fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        flags: ZeroFlags,
    ) -> IoFuture<Result<(), IoError>> {
        self.0.write_zeroes(offset_bytes, len_bytes, flags)
    }
    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        let (mut at, end, mut extents) = (offset_bytes, offset_bytes + len_bytes, Vec::new());
        while at < end {
            let len = (HOLE_BYTES - at % HOLE_BYTES).min(end - at);
            let is_hole = peek(&self.0, at, len as usize).iter().all(|b| *b == 0);
            extents.push(Extent { len_bytes: len, is_hole });
            at += len;
        }
        IoFuture::ready(Ok(extents))
    }
}

/// Reads a device in memory, which answers at once.
pub fn peek(device: &dyn Device, offset_bytes: u64, len: usize) -> IoBuf {
    let read = device.read(offset_bytes, smallvec![IoBuf::with_len(len)]);
    read.try_ready().expect("memory answers at once").into_one().expect("in range")
}

/// A running server; its runtime ends last.
pub struct Fixture {
    pub server: Server,
    pub runtime: Runtime,
    pub dir: tempfile::TempDir,
}

impl Fixture {
    pub fn unix(exports: Vec<Export>) -> Self {
        Self::with_limits(exports, Limits::default())
    }

    pub fn with_limits(exports: Vec<Export>, limits: Limits) -> Self {
        Self::build(1, limits, |_| exports, |dir| Endpoint::Unix(dir.join("nbd.sock")))
    }

    pub fn tcp(exports: Vec<Export>) -> Self {
        let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: 0 };
        Self::build(2, Limits::default(), |_| exports, |_| endpoint)
    }

    pub fn build(
        threads: usize,
        limits: Limits,
        exports: impl FnOnce(&Runtime) -> Vec<Export>,
        endpoint: impl FnOnce(PathBuf) -> Endpoint,
    ) -> Self {
        let runtime = Runtime::start(&RuntimeOptions::default().threads(threads)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(dir.path().to_owned());
        let server = Server::start(&runtime, &endpoint, exports(&runtime), limits).unwrap();
        Self { server, runtime, dir }
    }

    pub fn address(&self, export: &str) -> NbdAddress {
        NbdAddress { endpoint: self.server.endpoint().clone(), export: export.to_owned() }
    }

    pub fn uri(&self, export: &str) -> String {
        self.address(export).to_string()
    }

    /// Connects the own client, on the server's runtime.
    pub fn client(&self, export: &str) -> Arc<NbdClient> {
        let (env, address) = (self.runtime.env(), self.address(export));
        Arc::new(self.runtime.block_on(async move { NbdClient::connect(&env, &address).await }).unwrap())
    }

    /// A bare socket to the server, for those who do not keep to the protocol.
    pub fn socket(&self) -> UnixStream {
        let Endpoint::Unix(path) = self.server.endpoint() else { panic!("a unix server") };
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    /// A socket in the transmission phase with simple replies, by the old way.
    pub fn transmitting(&self) -> UnixStream {
        let mut socket = self.socket();
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting).unwrap();
        socket.write_all(&[0, 0, 0, 3]).unwrap();
        socket.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut told = [0; 10];
        socket.read_exact(&mut told).unwrap();
        socket
    }
}

pub fn export(name: &str, size_bytes: u64) -> Export {
    Export::new(name, Arc::new(Holey(MemoryDevice::new(name, size_bytes))))
}

/// Waits until `condition` holds, as what it looks at is another thread's business.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "still not: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A tool that may not be installed; then the test is recorded as skipped.
#[track_caller]
pub fn tool(name: &str) -> Option<Command> {
    can_run(&[Need::Tool(name)]).then(|| Command::new(name))
}

/// Runs a command to success and returns what it printed.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed: {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

/// Random requests of the own client against a model of its export; true is what stands between.
pub async fn verify(client: &NbdClient, seed: u64, rounds: usize, start_bytes: u64, len_bytes: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model = vec![0u8; len_bytes as usize];
    client
        .write_zeroes(start_bytes, len_bytes, ZeroFlags { may_unmap: true, ..ZeroFlags::default() })
        .await
        .unwrap();
    let blocks = len_bytes / 512;
    for round in 0..rounds {
        let at = random.u64(0..blocks);
        let len = random.u64(1..=(blocks - at).min(if round % 16 == 0 { 1024 } else { 16 })) * 512;
        let range = (at * 512) as usize..(at * 512 + len) as usize;
        match random.u8(0..10) {
            0..5 => {
                model[range.clone()].fill_with(|| random.u8(..));
                let data = IoBuf::copy_of(&model[range.clone()]).freeze();
                let half = data.len() / 1024 * 512;
                let parts = smallvec![data.slice(0..half), data.slice(half..data.len())];
                let flags = WriteFlags { fua: random.bool() };
                client.write(start_bytes + at * 512, parts, flags).await.unwrap();
            }
            5 => {
                model[range].fill(0);
                let flags = ZeroFlags { may_unmap: random.bool(), ..ZeroFlags::default() };
                client.write_zeroes(start_bytes + at * 512, len, flags).await.unwrap();
            }
            6 => client.flush().await.unwrap(),
            _ => {
                let bufs = smallvec![IoBuf::with_len(512), IoBuf::with_len(len as usize - 512)];
                let done = client.read(start_bytes + at * 512, bufs).await;
                done.result.unwrap();
                let read = [&done.bufs[0][..], &done.bufs[1][..]].concat();
                assert!(read == model[range], "seed {seed}, round {round}");
            }
        }
    }
}
