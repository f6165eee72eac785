//! What every sector may hold.
//!
//! A sector is known by a checksum of its content. While a write is under way it may hold the old content or
//! the new one; no two requests touch a sector at the same time, so there are never more than two. An array with a
//! cache may lose what was acknowledged and not flushed: then a sector may hold any of its contents since the last
//! flush.
//!
//! The one exception is the write hole that the failure model names: in a degraded array, data of the *lost*
//! member in a row that was being written may be anything.

use std::ops::{AddAssign, Range};

use xxhash_rust::xxh3::xxh3_64;

pub(crate) const SECTOR: usize = 512;
/// The height of a row: what parity is computed over together.
const ROW_BYTES: u64 = 4096;

#[derive(Clone)]
struct Sector {
    /// What no kill may take.
    settled: u64,
    /// What was acknowledged since, and when, by the model's count.
    since: Vec<(u64, u64)>,
    /// The content of a write that was not acknowledged.
    pending: Option<u64>,
    /// A request is on its way.
    busy: bool,
}

impl Sector {
    fn of(content: u64) -> Self {
        Self { settled: content, since: Vec::new(), pending: None, busy: false }
    }

    /// The content that was acknowledged last.
    fn last(&self) -> u64 {
        self.since.last().map_or(self.settled, |(_, content)| *content)
    }

    fn may_be_old(&self, content: u64) -> bool {
        self.settled == content || self.since.iter().any(|(_, since)| *since == content)
    }
}

/// The array as its clients know it.
pub(crate) struct Model {
    sectors: Vec<Sector>,
    zeroes: u64,
    /// Whether the array has a cache.
    is_cached: bool,
    /// Requests that were acknowledged.
    count: u64,
}

/// What a look at the whole array found of what was under way.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) old: u64,
    pub(crate) new: u64,
    /// Sectors that are as they were before a write that was acknowledged, and in the cache only.
    pub(crate) unflushed: u64,
    /// Sectors of the lost member that the write hole took.
    pub(crate) hole: u64,
}

impl AddAssign for Found {
    fn add_assign(&mut self, other: Self) {
        self.old += other.old;
        self.new += other.new;
        self.unflushed += other.unflushed;
        self.hole += other.hole;
    }
}

impl Model {
    pub(crate) fn new(size_bytes: u64, is_cached: bool) -> Self {
        let zeroes = xxh3_64(&[0; SECTOR]);
        let sectors = vec![Sector::of(zeroes); size_bytes as usize / SECTOR];
        Self { sectors, zeroes, is_cached, count: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.sectors.len()
    }

    /// Takes a range for a request, if no other has part of it.
    pub(crate) fn take(&mut self, range: Range<usize>) -> bool {
        let free = self.sectors[range.clone()].iter().all(|sector| !sector.busy);
        if free {
            self.sectors[range].iter_mut().for_each(|sector| sector.busy = true);
        }
        free
    }

    /// A write of `data` (or of zeroes) is about to be sent.
    pub(crate) fn begin(&mut self, range: Range<usize>, data: Option<&[u8]>) {
        let zeroes = self.zeroes;
        for (index, sector) in self.sectors[range].iter_mut().enumerate() {
            let content = data.map(|data| xxh3_64(&data[index * SECTOR..(index + 1) * SECTOR]));
            sector.pending = Some(content.unwrap_or(zeroes));
        }
    }

    /// The request was acknowledged; a durable one survives every kill from now on.
    pub(crate) fn end(&mut self, range: Range<usize>, is_durable: bool) {
        self.count += 1;
        for sector in &mut self.sectors[range] {
            sector.busy = false;
            let Some(content) = sector.pending.take() else { continue };
            if self.is_cached && !is_durable {
                sector.since.push((self.count, content));
            } else {
                *sector = Sector::of(content);
            }
        }
    }

    /// How many requests were acknowledged so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// A flush has ended that began when so many requests were acknowledged.
    pub(crate) fn flushed(&mut self, count: u64) {
        for sector in &mut self.sectors {
            let covered = sector.since.partition_point(|(acknowledged, _)| *acknowledged <= count);
            if let Some((_, content)) = sector.since.drain(..covered).next_back() {
                sector.settled = content;
            }
        }
    }

    /// What was read of a range that no write is under way in.
    pub(crate) fn check(&self, start: usize, bytes: &[u8]) {
        for (index, content) in bytes.chunks(SECTOR).enumerate() {
            assert!(
                xxh3_64(content) == self.sectors[start + index].last(),
                "sector {} is wrong",
                start + index
            );
        }
    }

    /// Sectors of rows that may have been written just then, as the array's bytes are cut into rows.
    pub(crate) fn rows_under_way(&self, stripe_bytes: u64, chunk_bytes: u64) -> Vec<(u64, u64)> {
        let row_of = |sector: usize| {
            let at = (sector * SECTOR) as u64;
            (at / stripe_bytes, at % stripe_bytes % chunk_bytes / ROW_BYTES)
        };
        let is_open = |sector: &Sector| sector.pending.is_some() || !sector.since.is_empty();
        let open = self.sectors.iter().enumerate().filter(|(_, sector)| is_open(sector));
        let mut rows: Vec<_> = open.map(|(index, _)| row_of(index)).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Compares a piece of the array with what it may hold, after a crash, and settles it. `in_hole` names
    /// the sectors that the write hole may have taken.
    pub(crate) fn settle(&mut self, start: usize, bytes: &[u8], in_hole: impl Fn(usize) -> bool) -> Found {
        let mut found = Found::default();
        for (index, content) in bytes.chunks(SECTOR).enumerate() {
            let (at, content) = (start + index, xxh3_64(content));
            let sector = &mut self.sectors[at];
            match sector.pending {
                Some(pending) if pending == content => found.new += 1,
                Some(_) if sector.may_be_old(content) => found.old += 1,
                None if sector.last() == content => {}
                None if sector.may_be_old(content) => found.unflushed += 1,
                _ if in_hole(at) => found.hole += 1,
                pending => panic!(
                    "sector {at} is neither old nor new: acknowledged {:x}, under way {pending:x?}, found {content:x}",
                    sector.settled
                ),
            }
            *sector = Sector::of(content);
        }
        found
    }
}
