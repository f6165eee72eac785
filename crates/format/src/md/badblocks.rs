//! md's bad-block log: sectors of one member that do not hold what they should (`super_1_load`,
//! `super_1_sync`).
//!
//! Entries are 64-bit little-endian words, 54 bits of start and 10 of length, in units of `512 << shift`
//! bytes from the member's first sector (not from its data). A word of all ones ends the log.

use std::collections::BTreeSet;

use thiserror::Error;

use super::superblock::{BadBlockArea, SectorExtent};
use crate::media::SECTOR_BYTES;

const LENGTH_BITS: u32 = 10;
const END: u64 = u64::MAX;
/// The kernel makes no longer entries (`BB_MAX_LEN`), in units.
const LENGTH_MAX: u64 = 512;
const WORD_BYTES: usize = 8;
/// The kernel reads no longer logs (one page).
const LOG_SECTORS_MAX: u16 = 8;
/// Units of 256 KiB. mdadm makes logs that count sectors, and a unit of damaged size would list everything.
const SHIFT_MAX: u8 = 9;

/// The extents of `log`, which is the log's bytes as read; `shift` is the superblock's `bblog_shift`.
///
/// Extents that no member can have (a start beyond 2^63 sectors) are clamped rather than refused: listing too
/// much costs a reconstruction, listing too little gives wrong data. Entries of no length are ignored.
pub fn decode(log: &[u8], shift: u8) -> impl Iterator<Item = SectorExtent> {
    words(log).take_while(|word| *word != END).filter_map(move |word| extent(word, shift))
}

fn words(log: &[u8]) -> impl Iterator<Item = u64> {
    log.chunks_exact(WORD_BYTES)
        .map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// The extent that an entry lists; none if its length is zero.
fn extent(word: u64, shift: u8) -> Option<SectorExtent> {
    let extent = SectorExtent {
        start_sector: scaled(word >> LENGTH_BITS, shift),
        length_sectors: scaled(word & ((1 << LENGTH_BITS) - 1), shift),
    };
    (extent.length_sectors > 0).then_some(extent)
}

fn scaled(units: u64, shift: u8) -> u64 {
    if units == 0 {
        return 0;
    }
    if u32::from(shift) > units.leading_zeros() { u64::MAX } else { units.unbounded_shl(u32::from(shift)) }
}

/// The log lacks room for its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("md's bad-block log has room for {room} entries and would need {need}")]
pub struct LogFull {
    /// Entries needed.
    pub need: usize,
    /// Entries that fit.
    pub room: usize,
}

/// The log of one member, as stored there.
///
/// An entry that stays keeps its place, so a write of which only some sectors arrive loses none: new entries
/// go to free places first, and a second write removes old ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadBlockLog {
    shift: u8,
    room: usize,
    /// Durable on the member, up to the end mark.
    places: Vec<u64>,
}

impl BadBlockLog {
    /// An empty log in this area. None if the superblock sets no room aside, or more than the kernel reads,
    /// or counts in implausibly large units.
    #[must_use]
    pub fn empty(area: &BadBlockArea) -> Option<Self> {
        let has_room = (1..=LOG_SECTORS_MAX).contains(&area.size_sectors)
            && area.offset_sectors != 0
            && area.shift <= SHIFT_MAX;
        let room = usize::from(area.size_sectors) * SECTOR_BYTES as usize / WORD_BYTES;
        has_room.then_some(Self { shift: area.shift, room, places: Vec::new() })
    }

    /// The log whose bytes were read from this area.
    #[must_use]
    pub fn decode(bytes: &[u8], area: &BadBlockArea) -> Option<Self> {
        let words = words(bytes).take_while(|word| *word != END);
        Self::empty(area).map(|empty| Self { places: words.take(empty.room).collect(), ..empty })
    }

    /// How many entries fit.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.room
    }

    /// How many entries these extents take in a log that counts sectors, as all logs made by mdadm do.
    pub fn entries_for(extents: impl Iterator<Item = SectorExtent>) -> usize {
        extents.map(|extent| entries(extent, 0).count()).sum()
    }

    /// The listed sectors, counted from the member's first sector. Extents may overlap.
    pub fn extents(&self) -> impl Iterator<Item = SectorExtent> {
        self.places.iter().filter_map(|word| extent(*word, self.shift))
    }

    /// Makes the log list these extents, and no others except what fills their units. Returns the images to
    /// write over the whole area: each must be durable before the next is written. An empty log needs none:
    /// the superblock says that it is empty.
    ///
    /// # Errors
    /// [`LogFull`]; the log stays as it is.
    pub fn change_to(
        &mut self,
        extents: impl Iterator<Item = SectorExtent>,
    ) -> Result<Vec<Vec<u8>>, LogFull> {
        let wanted: BTreeSet<u64> = extents.flat_map(|extent| entries(extent, self.shift)).collect();
        if wanted.is_empty() {
            self.places.clear();
            return Ok(Vec::new());
        }
        let mut places = self.places.clone();
        drop_repeated_tail(&mut places);
        let listed: BTreeSet<u64> = places.iter().copied().collect();
        let mut missing = wanted.difference(&listed).copied();
        // A place is free if its entry also stands before it.
        for (at, word) in repeated_places(&places).into_iter().zip(missing.by_ref()) {
            places[at] = word;
        }
        places.extend(missing);
        let mut images = Vec::new();
        if places.len() > self.room {
            // No room beside the entries to be removed: write the log anew as a whole. Only in a log that is
            // nearly full.
            if wanted.len() > self.room {
                return Err(LogFull { need: wanted.len(), room: self.room });
            }
            self.step(wanted.into_iter().collect(), &mut images);
            return Ok(images);
        }
        self.step(places.clone(), &mut images);
        let repeated =
            *places.iter().rfind(|word| wanted.contains(word)).expect("what is wanted has a place");
        places.truncate(1 + places.iter().rposition(|word| wanted.contains(word)).unwrap_or_default());
        places.iter_mut().filter(|word| !wanted.contains(word)).for_each(|word| *word = repeated);
        self.step(places, &mut images);
        Ok(images)
    }

    fn step(&mut self, places: Vec<u64>, images: &mut Vec<Vec<u8>>) {
        if places != self.places {
            self.places = places;
            images.push(self.image());
        }
    }

    fn image(&self) -> Vec<u8> {
        let ends = std::iter::repeat(&END);
        self.places.iter().chain(ends).take(self.room).flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// Removes places at the end whose entries also stand before them: those entries filled places that had
/// become free.
fn drop_repeated_tail(places: &mut Vec<u64>) {
    while let Some((last, rest)) = places.split_last()
        && rest.contains(last)
    {
        places.pop();
    }
}

/// Places whose entries also stand before them.
fn repeated_places(places: &[u64]) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    (0..places.len()).filter(|at| !seen.insert(places[*at])).collect()
}

/// The words of the entries for an extent, in whole units.
fn entries(extent: SectorExtent, shift: u8) -> impl Iterator<Item = u64> {
    let shift = u32::from(shift);
    let end = extent.start_sector.saturating_add(extent.length_sectors).div_ceil(1 << shift);
    let start = extent.start_sector >> shift;
    (start..end)
        .step_by(LENGTH_MAX as usize)
        .map(move |start| start << LENGTH_BITS | (end - start).min(LENGTH_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn log(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    const AREA: BadBlockArea = BadBlockArea { shift: 0, size_sectors: 8, offset_sectors: 16 };
    const AREA_BYTES: usize = 4096;

    fn single(start_sector: u64) -> SectorExtent {
        SectorExtent { start_sector, length_sectors: 1 }
    }

    fn listed(log: &[u8], shift: u8) -> BTreeSet<u64> {
        decode(log, shift).flat_map(|e| e.start_sector..e.start_sector + e.length_sectors).collect()
    }

    fn whole_units(sectors: &BTreeSet<u64>, shift: u8) -> BTreeSet<u64> {
        let unit = 1 << shift;
        sectors.iter().flat_map(|sector| sector / unit * unit..(sector / unit + 1) * unit).collect()
    }

    #[test]
    fn a_log_that_is_full_stays_as_it_is() {
        let mut log = BadBlockLog::empty(&AREA).unwrap();
        log.change_to((0..512).map(|i| single(i * 2))).unwrap();
        let before = log.clone();
        let full = log.change_to((0..513).map(|i| single(i * 2))).unwrap_err();
        assert_eq!((full, &log), (LogFull { need: 513, room: 512 }, &before));
    }

    #[test]
    fn a_long_extent_takes_as_many_entries_as_the_kernel_would() {
        let mut log = BadBlockLog::empty(&AREA).unwrap();
        let long = SectorExtent { start_sector: 2048, length_sectors: 1200 };
        let images = log.change_to([long].into_iter()).unwrap();
        assert_eq!(images.len(), 1);
        let lengths: Vec<_> = decode(&images[0], 0).map(|e| (e.start_sector, e.length_sectors)).collect();
        assert_eq!(lengths, [(2048, 512), (2560, 512), (3072, 176)]);
    }

    #[test]
    fn an_area_that_the_kernel_would_not_read_is_none() {
        for (shift, size_sectors, offset_sectors) in [(0, 0, 16), (0, 9, 16), (0, 8, 0), (10, 8, 16)] {
            assert_eq!(BadBlockLog::empty(&BadBlockArea { shift, size_sectors, offset_sectors }), None);
        }
    }

    #[test]
    fn reads_up_to_the_end_mark() {
        let bytes = log(&[2064 << 10 | 8, 5 << 10, 4096 << 10 | 512, END, 1 << 10 | 1]);
        let extents: Vec<_> =
            decode(&bytes, 0).map(|extent| (extent.start_sector, extent.length_sectors)).collect();
        assert_eq!(extents, [(2064, 8), (4096, 512)]);
        let shifted: Vec<_> =
            decode(&bytes, 3).map(|extent| (extent.start_sector, extent.length_sectors)).collect();
        assert_eq!(shifted, [(2064 * 8, 64), (4096 * 8, 4096)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..600), shift: u8) {
            let sectors = decode(&bytes, shift).count();
            prop_assert!(sectors <= bytes.len() / 8);
        }

        /// Whatever part of each write arrives, no listed sector is lost that must stay listed.
        #[test]
        fn a_torn_change_loses_nothing_that_stays(
            steps in prop::collection::vec(prop::collection::btree_set(0u64..2000, 0..250), 1..6),
            torn: u8,
            shift in 0u8..4,
        ) {
            let mut log = BadBlockLog::empty(&AREA).unwrap();
            log.shift = shift;
            let (mut on_disk, mut feature) = (vec![0x5a; AREA_BYTES], false);
            for step in steps {
                let wanted: BTreeSet<u64> = step;
                let before = if feature { listed(&on_disk, shift) } else { BTreeSet::new() };
                let images = log.change_to(wanted.iter().map(|start| single(*start)));
                let Ok(images) = images else { continue };
                for image in images {
                    let mixed: Vec<u8> = (0..AREA_BYTES)
                        .map(|at| if torn >> (at / 512) & 1 == 1 { image[at] } else { on_disk[at] })
                        .collect();
                    if feature {
                        prop_assert!(listed(&mixed, shift).is_superset(&(&before & &wanted)));
                    }
                    on_disk = image;
                }
                feature = !wanted.is_empty();
                if feature {
                    prop_assert_eq!(listed(&on_disk, shift), whole_units(&wanted, shift));
                    prop_assert_eq!(&BadBlockLog::decode(&on_disk, &BadBlockArea { shift, ..AREA }).unwrap(), &log);
                }
            }
        }
    }
}
