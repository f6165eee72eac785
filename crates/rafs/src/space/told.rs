//! How full stripes are.

use stripewise_format::rafs::space::GroupKind;

use super::{
    FILLS, Space,
    lists::{Lists, Rank},
};
use crate::shape::StripeNo;

impl Space {
    /// How many stripes of this kind have how much room. Those that are being filled do not count.
    #[must_use]
    pub fn lists(&self, kind: GroupKind) -> Vec<(Rank, usize)> {
        self.lists.get(&kind).map_or(Vec::new(), |lists| lists.lengths().collect())
    }

    /// The stripes of this kind of which half or more is free, but not all, the emptiest ones first, and how many blocks of each are
    /// taken. Not those with blocks that are held, or that are being filled.
    #[must_use]
    pub fn half_empty(&self, kind: GroupKind) -> Vec<(StripeNo, u64)> {
        let whole = self.layout.geometry.stripe_blocks();
        let all = self.lists.get(&kind).map_or(Vec::new(), |lists| lists.with_free(whole.div_ceil(2)));
        let taken = |(stripe, free): (StripeNo, u32)| {
            let taken = self.busy(stripe).0;
            (taken > 0 && taken + u64::from(free) == u64::from(whole)).then_some((stripe, taken))
        };
        all.into_iter().filter_map(taken).collect()
    }

    /// How many stripes are free, and how many there are.
    #[must_use]
    pub fn free_stripes(&self) -> (u64, u64) {
        let whole = self.layout.geometry.stripe_blocks();
        let of_group = u64::from(self.layout.group_stripes);
        let listed = self.lists.values().flat_map(Lists::lengths);
        let free: usize = listed.filter(|(rank, _)| rank.blocks == whole).map(|(_, count)| count).sum();
        (free as u64 + self.untyped.len() as u64 * of_group, self.layout.groups * of_group)
    }

    /// How many stripes are how full: free ones, then those of which up to a tenth is in use, two tenths, and so on, and at last those that
    /// are full.
    #[must_use]
    pub fn fill(&self) -> [u64; FILLS] {
        let whole = u64::from(self.layout.geometry.stripe_blocks());
        let of_group = u64::from(self.layout.group_stripes);
        let class = |busy: u64| if busy == whole { FILLS - 1 } else { (busy * 10).div_ceil(whole) as usize };
        let mut all = [0; FILLS];
        all[0] = self.untyped.len() as u64 * of_group;
        for (rank, count) in self.lists.values().flat_map(Lists::lengths) {
            all[class(whole - u64::from(rank.blocks))] += count as u64;
        }
        let unlisted = self.open.union(&self.avoided).filter(|stripe| self.used_of(**stripe).is_some());
        let unlisted = unlisted.map(|stripe| self.busy(*stripe).1);
        unlisted.filter(|busy| *busy < whole).for_each(|busy| all[class(busy)] += 1);
        // The others are in no list since they have no room.
        all[FILLS - 1] = self.layout.groups * of_group - all[..FILLS - 1].iter().sum::<u64>();
        all
    }

    /// Free blocks of the stripes that are being filled.
    #[must_use]
    pub fn free_of_open(&self) -> u64 {
        let whole = u64::from(self.layout.geometry.stripe_blocks());
        self.open.iter().map(|stripe| whole - self.busy(*stripe).1).sum()
    }
}
