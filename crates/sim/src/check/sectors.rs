//! What each sector of an array may hold, given the clients' requests, the acknowledgements, and the flushes.
//!
//! A sector has versions: one certainly durable, and those written since. A version is ruled out once a later
//! one, begun after it had ended, is acknowledged (for reads) or durable (for what a crash leaves). Writes
//! that overlap in time may win in any order.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use fixedbitset::FixedBitSet;
use smallvec::SmallVec;

use super::{Checker, Violation};

/// Bytes of a sector, the unit of tearing and of the model.
pub const SECTOR_BYTES: usize = 512;

#[derive(Debug, Clone, Copy)]
struct Version {
    value: u64,
    begun: u64,
    ended: Option<u64>,
    /// Acknowledged: a read that begins later sees it or something newer.
    acknowledged: bool,
    durable: bool,
}

/// The model of an array's content.
#[derive(Clone)]
pub struct Sectors {
    sectors: Vec<SmallVec<[Version; 2]>>,
    /// Sectors with more than one version.
    open: FixedBitSet,
    /// Sectors of which less is promised until a write certainly replaces them.
    wild: BTreeMap<usize, Wild>,
    /// What sectors that a crash left open might have held, besides what was found: it may still be on some
    /// member.
    ghosts: BTreeMap<usize, SmallVec<[u64; 2]>>,
    /// Reads under way, by when they began: they may see versions replaced since.
    reads: BTreeSet<u64>,
    clock: u64,
    next_value: u64,
}

/// What is promised of a forgiven sector.
#[derive(Debug, Clone)]
struct Wild {
    since: u64,
    /// It holds one of these; none: no promise.
    values: Option<SmallVec<[u64; 2]>>,
}

impl Wild {
    fn allows(&self, value: u64) -> bool {
        self.values.as_ref().is_none_or(|values| values.contains(&value))
    }
}

/// A write that has begun.
#[derive(Debug, Clone, Copy)]
pub struct WriteTicket {
    first: usize,
    count: usize,
    begun: u64,
}

/// When a flush began.
#[derive(Debug, Clone, Copy)]
pub struct Moment(u64);

/// When a read began.
#[derive(Debug)]
pub struct ReadTicket(u64);

impl Sectors {
    /// A zeroed array.
    pub fn new(bytes: u64) -> Self {
        let zeroed = Version { value: 0, begun: 0, ended: Some(1), acknowledged: true, durable: true };
        let count = bytes as usize / SECTOR_BYTES;
        Self {
            sectors: vec![SmallVec::from_elem(zeroed, 1); count],
            open: FixedBitSet::with_capacity(count),
            wild: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            reads: BTreeSet::new(),
            clock: 1,
            next_value: 0,
        }
    }

    /// How many sectors there are.
    pub fn count(&self) -> usize {
        self.sectors.len()
    }

    /// Fills a buffer with new content: each sector shows its number and its version.
    pub fn fill(&mut self, first: usize, content: &mut [u8]) {
        self.next_value += 1;
        for (i, sector) in content.chunks_mut(SECTOR_BYTES).enumerate() {
            let value = self.next_value << 24 | (first + i) as u64;
            sector.as_chunks_mut().0.fill(value.to_le_bytes());
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A write of that content begins.
    pub fn begin_write(&mut self, first: usize, content: &[u8]) -> WriteTicket {
        let values = content.chunks(SECTOR_BYTES).map(tag);
        self.add(first, content.len() / SECTOR_BYTES, values)
    }

    /// A write of zeroes begins.
    pub fn begin_zeroes(&mut self, first: usize, count: usize) -> WriteTicket {
        self.add(first, count, std::iter::repeat_n(0, count))
    }

    fn add(&mut self, first: usize, count: usize, values: impl Iterator<Item = u64>) -> WriteTicket {
        let begun = self.tick();
        for (sector, value) in (first..).zip(values) {
            let version = Version { value, begun, ended: None, acknowledged: false, durable: false };
            self.sectors[sector].push(version);
            self.open.insert(sector);
        }
        WriteTicket { first, count, begun }
    }

    /// The write ended. A failed write may be there or not, for good.
    pub fn end_write(&mut self, ticket: WriteTicket, acknowledged: bool, fua: bool) {
        let now = self.tick();
        for sector in ticket.first..ticket.first + ticket.count {
            let version = self.sectors[sector].iter_mut().find(|version| version.begun == ticket.begun);
            if let Some(version) = version {
                version.ended = Some(now);
                version.acknowledged = acknowledged;
                version.durable = acknowledged && fua;
            }
            self.prune(sector);
        }
    }

    /// A flush begins.
    pub fn begin_flush(&mut self) -> Moment {
        Moment(self.tick())
    }

    /// A read begins.
    pub fn begin_read(&mut self) -> ReadTicket {
        let begun = self.tick();
        self.reads.insert(begun);
        ReadTicket(begun)
    }

    /// The flush was acknowledged: writes acknowledged before it began are durable.
    pub fn end_flush(&mut self, ticket: Moment) {
        let open: Vec<usize> = self.open().collect();
        for sector in open {
            for version in &mut self.sectors[sector] {
                version.durable |= version.acknowledged && version.ended.is_some_and(|end| end <= ticket.0);
            }
            self.prune(sector);
        }
    }

    /// Forgets versions that a durable one has replaced, unless a read under way may still see them.
    fn prune(&mut self, sector: usize) {
        if !self.reads.is_empty() {
            return;
        }
        let versions = &mut self.sectors[sector];
        let newest = newest_durable(versions);
        versions.retain(|version| version.ended.is_none_or(|end| end > newest));
        if versions.len() == 1 && versions[0].durable {
            self.open.remove(sector);
            if self.wild.get(&sector).is_some_and(|wild| wild.since < versions[0].begun) {
                self.wild.remove(&sector);
            }
        }
    }

    /// Checks the result of a read that ends now.
    ///
    /// # Errors
    /// A [`Violation`] names the first sector that holds what it may not.
    pub fn end_read(&mut self, ticket: ReadTicket, first: usize, content: &[u8]) -> Result<(), Violation> {
        self.reads.remove(&ticket.0);
        self.check_read(&ticket, first, content, "a read")
    }

    /// A read ended without content.
    pub fn give_up_read(&mut self, ticket: ReadTicket) {
        self.reads.remove(&ticket.0);
    }

    /// The write did nothing at all.
    pub fn withdraw(&mut self, ticket: WriteTicket) {
        for sector in ticket.first..ticket.first + ticket.count {
            self.sectors[sector].retain(|version| version.begun != ticket.begun);
            self.prune(sector);
        }
    }

    fn check_read(
        &self,
        ticket: &ReadTicket,
        first: usize,
        content: &[u8],
        what: &str,
    ) -> Result<(), Violation> {
        for (sector, found) in (first..).zip(content.chunks(SECTOR_BYTES)) {
            let versions = &self.sectors[sector];
            let seen_before = |v: &&Version| v.acknowledged && v.ended.is_some_and(|end| end <= ticket.0);
            let newest = versions.iter().filter(seen_before).map(|v| v.begun).max().unwrap_or(0);
            let value = tag(found);
            let fits = |v: &Version| v.value == value && v.ended.is_none_or(|end| end > newest);
            if !versions.iter().any(fits) && !self.may_be(sector, value) {
                return Err(self.wrong(sector, value, what));
            }
        }
        Ok(())
    }

    /// Checks that the ranges reported as holes may hold zeroes; the report was requested when the ticket was
    /// drawn.
    ///
    /// # Errors
    /// A [`Violation`] names the first sector that may not hold zeroes.
    pub fn end_holes(&mut self, ticket: ReadTicket, holes: Vec<Range<usize>>) -> Result<(), Violation> {
        let result = holes.into_iter().try_for_each(|hole| {
            let zeroes = vec![0; hole.len() * SECTOR_BYTES];
            self.check_read(&ticket, hole.start, &zeroes, "a hole")
        });
        self.reads.remove(&ticket.0);
        result
    }

    /// Power failed: writes under way may have arrived or not, and their clients never learn.
    pub fn crash(&mut self) {
        let now = self.tick();
        self.reads.clear();
        for sector in self.open().collect::<Vec<_>>() {
            for version in &mut self.sectors[sector] {
                version.ended.get_or_insert(now);
            }
            self.prune(sector);
        }
    }

    /// A number for the allowed contents after a power failure: equal if they are.
    pub fn digest(&self) -> u64 {
        let mix = |sum: u64, value: u64| (sum ^ value).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(27);
        let values = |versions: &[Version]| {
            let mut values: SmallVec<[u64; 4]> = versions.iter().map(|version| version.value).collect();
            values.sort_unstable();
            values.dedup();
            values.into_iter().fold(1, mix)
        };
        self.sectors.iter().map(|versions| values(versions)).fold(0, mix)
    }

    /// Sectors whose content a crash leaves open.
    pub fn open(&self) -> impl Iterator<Item = usize> + '_ {
        self.open.ones()
    }

    /// Nothing is promised of these sectors until a write certainly replaces them: the failure model's write
    /// hole, or the damage of a lying member.
    pub fn forgive(&mut self, sectors: impl IntoIterator<Item = usize>) {
        let since = self.tick();
        self.wild.extend(sectors.into_iter().map(|sector| (sector, Wild { since, values: None })));
    }

    /// As [`Sectors::forgive`], but they hold something that was written there once and that a crash left
    /// open: of mirrors that differ, another may be read from now on.
    pub fn forgive_older(&mut self, sectors: impl IntoIterator<Item = usize>) {
        let since = self.tick();
        for sector in sectors {
            let ghosts = self.ghosts.get(&sector).cloned().unwrap_or_default();
            match self.wild.get_mut(&sector) {
                Some(wild) => wild.values.iter_mut().for_each(|values| values.extend(ghosts.iter().copied())),
                None => {
                    self.wild.insert(sector, Wild { since, values: Some(ghosts) });
                }
            }
        }
    }

    /// Whether a sector was forgiven and may hold this value.
    fn may_be(&self, sector: usize, value: u64) -> bool {
        self.wild.get(&sector).is_some_and(|wild| wild.allows(value))
    }

    /// After a crash: the content found must be allowed, and is the content from now on.
    ///
    /// # Errors
    /// A [`Violation`] names the first sector that holds what it may not.
    pub fn adopt(&mut self, first: usize, content: &[u8]) -> Result<(), Violation> {
        self.check_left(first, content)?;
        for (sector, found) in (first..).zip(content.chunks(SECTOR_BYTES)) {
            let value = tag(found);
            let allowed = self.is_version(sector, value);
            if self.open.contains(sector) || !allowed {
                let older = self.sectors[sector].iter().map(|version| version.value);
                self.ghosts.entry(sector).or_default().extend(older);
                self.found(sector, value);
            }
        }
        Ok(())
    }

    /// After a crash: the content found must be allowed. It may be different the next time.
    ///
    /// # Errors
    /// A [`Violation`] names the first sector that holds what it may not.
    pub fn check_left(&self, first: usize, content: &[u8]) -> Result<(), Violation> {
        for (sector, found) in (first..).zip(content.chunks(SECTOR_BYTES)) {
            let value = tag(found);
            if !self.is_version(sector, value) && !self.may_be(sector, value) {
                return Err(self.wrong(sector, value, "after the crash"));
            }
        }
        Ok(())
    }

    fn is_version(&self, sector: usize, value: u64) -> bool {
        self.sectors[sector].iter().any(|version| version.value == value)
    }

    /// Everything agrees, and the array was read: the content found is the content from now on, also in
    /// sectors of which nothing was promised.
    pub fn settle(&mut self, first: usize, content: &[u8]) {
        let read = first..first + content.len() / SECTOR_BYTES;
        self.ghosts.retain(|sector, _| !read.contains(sector));
        let wild: Vec<usize> = self.wild.range(read).map(|(sector, _)| *sector).collect();
        for sector in wild {
            self.wild.remove(&sector);
            let value = tag(&content[(sector - first) * SECTOR_BYTES..][..SECTOR_BYTES]);
            if self.sectors[sector].iter().all(|version| version.value != value) {
                self.found(sector, value);
            }
        }
    }

    /// What a sector certainly holds.
    fn found(&mut self, sector: usize, value: u64) {
        let (begun, ended) = (self.tick(), self.tick());
        let version = Version { value, begun, ended: Some(ended), acknowledged: true, durable: true };
        self.sectors[sector] = SmallVec::from_elem(version, 1);
        self.open.remove(sector);
        // It was read, not written: where nothing is promised, it may be different the next time.
        if let Some(wild) = self.wild.get_mut(&sector) {
            wild.since = ended;
        }
    }

    fn wrong(&self, sector: usize, value: u64, when: &str) -> Violation {
        let versions: Vec<String> = self.sectors[sector].iter().map(describe).collect();
        let stand = format!("allowed are {}", versions.join(", "));
        let what = format!("{when}: sector {sector} holds {}; {stand}", show(value));
        Violation { sector: Some(sector), ..Checker::Sectors.violation(what) }
    }
}

fn describe(version: &Version) -> String {
    let state = match version {
        Version { durable: true, .. } => "durable",
        Version { acknowledged: true, .. } => "acknowledged",
        Version { ended: Some(_), .. } => "failed or cut short",
        _ => "under way",
    };
    format!("{} ({state})", show(version.value))
}

/// A readable value: which write, of which sector.
fn show(value: u64) -> String {
    match value {
        0 => "zeroes".to_owned(),
        mixed if mixed >> 63 == 1 => "a mixture".to_owned(),
        _ => format!("write {} of sector {}", value >> 24, value & 0xff_ffff),
    }
}

/// When the newest durable version began.
fn newest_durable(versions: &[Version]) -> u64 {
    versions.iter().filter(|version| version.durable).map(|version| version.begun).max().unwrap_or(0)
}

/// The value of a sector, the same in all its words; a sector with other content has a value that no write
/// gives.
fn tag(sector: &[u8]) -> u64 {
    let words = || sector.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    let first = words().next().unwrap_or_default();
    // Without an early exit, which would prevent looking at many words at once.
    if words().fold(0, |differing, word| differing | (word ^ first)) == 0 {
        return first;
    }
    words().fold(0, |hash: u64, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3)) | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(sectors: &mut Sectors, first: usize) -> Vec<u8> {
        let mut bytes = vec![0; SECTOR_BYTES];
        sectors.fill(first, &mut bytes);
        bytes
    }

    fn write(sectors: &mut Sectors, fua: bool) -> Vec<u8> {
        let bytes = content(sectors, 0);
        let ticket = sectors.begin_write(0, &bytes);
        sectors.end_write(ticket, true, fua);
        bytes
    }

    fn allowed_after_crash(sectors: &Sectors, bytes: &[u8]) -> bool {
        let mut copy = sectors.clone();
        copy.crash();
        copy.adopt(0, bytes).is_ok()
    }

    #[test]
    fn unflushed_writes_may_be_there_or_not() {
        let mut sectors = Sectors::new(512);
        let (a, b) = (write(&mut sectors, false), write(&mut sectors, false));
        for bytes in [vec![0; 512], a, b.clone()] {
            assert!(allowed_after_crash(&sectors, &bytes));
        }
        let (read, again) = (sectors.begin_read(), sectors.begin_read());
        assert!(sectors.end_read(read, 0, &b).is_ok());
        assert!(sectors.end_read(again, 0, &[0; 512]).is_err(), "a read sees what was acknowledged");
    }

    #[test]
    fn a_flush_covers_what_was_acknowledged_before_it() {
        let mut sectors = Sectors::new(512);
        let a = write(&mut sectors, false);
        let flush = sectors.begin_flush();
        let b = write(&mut sectors, false);
        sectors.end_flush(flush);
        assert!(!allowed_after_crash(&sectors, &[0; 512]));
        assert!(allowed_after_crash(&sectors, &a) && allowed_after_crash(&sectors, &b));
        let c = write(&mut sectors, true);
        assert!(!allowed_after_crash(&sectors, &b) && allowed_after_crash(&sectors, &c));
    }

    #[test]
    fn writes_that_overlap_may_win_in_any_order() {
        let mut sectors = Sectors::new(512);
        let (a, b) = (content(&mut sectors, 0), content(&mut sectors, 0));
        let (first, second) = (sectors.begin_write(0, &a), sectors.begin_write(0, &b));
        sectors.end_write(second, true, true);
        sectors.end_write(first, true, true);
        assert!(allowed_after_crash(&sectors, &a) && allowed_after_crash(&sectors, &b));
        assert!(!allowed_after_crash(&sectors, &[0; 512]));
    }

    #[test]
    fn a_read_under_way_may_see_what_is_replaced_meanwhile() {
        let mut sectors = Sectors::new(512);
        let read = sectors.begin_read();
        write(&mut sectors, true);
        assert!(sectors.end_read(read, 0, &[0; 512]).is_ok());
        assert!(!allowed_after_crash(&sectors, &[0; 512]));
    }

    #[test]
    fn a_write_that_failed_is_never_certain() {
        let mut sectors = Sectors::new(512);
        let a = content(&mut sectors, 0);
        let ticket = sectors.begin_write(0, &a);
        sectors.end_write(ticket, false, true);
        let flush = sectors.begin_flush();
        sectors.end_flush(flush);
        assert!(allowed_after_crash(&sectors, &a) && allowed_after_crash(&sectors, &[0; 512]));
        let b = write(&mut sectors, true);
        assert!(!allowed_after_crash(&sectors, &a) && allowed_after_crash(&sectors, &b));
    }

    #[test]
    fn what_was_forgiven_and_found_since_may_still_be_something_else() {
        let mut sectors = Sectors::new(512);
        let a = write(&mut sectors, false);
        sectors.crash();
        sectors.forgive([0]);
        sectors.adopt(0, &a).unwrap();
        let b = content(&mut sectors, 0);
        let refused = sectors.begin_write(0, &b);
        sectors.withdraw(refused);
        let (read, again) = (sectors.begin_read(), sectors.begin_read());
        assert!(sectors.end_read(read, 0, &[0; 512]).is_ok(), "a member that has it may be lost yet");
        sectors.end_read(again, 0, &a).unwrap();
        write(&mut sectors, true);
        let read = sectors.begin_read();
        assert!(sectors.end_read(read, 0, &a).is_err(), "it was written");
    }

    #[test]
    fn half_a_sector_is_nobody_s() {
        let mut sectors = Sectors::new(512);
        let mut a = write(&mut sectors, false);
        a[256..].fill(0);
        assert!(!allowed_after_crash(&sectors, &a));
    }
}
