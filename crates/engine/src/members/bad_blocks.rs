//! Sectors of one member that do not hold what they should: md's bad-block log, while the member is open.
//!
//! A listed sector is not read: its content is reconstructed from the other members and, where possible,
//! written back. Once it was written, it may be read again. The log on the member lists it until a flush has
//! covered that write: otherwise a crash could bring the old content back as good. A sector that a rebuild
//! could not recover is listed before the member counts as filled there (`on-disk-format.md`, "The bad-block
//! log").

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use rangemap::RangeSet;
use stripewise_device::Device;
use stripewise_format::{
    md::{BadBlockLog, SectorExtent, Superblock},
    media::SECTOR_BYTES,
};

use crate::mutants::{Mutant, lives};

/// The listed sectors of one member.
#[derive(Debug, Default)]
pub(crate) struct BadBlocks {
    /// Whether any sector must not be read. Most requests look at nothing else.
    any: AtomicBool,
    /// Whether the log lists any sector. For most members a flush looks at nothing else.
    any_logged: AtomicBool,
    listed: Mutex<Listed>,
}

/// Sectors, counted from the member's first.
#[derive(Debug, Default)]
struct Listed {
    /// Must not be read.
    unreadable: RangeSet<u64>,
    /// Must be in the log: all unreadable sectors, and those that no flush has covered since they were
    /// written.
    logged: RangeSet<u64>,
    /// Were listed since a flush was last requested. That flush covers no later write of them.
    listed_since: RangeSet<u64>,
    /// Some were settled, but the log on the member may still list them.
    is_leaving: bool,
    /// Entries that the log on the member has room for.
    room: usize,
}

impl BadBlocks {
    /// The sectors that a member's log lists. Without a log none are listed, and none can be.
    pub(crate) fn of_log(log: Option<&BadBlockLog>) -> Self {
        let extents = log.into_iter().flat_map(BadBlockLog::extents).map(sectors_of);
        let unreadable: RangeSet<u64> = extents.filter(|sectors| !sectors.is_empty()).collect();
        let (any, any_logged) = (!unreadable.is_empty(), !unreadable.is_empty());
        let room = log.map_or(0, BadBlockLog::room);
        let listed_since = RangeSet::new();
        Self {
            any: AtomicBool::new(any),
            any_logged: AtomicBool::new(any_logged),
            listed: Mutex::new(Listed {
                logged: unreadable.clone(),
                unreadable,
                listed_since,
                is_leaving: false,
                room,
            }),
        }
    }

    /// Whether a request for these bytes of the member touches a sector that must not be read.
    #[inline]
    pub(crate) fn touch(&self, bytes: Range<u64>) -> bool {
        self.any.load(Ordering::Acquire) && self.touch_listed(bytes)
    }

    #[cold]
    fn touch_listed(&self, bytes: Range<u64>) -> bool {
        self.listed.lock().unreadable.overlaps(&whole_sectors(bytes))
    }

    /// These bytes of the member were written: they hold what they should.
    pub(crate) fn written(&self, bytes: Range<u64>) {
        let mut listed = self.listed.lock();
        listed.unreadable.remove(whole_sectors(bytes));
        self.any.store(!listed.unreadable.is_empty(), Ordering::Release);
    }

    /// Lists bytes of the member that do not hold what they should. False if the log has no room for them:
    /// then none are listed.
    pub(crate) fn add(&self, bytes: &[Range<u64>]) -> bool {
        let mut listed = self.listed.lock();
        let mut logged = listed.logged.clone();
        bytes.iter().for_each(|bytes| logged.insert(whole_sectors(bytes.clone())));
        let is_full = BadBlockLog::entries_for(logged.iter().map(extent_of)) > listed.room;
        if is_full && !lives(Mutant::LogRoomForgotten) {
            return false;
        }
        listed.logged = logged;
        self.any_logged.store(true, Ordering::Release);
        for sectors in bytes.iter().cloned().map(whole_sectors) {
            listed.unreadable.insert(sectors.clone());
            listed.listed_since.insert(sectors);
        }
        self.any.store(!listed.unreadable.is_empty(), Ordering::Release);
        true
    }

    /// Whether the log on the member may list sectors that were written since.
    pub(crate) fn are_behind(&self) -> bool {
        let is_behind = |listed: &Listed| listed.is_leaving || listed.logged != listed.unreadable;
        self.any_logged.load(Ordering::Acquire) && is_behind(&self.listed.lock())
    }

    /// Sectors that are in the log and were written since: a flush that begins now makes them good. Only one
    /// flush may be under way at a time.
    pub(crate) fn written_since(&self) -> RangeSet<u64> {
        let mut listed = self.listed.lock();
        listed.listed_since.clear();
        let mut written = listed.logged.clone();
        listed.unreadable.iter().for_each(|sectors| written.remove(sectors.clone()));
        written
    }

    /// A flush has covered these sectors: the log need not list them any more, unless they were listed again
    /// meanwhile.
    pub(crate) fn settle(&self, flushed: &RangeSet<u64>) {
        let mut listed = self.listed.lock();
        flushed.iter().for_each(|sectors| listed.logged.remove(sectors.clone()));
        let again: Vec<_> = listed.listed_since.iter().cloned().collect();
        listed.logged.extend(again);
        listed.is_leaving = true;
    }

    /// The log on the member lists no more than it must: what was [settled](Self::settle) was written down.
    pub(crate) fn settled(&self) {
        let mut listed = self.listed.lock();
        listed.is_leaving = false;
        self.any_logged.store(!listed.logged.is_empty(), Ordering::Release);
    }

    /// What the log on the member must list.
    pub(crate) fn logged(&self) -> Vec<SectorExtent> {
        self.listed.lock().logged.iter().map(extent_of).collect()
    }

    /// The bytes of the member that must not be read, in order.
    pub(crate) fn unreadable(&self) -> Vec<Range<u64>> {
        let listed = self.listed.lock();
        let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
        listed.unreadable.iter().map(|sectors| bytes(sectors.start)..bytes(sectors.end)).collect()
    }
}

fn whole_sectors(bytes: Range<u64>) -> Range<u64> {
    debug_assert!(bytes.start.is_multiple_of(SECTOR_BYTES) && bytes.end.is_multiple_of(SECTOR_BYTES));
    bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES)
}

fn sectors_of(extent: SectorExtent) -> Range<u64> {
    extent.start_sector..extent.start_sector.saturating_add(extent.length_sectors)
}

fn extent_of(sectors: &Range<u64>) -> SectorExtent {
    SectorExtent { start_sector: sectors.start, length_sectors: sectors.end - sectors.start }
}

/// The bad-block log of a device that becomes a member. None if its superblock has no room for one that can
/// be written.
pub(crate) fn empty_log(superblock: &Superblock, device: &Arc<dyn Device>) -> Option<BadBlockLog> {
    superblock.bad_block_place(device.info().logical_block_bytes)?;
    BadBlockLog::empty(&superblock.bad_blocks)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use stripewise_format::md::BadBlockArea;

    use super::*;

    const AREA: BadBlockArea = BadBlockArea { shift: 0, size_sectors: 8, offset_sectors: 16 };

    fn empty() -> BadBlocks {
        BadBlocks::of_log(BadBlockLog::empty(&AREA).as_ref())
    }

    #[derive(Debug, Clone)]
    enum Step {
        Add(u64, u64),
        Write(u64, u64),
        BeginFlush,
        EndFlush,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..60, 1u64..9).prop_map(|(start, len)| Step::Add(start, start + len)),
            (0u64..60, 1u64..9).prop_map(|(start, len)| Step::Write(start, start + len)),
            Just(Step::BeginFlush),
            Just(Step::EndFlush),
        ]
    }

    fn bytes(start: u64, end: u64) -> Range<u64> {
        start * SECTOR_BYTES..end * SECTOR_BYTES
    }

    proptest! {
        /// Compares with a model of each sector: what must not be read, and what is not on the medium yet.
        #[test]
        fn the_log_keeps_a_sector_until_a_flush_covers_its_write(steps in prop::collection::vec(step(), 0..60)) {
            let bad = empty();
            let (mut unreadable, mut unflushed) = (BTreeSet::new(), BTreeSet::new());
            // What a flush under way covers, by the log and by the model.
            let mut flushing: Option<(RangeSet<u64>, BTreeSet<u64>)> = None;
            for step in steps {
                match step {
                    Step::Add(start, end) => {
                        prop_assert!(bad.add(&[bytes(start, end)]));
                        for sector in start..end {
                            unreadable.insert(sector);
                            unflushed.remove(&sector);
                            flushing.iter_mut().for_each(|(_, covered)| _ = covered.remove(&sector));
                        }
                    }
                    Step::Write(start, end) => {
                        bad.written(bytes(start, end));
                        unflushed.extend((start..end).filter(|sector| unreadable.remove(sector)));
                    }
                    Step::BeginFlush => flushing = Some((bad.written_since(), unflushed.clone())),
                    Step::EndFlush => {
                        let Some((ours, covered)) = flushing.take() else { continue };
                        bad.settle(&ours);
                        bad.settled();
                        unflushed.retain(|sector| !covered.contains(sector));
                    }
                }
                for sector in 0..70 {
                    prop_assert_eq!(bad.touch(bytes(sector, sector + 1)), unreadable.contains(&sector));
                }
                let logged: BTreeSet<u64> = bad.logged().into_iter().flat_map(sectors_of).collect();
                prop_assert!(logged.is_superset(&unreadable) && logged.is_superset(&unflushed));
                prop_assert_eq!(bad.are_behind(), logged != unreadable);
            }
        }
    }

    #[test]
    fn without_room_nothing_is_listed() {
        let none = BadBlocks::of_log(None);
        assert!(!none.add(&[bytes(0, 8)]) && !none.touch(bytes(0, 8)));
        let bad = empty();
        let scattered: Vec<_> = (0..512).map(|i| bytes(i * 2, i * 2 + 1)).collect();
        assert!(bad.add(&scattered));
        assert!(!bad.add(&[bytes(5000, 5001)]));
        assert!(!bad.touch(bytes(5000, 5001)));
        assert!(bad.add(&[bytes(1, 2)]), "joined with its neighbours it takes no entry more");
    }

    /// A sector that is listed again while a flush is under way stays in the log.
    #[test]
    fn a_sector_listed_again_stays_in_the_log() {
        let bad = empty();
        bad.add(&[bytes(8, 16)]);
        bad.written(bytes(8, 16));
        let covered = bad.written_since();
        bad.add(&[bytes(10, 12)]);
        bad.settle(&covered);
        assert_eq!(bad.logged(), [SectorExtent { start_sector: 10, length_sectors: 2 }]);
    }
}
