//! Least recently written (msc-ct III-A, Fig. 6): the stripe, or row, whose last write is longest ago.

use super::{Candidate, Chosen, What, WhatPolicy, first_of};

pub(super) static POLICY: WhatPolicy = WhatPolicy {
    name: "lrw",
    number: 2,
    summary: "what was written least recently",
    make: || Box::new(LeastRecentlyWritten),
};

struct LeastRecentlyWritten;

impl What for LeastRecentlyWritten {
    fn choose(&mut self, mut candidates: Vec<Candidate>, blocks: usize) -> Chosen {
        // Stable: what was written at the same time goes by place.
        candidates.sort_by_key(|candidate| candidate.written);
        first_of(candidates, blocks)
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;
    use stripewise_device::{IoBuf, Timestamp};

    use super::*;
    use crate::{
        cache::{Cache, CacheKind, CacheSettings, DestageCost, Way},
        compute::Data,
        plan::costs::MemberCost,
        shape::geometry::{Geometry, Level},
    };

    /// The rows, counted over all stripes, or the stripes, in the order in which the writes of msc-ct Fig. 6 leave
    /// them: of 4+1 with four blocks in a chunk.
    fn order_after_figure_6(kind: CacheKind) -> Vec<u64> {
        let geometry = Geometry::new(Level::Raid5, 5, 16 << 10, 1 << 20, 512).unwrap();
        let cache = Cache::new(&CacheSettings::new(kind, 1 << 20), 1 << 20, &geometry).unwrap().unwrap();
        for (time, block) in [17, 1, 9, 0, 11, 25].into_iter().enumerate() {
            let bytes = block * 4096..(block + 1) * 4096;
            let data = Data::of(smallvec![IoBuf::with_len(4096).freeze()], bytes.start);
            let span = geometry.split(bytes).next().unwrap();
            cache.put(&span, &data, Way::Back, Timestamp(time as u64)).unwrap();
        }
        let cost = DestageCost { member: MemberCost::HDD, data_columns: 4, parity_columns: 1 };
        let (mut left, mut order) = (cache.candidates(&cost), Vec::new());
        while !left.is_empty() {
            let first = LeastRecentlyWritten.choose(left.clone(), 1).destaged[0];
            left.retain(|candidate| *candidate != first);
            let row = first.rows.first().unwrap() as u64;
            order.push(if kind == CacheKind::Pbg { 4 * first.stripe.0 + row } else { first.stripe.0 });
        }
        order
    }

    #[test]
    fn figure_6_comes_out() {
        assert_eq!(order_after_figure_6(CacheKind::Pbg), [1, 0, 3, 5]);
        assert_eq!(order_after_figure_6(CacheKind::Stripe), [0, 1]);
    }
}
