//! Checks every order of steps of the row locks and the intent bitmap with two or three threads, in [`members`] of
//! changes of the members, and in [`cache`] of the cache. Run with `cargo test --release -p stripewise-engine
//! --features loom --lib model_check`.
//!
//! Not checked: a third thread at the bitmap, which takes minutes for each kind of lock; members that fail
//! while a page is written, and more than one page, which the simulator has; more than one bucket or stripe
//! lock, since two of them share nothing.

#![allow(clippy::unwrap_used)]

mod cache;
mod members;

use std::sync::Arc as Fixed;

use loom::{
    future::block_on,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use stripewise_format::extension::MapKind;

use crate::{
    intent::{
        Holder, Intent, IntentDisk, Pages,
        locking::{CounterLocks, StripeLocks},
    },
    locks::{Entry, Gathered, Place, RowGuard, Until},
    metadata::ledger::FailedMember,
    shape::{
        geometry::{Geometry, Level, StripeIndex},
        regions::{RegionMap, RegionShape},
        rows::RowSet,
    },
};

/// Here nothing is kept of writes that wait to be gathered.
type RowLocks = crate::locks::RowLocks<()>;

const STRIPE: StripeIndex = StripeIndex(0);

/// Tries all orders with up to four unforced switches between threads: bugs that need more are rare.
fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(check);
}

#[test]
fn overlapping_rows_have_one_holder_and_nobody_waits_for_ever() {
    model(|| {
        let locks = Arc::new(RowLocks::with_buckets(1));
        let busy = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let work = |locks: &RowLocks, busy: &[AtomicBool], rows: std::ops::Range<usize>| {
            let guard = block_on(locks.lock(STRIPE, RowSet::range(rows.clone())));
            rows.clone()
                .for_each(|row| assert!(!busy[row].swap(true, Ordering::SeqCst), "row {row} is shared"));
            rows.for_each(|row| busy[row].store(false, Ordering::SeqCst));
            drop(guard);
        };
        let others: Vec<_> = [0..2, 1..2]
            .into_iter()
            .map(|rows| {
                let (locks, busy) = (locks.clone(), busy.clone());
                thread::spawn(move || work(&locks, &busy[..], rows))
            })
            .collect();
        work(&locks, &busy[..], 0..1);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn a_waiter_that_goes_away_takes_nothing_with_it() {
    use futures_util::FutureExt;

    model(|| {
        let locks = Arc::new(RowLocks::with_buckets(1));
        let rows = RowSet::range(0..1);
        let guard = block_on(locks.lock(STRIPE, rows));
        let impatient = {
            let locks = locks.clone();
            // Polled once, perhaps granted meanwhile, and dropped.
            thread::spawn(move || drop(locks.lock(STRIPE, rows).now_or_never()))
        };
        let patient = {
            let locks = locks.clone();
            thread::spawn(move || drop(block_on(locks.lock(STRIPE, rows))))
        };
        drop(guard);
        impatient.join().unwrap();
        patient.join().unwrap();
        assert!(locks.lock(STRIPE, rows).now_or_never().is_some(), "nothing is left locked");
    });
}

/// Four writes of 512 bytes at the start of a stripe, each beginning where the one before ends.
fn stream(locks: &RowLocks, stripe: StripeIndex) -> Vec<RowGuard<'_, ()>> {
    (0..4)
        .map(|index| {
            let place = Place { stripe, bytes: index * 512..(index + 1) * 512, leads: true };
            match locks.enter(&place, RowSet::range(index..index + 1)) {
                Entry::Had(rows) => rows,
                _ => unreachable!("rows are free, and three are no stream"),
            }
        })
        .collect()
}

#[test]
fn writes_behind_one_that_ends_are_written_all_the_same() {
    const NEXT: StripeIndex = StripeIndex(1);
    for (stripe_bytes, behind) in [(2048, 0..512), (8192, 2048..2560)] {
        model(move || {
            let locks = Arc::new(RowLocks::new(StripeLocks::Few(1), 1, Some(stripe_bytes)));
            let stripe = if behind.start == 0 { NEXT } else { STRIPE };
            let kept: Vec<_> = stream(&locks, STRIPE).into_iter().map(RowGuard::keep).collect();
            let before = {
                let locks = locks.clone();
                thread::spawn(move || kept.into_iter().for_each(|kept| drop(locks.resume(kept))))
            };
            let place = Place { stripe, bytes: behind.clone(), leads: true };
            let rows = RowSet::range(4..5);
            if let Entry::Behind = locks.enter(&place, rows) {
                if let Gathered::First = locks.gather(&place, ()) {
                    block_on(locks.wait_for_gather(stripe, Until::Due));
                    let due = locks.take_gather(stripe, |_| rows);
                    assert_eq!((due.bytes, due.parts.len()), (behind.clone(), 1));
                    drop(block_on(due.rows));
                }
            }
            before.join().unwrap();
            assert!(locks.is_idle(), "nothing is left behind");
        });
    }
}

/// A disk for the bitmap that counts for each of two regions what was written, and what a flush has made
/// durable.
#[derive(Default)]
struct Counting {
    written: [AtomicU64; REGIONS],
    durable: [AtomicU64; REGIONS],
}

impl Counting {
    fn written(&self) -> [u64; REGIONS] {
        std::array::from_fn(|region| self.written[region].load(Ordering::SeqCst))
    }

    fn durable(&self) -> [u64; REGIONS] {
        std::array::from_fn(|region| self.durable[region].load(Ordering::SeqCst))
    }
}

impl IntentDisk for Counting {
    fn has_failed(&self) -> bool {
        false
    }

    async fn record_clean(&self, clean: bool) -> bool {
        let all = self.written();
        assert!(!clean || self.durable() == all, "clean, and not all is durable");
        true
    }

    fn holders(&self) -> Vec<Holder> {
        Vec::new()
    }

    async fn fail_members(&self, _: Vec<FailedMember>) -> bool {
        true
    }

    async fn flush_members(&self) -> bool {
        // A flush covers what was written before it was requested.
        let covered = self.written();
        thread::yield_now();
        self.durable.iter().zip(covered).for_each(|(durable, covered)| {
            durable.fetch_max(covered, Ordering::SeqCst);
        });
        true
    }
}

/// Regions of the bitmaps here, of two stripes each. Linear maps have neighbours in one region, distributed
/// maps in two.
const REGIONS: usize = 2;

/// Where two writers write: in stripes that are neighbours.
const NEIGHBOUR: StripeIndex = StripeIndex(1);

fn intent(kind: MapKind, locks: CounterLocks) -> Intent {
    let geometry = Geometry::new(Level::Raid5, 3, 4096, 4 * 4096, 512).unwrap();
    let map = RegionMap::new(&geometry, RegionShape { bytes: 2 * 4096, kind });
    assert_eq!(map.regions(), REGIONS);
    Intent::new(map, Pages::new(uuid::Uuid::nil(), map.regions(), false), locks)
}

fn write(intent: &Intent, disk: &Counting, stripe: StripeIndex) {
    let guard = block_on(intent.begin(disk, stripe)).ok().unwrap();
    let region = intent.map.region_of(stripe);
    disk.written[region].fetch_add(1, Ordering::SeqCst);
    let pages = block_on(intent.pages.lock());
    assert!(pages.is_marked(region), "a write is under way in a region not marked");
    assert!(pages.marked_dirty, "a write is under way, and the superblocks say clean");
    drop(pages);
    drop(guard);
}

fn write_aside(
    intent: &Fixed<Intent>,
    disk: &Fixed<Counting>,
    stripe: StripeIndex,
) -> thread::JoinHandle<()> {
    let (intent, disk) = (intent.clone(), disk.clone());
    thread::spawn(move || write(&intent, &disk, stripe))
}

/// The first look takes the used flags away, the second clears regions that were idle meanwhile.
fn look_twice(intent: &Intent, disk: &Counting) {
    block_on(intent.clear_idle(disk));
    block_on(intent.clear_idle(disk));
}

/// Clears a region during a write to the neighbouring stripe, in the same region or in another one.
fn regions_are_cleared_when_they_are_durable(kind: MapKind, locks: CounterLocks) {
    model(move || {
        let (intent, disk) = (Fixed::new(intent(kind, locks)), Fixed::new(Counting::default()));
        write(&intent, &disk, STRIPE);
        let writer = write_aside(&intent, &disk, NEIGHBOUR);
        look_twice(&intent, &disk);
        writer.join().unwrap();
        let pages = block_on(intent.pages.lock());
        for (region, (written, durable)) in disk.written().into_iter().zip(disk.durable()).enumerate() {
            let is_kept = pages.is_marked(region) || written == durable;
            assert!(is_kept, "{region} is cleared with {durable} of {written} writes durable");
        }
    });
}

/// Marks neighbours at the same time, and no writer stays counted in.
fn writers_share_a_mark(kind: MapKind, locks: CounterLocks) {
    model(move || {
        let (intent, disk) = (Fixed::new(intent(kind, locks)), Fixed::new(Counting::default()));
        let writer = write_aside(&intent, &disk, NEIGHBOUR);
        write(&intent, &disk, STRIPE);
        writer.join().unwrap();
        look_twice(&intent, &disk);
        assert_eq!(intent.marked_regions(), 0);
    });
}

/// The kinds of lock that count writes.
const LOCKS: [CounterLocks; 3] = [CounterLocks::Atomic, CounterLocks::Global, CounterLocks::PerCounter];

#[test]
fn a_region_is_cleared_only_when_all_that_was_written_to_it_is_durable() {
    LOCKS.into_iter().for_each(|locks| regions_are_cleared_when_they_are_durable(MapKind::Linear, locks));
}

#[test]
fn a_region_is_cleared_only_when_it_is_durable_while_another_one_is_marked() {
    LOCKS
        .into_iter()
        .for_each(|locks| regions_are_cleared_when_they_are_durable(MapKind::Distributed, locks));
}

#[test]
fn writers_that_mark_a_region_at_once_share_it() {
    LOCKS.into_iter().for_each(|locks| writers_share_a_mark(MapKind::Linear, locks));
}

#[test]
fn writers_that_mark_two_regions_at_once_share_a_page_write() {
    LOCKS.into_iter().for_each(|locks| writers_share_a_mark(MapKind::Distributed, locks));
}

/// Where nothing is counted the first writer marks all regions, and they stay marked.
#[test]
fn writers_that_are_not_counted_mark_all_regions() {
    model(|| {
        let intent = Fixed::new(intent(MapKind::Linear, CounterLocks::Uncounted));
        let disk = Fixed::new(Counting::default());
        let writer = write_aside(&intent, &disk, NEIGHBOUR);
        write(&intent, &disk, STRIPE);
        writer.join().unwrap();
        look_twice(&intent, &disk);
        assert_eq!(intent.marked_regions(), REGIONS);
        block_on(intent.clear_all(&*disk));
        assert_eq!(intent.marked_regions(), 0);
    });
}
