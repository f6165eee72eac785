//! Every possible result of a power failure for the writes that are open at one moment, within a bound.
//!
//! Each open write is lost or kept; a metadata write of more than a sector that is under way may also be torn
//! behind its first sector. Data of arrays need not be torn: sectors of a row are arrays of their own, and each of
//! those meets every subset. If that makes more combinations than asked for, these are taken instead: all
//! lost; all kept; one lost and the others kept, one kept and the others lost; each that can be torn torn,
//! with the others kept, and with the others lost. As long as that makes no more than asked for, also two
//! lost, and two kept.

use crate::member::{Fate, OpenWrite};

/// The combinations tried at one moment.
pub(crate) struct Combinations {
    /// For each combination the fate of each open write.
    pub(crate) tried: Vec<Vec<Fate>>,
    /// How many combinations there are.
    pub(crate) all: u128,
}

/// The combinations of fates of these writes, all if there are no more than `states_max`. Only
/// writes that begin before `torn_below_bytes` may be torn.
pub(crate) fn combinations(open: &[OpenWrite], torn_below_bytes: u64, states_max: usize) -> Combinations {
    let tears =
        |write: &OpenWrite| write.under_way && write.offset_bytes < torn_below_bytes && write.len_bytes > 512;
    let tears: Vec<bool> = open.iter().map(tears).collect();
    let all = tears.iter().fold(1u128, |all, tears| all.saturating_mul(if *tears { 3 } else { 2 }));
    if all <= states_max as u128 {
        return Combinations { tried: every(&tears), all };
    }
    let mut tried = one_differs(&tears);
    if tried.len() + tears.len() * (tears.len() - 1) <= states_max {
        tried.extend(two_differ(tears.len()));
    }
    Combinations { tried, all }
}

fn every(tears: &[bool]) -> Vec<Vec<Fate>> {
    tears.iter().fold(vec![Vec::new()], |all, tears| {
        let fates: &[Fate] =
            if *tears { &[Fate::Lost, Fate::Kept, Fate::Torn] } else { &[Fate::Lost, Fate::Kept] };
        all.iter().flat_map(|begun| fates.iter().map(|fate| [&begun[..], &[*fate]].concat())).collect()
    })
}

/// The fate of most writes, and that of the others.
const MOST: [(Fate, Fate); 2] = [(Fate::Kept, Fate::Lost), (Fate::Lost, Fate::Kept)];

fn one_differs(tears: &[bool]) -> Vec<Vec<Fate>> {
    let mut all = Vec::new();
    for (most, other) in MOST {
        let with = |index: usize, fate| {
            let mut fates = vec![most; tears.len()];
            fates[index] = fate;
            fates
        };
        all.push(vec![most; tears.len()]);
        all.extend((0..tears.len()).map(|index| with(index, other)));
        all.extend((0..tears.len()).filter(|index| tears[*index]).map(|index| with(index, Fate::Torn)));
    }
    all
}

fn two_differ(count: usize) -> impl Iterator<Item = Vec<Fate>> {
    let pairs =
        move || (0..count).flat_map(move |first| (first + 1..count).map(move |second| [first, second]));
    MOST.into_iter().flat_map(move |(most, other)| {
        pairs().map(move |pair| {
            (0..count).map(|index| if pair.contains(&index) { other } else { most }).collect()
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn open(count: usize, metadata: usize) -> Vec<OpenWrite> {
        let write = |i| OpenWrite {
            offset_bytes: if i < metadata { 4096 } else { 1 << 20 },
            len_bytes: 4096,
            under_way: true,
            digest: 0,
        };
        (0..count).map(write).collect()
    }

    /// The number of combinations tried, no two alike, and of all.
    fn count(open: &[OpenWrite], states_max: usize) -> (usize, u128) {
        let Combinations { tried, all } = combinations(open, 1 << 20, states_max);
        assert!(tried.iter().all(|fates| fates.len() == open.len()));
        let distinct: BTreeSet<String> = tried.iter().map(|fates| format!("{fates:?}")).collect();
        assert_eq!(distinct.len(), tried.len());
        (tried.len(), all)
    }

    #[test]
    fn few_writes_meet_every_combination() {
        assert_eq!(count(&[], 1), (1, 1));
        assert_eq!(count(&open(3, 0), 8), (8, 8));
        assert_eq!(count(&open(4, 2), 36), (36, 36));
        assert_eq!(count(&open(8, 0), 256), (256, 256));
    }

    #[test]
    fn many_writes_meet_those_in_which_few_differ_from_the_rest() {
        assert_eq!(count(&open(8, 0), 64), (2 * (1 + 8), 256));
        assert_eq!(count(&open(9, 0), 256), (2 * (1 + 9 + 36), 512));
        assert_eq!(count(&open(9, 4), 256), (2 * (1 + 9 + 36 + 4), 81 * 32));
    }
}
