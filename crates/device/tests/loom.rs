//! Every order of steps of what waits and is shared, as far as two or three threads go. Run with
//! `cargo test -p stripewise-device --features loom --test loom`.

#![cfg(feature = "loom")]
#![allow(clippy::unwrap_used)]

use loom::thread;
use stripewise_device::{
    IoBuf,
    sync::{Event, Readers, Replaced},
};

/// Tries all orders with up to four switches between threads that nothing forces: bugs that need more are rare.
fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(check);
}

#[test]
fn an_event_wakes_everybody_however_setting_and_waiting_meet() {
    model(|| {
        let event = Event::default();
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let event: Event<u32> = event.clone();
                thread::spawn(move || loom::future::block_on(event.wait()))
            })
            .collect();
        event.set(7);
        event.set(8);
        waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), 7));
    });
}

#[test]
fn a_buffer_is_written_by_one_owner_at_a_time_wherever_its_parts_are_dropped() {
    model(|| {
        let mut head = IoBuf::zeroed(4096);
        let mut tail = head.split_off(512);
        let other = thread::spawn(move || {
            tail.fill(2);
            let shared = tail.freeze();
            let slice = shared.slice(0..8);
            drop(shared);
            // Owned again only once nobody else holds a part of the allocation.
            slice.try_into_owned().map(|mut own| own.fill(3)).is_ok()
        });
        head.fill(1);
        // Perhaps the same memory, perhaps not; never while the other still has a part of it.
        drop(head);
        let mut next = IoBuf::with_len(4096);
        next.fill(9);
        other.join().unwrap();
        assert!(next.iter().all(|byte| *byte == 9));
    });
}

#[test]
fn a_shared_buffer_has_one_new_owner() {
    model(|| {
        let shared = IoBuf::copy_of(&[5; 16]).freeze();
        let clone = shared.clone();
        let other = thread::spawn(move || clone.try_into_owned().map(|mut own| own.fill(6)).is_ok());
        let mine = shared.try_into_owned().map(|mut own| own.fill(7)).is_ok();
        let theirs = other.join().unwrap();
        assert!(!(mine && theirs), "both cannot have been alone");
    });
}

/// A value that knows whether it is gone.
struct Watched(std::sync::Arc<loom::sync::atomic::AtomicBool>);

impl Watched {
    fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self(std::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false))))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.store(true, loom::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn what_a_request_looks_at_stays_until_it_is_through() {
    model(|| {
        let readers = std::sync::Arc::new(Readers::default());
        let replaced = std::sync::Arc::new(Replaced::new(readers.clone(), Watched::new()));
        let other = {
            let (readers, replaced) = (readers.clone(), replaced.clone());
            thread::spawn(move || {
                let request = readers.enter();
                let seen = replaced.get(&request).value();
                let gone = seen.0.clone();
                thread::yield_now();
                assert!(!gone.load(loom::sync::atomic::Ordering::SeqCst), "it is gone while it is looked at");
            })
        };
        replaced.store(Watched::new());
        replaced.store(Watched::new());
        replaced.reclaim();
        other.join().unwrap();
        assert!(replaced.reclaim(), "nobody looks any more");
        assert_eq!(readers.active(), 0);
    });
}
