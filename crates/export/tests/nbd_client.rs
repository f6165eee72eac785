//! Server and client of this crate against each other, on unix and TCP sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    os::unix::fs::PermissionsExt,
    sync::Arc,
    time::{Duration, Instant},
};

use common::{Fixture, Holey, MIB, eventually, export, peek, verify};
use smallvec::smallvec;
use stripewise_device::{
    Device, IoBuf, IoErrorKind, ReadBufs, WriteFlags, ZeroFlags,
    memory::MemoryDevice,
    uring::{Runtime, RuntimeOptions},
    wrap,
};
use stripewise_export::nbd::{ConnectError, Endpoint, Export, Limits, NbdClient, Server, ServerError};

#[test]
fn random_requests_agree_with_a_model_on_a_unix_socket() {
    let fixture = Fixture::unix(vec![export("disk", 8 * MIB)]);
    let client = fixture.client("disk");
    assert_eq!(client.info().size_bytes, 8 * MIB);
    assert!(client.export().structured && client.export().allocation.is_some());
    fixture.runtime.block_on(async move { verify(&client, 1, 2000, 0, 8 * MIB).await });
}

#[test]
fn connections_on_tcp_share_the_device() {
    let fixture = Fixture::tcp(vec![export("disk", 8 * MIB)]);
    let clients: Vec<_> = (0..4).map(|_| fixture.client("")).collect();
    let threads = clients.into_iter().enumerate().map(|(index, client)| {
        let env = fixture.runtime.env();
        let done = stripewise_device::sync::Event::default();
        let set = done.clone();
        env.spawn(Box::pin(async move {
            verify(&client, index as u64, 500, index as u64 * 2 * MIB, 2 * MIB).await;
            set.set(());
        }));
        done
    });
    for done in threads.collect::<Vec<_>>() {
        fixture.runtime.block_on(async move { done.wait().await });
    }
    assert_eq!(fixture.server.stats().accepted, 4);
}

#[test]
fn many_requests_are_in_flight_on_a_slow_device() {
    let limits = Limits::default();
    let delay = Duration::from_millis(50);
    let slow = |runtime: &Runtime| {
        let memory = MemoryDevice::new("slow", MIB);
        vec![Export::new("slow", Arc::new(wrap::Delay::new(memory, runtime.env(), delay)))]
    };
    let fixture = Fixture::build(1, limits, slow, |dir| Endpoint::Unix(dir.join("s")));
    let client = fixture.client("slow");
    let started = Instant::now();
    fixture.runtime.block_on(async move {
        let block = IoBuf::copy_of(&[7; 4096]).freeze();
        let write = |at: u64| client.write(at * 4096, smallvec![block.clone()], WriteFlags::default());
        let writes: Vec<_> = (0..64).map(write).collect();
        for write in writes {
            write.await.unwrap();
        }
    });
    assert!(started.elapsed() < delay * 16, "64 writes of 50 ms each went together");
    assert!(fixture.server.stats().connection_peak_requests >= 32);
}

#[test]
fn requests_beyond_the_largest_are_split_and_joined() {
    let fixture = Fixture::unix(vec![export("disk", 80 * MIB)]);
    let client = fixture.client("disk");
    fixture.runtime.block_on(async move {
        let mut data = IoBuf::with_len(70 << 20);
        let mut random = fastrand::Rng::with_seed(5);
        data.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.u64(..).to_le_bytes()));
        let data = data.freeze();
        client.write(MIB, smallvec![data.clone()], WriteFlags::default()).await.unwrap();
        let bufs: ReadBufs = smallvec![IoBuf::with_len(40 << 20), IoBuf::with_len(30 << 20)];
        let done = client.read(MIB, bufs).await;
        done.result.unwrap();
        assert!(done.bufs[0][..] == data[..40 << 20] && done.bufs[1][..] == data[40 << 20..]);
        // 2000 buffers are more than one vectored send takes.
        let parts = (0..2000).map(|at| data.slice(at * 512..at * 512 + 512)).collect();
        client.write(0, parts, WriteFlags { fua: true }).await.unwrap();
        let back = client.read(0, smallvec![IoBuf::with_len(2000 * 512)]).await.into_one().unwrap();
        assert!(back[..] == data[..2000 * 512]);
    });
}

#[test]
fn holes_are_told_and_discards_taken() {
    let fixture = Fixture::unix(vec![export("disk", 4 * MIB)]);
    let client = fixture.client("disk");
    fixture.runtime.block_on(async move {
        let data = IoBuf::copy_of(&[1; 65_536]).freeze();
        client.write(MIB, smallvec![data], WriteFlags::default()).await.unwrap();
        let extents = client.extents(0, 4 * MIB).await.unwrap();
        let told: Vec<_> = extents.iter().map(|e| (e.len_bytes, e.is_hole)).collect();
        assert_eq!(told, [(MIB, true), (65_536, false), (3 * MIB - 65_536, true)]);
        client.discard(MIB, 65_536).await.unwrap();
        client.write_zeroes(MIB, 65_536, ZeroFlags::default()).await.unwrap();
        assert_eq!(client.extents(MIB, MIB).await.unwrap().len(), 1);
    });
}

#[test]
fn errors_of_the_device_keep_their_kind() {
    let (device, faults) = wrap::Fault::new(MemoryDevice::new("bad", MIB));
    let fixture = Fixture::unix(vec![Export::new("bad", Arc::new(device))]);
    let client = fixture.client("bad");
    for kind in [IoErrorKind::Medium, IoErrorKind::NoSpace, IoErrorKind::Refused] {
        let operation = wrap::Operation::Write;
        faults.add(wrap::FaultRule {
            operation,
            range_bytes: 0..512,
            kind,
            times: 1,
            healed_by_write: false,
        });
        let client = client.clone();
        let result = fixture.runtime.block_on(async move {
            client.write(0, smallvec![IoBuf::zeroed(512).freeze()], WriteFlags::default()).await
        });
        assert_eq!(result.unwrap_err().kind, kind);
    }
    let (operation, kind) = (wrap::Operation::Read, IoErrorKind::Medium);
    faults.add(wrap::FaultRule { operation, range_bytes: 0..512, kind, times: 1, healed_by_write: false });
    fixture.runtime.block_on(async move {
        let done = client.read(0, smallvec![IoBuf::with_len(512)]).await;
        assert_eq!((done.result.unwrap_err().kind, done.bufs.len()), (IoErrorKind::Medium, 1));
        assert!(
            client.read(0, smallvec![IoBuf::with_len(512)]).await.result.is_ok(),
            "the connection goes on"
        );
        assert_eq!(
            client.read(MIB, smallvec![IoBuf::with_len(512)]).await.result.unwrap_err().kind,
            IoErrorKind::Refused
        );
    });
}

#[test]
fn a_read_only_export_stays_as_it_is() {
    let device = Arc::new(MemoryDevice::with_block_bytes("ro", MIB, 4096));
    let fixture = Fixture::unix(vec![Export { read_only: true, ..Export::new("ro", device.clone()) }]);
    let client = fixture.client("ro");
    assert_eq!(client.info().logical_block_bytes, 4096);
    fixture.runtime.block_on(async move {
        let data = IoBuf::copy_of(&[1; 4096]).freeze();
        let error = client.write(0, smallvec![data], WriteFlags::default()).await.unwrap_err();
        assert_eq!(error.kind, IoErrorKind::Refused);
        assert!(client.write_zeroes(0, 4096, ZeroFlags::default()).await.is_err());
        assert!(client.discard(0, 4096).await.is_err());
    });
    assert!(peek(&*device, 0, 4096).iter().all(|b| *b == 0));
}

#[test]
fn unknown_exports_and_absent_servers_are_told_apart() {
    let fixture = Fixture::unix(vec![export("disk", MIB)]);
    let (env, address) = (fixture.runtime.env(), fixture.address("other"));
    let refused = fixture.runtime.block_on(async move { NbdClient::connect(&env, &address).await.err() });
    assert!(matches!(refused, Some(ConnectError::Refused { .. })), "{refused:?}");
    let (env, address) = (fixture.runtime.env(), "nbd+unix:///?socket=/nowhere/at/all".parse().unwrap());
    let absent = fixture.runtime.block_on(async move { NbdClient::connect(&env, &address).await.err() });
    assert!(matches!(absent, Some(ConnectError::Socket { .. })), "{absent:?}");
}

#[test]
fn a_stop_answers_what_is_under_way_and_the_client_then_knows() {
    let delay = Duration::from_millis(200);
    let memory = Arc::new(Holey(MemoryDevice::new("slow", MIB)));
    let inner = memory.clone();
    let slow = move |runtime: &Runtime| {
        vec![Export::new("slow", Arc::new(wrap::Delay::new(Forward(inner), runtime.env(), delay)))]
    };
    let fixture = Fixture::build(1, Limits::default(), slow, |dir| Endpoint::Unix(dir.join("s")));
    let client = fixture.client("slow");
    let Fixture { server, runtime, dir } = fixture;
    let writing = client.write(0, smallvec![IoBuf::copy_of(&[3; 512]).freeze()], WriteFlags::default());
    let requests = || server.stats().requests;
    eventually("the write arrived", || requests() == 1);
    let (server, stopped) = (Arc::new(server), Instant::now());
    let stopping = server.clone();
    runtime.block_on(async move { stopping.stop().await });
    assert!(stopped.elapsed() < Duration::from_secs(5), "nobody had to be cut off");
    assert_eq!(server.stats().connections, 0);
    assert!(peek(&*memory, 0, 512).iter().all(|b| *b == 3));
    runtime.block_on(async move {
        writing.await.unwrap();
        let late = client.flush().await.unwrap_err();
        assert_eq!(late.kind, IoErrorKind::Gone);
        assert!(!client.is_connected());
    });
    drop(Arc::into_inner(server).unwrap());
    assert!(!dir.path().join("s").exists(), "the socket file is removed");
}

/// A device behind a second counted pointer, so that the test can look at it.
struct Forward(Arc<Holey>);

impl Device for Forward {
    fn info(&self) -> &stripewise_device::DeviceInfo {
        self.0.info()
    }
    fn read(
        &self,
        offset_bytes: u64,
        into: ReadBufs,
    ) -> stripewise_device::IoFuture<stripewise_device::ReadDone> {
        self.0.read(offset_bytes, into)
    }
    fn write(
        &self,
        offset_bytes: u64,
        from: stripewise_device::WriteBufs,
        flags: WriteFlags,
    ) -> stripewise_device::IoFuture<Result<(), stripewise_device::IoError>> {
        self.0.write(offset_bytes, from, flags)
    }
    fn flush(&self) -> stripewise_device::IoFuture<Result<(), stripewise_device::IoError>> {
        self.0.flush()
    }
    fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        flags: ZeroFlags,
    ) -> stripewise_device::IoFuture<Result<(), stripewise_device::IoError>> {
        self.0.write_zeroes(offset_bytes, len_bytes, flags)
    }
}

#[test]
fn socket_files_of_the_dead_are_replaced_and_of_the_living_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd.sock");
    let endpoint = Endpoint::Unix(path.clone());
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let start = || Server::start(&runtime, &endpoint, vec![export("disk", MIB)], Limits::default());
    // What a killed server leaves: a file nobody listens on.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = start().unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(start().err(), Some(ServerError::InUse(_))));
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(start().err(), Some(ServerError::NotASocket(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn exports_have_names_of_their_own() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: 0 };
    let twice = vec![export("disk", MIB), export("disk", MIB)];
    let error = Server::start(&runtime, &endpoint, twice, Limits::default()).err();
    assert!(matches!(error, Some(ServerError::DuplicateName(_))));
    let control = vec![export("di\nsk", MIB)];
    let error = Server::start(&runtime, &endpoint, control, Limits::default()).err();
    assert!(matches!(error, Some(ServerError::BadName(_))));
}
