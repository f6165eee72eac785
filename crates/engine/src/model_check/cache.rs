//! The cache: writers, readers and destages of one block, in every order of their steps. A number stands for the block that
//! a member holds; the rows are locked by there being one thread that writes to it.

use std::sync::Arc as Fixed;

use loom::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    thread,
};
use stripewise_device::{
    IoBuf, Timestamp, WriteBufs,
    sync::{Readers, Replaced},
};

use super::{STRIPE, model};
use crate::{
    cache::{Cache, CacheKind, CacheSettings, DestageReason, Hit, NotPut, Way},
    compute::Data,
    shape::{
        geometry::{Geometry, Level, StripeSpan},
        rows::{BLOCK_BYTES, RowSet},
    },
    stripes::switch::{reclaim, replace},
};

const SIZE: u64 = 256 << 10;
/// The block that all tests are about, and another one.
const BLOCK: StripeSpan = span(0);
const OTHER: StripeSpan = span(1);

const fn span(row: usize) -> StripeSpan {
    StripeSpan { stripe: STRIPE, start: row * BLOCK_BYTES, len: BLOCK_BYTES, request_offset: 0 }
}

/// A cache, and what a member holds.
struct Cached {
    cache: Fixed<Cache>,
    member: AtomicU8,
}

impl Cached {
    fn new() -> Arc<Self> {
        let geometry = Geometry::new(Level::Raid5, 3, 2 * BLOCK_BYTES as u32, 4 << 20, 512).unwrap();
        let cache = Cache::new(&CacheSettings::new(CacheKind::Stripe, SIZE), SIZE, &geometry);
        let cache = cache.unwrap().unwrap();
        cache.keep_clean();
        Arc::new(Self { cache, member: AtomicU8::new(0) })
    }

    fn put(&self, value: u8) -> Result<bool, NotPut> {
        self.put_in(&BLOCK, value)
    }

    fn put_in(&self, span: &StripeSpan, value: u8) -> Result<bool, NotPut> {
        let mut block = IoBuf::zeroed(BLOCK_BYTES);
        block.fill(value);
        let data = Data::of(WriteBufs::from_iter([block.freeze()]), 0);
        self.cache.put(span, &data, Way::Back, Timestamp::default())
    }

    /// What the cache holds, all of one version.
    fn look(&self) -> Option<u8> {
        let mut into = [0; BLOCK_BYTES];
        match self.cache.read(STRIPE, 0, 0..BLOCK_BYTES, &mut into) {
            Hit::All => {
                assert!(into.iter().all(|byte| *byte == into[0]), "one version is read");
                Some(into[0])
            }
            hit => {
                assert_eq!(hit, Hit::Nothing);
                None
            }
        }
    }

    /// What a client reads.
    fn read(&self) -> u8 {
        self.look().unwrap_or_else(|| self.member.load(Ordering::SeqCst))
    }

    fn is_dirty(&self) -> bool {
        !self.cache.dirty_rows(STRIPE).is_empty()
    }

    /// Writes what is dirty to the member.
    fn destage(&self) {
        let now = Timestamp::default();
        let lent =
            self.cache.lend(STRIPE, (RowSet::range(0..2), RowSet::range(0..2)), DestageReason::Flush, now);
        if let Some((cells, mut ending)) = lent {
            let (_, block) = cells.columns().next().unwrap().1.get(0).unwrap();
            self.member.store(block[0], Ordering::SeqCst);
            drop(cells);
            ending.succeed();
        }
    }

    /// The member has the last version, or it is dirty; reads find it, and a destage brings it there.
    fn check(&self, last: u8) {
        assert_eq!(self.read(), last);
        assert!(self.is_dirty() || self.member.load(Ordering::SeqCst) == last, "nothing else is clean");
        self.destage();
        assert_eq!((self.is_dirty(), self.member.load(Ordering::SeqCst), self.read()), (false, last, last));
        assert_eq!(self.cache.dirty_blocks(), 0);
    }
}

/// A thread that works beside this one.
fn beside<T: 'static>(
    cached: &Arc<Cached>,
    work: impl FnOnce(&Cached) -> T + 'static,
) -> thread::JoinHandle<T> {
    let cached = cached.clone();
    thread::spawn(move || work(&cached))
}

#[test]
fn what_is_rewritten_while_it_is_destaged_stays_dirty() {
    model(|| {
        let cached = Cached::new();
        cached.put(1).unwrap();
        let writer = beside(&cached, |cached| {
            cached.put(2).unwrap();
        });
        cached.destage();
        writer.join().unwrap();
        cached.check(2);
    });
}

/// Readers look first at what is shown, then at the filter: neither hides what is there.
#[test]
fn a_reader_never_goes_back_to_an_older_version() {
    model(|| {
        let cached = Cached::new();
        let reader = beside(&cached, |cached| {
            let versions = [cached.read(), cached.read()];
            assert!(versions[0] <= versions[1], "{versions:?}");
        });
        cached.put(1).unwrap();
        cached.destage();
        cached.put(2).unwrap();
        reader.join().unwrap();
        cached.check(2);
    });
}

/// A block that was lent is replaced, and its memory goes to another cell, while it is read.
#[test]
fn a_reader_never_gets_another_cells_bytes() {
    model(|| {
        let cached = Cached::new();
        cached.put(1).unwrap();
        let lent = cached.cache.lend(
            STRIPE,
            (RowSet::range(0..1), RowSet::range(0..1)),
            DestageReason::Flush,
            Timestamp::default(),
        );
        let writer = beside(&cached, |cached| {
            cached.put(2).unwrap();
        });
        let other = beside(&cached, move |cached| {
            drop(lent);
            cached.put_in(&OTHER, 9).unwrap();
        });
        let read = cached.look();
        assert!(read == Some(1) || read == Some(2), "{read:?}");
        writer.join().unwrap();
        other.join().unwrap();
        assert_eq!(cached.look(), Some(2));
    });
}

#[test]
fn a_flush_finds_what_was_acknowledged_before_it() {
    model(|| {
        let cached = Cached::new();
        // Its bucket is marked.
        cached.put(0).unwrap();
        cached.destage();
        let acknowledged = Arc::new(AtomicBool::new(false));
        let told = acknowledged.clone();
        let writer = beside(&cached, move |cached| {
            cached.put(1).unwrap();
            told.store(true, Ordering::Release);
        });
        // The idle destager looks, too, and takes marks back.
        cached.cache.dirty_until(cached.cache.end_epoch());
        let must_find = acknowledged.load(Ordering::Acquire);
        let due = cached.cache.to_flush_until(cached.cache.end_epoch());
        assert!(!must_find || !due.is_empty(), "what was acknowledged is due");
        writer.join().unwrap();
        let due = cached.cache.to_flush_until(cached.cache.end_epoch());
        assert_eq!(due.len(), 1);
        cached.check(1);
    });
}

/// The thread that writes past the cache has the rows, as a destage has.
#[test]
fn a_write_passes_by_only_what_is_not_dirty_and_leaves_no_older_version() {
    model(|| {
        let cached = Cached::new();
        cached.put(1).unwrap();
        cached.destage();
        let writer = beside(&cached, |cached| {
            cached.put(3).unwrap();
        });
        let has_passed = cached.cache.let_pass(&BLOCK, 1);
        if has_passed {
            cached.member.store(2, Ordering::SeqCst);
            let now = cached.read();
            assert!(now == 2 || now == 3, "{now} is older than what passed by");
        }
        writer.join().unwrap();
        assert_eq!(cached.look(), Some(3));
        cached.check(3);
    });
}

#[test]
fn nothing_is_put_once_the_cache_is_closed() {
    model(|| {
        let cached = Cached::new();
        let writer = beside(&cached, |cached| cached.put(1));
        cached.cache.close();
        let dirty = cached.cache.dirty_stripes().count();
        let put = writer.join().unwrap();
        assert_eq!(dirty, usize::from(put.is_ok()));
        assert_eq!(cached.is_dirty(), put.is_ok());
        assert!(put.is_ok() || put == Err(NotPut::Closed));
    });
}

/// When a cache that comes keeps what members hold.
#[derive(Clone, Copy)]
enum Keeps {
    /// Once the requests that began before it have ended.
    InTime,
    AtOnce,
}

/// A cache comes while a write is under way that may have looked for it too early. The rows are a lock here.
fn cache_comes_beside_a_write(keeps: Keeps) {
    model(move || {
        let cached = Cached::new();
        let readers = Fixed::new(Readers::default());
        let place = Fixed::new(Replaced::new(readers.clone(), Fixed::new(None)));
        let rows = Fixed::new(Mutex::new(()));
        let writer = {
            let (place, rows) = (place.clone(), rows.clone());
            beside(&cached, move |cached| {
                let request = readers.enter();
                if place.get(&request).value().is_some() {
                    cached.put(1).unwrap();
                } else {
                    let _rows = rows.lock().unwrap();
                    cached.member.store(1, Ordering::SeqCst);
                }
            })
        };
        replace(&place, Some(cached.cache.clone()));
        match keeps {
            Keeps::InTime => reclaim(&place),
            Keeps::AtOnce => cached.cache.keep_clean(),
        }
        cached.put(2).unwrap();
        {
            let _rows = rows.lock().unwrap();
            cached.destage();
        }
        writer.join().unwrap();
        let is_current = cached.is_dirty() || cached.read() == cached.member.load(Ordering::SeqCst);
        assert!(is_current, "a clean block is older than what its member holds");
    });
}

#[test]
fn a_cache_keeps_nothing_that_an_older_write_may_replace() {
    cache_comes_beside_a_write(Keeps::InTime);
}

/// If it did so at once, a write that began before could leave it with an older block. Loom finds that.
#[test]
#[should_panic(expected = "older than what its member holds")]
fn a_cache_that_keeps_blocks_at_once_has_an_older_one() {
    cache_comes_beside_a_write(Keeps::AtOnce);
}
