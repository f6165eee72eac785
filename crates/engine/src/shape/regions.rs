//! How stripes map to the regions of the write-intent bitmap: a pure function of the stripe's index, recorded
//! on disk.
//!
//! *Linear*: neighbouring stripes share a region, as in md (ScalaRAID's S-Blocks). *Distributed*: neighbours
//! spread over all regions, so that writers of neighbouring stripes share no counter (its D-Blocks): the
//! rightmost floor(log2(Size / Dsize)) bits of the stripe's index are the region's.

use std::ops::Range;

use stripewise_format::{
    bitmap::pages_for_regions,
    extension::{BitmapDescriptor, MapKind},
};

use super::geometry::{Geometry, StripeIndex};

/// What a region stands for: how many bytes of each member, and which stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionShape {
    /// Bytes of each member that one region covers. A distributed region covers at least this, and less than
    /// twice as much, if a member has that much.
    pub bytes: u64,
    /// Which stripes they are.
    pub kind: MapKind,
}

impl RegionShape {
    /// How many regions members of this size have.
    pub(crate) fn count(&self, geometry: &Geometry) -> u64 {
        match self.kind {
            MapKind::Linear => geometry.stripes().div_ceil(self.stripes(geometry)),
            MapKind::Distributed => {
                1 << (geometry.member_bytes() / self.bytes).clamp(1, geometry.stripes()).ilog2()
            }
        }
    }

    /// Whether a bitmap on disk is of these regions.
    pub(crate) fn describes(&self, bitmap: &BitmapDescriptor, geometry: &Geometry) -> bool {
        let count = self.count(geometry);
        (bitmap.region_bytes, bitmap.map_kind, bitmap.region_count) == (self.bytes, self.kind, count)
            && u64::from(bitmap.page_count) == pages_for_regions(count)
    }

    /// How many stripes a linear region has.
    fn stripes(&self, geometry: &Geometry) -> u64 {
        (self.bytes / geometry.chunk_bytes() as u64).max(1)
    }
}

/// How stripes map to regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionMap {
    shape: RegionShape,
    /// Stripes of a linear region.
    region_stripes: u64,
    regions: u64,
    stripes: u64,
    /// Distributed regions that are walked together.
    group: usize,
}

/// Bytes of a member that a resync of distributed regions reads without a gap, unless an opening says
/// otherwise.
pub(crate) const GROUP_BYTES: u64 = 4 << 20;

fn group_of(geometry: &Geometry, group_bytes: u64) -> usize {
    (group_bytes / geometry.chunk_bytes() as u64).max(1) as usize
}

impl RegionMap {
    pub(crate) fn new(geometry: &Geometry, shape: RegionShape) -> Self {
        Self {
            shape,
            region_stripes: shape.stripes(geometry),
            regions: shape.count(geometry),
            stripes: geometry.stripes(),
            group: group_of(geometry, GROUP_BYTES),
        }
    }

    /// The same map, with walks over distributed regions that read this many bytes of a member without a gap.
    pub(crate) fn walked_in(self, geometry: &Geometry, group_bytes: u64) -> Self {
        Self { group: group_of(geometry, group_bytes), ..self }
    }

    pub(crate) fn shape(&self) -> RegionShape {
        self.shape
    }

    pub(crate) fn regions(&self) -> usize {
        self.regions as usize
    }

    #[inline]
    pub(crate) fn region_of(&self, stripe: StripeIndex) -> usize {
        match self.shape.kind {
            MapKind::Linear => (stripe.0 / self.region_stripes) as usize,
            MapKind::Distributed => (stripe.0 & (self.regions - 1)) as usize,
        }
    }

    /// The first stripe of a region.
    pub(crate) fn first_stripe(&self, region: usize) -> StripeIndex {
        match self.shape.kind {
            MapKind::Linear => StripeIndex(region as u64 * self.region_stripes),
            MapKind::Distributed => StripeIndex(region as u64),
        }
    }

    /// How many stripes a region has.
    pub(crate) fn stripes_in(&self, region: usize) -> u64 {
        match self.shape.kind {
            MapKind::Linear => self.region_stripes.min(self.stripes - region as u64 * self.region_stripes),
            MapKind::Distributed => self.stripes.saturating_sub(region as u64).div_ceil(self.regions),
        }
    }

    /// Cuts ordered regions into groups that a walk finishes together: linear regions one by one, and
    /// distributed regions in groups of neighbours that make long runs.
    pub(crate) fn groups<'a>(&self, regions: &'a [usize]) -> impl Iterator<Item = &'a [usize]> + use<'a> {
        let size = match self.shape.kind {
            MapKind::Linear => 1,
            MapKind::Distributed => self.group,
        };
        regions.chunk_by(move |a, b| a / size == b / size)
    }

    /// The stripes of some ordered regions, as runs in the order of stripes, so that a member is read from
    /// its start to its end, whatever the map.
    pub(crate) fn runs<'a>(&'a self, regions: &'a [usize]) -> impl Iterator<Item = Range<u64>> + 'a {
        let distributed = self.shape.kind == MapKind::Distributed;
        // Distributed regions take turns, lap after lap, and neighbours make one run. Linear regions are long
        // as they are.
        let (laps, step) =
            if distributed { (self.stripes.div_ceil(self.regions), 1) } else { (1, self.region_stripes) };
        let lap_runs = move |lap: u64| {
            let groups = regions.chunk_by(move |a, b| distributed && a + 1 == *b);
            groups.map(move |group| {
                let start = (lap * self.regions + group[0] as u64) * step;
                start.min(self.stripes)..(start + group.len() as u64 * step).min(self.stripes)
            })
        };
        (0..laps).flat_map(lap_runs).filter(|run| !run.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shape::geometry::Level;

    fn maps() -> impl Strategy<Value = RegionMap> {
        (1u64..200, 0u32..6, 0u32..11, any::<bool>()).prop_map(|(stripes, shift, group, distributed)| {
            let geometry = Geometry::new(Level::Raid5, 3, 4096, stripes * 4096, 512).unwrap();
            let kind = if distributed { MapKind::Distributed } else { MapKind::Linear };
            let map = RegionMap::new(&geometry, RegionShape { bytes: 4096 << shift, kind });
            map.walked_in(&geometry, 4096 << group)
        })
    }

    proptest! {
        /// Every stripe is in one region; a region's stripes are those that map to it, in order, and their
        /// number is right.
        #[test]
        fn regions_part_the_stripes(map in maps(), picked in any::<u64>()) {
            let regions: Vec<usize> = (0..map.regions()).filter(|r| picked >> (r % 64) & 1 == 1).collect();
            let walked: Vec<u64> = map.runs(&regions).flatten().collect();
            let mut grouped: Vec<u64> = map.groups(&regions).flat_map(|group| map.runs(group)).flatten().collect();
            grouped.sort_unstable();
            prop_assert_eq!(&grouped, &walked);
            let expected: Vec<u64> =
                (0..map.stripes).filter(|s| regions.contains(&map.region_of(StripeIndex(*s)))).collect();
            prop_assert_eq!(&walked, &expected);
            prop_assert_eq!(regions.iter().map(|r| map.stripes_in(*r)).sum::<u64>(), expected.len() as u64);
            for region in regions {
                let first = map.first_stripe(region);
                prop_assert_eq!(map.region_of(first), region);
                prop_assert!((0..first.0).all(|s| map.region_of(StripeIndex(s)) != region));
            }
        }
    }

    /// The paper's hash: floor(log2(Size / Dsize)) rightmost bits.
    #[test]
    fn distributed_regions_are_the_low_bits_of_the_stripe() {
        let geometry = Geometry::new(Level::Raid5, 3, 65_536, 100 << 20, 512).unwrap();
        let map = RegionMap::new(&geometry, RegionShape { bytes: 16 << 20, kind: MapKind::Distributed });
        assert_eq!(map.regions(), 4, "log2(100 / 16) is 2.6");
        assert_eq!((0..6).map(|s| map.region_of(StripeIndex(s))).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1]);
    }
}
