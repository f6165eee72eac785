//! The bytes on a member's medium and in its volatile cache: what reads see, and what a power loss leaves.
//!
//! Every write gets a version. The medium keeps, for each 512-byte sector, the version that is on it; a write
//! that is only in the cache is a candidate for the sectors where it is newer. At a power loss chance decides
//! for each such sector which of the candidates, if any, had arrived: that covers loss, tearing and
//! reordering.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
};

use stripewise_device::{WriteBufs, bufs_len};

use fixedbitset::FixedBitSet;

use super::image::{BLOCK_BYTES, Image, digest};

/// The unit of tearing, in bytes.
pub(super) const SECTOR_BYTES: usize = 512;

/// A completed write that may not be on the medium.
struct Cached {
    version: u64,
    offset: usize,
    content: WriteBufs,
}

impl Cached {
    /// Each with its number on the medium.
    fn sectors(&self) -> impl Iterator<Item = (usize, &[u8])> {
        (self.offset / SECTOR_BYTES..).zip(self.content.iter().flat_map(|buf| buf.chunks_exact(SECTOR_BYTES)))
    }

    fn end(&self) -> usize {
        self.offset + bufs_len(&self.content)
    }
}

/// A write that was requested and has not completed.
struct Pending {
    offset: usize,
    content: WriteBufs,
}

/// A write that a power failure may take, wholly or in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenWrite {
    /// Where it goes.
    pub offset_bytes: u64,
    /// How much it is.
    pub len_bytes: u64,
    /// The write has not been acknowledged.
    pub under_way: bool,
    /// Equal for equal content.
    pub digest: u64,
}

/// What a power failure leaves of an open write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Nothing.
    Lost,
    /// All.
    Kept,
    /// Its first sector.
    Torn,
}

/// A member's bytes.
pub(super) struct Media {
    /// The certain content of the medium. Reads see it through the cache.
    stable: Image,
    /// The version of each sector on the medium.
    stable_version: Vec<u64>,
    /// Completed writes that may be volatile in part, oldest first.
    cache: VecDeque<Cached>,
    pending: BTreeMap<u64, Pending>,
    next_pending: u64,
    /// The version of the last completed write.
    version: u64,
    /// Grows with each power loss; requests of an earlier life change nothing.
    life: u64,
    /// Grows with every change to what a power failure may leave.
    changes: u64,
}

/// A write under way: its number, and the member's life.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    id: u64,
    life: u64,
}

/// The extent of a flush: the writes completed when it was requested.
#[derive(Clone, Copy)]
pub(super) struct FlushPoint {
    version: u64,
    life: u64,
}

impl Media {
    pub(super) fn new(size_bytes: usize) -> Self {
        Self {
            stable: Image::zeroed(size_bytes),
            stable_version: vec![0; size_bytes / SECTOR_BYTES],
            cache: VecDeque::new(),
            pending: BTreeMap::new(),
            next_pending: 0,
            version: 0,
            life: 0,
            changes: 0,
        }
    }

    /// A medium with these bytes.
    pub(super) fn with(bytes: &Image) -> Self {
        let stable_version = vec![0; bytes.len() / SECTOR_BYTES];
        Self { stable: bytes.copy(), stable_version, ..Self::new(0) }
    }

    /// The number of changes so far to what a power failure may leave.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// A digest of the medium's certain content: equal for equal bytes.
    pub(super) fn digest(&self) -> u64 {
        self.stable.digest()
    }

    /// Whether a part of a completed write is only in the cache.
    fn is_open(&self, cached: &Cached) -> bool {
        cached.sectors().any(|(sector, _)| self.stable_version[sector] < cached.version)
    }

    /// Completed writes that may not be on the medium, and those under way, the oldest first.
    fn open(&self) -> impl Iterator<Item = (bool, usize, &WriteBufs)> {
        let cached = self.cache.iter().filter(|cached| self.is_open(cached));
        let cached = cached.map(|cached| (false, cached.offset, &cached.content));
        cached.chain(self.pending.values().map(|pending| (true, pending.offset, &pending.content)))
    }

    /// The writes whose fate a power failure would decide now.
    pub(super) fn open_writes(&self) -> Vec<OpenWrite> {
        let open = self.open().map(|(under_way, offset, content)| OpenWrite {
            offset_bytes: offset as u64,
            len_bytes: bufs_len(content) as u64,
            under_way,
            digest: content.iter().fold(0, |sum, buf| digest(sum, buf)),
        });
        open.collect()
    }

    /// What a power failure leaves that gives the open writes these fates.
    pub(super) fn left_by(&self, fates: &[Fate]) -> Image {
        let mut left = self.stable.copy();
        let versions = self.cache.iter().filter(|cached| self.is_open(cached)).map(|cached| cached.version);
        let versions = versions.chain(std::iter::repeat(u64::MAX));
        for (((_, offset, content), version), fate) in self.open().zip(versions).zip(fates) {
            let sectors = match fate {
                Fate::Lost => 0,
                Fate::Torn => 1,
                Fate::Kept => usize::MAX,
            };
            let bytes = content.iter().flat_map(|buf| buf.chunks_exact(SECTOR_BYTES));
            for (sector, bytes) in (offset / SECTOR_BYTES..).zip(bytes).take(sectors) {
                if self.stable_version[sector] < version {
                    left.put(sector * SECTOR_BYTES, bytes);
                }
            }
        }
        left
    }

    /// What reads see at a place.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) {
        let end = offset + into.len();
        into.copy_from_slice(&self.stable[offset..end]);
        for cached in self.cache.iter().filter(|cached| cached.offset < end && offset < cached.end()) {
            self.see(cached, offset, into);
        }
    }

    /// Shows the part of a cached write that is newer than the medium and lies in the range read.
    fn see(&self, cached: &Cached, offset: usize, into: &mut [u8]) {
        for (sector, bytes) in cached.sectors() {
            let at = sector * SECTOR_BYTES;
            let (start, end) = (at.max(offset), (at + SECTOR_BYTES).min(offset + into.len()));
            if start < end && self.stable_version[sector] < cached.version {
                into[start - offset..end - offset].copy_from_slice(&bytes[start - at..end - at]);
            }
        }
    }

    /// All bytes as reads see them.
    pub(super) fn bytes(&self) -> Image {
        let mut bytes = self.stable.copy();
        for cached in &self.cache {
            let newer = |(sector, _): &(usize, &[u8])| self.stable_version[*sector] < cached.version;
            for (sector, content) in cached.sectors().filter(newer) {
                bytes.put(sector * SECTOR_BYTES, content);
            }
        }
        bytes
    }

    /// The same without a copy, if the cache is empty.
    pub(super) fn settled(&self) -> Option<&[u8]> {
        self.cache.is_empty().then_some(&self.stable[..])
    }

    /// Blocks of the medium that may hold other bytes than zeroes.
    pub(super) fn written(&self) -> &FixedBitSet {
        self.stable.written()
    }

    /// Whether the block at this byte was never written.
    pub(super) fn is_hole(&self, at: usize) -> bool {
        let block = at / BLOCK_BYTES * BLOCK_BYTES..(at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        let touches = |cached: &Cached| cached.offset < block.end && block.start < cached.end();
        !self.stable.written().contains(at / BLOCK_BYTES) && !self.cache.iter().any(touches)
    }

    /// Changes bytes for good, unnoticed.
    pub(super) fn poke(&mut self, offset: usize, bytes: &[u8]) {
        let first = offset / SECTOR_BYTES * SECTOR_BYTES;
        let mut sectors = vec![0; (offset + bytes.len()).next_multiple_of(SECTOR_BYTES) - first];
        self.read(first, &mut sectors);
        sectors[offset - first..][..bytes.len()].copy_from_slice(bytes);
        self.version += 1;
        for (index, sector) in sectors.chunks_exact(SECTOR_BYTES).enumerate() {
            self.harden(first / SECTOR_BYTES + index, self.version, sector);
        }
    }

    /// Forgets the blocks that lie wholly in a range and have nothing in the cache.
    pub(super) fn punch(&mut self, range: Range<usize>) {
        self.version += 1;
        for block in range.start.div_ceil(BLOCK_BYTES)..range.end / BLOCK_BYTES {
            self.stable.punch(block);
            let sectors = block * BLOCK_BYTES / SECTOR_BYTES..(block + 1) * BLOCK_BYTES / SECTOR_BYTES;
            self.stable_version[sectors].fill(self.version);
        }
    }

    /// A write arrives.
    ///
    /// # Panics
    /// If one of its buffers does not consist of whole sectors.
    pub(super) fn begin_write(&mut self, offset: usize, content: WriteBufs) -> Ticket {
        assert!(
            content.iter().all(|buf| buf.len().is_multiple_of(SECTOR_BYTES)),
            "buffers are of whole sectors"
        );
        self.next_pending += 1;
        self.changes += 1;
        self.pending.insert(self.next_pending, Pending { offset, content });
        Ticket { id: self.next_pending, life: self.life }
    }

    pub(super) fn is_pending(&self, ticket: Ticket) -> bool {
        self.life == ticket.life && self.pending.contains_key(&ticket.id)
    }

    /// A write completes: reads see it, and with FUA it is on the medium.
    pub(super) fn complete_write(&mut self, ticket: Ticket, fua: bool) {
        if self.life != ticket.life {
            return;
        }
        let Some(Pending { offset, content }) = self.pending.remove(&ticket.id) else { return };
        self.version += 1;
        self.changes += 1;
        let cached = Cached { version: self.version, offset, content };
        if fua {
            self.harden_all(&cached);
        } else {
            // The buffers go back to where they came from, as those of real members do.
            let content = cached.content.iter().map(|buf| buf[..].into()).collect();
            self.cache.push_back(Cached { content, ..cached });
        }
    }

    /// A flush is requested.
    pub(super) fn begin_flush(&self) -> FlushPoint {
        FlushPoint { version: self.version, life: self.life }
    }

    /// A flush completes: the writes that it covers are on the medium.
    pub(super) fn complete_flush(&mut self, point: FlushPoint) {
        if self.life != point.life {
            return;
        }
        while self.cache.front().is_some_and(|cached| cached.version <= point.version) {
            let cached = self.cache.pop_front().expect("it has a front");
            self.changes += 1;
            self.harden_all(&cached);
        }
    }

    /// Requests under way no longer arrive, and nothing else changes.
    pub(super) fn end(&mut self) {
        self.life += 1;
    }

    /// The program ends: chance decides which of its writes under way arrive. The cache stays.
    pub(super) fn lose_program(&mut self, rng: &mut fastrand::Rng) {
        for Pending { offset, content } in std::mem::take(&mut self.pending).into_values() {
            if rng.bool() {
                (self.version, self.changes) = (self.version + 1, self.changes + 1);
                self.cache.push_back(Cached { version: self.version, offset, content });
            }
        }
        self.life += 1;
    }

    /// Power fails.
    pub(super) fn lose_power(&mut self, rng: &mut fastrand::Rng) {
        // Now and then a cache loses all, or nothing: batteries exist.
        let keep_one_in = [1, 2, 2, 2, 4, u32::MAX][rng.usize(..6)];
        for cached in std::mem::take(&mut self.cache) {
            self.keep_some(&cached, |rng| rng.u32(..keep_one_in) == 0, rng);
        }
        for Pending { offset, content } in std::mem::take(&mut self.pending).into_values() {
            self.version += 1;
            let (torn, cached) = (rng.u8(..3), Cached { version: self.version, offset, content });
            self.keep_some(&cached, |rng| torn == 2 || torn == 1 && rng.bool(), rng);
        }
        self.life += 1;
    }

    /// Lets chance decide which sectors of a write reached the medium.
    fn keep_some(
        &mut self,
        cached: &Cached,
        mut keep: impl FnMut(&mut fastrand::Rng) -> bool,
        rng: &mut fastrand::Rng,
    ) {
        for (sector, bytes) in cached.sectors() {
            if keep(rng) {
                self.harden(sector, cached.version, bytes);
            }
        }
    }

    fn harden_all(&mut self, cached: &Cached) {
        for (sector, bytes) in cached.sectors() {
            self.harden(sector, cached.version, bytes);
        }
    }

    /// Puts a sector on the medium, unless something newer is there.
    fn harden(&mut self, sector: usize, version: u64, bytes: &[u8]) {
        if self.stable_version[sector] < version {
            self.stable.put(sector * SECTOR_BYTES, bytes);
            self.stable_version[sector] = version;
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;
    use stripewise_device::IoBuf;

    use super::*;

    fn all(value: u8, len: usize) -> WriteBufs {
        smallvec![IoBuf::copy_of(&vec![value; len]).freeze()]
    }

    fn write(media: &mut Media, sector: usize, value: u8, fua: bool) {
        let ticket = media.begin_write(sector * SECTOR_BYTES, all(value, SECTOR_BYTES));
        media.complete_write(ticket, fua);
    }

    /// What a sector may hold after a power loss.
    fn outcomes(prepare: impl Fn(&mut Media)) -> Vec<u8> {
        let mut seen: Vec<u8> = (0..200)
            .map(|seed| {
                let mut media = Media::new(4096);
                prepare(&mut media);
                media.lose_power(&mut fastrand::Rng::with_seed(seed));
                media.bytes()[0]
            })
            .collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    #[test]
    fn unflushed_writes_are_kept_or_lost_in_any_combination() {
        assert_eq!(outcomes(|media| (1..=3).for_each(|value| write(media, 0, value, false))), [0, 1, 2, 3]);
    }

    #[test]
    fn a_flush_keeps_what_it_covers() {
        let flushed = |media: &mut Media| {
            write(media, 0, 1, false);
            let point = media.begin_flush();
            write(media, 0, 2, false);
            media.complete_flush(point);
        };
        assert_eq!(outcomes(flushed), [1, 2]);
    }

    /// Once a slow flush brought back content that a faster, later one had replaced.
    #[test]
    fn flushes_that_overtake_one_another_never_go_back() {
        let overtaken = |media: &mut Media| {
            write(media, 0, 1, false);
            let slow = media.begin_flush();
            write(media, 0, 2, false);
            let fast = media.begin_flush();
            media.complete_flush(fast);
            write(media, 0, 3, false);
            media.complete_flush(slow);
        };
        assert_eq!(outcomes(overtaken), [2, 3]);
    }

    #[test]
    fn fua_is_not_undone_by_an_older_cached_write() {
        let mixed = |media: &mut Media| {
            write(media, 0, 1, false);
            write(media, 0, 2, true);
            let point = media.begin_flush();
            media.complete_flush(point);
        };
        assert_eq!(outcomes(mixed), [2]);
    }

    /// The content of a sector when power fails and the open writes meet these fates.
    fn left(media: &Media, fates: &[Fate]) -> [u8; 2] {
        let image = media.left_by(fates);
        [image[0], image[SECTOR_BYTES]]
    }

    #[test]
    fn every_subset_of_the_open_writes_can_be_asked_for() {
        use Fate::{Kept, Lost, Torn};
        let mut media = Media::new(4096);
        write(&mut media, 0, 1, true);
        write(&mut media, 0, 2, false);
        media.begin_write(0, all(3, 2 * SECTOR_BYTES));
        let open = media.open_writes();
        assert_eq!(open.iter().map(|open| open.under_way).collect::<Vec<_>>(), [false, true]);
        let outcomes = [[Lost, Lost], [Kept, Lost], [Lost, Kept], [Kept, Torn]];
        assert_eq!(outcomes.map(|fates| left(&media, &fates)), [[1, 0], [2, 0], [3, 3], [3, 0]]);
    }

    #[test]
    fn what_is_on_the_medium_is_not_open() {
        let mut media = Media::new(4096);
        write(&mut media, 0, 1, false);
        write(&mut media, 0, 2, true);
        assert!(media.open_writes().is_empty());
        write(&mut media, 1, 3, false);
        let point = media.begin_flush();
        let before = media.changes();
        media.complete_flush(point);
        assert!(media.open_writes().is_empty() && media.changes() > before);
        assert_eq!(left(&media, &[]), [2, 3]);
    }

    #[test]
    fn a_write_under_way_is_torn_at_sectors() {
        let mut torn = 0;
        for seed in 0..100 {
            let mut media = Media::new(4096);
            media.begin_write(0, all(7, 4096));
            media.lose_power(&mut fastrand::Rng::with_seed(seed));
            let sectors: Vec<bool> =
                media.bytes().chunks(SECTOR_BYTES).map(|sector| sector[0] == 7).collect();
            assert!(media.bytes().chunks(SECTOR_BYTES).all(|s| s.iter().all(|b| *b == s[0])));
            torn += u32::from(sectors.contains(&true) && sectors.contains(&false));
        }
        assert!(torn > 10, "{torn} of 100 torn");
    }
}
