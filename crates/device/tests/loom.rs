//! Every order of steps of what waits and is shared, as far as two or three threads go. Run with
//! `cargo test -p stripewise-device --features loom --test loom`.

#![cfg(feature = "loom")]
#![allow(clippy::unwrap_used)]

use loom::thread;
use stripewise_device::{IoBuf, sync::Event};

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
