//! How the cache takes writes: as ever; or not for long, since it is about to be replaced.

use std::sync::atomic::Ordering;

use super::{Cache, CacheAlloc, CacheSettings, Dropped, ReadCache};
use crate::mutants::{Mutant, lives};

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

    /// From the return on, a write is acknowledged only after its destage.
    pub(crate) fn write_through(&self) {
        self.enter_mode(Mode::Through);
    }

    /// From the return on, nothing is put. What is destaged then is not kept; what is clean already can be read by requests
    /// that began before.
    pub(crate) fn close(&self) {
        self.keeps_clean.store(false, Ordering::SeqCst);
        self.enter_mode(Mode::Closed);
    }

    fn enter_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
        // A write looks at the mode while it holds a bucket: those that looked before are through.
        self.buckets.iter().for_each(|bucket| drop(bucket.lock()));
    }

    /// Keeps nothing of what members hold, until it [may](Cache::keep_clean).
    pub(crate) fn keep_nothing_clean(&self) {
        if !lives(Mutant::YoungKeepsClean) {
            self.keeps_clean.store(false, Ordering::SeqCst);
        }
    }

    /// Whether what members hold may stay.
    pub(super) fn keeps_clean(&self) -> bool {
        self.keeps_clean.load(Ordering::SeqCst)
    }

    /// From now on, keeps what members hold, if that was chosen.
    pub(crate) fn keep_clean(&self) {
        let keeps = self.settings.lock().read != ReadCache::Nothing && !self.is_closed();
        self.keeps_clean.store(keeps, Ordering::SeqCst);
    }

    /// Changes what can be changed without another cache: all but kind and size.
    pub(crate) fn use_settings(&self, settings: &CacheSettings) {
        *self.settings.lock() = *settings;
        self.takes_whole_units.store(settings.alloc == CacheAlloc::Stripe, Ordering::Relaxed);
        self.read_ahead(settings.read == ReadCache::Ahead);
        self.limit_flush_time();
        if settings.read == ReadCache::Nothing {
            self.keeps_clean.store(false, Ordering::SeqCst);
            self.forget_all_clean();
        }
    }

    fn forget_all_clean(&self) {
        for bucket in &self.buckets {
            let mut dropped = Dropped::of(self);
            let mut bucket = bucket.lock();
            bucket.slots.iter_mut().for_each(|slot| slot.drop_clean(&mut dropped));
            self.forget_empty(&mut bucket);
        }
    }
}
