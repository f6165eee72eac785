//! What every sector may hold.
//!
//! A sector is known by a checksum of its content. While a write is under way it may hold the old content or
//! the new one; no two requests touch a sector at the same time, so there are never more than two.
//!
//! The one exception is the write hole that the failure model names: in a degraded array, data of the *lost*
//! member in a row that was being written may be anything.

use std::ops::{AddAssign, Range};

use xxhash_rust::xxh3::xxh3_64;

pub(crate) const SECTOR: usize = 512;
/// The height of a row: what parity is computed over together.
const ROW_BYTES: u64 = 4096;

#[derive(Clone, Copy)]
struct Sector {
    settled: u64,
    /// The content of a write that was not acknowledged.
    pending: Option<u64>,
    /// A request is on its way.
    busy: bool,
}

/// The array as its clients know it.
pub(crate) struct Model {
    sectors: Vec<Sector>,
    zeroes: u64,
}

/// What a look at the whole array found of what was under way.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) old: u64,
    pub(crate) new: u64,
    /// Sectors of the lost member that the write hole took.
    pub(crate) hole: u64,
}

impl AddAssign for Found {
    fn add_assign(&mut self, other: Self) {
        self.old += other.old;
        self.new += other.new;
        self.hole += other.hole;
    }
}

impl Model {
    pub(crate) fn new(size_bytes: u64) -> Self {
        let zeroes = xxh3_64(&[0; SECTOR]);
        let sector = Sector { settled: zeroes, pending: None, busy: false };
        Self { sectors: vec![sector; size_bytes as usize / SECTOR], zeroes }
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

    /// The request was acknowledged.
    pub(crate) fn end(&mut self, range: Range<usize>) {
        for sector in &mut self.sectors[range] {
            sector.settled = sector.pending.take().unwrap_or(sector.settled);
            sector.busy = false;
        }
    }

    /// What was read of a range that no write is under way in.
    pub(crate) fn check(&self, start: usize, bytes: &[u8]) {
        for (index, content) in bytes.chunks(SECTOR).enumerate() {
            assert!(
                xxh3_64(content) == self.sectors[start + index].settled,
                "sector {} is wrong",
                start + index
            );
        }
    }

    /// Sectors of rows that were being written, as the array's bytes are cut into rows.
    pub(crate) fn rows_under_way(&self, stripe_bytes: u64, chunk_bytes: u64) -> Vec<(u64, u64)> {
        let row_of = |sector: usize| {
            let at = (sector * SECTOR) as u64;
            (at / stripe_bytes, at % stripe_bytes % chunk_bytes / ROW_BYTES)
        };
        let pending = self.sectors.iter().enumerate().filter(|(_, sector)| sector.pending.is_some());
        let mut rows: Vec<_> = pending.map(|(index, _)| row_of(index)).collect();
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
                Some(_) if sector.settled == content => found.old += 1,
                None if sector.settled == content => {}
                _ if in_hole(at) => found.hole += 1,
                pending => panic!(
                    "sector {at} is neither old nor new: acknowledged {:x}, under way {pending:x?}, found {content:x}",
                    sector.settled
                ),
            }
            *sector = Sector { settled: content, pending: None, busy: false };
        }
        found
    }
}
