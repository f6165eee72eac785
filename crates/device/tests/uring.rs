//! The executor and the file member on a real ring.

#![allow(clippy::unwrap_used)]

use std::{
    future::poll_fn,
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    task::Poll,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use smallvec::smallvec;
use stripewise_device::{
    Device, IoBuf, IoErrorKind, WriteFlags, ZeroFlags,
    file::{FileDevice, FileOptions, OpenError},
    sync::Event,
    uring::{Runtime, RuntimeOptions, net::Stream},
};

const MIB: u64 = 1 << 20;

fn file_device(size_bytes: u64) -> (tempfile::NamedTempFile, Arc<FileDevice>) {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(size_bytes).unwrap();
    let device = FileDevice::open(file.path(), FileOptions::default()).unwrap();
    (file, Arc::new(device))
}

#[test]
fn written_bytes_are_read_back_scattered() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (_file, device) = file_device(8 * MIB);
    runtime.block_on(async move {
        let data = IoBuf::copy_of(&(0..12_288u32).map(|i| (i % 251) as u8).collect::<Vec<_>>()).freeze();
        let parts = smallvec![data.slice(0..4096), data.slice(4096..12_288)];
        device.write(MIB, parts, WriteFlags { fua: true }).await.unwrap();
        device.flush().await.unwrap();
        let done = device.read(MIB, smallvec![IoBuf::with_len(8192), IoBuf::with_len(4096)]).await;
        done.result.unwrap();
        assert_eq!(done.bufs[0][..], data[..8192]);
        assert_eq!(done.bufs[1][..], data[8192..]);
        device.write_zeroes(MIB, 4096, ZeroFlags { may_unmap: true, ..ZeroFlags::default() }).await.unwrap();
        let zeroed = device.read(MIB, smallvec![IoBuf::with_len(4096)]).await.into_one().unwrap();
        assert!(zeroed.iter().all(|b| *b == 0));
    });
}

/// Ten times what the queue holds: the backlog must drain, in any order.
fn write_and_read_much(runtime: &Runtime, device: Arc<FileDevice>) {
    runtime.block_on(async move {
        let writes: Vec<_> = (0..160u64)
            .map(|i| {
                let data = IoBuf::copy_of(&[i as u8; 4096]).freeze();
                device.write(i * 4096, smallvec![data], WriteFlags { fua: i % 4 == 0 })
            })
            .collect();
        for write in writes {
            write.await.unwrap();
        }
        device.flush().await.unwrap();
        for i in 0..160u64 {
            let block = device.read(i * 4096, smallvec![IoBuf::with_len(4096)]).await.into_one().unwrap();
            assert!(block.iter().all(|b| *b == i as u8), "block {i}");
        }
    });
}

#[test]
fn many_requests_share_the_ring() {
    let runtime = Runtime::start(&RuntimeOptions::default().queue_depth(16)).unwrap();
    let (_file, device) = file_device(8 * MIB);
    write_and_read_much(&runtime, device);
}

/// The kernel's thread falls asleep in between, and has to be woken.
#[test]
fn a_thread_of_the_kernels_may_take_what_is_submitted() {
    let sq_poll_idle = Some(Duration::from_millis(1));
    let options = RuntimeOptions::default().queue_depth(16).sq_poll_idle(sq_poll_idle);
    let runtime = Runtime::start(&options).unwrap();
    for _ in 0..3 {
        let (_file, device) = file_device(8 * MIB);
        write_and_read_much(&runtime, device);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Where the file's queue cannot be polled after all, the kernel says so or interrupts; either way all is
/// done.
#[test]
fn completions_may_be_asked_for_instead_of_waited_for() {
    let options = RuntimeOptions::default().queue_depth(16).io_poll(true);
    let runtime = Runtime::start(&options).unwrap();
    let folders = [std::path::Path::new(env!("CARGO_TARGET_TMPDIR")), std::path::Path::new("/dev/shm")];
    for folder in folders {
        let file = tempfile::NamedTempFile::new_in(folder).unwrap();
        file.as_file().set_len(8 * MIB).unwrap();
        let options = FileOptions::default().poll(true);
        let device = Arc::new(FileDevice::open(file.path(), options).unwrap());
        write_and_read_much(&runtime, device);
    }
}

#[test]
fn buffers_that_rings_do_not_register_are_as_good() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (_file, device) = file_device(8 * MIB);
    runtime.block_on(async move {
        let mut data = IoBuf::with_len(3 << 20);
        fastrand::Rng::with_seed(7).fill(&mut data);
        let (data, len) = (data.freeze(), 3 << 20);
        device.write(4096, smallvec![data.clone()], WriteFlags::default()).await.unwrap();
        let read = device.read(4096, smallvec![IoBuf::with_len(len)]).await.into_one().unwrap();
        assert!(read[..] == data[..]);
    });
}

/// Workers keep a file open that they have registered. Its owner cannot wait for them; the next opening does.
#[test]
fn a_member_that_was_dropped_can_be_opened_again_at_once() {
    let runtime = Runtime::start(&RuntimeOptions::default().threads(2)).unwrap();
    let (file, mut device) = file_device(MIB);
    for round in 0..50 {
        let (sender, receiver) = mpsc::channel();
        for worker in 0..2 {
            let (device, sender) = (device.clone(), sender.clone());
            let task = async move {
                let read = device.read(0, smallvec![IoBuf::with_len(4096)]).await;
                drop(device);
                sender.send(read.result).unwrap();
            };
            runtime.spawn_on(worker, Box::pin(task));
        }
        (0..2).for_each(|_| receiver.recv().unwrap().unwrap());
        drop(device);
        device = match FileDevice::open(file.path(), FileOptions::default()) {
            Ok(device) => Arc::new(device),
            Err(error) => panic!("round {round}: {error}"),
        };
    }
}

#[test]
fn a_dropped_future_leaves_its_request_running() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (_file, device) = file_device(MIB);
    runtime.block_on(async move {
        drop(device.write(0, smallvec![IoBuf::copy_of(&[9; 4096]).freeze()], WriteFlags::default()));
        // Reads may pass the write, and on a busy machine thousands do.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            let block = device.read(0, smallvec![IoBuf::with_len(4096)]).await.into_one().unwrap();
            if block.iter().all(|b| *b == 9) {
                return;
            }
        }
        panic!("the write never happened");
    });
}

#[test]
fn a_truncated_file_is_a_typed_error() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (file, device) = file_device(MIB);
    file.as_file().set_len(4096).unwrap();
    let done = runtime.block_on(async move { device.read(8192, smallvec![IoBuf::with_len(4096)]).await });
    assert_eq!(done.result.unwrap_err().kind, IoErrorKind::Truncated);
}

#[test]
fn holes_of_a_sparse_file_are_told() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (_file, device) = file_device(MIB);
    let extents = runtime.block_on(async move {
        let data = IoBuf::copy_of(&[1; 65_536]).freeze();
        device.write(262_144, smallvec![data], WriteFlags::default()).await.unwrap();
        device.extents(0, MIB).await.unwrap()
    });
    let total: u64 = extents.iter().map(|e| e.len_bytes).sum();
    assert_eq!(total, MIB);
    let holes: u64 = extents.iter().filter(|e| e.is_hole).map(|e| e.len_bytes).sum();
    assert_eq!(holes, MIB - 65_536, "{extents:?}");
}

#[test]
fn a_member_is_opened_once() {
    let (file, _device) = file_device(MIB);
    let again = FileDevice::open(file.path(), FileOptions::default());
    assert!(matches!(again, Err(OpenError::Busy { .. })), "{again:?}");
    assert!(
        FileDevice::open(file.path(), FileOptions::default().read_only(true)).is_ok(),
        "looking is allowed"
    );
}

/// As after the end of a process that had it in a ring: the kernel lets go of it later.
#[test]
fn a_member_that_is_let_go_of_soon_is_waited_for() {
    let (file, held) = file_device(MIB);
    let holder = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
    });
    FileDevice::open(file.path(), FileOptions::default()).unwrap();
    holder.join().unwrap();
}

#[test]
fn directories_and_character_devices_are_refused() {
    for path in ["/", "/dev/null"] {
        let error = FileDevice::open(path, FileOptions::default()).unwrap_err();
        assert!(matches!(error, OpenError::WrongKind { .. }), "{error}");
    }
}

#[test]
fn timers_and_other_workers_wake_tasks() {
    let runtime = Runtime::start(&RuntimeOptions::default().threads(2).queue_depth(8)).unwrap();
    let env = runtime.env();
    let event = Event::<u32>::default();
    let (started, set) = (Instant::now(), event.clone());
    runtime.spawn_on(
        1,
        Box::pin(async move {
            env.sleep(Duration::from_millis(20)).await;
            set.set(7);
        }),
    );
    assert_eq!(runtime.block_on(async move { event.wait().await }), 7);
    assert!(started.elapsed() >= Duration::from_millis(20));
}

/// Begun on a worker and awaited on this thread, and the other way round.
#[test]
fn a_sleep_ends_wherever_it_is_awaited() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (env, short) = (runtime.env(), Duration::from_millis(20));
    let begun = Instant::now();
    let (sender, receiver) = mpsc::channel();
    runtime.block_on(async move {
        let mut sleep = env.sleep(short);
        assert!((&mut sleep).now_or_never().is_none());
        sender.send(sleep).unwrap();
    });
    futures_executor::block_on(receiver.recv().unwrap());
    let mut sleep = runtime.env().sleep(short);
    assert!((&mut sleep).now_or_never().is_none());
    runtime.block_on(sleep);
    assert!(begun.elapsed() >= 2 * short);
}

#[test]
fn a_task_that_sleeps_is_dropped_with_its_runtime() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let held = Arc::new(());
    let seen = Arc::downgrade(&held);
    // Several at once have a queue of the task's own between it and the timers.
    for sleeps in [1, 3] {
        let (env, held) = (runtime.env(), held.clone());
        runtime.spawn_on(
            0,
            Box::pin(async move {
                let hour = |_| env.sleep(Duration::from_secs(3600));
                (0..sleeps).map(hour).collect::<FuturesUnordered<_>>().collect::<Vec<_>>().await;
                drop(held);
            }),
        );
    }
    drop(held);
    // What comes after them on this worker is done: they sleep.
    runtime.block_on(async {});
    drop(runtime);
    assert!(seen.upgrade().is_none(), "their memory is left");
}

#[test]
fn a_task_may_drop_its_own_runtime() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (ended, end) = mpsc::channel();
    let env = runtime.env();
    env.spawn(Box::pin(async move {
        drop(runtime);
        ended.send(()).unwrap();
    }));
    end.recv_timeout(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_runtime_stops_with_tasks_and_io_unfinished() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let env = runtime.env();
    let (_file, device) = file_device(MIB);
    env.spawn(Box::pin(async move {
        let _ = device.read(0, smallvec![IoBuf::with_len(4096)]).await;
        std::future::pending::<()>().await;
    }));
    drop(runtime);
}

/// What is woken takes a lock, as it is dropped, that what wakes it holds.
#[test]
fn tasks_that_wait_for_a_lock_are_dropped_with_the_one_that_holds_it() {
    let (ended, end) = mpsc::channel();
    let dropping = std::thread::spawn(move || {
        let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
        let lock = Arc::new(futures_util::lock::Mutex::new(()));
        for _ in 0..3 {
            let lock = lock.clone();
            runtime.spawn_on(
                0,
                Box::pin(async move {
                    let _held = lock.lock().await;
                    std::future::pending::<()>().await;
                }),
            );
        }
        // They have begun.
        runtime.block_on(async {});
        drop(runtime);
        ended.send(Arc::strong_count(&lock)).unwrap();
    });
    let count = end.recv_timeout(Duration::from_secs(10)).expect("the worker ends");
    assert_eq!(count, 1, "all are dropped");
    dropping.join().unwrap();
}

/// Two ends of a connection, one of them on the ring.
fn connected() -> (Stream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Stream::new(ours), theirs)
}

fn noise(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[test]
fn what_a_socket_has_no_room_for_is_sent_when_it_has() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (ours, mut theirs) = connected();
    let bytes = noise(8 << 20);
    let data = IoBuf::copy_of(&bytes).freeze();
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        let mut received = Vec::new();
        theirs.read_to_end(&mut received).unwrap();
        received
    });
    let parts = smallvec![data.slice(0..5), data.slice(5..3 << 20), data.slice(3 << 20..8 << 20)];
    let sent = runtime.block_on(async move {
        let sent = ours.send(parts).await;
        ours.shutdown();
        sent
    });
    sent.unwrap();
    assert!(reader.join().unwrap() == bytes);
}

#[test]
fn a_buffer_is_filled_from_many_parts_and_less_only_at_the_end() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (ours, mut theirs) = connected();
    let (bytes, cut) = (noise(3 << 20), 1 << 20);
    let to_send = bytes.clone();
    let writer = std::thread::spawn(move || {
        for part in to_send.chunks(300_000) {
            std::thread::sleep(Duration::from_millis(1));
            theirs.write_all(part).unwrap();
        }
    });
    let (some, whole, rest, none) = runtime.block_on(async move {
        let some = ours.receive(IoBuf::with_len(cut)).await;
        let got = *some.result.as_ref().unwrap();
        let whole = ours.receive_all(IoBuf::with_len(2 * cut)).await;
        let rest = ours.receive_all(IoBuf::with_len(2 * cut - got)).await;
        (some, whole, rest, ours.receive_all(IoBuf::with_len(1)).await)
    });
    writer.join().unwrap();
    let lens = [&some, &whole, &rest, &none].map(|received| received.result.unwrap());
    assert!(lens[0] > 0 && lens[0] < cut, "whatever is there: {lens:?}");
    assert_eq!(lens[1..], [2 * cut, cut - lens[0], 0]);
    let parts = [&some, &whole, &rest].into_iter().zip(lens).flat_map(|(part, len)| part.buf[..len].to_vec());
    assert!(parts.eq(bytes));
}

#[test]
fn a_peer_that_has_gone_is_a_typed_error() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (ours, theirs) = connected();
    drop(theirs);
    let sent = runtime.block_on(async move { ours.send(smallvec![IoBuf::zeroed(16).freeze()]).await });
    assert_eq!(sent.unwrap_err().kind, IoErrorKind::Gone);
}

#[test]
fn a_receive_in_the_ring_ends_with_its_connection() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (ours, mut theirs) = connected();
    let to_end = ours.clone();
    let ender = std::thread::spawn(move || {
        theirs.write_all(b"half").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        to_end.shutdown_receive();
    });
    let received = runtime.block_on(async move { ours.receive_all(IoBuf::with_len(8)).await });
    ender.join().unwrap();
    assert_eq!((received.result.unwrap(), &received.buf[..4]), (4, &b"half"[..]));
}

#[test]
fn a_task_that_is_always_ready_lets_others_have_their_io() {
    let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
    let (ours, mut theirs) = connected();
    let (rounds, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, end) = (rounds.clone(), done.clone());
    runtime.spawn_on(
        0,
        Box::pin(poll_fn(move |cx| {
            count.fetch_add(1, Ordering::Relaxed);
            cx.waker().wake_by_ref();
            if end.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        })),
    );
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        while theirs.read_exact(&mut byte).is_ok() {
            // An answer that is there at once is taken at once, and nobody else has a turn.
            std::thread::sleep(Duration::from_micros(200));
            theirs.write_all(&byte).unwrap();
        }
    });
    let waited = runtime.block_on(async move {
        let before = rounds.load(Ordering::Relaxed);
        for _ in 0..100 {
            ours.send(smallvec![IoBuf::zeroed(1).freeze()]).await.unwrap();
            ours.receive(IoBuf::with_len(1)).await.result.unwrap();
        }
        ours.shutdown();
        rounds.load(Ordering::Relaxed) - before
    });
    done.store(true, Ordering::Relaxed);
    echo.join().unwrap();
    assert!(waited > 0, "the busy task ran meanwhile");
}
