//! Every order of steps of what waits and is shared, as far as two or three threads go. Run with
//! `cargo test -p stripewise-device --features loom --test loom`.

#![cfg(feature = "loom")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc as Fixed;

use loom::{
    cell::UnsafeCell,
    sync::{Condvar, Mutex},
    thread,
};
use stripewise_device::{
    IoBuf,
    sync::{Event, Mailbox, Readers, Replaced},
};

/// Tries all orders with up to four switches between threads that nothing forces: bugs that need more are
/// rare.
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

/// A value whose end loom sees: dropped without an order after those who look at it, it is a race.
struct Watched(UnsafeCell<u32>);

// SAFETY: loom's cell itself tells of accesses that are not in an order, which is what these models are for;
// nothing else is done with it.
#[allow(unsafe_code)]
unsafe impl Sync for Watched {}

impl Watched {
    fn new() -> Fixed<Self> {
        Fixed::new(Self(UnsafeCell::new(0)))
    }

    fn look(&self) {
        self.0.with(|_| ());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
    }
}

#[test]
fn what_a_request_looks_at_stays_until_it_is_through() {
    model(|| {
        let readers = Fixed::new(Readers::default());
        let replaced = Fixed::new(Replaced::new(readers.clone(), Watched::new()));
        let other = {
            let (readers, replaced) = (readers.clone(), replaced.clone());
            thread::spawn(move || {
                let request = readers.enter();
                let seen = replaced.get(&request).value();
                seen.look();
                thread::yield_now();
                seen.look();
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

/// Threads without a cell of their own count in one that they share.
#[test]
fn requests_that_share_a_cell_are_all_counted() {
    model(|| {
        let readers = Fixed::new(Readers::default());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let readers = readers.clone();
                thread::spawn(move || drop(readers.enter()))
            })
            .collect();
        let mine = readers.enter();
        assert!(readers.active() >= 1, "this one is under way");
        drop(mine);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!((readers.active(), readers.served()), (0, 3));
    });
}

/// What a worker sleeps on: an eventfd that counts how often it was written.
#[derive(Default)]
struct Bell {
    rung: Mutex<u32>,
    ringing: Condvar,
}

impl Bell {
    fn ring_if(&self, sleeps: bool) {
        if sleeps {
            *self.rung.lock().unwrap() += 1;
            self.ringing.notify_one();
        }
    }

    /// As reading the eventfd: however often it was written, that is over now.
    fn wait(&self) -> u32 {
        let mut rung = self.rung.lock().unwrap();
        while *rung == 0 {
            rung = self.ringing.wait(rung).unwrap();
        }
        std::mem::take(&mut *rung)
    }
}

type FallAsleep = fn(&Mailbox<u32>, &mut Vec<u32>) -> bool;

/// A worker's turns, as the executor takes them, until it has so much or is stopped. What it was sent.
fn work(mail: &Mailbox<u32>, bell: &Bell, enough: usize, fall_asleep: FallAsleep) -> Vec<u32> {
    let (mut received, mut announced, mut rung) = (Vec::new(), 0, 0);
    loop {
        received.extend(mail.take());
        if received.len() >= enough || mail.is_stopping() {
            assert!(rung <= announced, "{announced} sleeps announced, woken {rung} times");
            return received;
        }
        announced += 1;
        if fall_asleep(mail, &mut received) {
            rung += bell.wait();
        }
        mail.wake_up();
    }
}

/// What a worker does that other threads send to, or stop.
fn model_of_a_worker<const N: usize>(
    others: [fn(&Mailbox<u32>) -> bool; N],
    enough: usize,
    fall_asleep: FallAsleep,
) {
    model(move || {
        let (mail, bell) = (Fixed::new(Mailbox::default()), Fixed::new(Bell::default()));
        let others = others.map(|act| {
            let (mail, bell) = (mail.clone(), bell.clone());
            thread::spawn(move || bell.ring_if(act(&mail)))
        });
        let mut received = work(&mail, &bell, enough, fall_asleep);
        others.into_iter().for_each(|other| other.join().unwrap());
        received.extend(mail.take());
        received.sort_unstable();
        assert!([&[1][..], &[1, 2][..]].contains(&&received[..]), "{received:?}");
    });
}

#[test]
fn a_worker_does_not_sleep_over_what_was_sent() {
    let others: [fn(&Mailbox<u32>) -> bool; 2] = [|mail| mail.send(1), |mail| mail.send(2)];
    model_of_a_worker(others, 2, |mail, received| mail.fall_asleep(received));
}

#[test]
fn a_worker_does_not_sleep_over_its_end() {
    let others: [fn(&Mailbox<u32>) -> bool; 2] = [|mail| mail.send(1), |mail| mail.stop()];
    model_of_a_worker(others, usize::MAX, |mail, received| mail.fall_asleep(received));
}

/// One that does not look again once its sleep is announced is not woken for what was sent before: loom finds
/// that.
#[test]
#[should_panic(expected = "deadlock")]
fn a_worker_that_does_not_look_again_sleeps_over_it() {
    let others: [fn(&Mailbox<u32>) -> bool; 1] = [|mail| mail.send(1)];
    model_of_a_worker(others, 1, |mail, _| {
        mail.announce_sleep();
        true
    });
}
