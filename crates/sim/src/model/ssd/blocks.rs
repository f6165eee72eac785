//! The blocks of one die: how much of each is valid, which to collect, which to write next.

use std::{cmp::Reverse, collections::BinaryHeap};

/// No block.
const NONE: u32 = u32::MAX;

/// The blocks of one die, by number.
pub(super) struct Blocks {
    /// Units of each that are valid.
    valid: Vec<u16>,
    /// How often each was erased.
    erases: Vec<u32>,
    /// Erased blocks, the least worn first.
    free: BinaryHeap<Reverse<(u32, u32)>>,
    closed: Buckets,
    /// Valid units of all blocks.
    valid_units: u32,
}

impl Blocks {
    pub(super) fn new(count: u32, units_per_block: u32) -> Self {
        Self {
            valid: vec![0; count as usize],
            erases: vec![0; count as usize],
            free: (0..count).map(|block| Reverse((0, block))).collect(),
            closed: Buckets::new(count, units_per_block),
            valid_units: 0,
        }
    }

    pub(super) fn free_count(&self) -> usize {
        self.free.len()
    }

    pub(super) fn valid_units(&self) -> u32 {
        self.valid_units
    }

    pub(super) fn valid(&self, block: u32) -> u16 {
        self.valid[block as usize]
    }

    pub(super) fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// The least worn of the free blocks, to be written.
    pub(super) fn open(&mut self) -> u32 {
        let Reverse((_, block)) = self.free.pop().expect("a block is free where one is opened");
        block
    }

    /// A full block, which may now be collected.
    pub(super) fn close(&mut self, block: u32) {
        self.closed.insert(block, self.valid(block));
    }

    /// A unit is written.
    pub(super) fn add_valid(&mut self, block: u32) {
        self.valid[block as usize] += 1;
        self.valid_units += 1;
    }

    /// A unit is no longer needed.
    pub(super) fn drop_valid(&mut self, block: u32) {
        let before = self.valid(block);
        self.valid[block as usize] -= 1;
        self.valid_units -= 1;
        if self.closed.remove(block, before) {
            self.closed.insert(block, before - 1);
        }
    }

    /// Greedy: takes the closed block with the fewest valid units, unless even that one has no free units.
    pub(super) fn take_victim(&mut self, units_per_block: u32) -> Option<u32> {
        let (block, valid) = self.closed.least()?;
        if u32::from(valid) == units_per_block {
            return None;
        }
        self.closed.remove(block, valid);
        Some(block)
    }

    /// A victim without valid units becomes free.
    pub(super) fn erase(&mut self, block: u32) {
        assert_eq!(self.valid(block), 0, "what is valid was moved before its block is erased");
        self.erases[block as usize] += 1;
        self.free.push(Reverse((self.erases[block as usize], block)));
    }
}

/// Closed blocks by how many of their units are valid: doubly linked lists, so that a block whose count falls
/// moves in constant time. The search for the least goes up from a lower bound, which falls by one at most
/// with each unit that becomes invalid: constant time each, over all of them.
struct Buckets {
    heads: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    is_in: Vec<bool>,
    /// No bucket below it has a block.
    least: usize,
}

impl Buckets {
    fn new(count: u32, units_per_block: u32) -> Self {
        let buckets = units_per_block as usize + 1;
        Self {
            heads: vec![NONE; buckets],
            next: vec![NONE; count as usize],
            previous: vec![NONE; count as usize],
            is_in: vec![false; count as usize],
            least: buckets,
        }
    }

    fn insert(&mut self, block: u32, valid: u16) {
        let head = std::mem::replace(&mut self.heads[usize::from(valid)], block);
        self.next[block as usize] = head;
        self.previous[block as usize] = NONE;
        if head != NONE {
            self.previous[head as usize] = block;
        }
        self.is_in[block as usize] = true;
        self.least = self.least.min(usize::from(valid));
    }

    /// Takes a block out, if it is in.
    fn remove(&mut self, block: u32, valid: u16) -> bool {
        if !std::mem::take(&mut self.is_in[block as usize]) {
            return false;
        }
        let (previous, next) = (self.previous[block as usize], self.next[block as usize]);
        match previous {
            NONE => self.heads[usize::from(valid)] = next,
            previous => self.next[previous as usize] = next,
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        true
    }

    /// A block with the fewest valid units, and how many those are.
    fn least(&mut self) -> Option<(u32, u16)> {
        while *self.heads.get(self.least)? == NONE {
            self.least += 1;
        }
        Some((self.heads[self.least], self.least as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_victim_has_the_fewest_valid_units() {
        let (count, units) = (20, 16);
        let mut blocks = Blocks::new(count, units);
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..count {
            let block = blocks.open();
            (0..units).for_each(|_| blocks.add_valid(block));
            blocks.close(block);
        }
        assert_eq!(blocks.take_victim(units), None, "nothing to give");
        let mut left: Vec<_> = (0..count).collect();
        while !left.is_empty() {
            for _ in 0..10 {
                let block = left[rng.usize(..left.len())];
                if blocks.valid(block) > 0 {
                    blocks.drop_valid(block);
                }
            }
            let least = left.iter().map(|block| blocks.valid(*block)).min().unwrap();
            let victim = blocks.take_victim(units).unwrap();
            assert_eq!(blocks.valid(victim), least);
            left.retain(|block| *block != victim);
        }
    }

    #[test]
    fn the_least_worn_block_is_opened() {
        let mut blocks = Blocks::new(3, 4);
        for _ in 0..4 {
            let block = blocks.open();
            blocks.erase(block);
        }
        // 0, 1, 2, and 0 again.
        assert_eq!(blocks.erases(), [2, 1, 1]);
        assert_eq!([blocks.open(), blocks.open(), blocks.open()], [1, 2, 0]);
    }
}
