//! What the page cache writes, and when: as Linux 2.6.11 does with an ext3.
//!
//! Writers fill the page cache up to a limit. Then the transaction ends: the data, and metadata of earlier transactions, go to
//! their places, each block once, in requests of a block and in ascending order; then the transaction goes into the journal;
//! then the block that commits it. Each step begins when all of the one before has ended, and no step flushes: an ext3 of
//! that time asks for none (`barrier=0`). What is read for the next transaction is read beside the first step.

use stripewise_load::{Extent, Step};

use super::{
    file::Run,
    files::{Dirty, Ext3},
    journal::Journal,
    layout::BLOCK_BYTES,
};

/// Makes a client's steps of what a file system has dirty.
#[derive(Debug)]
pub(crate) struct PageCache {
    journal: Journal,
    /// Dirty blocks of files that it holds at most.
    limit: u64,
    /// What is read before the next transaction can be written.
    reads: Vec<Extent>,
    /// The writes of the last transaction, step by step.
    ended: Vec<Vec<u32>>,
    steps: Vec<Step>,
}

impl PageCache {
    /// Of so many blocks, with this journal.
    pub(crate) fn new(journal: Journal, limit_blocks: u64) -> Self {
        Self { journal, limit: limit_blocks, reads: Vec::new(), ended: Vec::new(), steps: Vec::new() }
    }

    /// A client reads these.
    pub(crate) fn read(&mut self, extents: impl IntoIterator<Item = Extent>) {
        self.reads.extend(extents);
    }

    /// Ends the transaction if as much is dirty as may be. Whether it did.
    pub(crate) fn write_when_full(&mut self, of: &mut Ext3) -> bool {
        let (data, metadata) = of.dirty();
        let is_full = data >= self.limit || metadata >= self.journal.transaction_blocks();
        if is_full {
            self.end_transaction(of.take_dirty());
        }
        is_full
    }

    /// All that was done so far is on the device, and part of no step.
    pub(super) fn begin_anew(&mut self, of: &mut Ext3) {
        self.end_transaction(of.take_dirty());
        self.end_transaction(Dirty::default());
        (self.reads, self.ended, self.steps) = Default::default();
    }

    /// Ends the last transaction, as `sync` does, and writes all metadata to their places, which happens half a minute later. The
    /// steps of all that was done.
    pub(crate) fn end(mut self, of: &mut Ext3) -> Vec<Step> {
        self.end_transaction(of.take_dirty());
        self.end_transaction(Dirty::default());
        self.into_steps()
    }

    /// All steps so far.
    pub(super) fn into_steps(mut self) -> Vec<Step> {
        self.write_ended();
        self.steps
    }

    /// These are written, with metadata of earlier transactions.
    pub(super) fn end_transaction(&mut self, dirty: Dirty) {
        self.write_ended();
        let mut places = dirty.data;
        places.extend(self.journal.check_point(&dirty.metadata));
        self.ended.push(places.into_iter().collect());
        if !dirty.metadata.is_empty() {
            let (records, commit) = self.journal.commit(dirty.metadata);
            self.ended.extend([records, vec![commit]]);
        }
    }

    /// The steps of the last transaction; the first of them has the reads.
    fn write_ended(&mut self) {
        let mut writes = std::mem::take(&mut self.ended)
            .into_iter()
            .map(|blocks| blocks.into_iter().map(|block| extent((block, 1))).collect());
        let first =
            Step { reads: std::mem::take(&mut self.reads), writes: writes.next().unwrap_or_default() };
        let rest = writes.map(|writes| Step { reads: Vec::new(), writes });
        self.steps.extend(std::iter::once(first).chain(rest).filter(|step| !step.is_empty()));
    }
}

/// Blocks as bytes of the device.
pub(crate) fn extent((first, count): Run) -> Extent {
    Extent { offset_bytes: u64::from(first) * BLOCK_BYTES, len_bytes: u64::from(count) * BLOCK_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(extents: &[Extent]) -> Vec<u64> {
        extents.iter().map(|extent| extent.offset_bytes / BLOCK_BYTES).collect()
    }

    #[test]
    fn data_come_before_the_journal_and_the_journal_before_the_places() {
        let (mut of, journal) = Ext3::new(256 << 20, 1024, 1);
        let directory = of.make_directory(None);
        let mut cache = PageCache::new(Journal::new(journal.clone()), 64);
        let file = of.create(directory, 100);
        cache.write_when_full(&mut of);
        let steps = cache.end(&mut of);
        let [data, records, commit, places] = &steps[..] else { panic!("{} steps", steps.len()) };
        let expected: Vec<_> = file.blocks().map(u64::from).collect();
        assert_eq!(blocks(&data.writes), expected);
        let in_journal: Vec<_> = journal[1..].iter().map(|block| u64::from(*block)).collect();
        let count = places.writes.len();
        assert_eq!(blocks(&records.writes), in_journal[..1 + count]);
        assert_eq!(blocks(&commit.writes), in_journal[1 + count..2 + count]);
        let metadata = blocks(&places.writes);
        assert!(metadata.is_sorted() && metadata.contains(&u64::from(file.indirect[0])));
    }

    #[test]
    fn what_is_copied_is_read_before_it_is_written_and_beside_what_came_before() {
        let (mut of, journal) = Ext3::new(256 << 20, 1024, 1);
        let directory = of.make_directory(None);
        let mut cache = PageCache::new(Journal::new(journal), 8);
        for _ in 0..2 {
            cache.read([extent((60_000, 8))]);
            of.create(directory, 8);
            cache.write_when_full(&mut of);
        }
        let steps = cache.end(&mut of);
        let shape: Vec<_> = steps.iter().map(|step| (step.reads.len(), step.writes.len() >= 8)).collect();
        assert_eq!(shape[..2], [(1, false), (1, true)], "the second read goes beside the first writes");
        assert!(shape[2..].iter().all(|(reads, _)| *reads == 0));
    }
}
