//! Runs of sectors by where they begin, thousands of them, of which each command looks up, adds and takes out
//! a few.
//!
//! Two levels: blocks of some dozens of neighbours, and where each block begins. A look-up bisects both,
//! which takes few branches that a processor could guess wrong; each level of a balanced tree takes several.
//! Blocks are split and never joined: in a buffer whose runs come and go they empty by themselves, as the
//! sweep passes.

/// A run. A full buffer has thousands, so they are kept small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) end: u64,
    /// When its beginning is in the buffer.
    pub(super) earliest: u64,
    /// The epoch of its oldest data.
    pub(super) epoch: u64,
}

/// Runs that a block holds at most.
const BLOCK: usize = 64;

/// Runs by their first sectors.
#[derive(Default)]
pub(super) struct Runs {
    /// By block: no run of it begins before, and all runs of the block before do. Stays when a block's first
    /// run goes.
    starts: Vec<u64>,
    /// None is empty.
    blocks: Vec<Block>,
    len: usize,
}

/// Neighbours, in order: where they begin, and the runs.
struct Block {
    lbas: Vec<u64>,
    runs: Vec<Run>,
}

impl Block {
    fn of(lbas: &[u64], runs: &[Run]) -> Self {
        let mut block = Self { lbas: Vec::with_capacity(BLOCK), runs: Vec::with_capacity(BLOCK) };
        block.lbas.extend_from_slice(lbas);
        block.runs.extend_from_slice(runs);
        block
    }

    /// Takes the upper half out.
    fn split(&mut self) -> Self {
        let half = self.lbas.len() / 2;
        let upper = Self::of(&self.lbas[half..], &self.runs[half..]);
        self.lbas.truncate(half);
        self.runs.truncate(half);
        upper
    }

    fn get(&self, place: usize) -> Option<(u64, &Run)> {
        Some((*self.lbas.get(place)?, &self.runs[place]))
    }

    /// How many begin before a sector.
    fn before(&self, lba: u64) -> usize {
        self.lbas.partition_point(|own| *own < lba)
    }
}

impl Runs {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The block in which a run that begins there is, or would be.
    fn block_of(&self, lba: u64) -> usize {
        self.starts.partition_point(|start| *start <= lba).saturating_sub(1)
    }

    /// The last run that begins at a sector or before.
    pub(super) fn last_by(&self, lba: u64) -> Option<(u64, &Run)> {
        let index = self.block_of(lba);
        let block = self.blocks.get(index)?;
        match block.lbas.partition_point(|own| *own <= lba) {
            0 => index
                .checked_sub(1)
                .and_then(|before| self.blocks[before].get(self.blocks[before].lbas.len() - 1)),
            count => block.get(count - 1),
        }
    }

    /// The first run that begins at a sector or behind.
    pub(super) fn first_from(&self, lba: u64) -> Option<(u64, &Run)> {
        let index = self.block_of(lba);
        let block = self.blocks.get(index)?;
        block.get(block.before(lba)).or_else(|| self.blocks.get(index + 1)?.get(0))
    }

    /// Adds a run that begins where no other does.
    pub(super) fn insert(&mut self, lba: u64, run: Run) {
        self.len += 1;
        if self.blocks.is_empty() {
            self.starts.push(lba);
            self.blocks.push(Block::of(&[lba], &[run]));
            return;
        }
        let mut index = self.block_of(lba);
        if self.blocks[index].lbas.len() == BLOCK {
            let upper = self.blocks[index].split();
            let start = upper.lbas[0];
            self.starts.insert(index + 1, start);
            self.blocks.insert(index + 1, upper);
            index += usize::from(start <= lba);
        }
        self.starts[index] = self.starts[index].min(lba);
        let block = &mut self.blocks[index];
        let place = block.before(lba);
        debug_assert_ne!(block.lbas.get(place), Some(&lba), "no other run begins there");
        block.lbas.insert(place, lba);
        block.runs.insert(place, run);
    }

    /// Takes out the run that begins at a sector.
    pub(super) fn remove(&mut self, lba: u64) -> Option<Run> {
        let index = self.block_of(lba);
        let block = self.blocks.get_mut(index)?;
        let place = block.before(lba);
        if block.lbas.get(place) != Some(&lba) {
            return None;
        }
        block.lbas.remove(place);
        let run = block.runs.remove(place);
        if block.lbas.is_empty() {
            self.starts.remove(index);
            self.blocks.remove(index);
        }
        self.len -= 1;
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fastrand::Rng;

    use super::*;

    fn check_blocks(runs: &Runs) {
        for (index, block) in runs.blocks.iter().enumerate() {
            assert!(block.lbas.is_sorted() && block.lbas.len() == block.runs.len());
            assert!(block.lbas.first().is_some_and(|first| runs.starts[index] <= *first));
            let next = runs.starts.get(index + 1);
            assert!(next.is_none_or(|next| block.lbas.last().is_some_and(|last| last < next)));
        }
    }

    #[test]
    fn the_same_as_a_tree() {
        let mut rng = Rng::with_seed(1);
        for (lbas, growing) in [(100, 55), (3000, 80), (3000, 50), (1_000_000, 70)] {
            let (mut runs, mut tree) = (Runs::default(), BTreeMap::new());
            for step in 0..20_000 {
                let lba = rng.u64(..lbas);
                if rng.u8(..100) >= growing || step > 15_000 {
                    // Often what is there, and what is next to it.
                    let found = tree.range(lba..).next().map_or(lba, |(lba, _)| *lba);
                    assert_eq!(runs.remove(found), tree.remove(&found));
                } else if let std::collections::btree_map::Entry::Vacant(e) = tree.entry(lba) {
                    let run = Run { end: step, earliest: rng.u64(..), epoch: rng.u64(..) };
                    e.insert(run);
                    runs.insert(lba, run);
                }
                let lba = rng.u64(..lbas);
                let of = |found: Option<(u64, &Run)>| found.map(|(lba, run)| (lba, *run));
                let expected = |found: Option<(&u64, &Run)>| found.map(|(lba, run)| (*lba, *run));
                assert_eq!(of(runs.last_by(lba)), expected(tree.range(..=lba).next_back()));
                assert_eq!(of(runs.first_from(lba)), expected(tree.range(lba..).next()));
                assert_eq!(runs.len(), tree.len());
                check_blocks(&runs);
            }
        }
    }
}
