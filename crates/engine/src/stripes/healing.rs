//! Chunks that failed to be read and wait to be healed.
//!
//! A chunk that could not be healed, because other members cannot be read there either, stays known. It is
//! tried again when members have changed, and every ten minutes or so. Until it is healed, no further failure
//! of it counts against its member.

use std::collections::BTreeMap;

use crate::mutants::{Mutant, lives};

/// A stripe, and a column of it.
pub(crate) type Chunk = (u64, usize);

/// What a member is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// A request, or a job: a failure counts against the member.
    Client,
    /// The healing of another member's block. Perhaps no client ever reads what failed, so the failure is
    /// noted, but does not count.
    Healing,
}

/// The state of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is tried in the next round.
    Due,
    /// It is being healed.
    UnderWay,
    /// It is being healed, and a client failed to read some of it meanwhile: maybe a part that the healing
    /// has passed.
    Again,
    /// It could not be healed just now.
    PutOff,
}

/// The chunks that wait.
#[derive(Debug, Default)]
pub(crate) struct Healing(BTreeMap<Chunk, Standing>);

impl Healing {
    /// Notes a chunk for the next round. False if it waits already.
    pub(crate) fn note(&mut self, chunk: Chunk) -> bool {
        let known = self.0.get(&chunk).copied();
        let next = match known {
            None => Standing::Due,
            Some(Standing::UnderWay) if !lives(Mutant::HealingForgets) => Standing::Again,
            Some(standing) => standing,
        };
        self.0.insert(chunk, next);
        known.is_none()
    }

    /// As [`Healing::note`], for a read that healing asked for: a chunk that is being healed is already dealt
    /// with.
    pub(crate) fn note_own(&mut self, chunk: Chunk) -> bool {
        !self.0.contains_key(&chunk) && self.note(chunk)
    }

    /// Notes a chunk that has just been found to be beyond healing.
    pub(crate) fn put_off(&mut self, chunk: Chunk) {
        self.0.entry(chunk).or_insert(Standing::PutOff);
    }

    /// Takes at most `max` chunks to try now. They stay known until they are [healed](Self::healed).
    pub(crate) fn take(&mut self, max: usize) -> Vec<Chunk> {
        let due = self.0.iter_mut().filter(|(_, standing)| **standing == Standing::Due).take(max);
        due.map(|(chunk, standing)| {
            *standing = Standing::UnderWay;
            *chunk
        })
        .collect()
    }

    /// A chunk was healed: it need not wait any more, unless some of it failed to be read meanwhile.
    pub(crate) fn healed(&mut self, chunk: Chunk) {
        match self.0.get_mut(&chunk) {
            Some(standing @ Standing::Again) => *standing = Standing::Due,
            _ => self.forget(chunk),
        }
    }

    /// A chunk could not be healed.
    pub(crate) fn failed(&mut self, chunk: Chunk) {
        self.0.insert(chunk, Standing::PutOff);
    }

    /// A chunk need not be healed.
    pub(crate) fn forget(&mut self, chunk: Chunk) {
        self.0.remove(&chunk);
    }

    /// All chunks that could not be healed are tried again.
    pub(crate) fn retry(&mut self) {
        let put_off = self.0.values_mut().filter(|standing| **standing == Standing::PutOff);
        put_off.for_each(|standing| *standing = Standing::Due);
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
        healing.failed((3, 0));
        healing.healed((4, 1));
        assert!(!healing.note((3, 0)), "it has failed before");
        assert!(healing.take(9).is_empty());
        healing.put_off((9, 0));
        assert!(healing.take(9).is_empty());
        healing.retry();
        assert_eq!(healing.take(9), [(3, 0), (9, 0)]);
        assert!(healing.note((4, 1)), "a healed one may fail anew");
    }

    #[test]
    fn what_fails_behind_healing_is_healed_in_the_next_round() {
        let mut healing = Healing::default();
        healing.note((3, 0));
        assert_eq!(healing.take(9), [(3, 0)]);
        assert!(!healing.note_own((3, 0)), "healing meets what it is there for");
        assert!(!healing.note((3, 0)), "a client fails to read there, which does not count");
        healing.healed((3, 0));
        assert_eq!(healing.take(9), [(3, 0)]);
        healing.healed((3, 0));
        assert!(healing.take(9).is_empty());
    }
}
