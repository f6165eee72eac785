//! Every order of steps of the row locks and the intent bitmap, as far as two or three threads go. Run with
//! `cargo test --release -p stripewise-engine --features loom --lib model_check`.

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
    geometry::{Geometry, Level, StripeIndex},
    intent::{Holder, Intent, IntentDisk, Pages},
    ledger::FailedMember,
    locking::{CounterLocks, StripeLocks},
    locks::{Entry, Gathered, Part, Place, RowGuard, RowLocks, Until},
    regions::{RegionMap, RegionShape},
    rows::RowSet,
};

const STRIPE: StripeIndex = StripeIndex(0);

/// Tries all orders with up to four switches between threads that nothing forces: bugs that need more are rare.
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

/// Four writes of 512 bytes that end where the next begins, at the end of stripe 0 or in stripe 1.
fn stream(locks: &RowLocks, stripe: StripeIndex) -> Vec<RowGuard<'_>> {
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
            let locks = Arc::new(RowLocks::new(StripeLocks::Few(1), Some(stripe_bytes)));
            let stripe = if behind.start == 0 { NEXT } else { STRIPE };
            let kept: Vec<_> = stream(&locks, STRIPE).into_iter().map(RowGuard::keep).collect();
            let before = {
                let locks = locks.clone();
                thread::spawn(move || kept.into_iter().for_each(|kept| drop(locks.resume(kept))))
            };
            let place = Place { stripe, bytes: behind.clone(), leads: true };
            let rows = RowSet::range(4..5);
            if let Entry::Behind = locks.enter(&place, rows) {
                let data = stripewise_device::IoBuf::zeroed(512).freeze();
                let (promise, _outcome) = crate::array::Promise::new();
                let part = Part { data, flags: Default::default(), promise };
                if let Gathered::First = locks.gather(&place, part) {
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

/// A disk of the bitmap's that counts: what was written, and what a flush has made durable.
#[derive(Default)]
struct Counting {
    written: AtomicU64,
    durable: AtomicU64,
}

impl IntentDisk for Counting {
    async fn record_clean(&self, clean: bool) -> bool {
        let all = self.written.load(Ordering::SeqCst);
        assert!(!clean || self.durable.load(Ordering::SeqCst) == all, "clean, and not all is durable");
        true
    }

    fn holders(&self) -> Vec<Holder> {
        Vec::new()
    }

    async fn fail_members(&self, _: Vec<FailedMember>) -> bool {
        true
    }

    async fn flush_members(&self) -> bool {
        // A flush covers what was written before it was asked for.
        let covered = self.written.load(Ordering::SeqCst);
        thread::yield_now();
        self.durable.fetch_max(covered, Ordering::SeqCst);
        true
    }
}

/// A bitmap of one region.
fn intent() -> Intent {
    let geometry = Geometry::new(Level::Raid5, 3, 4096, 4096, 512).unwrap();
    let map = RegionMap::new(&geometry, RegionShape { bytes: 4096, kind: MapKind::Linear });
    Intent::new(map, Pages::new(uuid::Uuid::nil(), map.regions(), false), CounterLocks::Atomic)
}

fn write(intent: &Intent, disk: &Counting) {
    let guard = block_on(intent.begin(disk, STRIPE)).ok().unwrap();
    let region = intent.map.region_of(STRIPE);
    disk.written.fetch_add(1, Ordering::SeqCst);
    assert!(block_on(intent.pages.lock()).is_marked(region), "a write is under way in a region not marked");
    drop(guard);
}

#[test]
fn a_region_is_cleared_only_when_all_that_was_written_to_it_is_durable() {
    model(|| {
        let (intent, disk) = (Fixed::new(intent()), Fixed::new(Counting::default()));
        write(&intent, &disk);
        let writer = {
            let (intent, disk) = (intent.clone(), disk.clone());
            thread::spawn(move || write(&intent, &disk))
        };
        // The first look takes note, the second clears what was idle meanwhile.
        block_on(intent.clear_idle(&*disk));
        block_on(intent.clear_idle(&*disk));
        writer.join().unwrap();
        let marked = block_on(intent.pages.lock()).is_marked(intent.map.region_of(STRIPE));
        let (written, durable) = (disk.written.load(Ordering::SeqCst), disk.durable.load(Ordering::SeqCst));
        assert!(marked || written == durable, "cleared with {durable} of {written} writes durable");
    });
}

#[test]
fn writers_that_mark_a_region_at_once_share_it() {
    model(|| {
        let (intent, disk) = (Fixed::new(intent()), Fixed::new(Counting::default()));
        let writer = {
            let (intent, disk) = (intent.clone(), disk.clone());
            thread::spawn(move || write(&intent, &disk))
        };
        write(&intent, &disk);
        writer.join().unwrap();
        // Nobody is left counted in: two looks clear it.
        block_on(intent.clear_idle(&*disk));
        block_on(intent.clear_idle(&*disk));
        assert_eq!(intent.marked_regions(), 0);
    });
}
