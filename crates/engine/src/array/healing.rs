//! Chunks that failed to be read and wait to be healed.
//!
//! A chunk that could not be healed, as other members cannot be read there either, stays known: it is tried again when members have
//! changed, and every ten minutes or so. Until it is healed no further failure of it counts against its member.

use std::collections::BTreeMap;

/// A stripe, and a column of it.
pub(crate) type Chunk = (u64, usize);

/// The chunks that wait, and whether each is to be tried in the next round.
#[derive(Debug, Default)]
pub(crate) struct Healing(BTreeMap<Chunk, bool>);

impl Healing {
    /// Notes a chunk for the next round. False if it waits already.
    pub(crate) fn note(&mut self, chunk: Chunk) -> bool {
        let waits = self.0.contains_key(&chunk);
        if !waits {
            self.0.insert(chunk, true);
        }
        !waits
    }

    /// Notes a chunk that has just been found to be beyond healing.
    pub(crate) fn put_off(&mut self, chunk: Chunk) {
        self.0.entry(chunk).or_insert(false);
    }

    /// Takes chunks to be tried now, so many at most. They go on waiting until they are [healed](Self::healed).
    pub(crate) fn take(&mut self, max: usize) -> Vec<Chunk> {
        let due = self.0.iter_mut().filter(|(_, due)| **due).take(max);
        due.map(|(chunk, due)| {
            *due = false;
            *chunk
        })
        .collect()
    }

    /// A chunk need not wait any more.
    pub(crate) fn healed(&mut self, chunk: Chunk) {
        self.0.remove(&chunk);
    }

    /// All that wait are to be tried again.
    pub(crate) fn retry(&mut self) {
        self.0.values_mut().for_each(|due| *due = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_that_is_not_healed_waits_for_the_next_try() {
        let mut healing = Healing::default();
        assert!(healing.note((3, 0)) && !healing.note((3, 0)) && healing.note((4, 1)));
        assert_eq!(healing.take(1), [(3, 0)]);
        assert_eq!(healing.take(9), [(4, 1)]);
        healing.healed((4, 1));
        assert!(!healing.note((3, 0)), "it has failed before");
        assert!(healing.take(9).is_empty());
        healing.put_off((9, 0));
        assert!(healing.take(9).is_empty());
        healing.retry();
        assert_eq!(healing.take(9), [(3, 0), (9, 0)]);
        assert!(healing.note((4, 1)), "a healed one may fail anew");
    }
}
