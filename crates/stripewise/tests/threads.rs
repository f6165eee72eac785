//! Requests that are made and awaited wherever the caller likes: on foreign threads, and on others than they
//! were made on.

#![allow(clippy::unwrap_used)]

mod common;

use std::{pin::Pin, sync::mpsc, thread, time::Duration};

use common::Ground;
use stripewise::{
    Array, ArrayError, AssembleOptions, Blocking, CreateOptions, IoBuf, SharedBuf, WriteFlags, ZeroFlags,
    assemble, geometry::Level, wait,
};

const BLOCK: usize = 4096;
const THREADS: u8 = 4;
const ROUNDS: u8 = 25;

fn block(byte: u8) -> SharedBuf {
    IoBuf::copy_of(&[byte; BLOCK]).freeze()
}

async fn holds(array: &Array, at: u64, byte: u8) -> bool {
    array.read(at, IoBuf::with_len(BLOCK)).await.unwrap().iter().all(|found| *found == byte)
}

/// Writes, reads, flushes, zeroes and discards in a region of the array's own.
fn work(array: &Array, thread: u8) {
    let start = u64::from(thread) << 20;
    for round in 1..=ROUNDS {
        let at = start + u64::from(round) * BLOCK as u64;
        wait(array.write(at, block(round), WriteFlags { fua: round % 5 == 0 })).unwrap();
        assert!(wait(holds(array, at, round)), "thread {thread}, round {round}");
    }
    wait(array.flush()).unwrap();
    wait(array.write_vectored(start, [block(7), block(8)].into_iter().collect(), WriteFlags::default()))
        .unwrap();
    assert!(wait(holds(array, start + BLOCK as u64, 8)));
    wait(array.write_zeroes(start, 1 << 16, ZeroFlags::default())).unwrap();
    assert!(wait(holds(array, start + BLOCK as u64, 0)));
    wait(array.discard(start, 1 << 20)).unwrap();
}

#[test]
fn any_thread_makes_requests_and_waits_for_them() {
    let ground = Ground::new();
    let array = ground.open();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let array = &array;
            scope.spawn(move || work(array, thread));
        }
    });
    wait(array.stop()).unwrap();
    let again = ground.open();
    assert!(wait(async { again.report().await }).degraded() == 0);
}

/// It would wait for itself. Nothing is begun.
#[test]
fn a_worker_cannot_wait_for_itself() {
    let ground = Ground::new();
    let array = ground.open();
    let blocking = Blocking::of(&array);
    let write = ground.host.block_on(async move { blocking.write_at(0, block(1), WriteFlags::default()) });
    assert_eq!(write, Err(ArrayError::OnWorker));
    assert!(wait(holds(&array, 0, 0)));
    Blocking::of(&array).write_at(0, block(1), WriteFlags::default()).unwrap();
    assert!(wait(holds(&array, 0, 1)));
}

type Written = Pin<Box<dyn Future<Output = Result<(), ArrayError>> + Send>>;
type Read = Pin<Box<dyn Future<Output = Result<IoBuf, ArrayError>> + Send>>;

#[test]
fn requests_that_a_worker_makes_are_awaited_on_any_thread() {
    let ground = Ground::new();
    let array = ground.open();
    for round in 1..=ROUNDS {
        let asking = array.clone();
        let (write, read): (Written, Read) = ground.host.block_on(async move {
            let write = Box::pin(asking.write(0, block(round), WriteFlags::default())) as Written;
            let read = Box::pin(asking.read(1 << 20, IoBuf::with_len(BLOCK))) as Read;
            (write, read)
        });
        wait(write).unwrap();
        assert!(wait(read).unwrap().iter().all(|byte| *byte == 0), "round {round}");
        assert!(wait(holds(&array, 0, round)));
    }
}

#[test]
fn a_request_whose_future_is_dropped_goes_to_its_end() {
    let ground = Ground::new();
    let array = ground.open();
    for round in 1..=ROUNDS {
        drop(array.write(u64::from(round) * BLOCK as u64, block(round), WriteFlags::default()));
    }
    // Stopping waits for what is under way.
    wait(array.stop()).unwrap();
    let again = ground.open();
    for round in 1..=ROUNDS {
        assert!(wait(holds(&again, u64::from(round) * BLOCK as u64, round)), "round {round}");
    }
}

#[test]
fn without_its_host_a_request_is_an_error() {
    let ground = Ground::new();
    let array = ground.open();
    drop(ground);
    assert!(matches!(wait(array.write(0, block(1), WriteFlags::default())), Err(ArrayError::Closed)));
    assert!(matches!(wait(array.read(0, IoBuf::with_len(BLOCK))), Err(ArrayError::Closed)));
    assert!(matches!(wait(array.flush()), Err(ArrayError::Closed)));
}

#[test]
fn arrays_are_made_and_opened_from_any_thread() {
    let ground = Ground::new();
    let devices = || ground.members.iter().map(|path| ground.host.open_member(path).unwrap()).collect();
    let mut options = CreateOptions::new("host:foreign", Level::Raid5, devices());
    options.measure = true;
    let array = wait(Array::create(ground.host.env(), options)).unwrap();
    wait(array.write(0, block(3), WriteFlags { fua: true })).unwrap();
    wait(array.stop()).unwrap();
    let again = wait(assemble(ground.host.env(), devices(), &AssembleOptions::default())).unwrap();
    assert!(wait(holds(&again, 0, 3)));
    let mut read = [0; BLOCK];
    wait(again.read_into(0, &mut read)).unwrap();
    assert_eq!(read, [3; BLOCK]);
}

/// Threads that write one behind the other, whose writes are gathered, and over one another, which wait for
/// rows.
fn write_until_refused(array: &Array, thread: u8) -> ArrayError {
    for round in 0.. {
        let place = (round * u64::from(THREADS) + u64::from(thread)) % 24;
        if let Err(error) = wait(array.write(place * BLOCK as u64, block(thread), WriteFlags::default())) {
            return error;
        }
    }
    unreachable!("the host is dropped before")
}

#[test]
fn threads_that_wait_are_told_when_their_host_is_dropped() {
    for _ in 0..5 {
        let ground = Ground::new();
        let array = ground.open();
        let (told, answers) = mpsc::channel();
        for thread in 0..2 * THREADS {
            let (array, told) = (array.clone(), told.clone());
            thread::spawn(move || told.send(write_until_refused(&array, thread % THREADS)));
        }
        thread::sleep(Duration::from_millis(30));
        drop(ground);
        for _ in 0..2 * THREADS {
            let answer = answers.recv_timeout(Duration::from_secs(20)).expect("no thread waits for ever");
            assert!(matches!(answer, ArrayError::Closed | ArrayError::Failed), "{answer}");
        }
    }
}
