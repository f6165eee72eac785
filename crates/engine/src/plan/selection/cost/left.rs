//! What `cost` remembers: where it left the cycle that reads the fewest blocks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counts of reads (RMW's, RCW's) at which the cycle with the fewest reads was left the last time. There
/// is a bit for each pair of counts and each place of parity, since stripes whose parity lies elsewhere have
/// other members. Without this memory, a cycle that is cheaper by about a tenth would be chosen one time and
/// not the next, and requests of both kinds would get in each other's way.
#[derive(Debug, Default)]
pub(super) struct Left([[AtomicU64; COUNTS_MAX * COUNTS_MAX / 64]; PARITIES_MAX]);

/// Counts from here on are not remembered.
const COUNTS_MAX: usize = 16;
/// Places of parity from here on share what is remembered with those before.
const PARITIES_MAX: usize = 8;

impl Left {
    /// The word and the bit of these counts for RMW and RCW.
    fn place(&self, parity: usize, (rmw, rcw): (u32, u32)) -> Option<(&AtomicU64, u64)> {
        let (rmw, rcw) = (rmw as usize, rcw as usize);
        let place = rmw * COUNTS_MAX + rcw;
        let words = &self.0[parity % PARITIES_MAX];
        (rmw.max(rcw) < COUNTS_MAX).then(|| (&words[place / 64], 1 << (place % 64)))
    }

    pub(super) fn is_left(&self, parity: usize, counts: (u32, u32)) -> bool {
        self.place(parity, counts).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// Writes the word only if it changes: all writers read it.
    pub(super) fn note(&self, parity: usize, counts: (u32, u32), is_left: bool) {
        let Some((word, bit)) = self.place(parity, counts) else { return };
        match (word.load(Relaxed) & bit != 0, is_left) {
            (false, true) => drop(word.fetch_or(bit, Relaxed)),
            (true, false) => drop(word.fetch_and(!bit, Relaxed)),
            _ => {}
        }
    }
}
