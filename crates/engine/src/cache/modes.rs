//! How the cache takes writes: as ever; or not for long, since it is about to be replaced.

use std::sync::atomic::Ordering;

use super::{Cache, CacheAlloc, CacheSettings, Dropped, ReadCache};

/// How writes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// They are acknowledged when they are put.
    Open,
    /// They are acknowledged when they are destaged.
    Through,
    /// They wait until another cache, or none, has taken the place of this one.
    Closed,
}

impl Cache {
    /// Whether a write that is to be acknowledged at once, or after its destage, may be put. The caller holds the
    /// lock of a bucket.
    #[inline]
    pub(super) fn takes(&self, is_destaged_at_once: bool) -> Mode {
        match self.mode.load(Ordering::Relaxed) {
            0 => Mode::Open,
            1 if is_destaged_at_once => Mode::Open,
            1 => Mode::Through,
            _ => Mode::Closed,
        }
    }

    /// Whether it is being emptied.
    pub(super) fn is_draining(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != Mode::Open as u8
    }

    /// Whether nothing is put any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.mode.load(Ordering::Relaxed) == Mode::Closed as u8
    }

    /// Writes are acknowledged again when they are put.
    pub(crate) fn open(&self) {
        self.mode.store(Mode::Open as u8, Ordering::SeqCst);
        self.tell_waiting();
    }

    /// From the return on, a write is acknowledged only after its destage. False, and nothing changes, if that was so
    /// before, or nothing is put at all.
    pub(crate) fn write_through(&self) -> bool {
        let (open, through) = (Mode::Open as u8, Mode::Through as u8);
        let was_open = self.mode.compare_exchange(open, through, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        self.let_puts_end();
        was_open
    }

    /// Takes [`Cache::write_through`] back, unless the cache was closed since.
    pub(crate) fn write_back(&self) {
        let (open, through) = (Mode::Open as u8, Mode::Through as u8);
        if self.mode.compare_exchange(through, open, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.tell_waiting();
        }
    }

    /// From the return on, nothing is put, and what is destaged is not kept.
    pub(crate) fn close(&self) {
        self.keeps_clean.store(false, Ordering::SeqCst);
        self.mode.store(Mode::Closed as u8, Ordering::SeqCst);
        self.let_puts_end();
    }

    /// A write looks at the mode while it holds a bucket: those that looked before have put what they put.
    fn let_puts_end(&self) {
        self.buckets.iter().for_each(|bucket| drop(bucket.lock()));
    }

    /// Keeps nothing of what members hold, until it [may](Cache::keep_clean).
    pub(crate) fn keep_nothing_clean(&self) {
        self.keeps_clean.store(false, Ordering::SeqCst);
    }

    /// Whether what members hold may stay.
    pub(super) fn keeps_clean(&self) -> bool {
        self.keeps_clean.load(Ordering::SeqCst)
    }

    /// From now on, keeps what members hold, if that was chosen.
    pub(crate) fn keep_clean(&self) {
        let settings = self.settings.lock();
        let keeps = settings.read != ReadCache::Nothing && !self.is_closed();
        // With the settings locked: another choice comes before or after.
        self.keeps_clean.store(keeps, Ordering::SeqCst);
    }

    /// Changes what can be changed without another cache: all but kind and size.
    pub(crate) fn use_settings(&self, settings: &CacheSettings) {
        {
            let mut own = self.settings.lock();
            if own.when != settings.when {
                // Until the destager has looked what the other policy says.
                self.take_full(None);
            }
            *own = *settings;
            if settings.read == ReadCache::Nothing {
                self.keeps_clean.store(false, Ordering::SeqCst);
            }
        }
        self.takes_whole_units.store(settings.alloc == CacheAlloc::Stripe, Ordering::Relaxed);
        self.read_ahead(settings.read == ReadCache::Ahead);
        self.limit_flush_time();
        if settings.read == ReadCache::Nothing {
            self.forget_all_clean();
        }
    }

    /// Drops what members hold, too.
    pub(crate) fn forget_all_clean(&self) {
        for bucket in &self.buckets {
            let mut dropped = Dropped::of(self);
            let mut bucket = bucket.lock();
            bucket.slots.iter_mut().for_each(|slot| slot.drop_clean(&mut dropped));
            self.forget_empty(&mut bucket);
        }
    }
}
