//! The marks of regions: which are durable, and how many writes are under way in each region.

use std::sync::Arc;

use stripewise_device::{
    IoError,
    parts::{Part, within},
    sync::seam::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{
    counters::{CounterLocks, Words},
    pages::{Holder, Pages, place},
};
use crate::{
    members::member::Member,
    mutants::{Mutant, lives},
    seam::AsyncMutex,
    shape::{geometry::StripeIndex, regions::RegionMap},
};

/// The region is marked on disk.
const DURABLE: u32 = 1 << 31;
/// The region may disagree since before the array was opened: it can be cleared only after a resync.
const STALE: u32 = 1 << 30;
/// The region was written to since lazy clearing last looked at it.
const USED: u32 = 1 << 29;
/// Writes in flight.
const COUNT: u32 = USED - 1;

/// The bitmap of one array.
pub(crate) struct Intent {
    pub(crate) map: RegionMap,
    regions: Words,
    /// Writes are counted, so that regions can be cleared while the array is open.
    counts: bool,
    /// Regions that tasks wait for. The next page write marks them.
    wanted: Mutex<Vec<usize>>,
    pub(crate) pages: AsyncMutex<Pages>,
}

/// What the bitmap needs from the array to change what is on disk.
pub(crate) trait IntentDisk {
    /// Whether more members are lost than the level tolerates: then nothing is written.
    fn has_failed(&self) -> bool;
    /// Writes superblocks that say dirty or clean.
    async fn record_clean(&self, clean: bool) -> bool;
    /// The members that hold copies now.
    fn holders(&self) -> Vec<Holder>;
    /// Fails members that could not take a page. False: the array has failed.
    async fn fail_members(&self, failed: Vec<(Arc<Member>, IoError)>) -> bool;
    /// Flushes all members; false if one could not.
    async fn flush_members(&self) -> bool;
}

/// The array failed while intent was being recorded; the write must not continue.
pub(crate) struct IntentFailed;

impl Intent {
    /// A bitmap. Regions marked in its pages are stale: a resync is due there.
    pub(crate) fn new(map: RegionMap, pages: Pages, locks: CounterLocks) -> Self {
        let state = |region| if pages.is_marked(region) { DURABLE | STALE } else { 0 };
        let regions = Words::new((0..map.regions()).map(state), locks);
        let counts = locks != CounterLocks::Uncounted;
        Self { map, regions, counts, wanted: Mutex::default(), pages: AsyncMutex::new(pages) }
    }

    /// Announces a write to a stripe. The caller holds the guard until the write is on the members.
    pub(crate) async fn begin(
        &self,
        disk: &impl IntentDisk,
        stripe: StripeIndex,
    ) -> Result<IntentGuard<'_>, IntentFailed> {
        let region = self.map.region_of(stripe);
        if !self.try_enter(region) {
            self.mark(disk, region).await?;
        }
        Ok(IntentGuard { intent: self, region })
    }

    /// As [`Intent::begin`], if the region is marked already.
    pub(crate) fn try_begin(&self, stripe: StripeIndex) -> Option<IntentGuard<'_>> {
        let region = self.map.region_of(stripe);
        self.try_enter(region).then(|| IntentGuard { intent: self, region })
    }

    /// Continues a write that was [kept](IntentGuard::keep).
    pub(crate) fn resume(&self, kept: KeptIntent) -> IntentGuard<'_> {
        IntentGuard { intent: self, region: kept.0 }
    }

    /// Counts a write in, if the region is marked on disk.
    #[inline]
    fn try_enter(&self, region: usize) -> bool {
        if !self.counts {
            return self.regions.load(region) & DURABLE != 0;
        }
        let _part = within(Part::CounterLock);
        self.regions.as_writer(region, |word| {
            let before = word.fetch_add(1, Ordering::AcqRel);
            debug_assert!(before & COUNT < COUNT - 1);
            if before & DURABLE != 0 {
                return true;
            }
            // A count on an unmarked region delays nothing.
            word.fetch_sub(1, Ordering::AcqRel);
            false
        })
    }

    /// Counts a write out.
    #[inline]
    fn leave(&self, region: usize) {
        if !self.counts {
            return;
        }
        let _part = within(Part::CounterLock);
        self.regions.as_writer(region, |word| {
            // Set before the write is counted out: a flush that ran during this write must not count for it.
            // Lazy clearing may take the flag away after this look. That does no harm: it does not clear the
            // region in the same pass.
            if word.load(Ordering::Acquire) & USED == 0 {
                word.fetch_or(USED, Ordering::AcqRel);
            }
            let before = word.fetch_sub(1, Ordering::AcqRel);
            debug_assert!(before & COUNT > 0);
        });
    }

    /// Marks a region, together with all other regions that tasks wait for.
    async fn mark(&self, disk: &impl IntentDisk, region: usize) -> Result<(), IntentFailed> {
        self.wanted.lock().push(region);
        let mut pages = self.pages.lock().await;
        if self.try_enter(region) {
            return Ok(());
        }
        if disk.has_failed() && !lives(Mutant::FailedAnnounces) {
            return Err(IntentFailed);
        }
        let mut wanted = std::mem::take(&mut *self.wanted.lock());
        wanted.push(region);
        if !self.counts {
            wanted.extend(0..self.regions.len());
        }
        if !pages.marked_dirty {
            if !lives(Mutant::SkipDirtyMark) && !disk.record_clean(false).await {
                return Err(IntentFailed);
            }
            pages.marked_dirty = true;
        }
        wanted.iter().for_each(|region| pages.set(*region, true));
        let mut dirty_pages: Vec<_> = wanted.iter().map(|region| place(*region).0).collect();
        dirty_pages.sort_unstable();
        dirty_pages.dedup();
        if lives(Mutant::SkipIntent) {
            dirty_pages.clear();
        }
        let failed = pages.write(&dirty_pages, &disk.holders()).await;
        if !failed.is_empty() && !disk.fail_members(failed).await {
            return Err(IntentFailed);
        }
        for marked in wanted {
            self.regions.as_bitmap(marked, |word| word.fetch_or(DURABLE | USED, Ordering::AcqRel));
        }
        assert!(self.try_enter(region), "a region just marked lets writes in");
        Ok(())
    }

    /// Writes to these stripes are to come: their regions are not idle, so that they need not be marked again.
    pub(crate) fn expect_writes(&self, stripes: impl Iterator<Item = StripeIndex>) {
        for region in stripes.map(|stripe| self.map.region_of(stripe)) {
            if self.regions.load(region) & DURABLE != 0 {
                self.regions.as_bitmap(region, |word| word.fetch_or(USED, Ordering::AcqRel));
            }
        }
    }

    /// Clears regions that were idle since the last call, and the dirty mark once no region is marked.
    ///
    /// A region is cleared only if no write touched it since *before* a flush of all members: what the bitmap
    /// forgets is durable.
    pub(crate) async fn clear_idle(&self, disk: &impl IntentDisk) {
        if self.counts {
            self.clear(disk).await;
        }
    }

    /// As [`Intent::clear_idle`], when no more writes come.
    pub(crate) async fn clear_all(&self, disk: &impl IntentDisk) {
        // Twice: the first pass takes the used flags away, the second finds the regions idle.
        self.clear(disk).await;
        self.clear(disk).await;
    }

    async fn clear(&self, disk: &impl IntentDisk) {
        let idle: Vec<usize> = (0..self.regions.len()).filter(|region| self.note_idle(*region)).collect();
        if idle.is_empty() && !self.could_be_clean() {
            return;
        }
        if !lives(Mutant::ClearWithoutFlush) && !disk.flush_members().await {
            return;
        }
        let mut pages = self.pages.lock().await;
        let cleared: Vec<usize> = idle.into_iter().filter(|region| self.try_clear(*region)).collect();
        cleared.iter().for_each(|region| pages.set(*region, false));
        let mut dirty_pages: Vec<_> = cleared.iter().map(|region| place(*region).0).collect();
        dirty_pages.dedup();
        let failed = pages.write(&dirty_pages, &disk.holders()).await;
        if !failed.is_empty() && !disk.fail_members(failed).await {
            return;
        }
        if pages.marked_dirty && !self.any_marked() && disk.record_clean(true).await {
            pages.marked_dirty = false;
        }
    }

    /// Whether the region is marked and idle. Takes the used flag away if no write is in flight.
    fn note_idle(&self, region: usize) -> bool {
        let state = self.regions.load(region);
        if lives(Mutant::ClearBusyRegion) {
            return state & (DURABLE | STALE) == DURABLE;
        }
        if state & (DURABLE | STALE) != DURABLE || state & COUNT != 0 {
            return false;
        }
        self.regions.as_bitmap(region, |word| word.fetch_and(!USED, Ordering::AcqRel)) & USED == 0
    }

    fn try_clear(&self, region: usize) -> bool {
        if lives(Mutant::ClearBusyRegion) {
            return self.regions.as_bitmap(region, |word| word.fetch_and(!DURABLE, Ordering::AcqRel))
                & DURABLE
                != 0;
        }
        if lives(Mutant::UsedRegionCleared) {
            self.regions.as_bitmap(region, |word| word.fetch_and(!USED, Ordering::AcqRel));
        }
        let clear = |word: &AtomicU32| word.compare_exchange(DURABLE, 0, Ordering::AcqRel, Ordering::Acquire);
        self.regions.as_bitmap(region, clear).is_ok()
    }

    fn any_marked(&self) -> bool {
        (0..self.regions.len()).any(|region| self.regions.load(region) != 0)
    }

    /// Whether nothing is marked but the superblocks may still say dirty.
    fn could_be_clean(&self) -> bool {
        !self.any_marked() && self.pages.try_lock().is_some_and(|pages| pages.marked_dirty)
    }

    /// Whether parity agrees with data in this stripe, apart from writes of this opening.
    pub(crate) fn is_trusted(&self, stripe: StripeIndex) -> bool {
        lives(Mutant::StaleParityTrusted) || !self.is_stale(self.map.region_of(stripe))
    }

    /// Whether a region must be resynced.
    pub(crate) fn is_stale(&self, region: usize) -> bool {
        self.regions.load(region) & STALE != 0
    }

    /// Regions that must be resynced.
    pub(crate) fn stale_regions(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.regions.len()).filter(|region| self.is_stale(*region))
    }

    /// Notes that a region was resynced. It is cleared on disk like any other region.
    pub(crate) fn resynced(&self, region: usize) {
        self.regions.as_bitmap(region, |word| word.fetch_and(!STALE, Ordering::AcqRel));
    }

    /// Writes all pages to the current holders, after the set of members has grown.
    pub(crate) async fn rewrite(&self, disk: &impl IntentDisk) -> bool {
        let mut pages = self.pages.lock().await;
        let mut all = pages.all();
        if lives(Mutant::NewHoldersLackPages) {
            all.truncate(1);
        }
        let failed = pages.write(&all, &disk.holders()).await;
        failed.is_empty() || disk.fail_members(failed).await
    }

    /// How many regions are marked.
    pub(crate) fn marked_regions(&self) -> usize {
        (0..self.regions.len()).filter(|region| self.regions.load(*region) & DURABLE != 0).count()
    }
}

/// A write in flight in a region.
pub(crate) struct IntentGuard<'a> {
    intent: &'a Intent,
    region: usize,
}

/// A write in flight that another task continues. If this is lost, the region stays marked forever.
#[must_use = "the write stays in flight until it is resumed"]
pub(crate) struct KeptIntent(usize);

impl IntentGuard<'_> {
    /// Whether the region is marked on disk.
    #[inline]
    pub(crate) fn is_durable(&self) -> bool {
        self.intent.regions.load(self.region) & DURABLE != 0
    }

    /// Keeps the write in flight, for [`Intent::resume`].
    pub(crate) fn keep(self) -> KeptIntent {
        let kept = KeptIntent(self.region);
        std::mem::forget(self);
        kept
    }
}

impl Drop for IntentGuard<'_> {
    fn drop(&mut self) {
        self.intent.leave(self.region);
    }
}
