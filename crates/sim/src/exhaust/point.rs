//! A moment of a history at which power fails: the open writes, and the contents allowed afterwards.

use std::collections::HashMap;

use super::{life::Life, teller::DATA_OFFSET_BYTES};
use crate::{
    check::Sectors,
    member::{Fate, OpenWrite},
};

/// A moment at which power fails.
pub(super) struct Point {
    /// By member.
    pub(super) open: Vec<Vec<OpenWrite>>,
    stable: Vec<u64>,
    /// The contents allowed afterwards.
    pub(super) sectors: Sectors,
    allowed: u64,
    lost: Option<usize>,
}

fn mix(sum: u64, value: u64) -> u64 {
    (sum ^ value).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(27)
}

impl Point {
    pub(super) fn of(life: &mut Life) -> Self {
        let mut sectors = life.sectors.lock().clone();
        sectors.crash();
        Self {
            open: life.members.iter().map(|member| member.open_writes()).collect(),
            stable: (0..life.members.len()).map(|member| life.stable_digest(member)).collect(),
            allowed: sectors.digest(),
            sectors,
            lost: life.lost,
        }
    }

    fn beginning(&self) -> u64 {
        mix(self.allowed, self.lost.map_or(0, |lost| lost as u64 + 1))
    }

    /// Equal for points with equal possible results.
    pub(super) fn digest(&self) -> u64 {
        let write = |write: &OpenWrite| {
            // For metadata it matters whether the write is under way: only then it may be torn.
            let tears = write.under_way && write.offset_bytes < DATA_OFFSET_BYTES;
            [write.offset_bytes, write.len_bytes, u64::from(tears), write.digest].into_iter().fold(0, mix)
        };
        let member = |(stable, open): (&u64, &Vec<OpenWrite>)| open.iter().map(write).fold(*stable, mix);
        self.stable.iter().zip(&self.open).map(member).fold(self.beginning(), mix)
    }

    /// The fates of each member's writes.
    pub(super) fn of_members<'f>(&self, mut fates: &'f [Fate]) -> Vec<&'f [Fate]> {
        let cut = |open: &Vec<OpenWrite>| {
            let (own, rest) = fates.split_at(open.len());
            fates = rest;
            own
        };
        self.open.iter().map(cut).collect()
    }

    /// Equal for equal states. The result of each member's fates is computed once.
    pub(super) fn state_digest(
        &self,
        life: &Life,
        fates: &[Fate],
        known: &mut [HashMap<Vec<Fate>, u64>],
    ) -> u64 {
        let members = life.members.iter().zip(self.of_members(fates)).zip(known);
        let digests = members.map(|((sim, fates), known)| match known.get(fates) {
            Some(digest) => *digest,
            None => {
                let digest = sim.left_by(fates).digest();
                known.insert(fates.to_vec(), digest);
                digest
            }
        });
        digests.fold(self.beginning(), mix)
    }
}
