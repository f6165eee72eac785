//! Changes of the members during writes: what may be acknowledged while a failure is being written down, and
//! what a filled member holds in the end.

use std::sync::Arc as Fixed;

use loom::{
    future::block_on,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};
use stripewise_device::{
    memory::MemoryDevice,
    sync::{Readers, Replaced},
};
use uuid::Uuid;

use super::{RowLocks, STRIPE, model};
use crate::{
    error::ArrayError,
    members::{
        bad_blocks::BadBlocks,
        member::Member,
        topology::{Incoming, Recorded, SlotState, Topology},
    },
    shape::{
        geometry::{Geometry, Level},
        rows::RowSet,
    },
};

/// Members of the arrays here.
const MEMBERS: usize = 2;

fn geometry() -> Geometry {
    Geometry::new(Level::Raid1, MEMBERS, 65536, 65536, 512).unwrap()
}

fn member(number: u32) -> Fixed<Member> {
    let device = Fixed::new(MemoryDevice::new(format!("m{number}"), 4096));
    Member::new(device, 0, number, Uuid::nil(), None, BadBlocks::default())
}

fn whole() -> Topology {
    let slot = |number| SlotState { primary: Some(member(number)), incoming: None };
    let slots = (0..MEMBERS as u32).map(slot).collect();
    Topology { geometry: geometry(), slots, failed: false, recorded: Recorded::already() }
}

/// An array, and what its superblocks say.
struct Array {
    readers: Fixed<Readers>,
    topology: Replaced<Topology>,
    /// The superblocks of the remaining members call the second member faulty.
    is_written_down: AtomicBool,
}

impl Array {
    fn new() -> Fixed<Self> {
        let readers = Fixed::new(Readers::default());
        let topology = Replaced::new(readers.clone(), Fixed::new(whole()));
        Fixed::new(Self { readers, topology, is_written_down: AtomicBool::new(false) })
    }

    /// The second member fails, in the order of `drop_members` and `write_down`; or the array gives up.
    fn lose(&self, gives_up: bool) {
        let recorded = Recorded::pending();
        let mut next = (*self.topology.load()).clone();
        if gives_up {
            next.failed = true;
        } else {
            next.slots[1].primary = None;
        }
        next.recorded = recorded.clone();
        self.topology.store(Fixed::new(next));
        if !gives_up {
            self.is_written_down.store(true, Ordering::Relaxed);
        }
        recorded.set();
    }

    /// A write. It is done at once, or it waits until what it relied on is written down.
    fn write(&self, at_once: bool) {
        let request = self.readers.enter();
        let seen = self.topology.get(&request);
        if seen.failed {
            return;
        }
        let passed_over = seen.slots[1].primary.is_none();
        let may_tell = || seen.recorded.acknowledgement(|| self.topology.get(&request).failed);
        let told = match may_tell() {
            Some(told) => told,
            None if at_once => return,
            None => {
                block_on(seen.recorded.wait());
                may_tell().expect("it waited for that")
            }
        };
        if told.is_ok() && passed_over {
            assert!(self.is_written_down.load(Ordering::Relaxed), "acknowledged before it is written down");
        }
    }
}

#[test]
fn a_write_that_passes_over_a_member_is_acknowledged_when_that_is_written_down() {
    for at_once in [true, false] {
        model(move || {
            let array = Array::new();
            let writer = {
                let array = array.clone();
                thread::spawn(move || array.write(at_once))
            };
            array.lose(false);
            writer.join().unwrap();
        });
    }
}

/// The array's last change is never written down: a write that waits for it must be told so.
#[test]
fn a_write_that_waits_is_told_that_the_array_has_given_up() {
    model(|| {
        let array = Array::new();
        // The second member has failed, and the first fails to take the superblock that would say so.
        let pending = Recorded::pending();
        let mut degraded = (*array.topology.load()).clone();
        degraded.slots[1].primary = None;
        degraded.recorded = pending.clone();
        array.topology.store(Fixed::new(degraded));
        let writer = {
            let array = array.clone();
            thread::spawn(move || {
                let request = array.readers.enter();
                let seen = array.topology.get(&request);
                if seen.failed {
                    return;
                }
                block_on(seen.recorded.wait());
                let told = seen.recorded.acknowledgement(|| array.topology.get(&request).failed);
                assert_eq!(told, Some(Err(ArrayError::Failed)), "nothing was written down");
            })
        };
        array.lose(true);
        pending.set();
        writer.join().unwrap();
    });
}

/// What a stripe holds on the member in sync and on the member being filled.
#[derive(Default)]
struct Stripe {
    primary: AtomicU64,
    incoming: AtomicU64,
}

/// When the rebuild says how far it has come: while it holds the rows, or after.
#[derive(Clone, Copy, PartialEq)]
enum Advances {
    WithRows,
    WithoutRows,
}

/// A stripe is filled during a write to it. The task that comes first has its rows.
fn fill_beside_a_write(advances: Advances) {
    model(move || {
        let geometry = Fixed::new(geometry());
        let locks = Fixed::new(RowLocks::with_buckets(1));
        let mut topology = whole();
        let incoming = Incoming::new(member(9), 0);
        topology.slots[0].incoming = Some(incoming.clone());
        let readers = Fixed::new(Readers::default());
        let topology = Fixed::new(Replaced::new(readers.clone(), Fixed::new(topology)));
        let stripe = Fixed::new(Stripe::default());
        let rows = RowSet::range(0..1);
        let writer = {
            let (locks, topology, stripe) = (locks.clone(), topology.clone(), stripe.clone());
            thread::spawn(move || {
                let _rows = block_on(locks.lock(STRIPE, rows));
                let topology = topology.load();
                for writer in topology.writers(STRIPE, 0) {
                    let content = if writer.dev_number == 9 { &stripe.incoming } else { &stripe.primary };
                    content.store(1, Ordering::Relaxed);
                }
            })
        };
        let guard = block_on(locks.lock(STRIPE, rows));
        stripe.incoming.store(stripe.primary.load(Ordering::Relaxed), Ordering::Relaxed);
        if advances == Advances::WithRows {
            incoming.advance(1);
            drop(guard);
        } else {
            drop(guard);
            incoming.advance(1);
        }
        writer.join().unwrap();
        let on = |content: &AtomicU64| content.load(Ordering::Relaxed);
        assert_eq!(on(&stripe.incoming), on(&stripe.primary), "the filled member lacks a write");
        // The filled member takes over: from now on it is the only one that is read.
        let filled = topology.load().with_primary(geometry.member_of(STRIPE, 0), &incoming.member);
        topology.store(Fixed::new(filled));
        let now = topology.load();
        assert_eq!(now.reader(STRIPE, 0).unwrap().dev_number, 9);
    });
}

#[test]
fn a_filled_stripe_has_what_is_written_meanwhile() {
    fill_beside_a_write(Advances::WithRows);
}

/// If rows were released before the rebuild says that it has passed them, a write in between would be lost.
/// Loom finds that.
#[test]
#[should_panic(expected = "lacks a write")]
fn a_stripe_whose_rows_are_let_go_of_too_early_lacks_a_write() {
    fill_beside_a_write(Advances::WithoutRows);
}

/// A member takes over while writers that hold rows look at the topology. They go to the old member or to the
/// new one, and the topology that they look at stays.
#[test]
fn a_topology_is_swapped_beside_writers_that_hold_rows() {
    model(|| {
        let (array, locks) = (Array::new(), Fixed::new(RowLocks::with_buckets(1)));
        let writer = {
            let (array, locks) = (array.clone(), locks.clone());
            thread::spawn(move || {
                let request = array.readers.enter();
                let _rows = block_on(locks.lock(STRIPE, RowSet::range(0..1)));
                let seen = array.topology.get(&request);
                thread::yield_now();
                let number = seen.slots[0].primary.as_ref().map(|member| member.dev_number);
                assert!([Some(0), Some(7)].contains(&number));
                let kept = request.keep();
                drop(array.readers.resume(kept));
            })
        };
        let next = array.topology.load().with_primary(crate::shape::geometry::MemberIndex(0), &member(7));
        array.topology.store(Fixed::new(next));
        array.topology.reclaim();
        // A task that gets the rows after the swap sees the new member.
        let rows = block_on(locks.lock(STRIPE, RowSet::range(0..1)));
        assert_eq!(array.topology.load().slots[0].primary.as_ref().unwrap().dev_number, 7);
        drop(rows);
        writer.join().unwrap();
        assert!(array.topology.reclaim(), "nobody looks any more");
    });
}
