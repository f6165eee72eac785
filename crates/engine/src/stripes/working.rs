//! How much memory a destage works with.

use super::{Stripes, selection::StripeCosts};
use crate::{
    cache::Cache,
    plan::{self, PlanError, StripeState, passes},
    shape::{geometry::StripeIndex, rows::RowSet},
};

/// So many rows take less memory than it is worth to plan their destage for.
const FEW_ROWS: usize = 4;

impl Stripes {
    /// The blocks of memory that a destage works with, as its plan takes them: old blocks, and parity. `held` are its rows,
    /// and the gaps between them that may be filled. A few rows are not planned for that: all their blocks count. It may come
    /// to more if more becomes dirty, or if a member fails: the reserve only bounds how many destages work at a time.
    pub(super) fn blocks_to_work_with(&self, cache: &Cache, stripe: StripeIndex, held: RowSet) -> usize {
        let geometry = self.geometry();
        if cache.is_all_dirty(stripe) {
            // It stays so, as the rows are locked: no old blocks are read.
            return held.len() * geometry.parity_columns();
        }
        if held.len() <= FEW_ROWS {
            return held.len() * geometry.members();
        }
        let planned = self.members.look(|topology| {
            let presence = |column| topology.presence(stripe, column);
            let mut state = StripeState::default();
            state.set_empty(&geometry, self.is_trusted(stripe), presence);
            cache.enter_into(stripe, held, &mut state);
            let beside = if cache.fills_gaps() { self.beside(cache, stripe) } else { None };
            let costs = StripeCosts { topology, stripe, gaps: cache.settings().gaps, beside };
            let mut plan = plan::build(&state, &**self.selection.load(), &costs)?;
            if cache.fills_gaps() {
                passes::transform(&mut plan, &state, held, &costs);
            }
            Ok::<_, PlanError>(plan.working_blocks(geometry.data_columns()))
        });
        planned.unwrap_or(held.len() * geometry.members())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use std::sync::Arc;

    use stripewise_device::{Device, IoBuf, Timestamp, WriteBufs, memory::MemoryDevice};
    use stripewise_sim::World;

    use super::*;
    use crate::{
        Array, CacheKind, CacheSettings, CreateOptions, StrideLimit, StrideLimits,
        cache::Way,
        compute::Data,
        shape::{
            geometry::{Level, StripeSpan},
            rows::BLOCK_BYTES,
        },
    };

    const ROWS: usize = 8;

    /// An array whose strides below five are filled, with a cache of this kind.
    pub(in crate::stripes) fn array(kind: CacheKind) -> (World, Array) {
        let world = World::new(1);
        let member = |i| Arc::new(MemoryDevice::new(format!("m{i}"), 3 << 20)) as Arc<dyn Device>;
        let mut options = CreateOptions::new("working", Level::Raid5, (0..4).map(member).collect());
        options.chunk_bytes = (ROWS * BLOCK_BYTES) as u32;
        options.assume_clean = true;
        options.cache = Some(CacheSettings::new(kind, 1 << 20));
        let env = world.env();
        let array = world.run(async move {
            let array = Array::create(env, options).await?;
            let limit = Some(StrideLimit::Blocks(5));
            array.limit_strides(StrideLimits { read: limit, write: limit }).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(array)
        });
        (world, array.unwrap())
    }

    /// Puts these blocks of a stripe.
    pub(in crate::stripes) fn put(cache: &Cache, stripe: StripeIndex, blocks: &[usize]) {
        for block in blocks {
            let data = Data::of(WriteBufs::from_iter([IoBuf::zeroed(BLOCK_BYTES).freeze()]), 0);
            let (start, len) = (block * BLOCK_BYTES, BLOCK_BYTES);
            let span = StripeSpan { stripe, start, len, request_offset: 0 };
            cache.put(&span, &data, Way::Back, Timestamp::default()).unwrap();
        }
    }

    /// What a destage of stripe 1 works with once these blocks of it are dirty.
    fn used(array: &Array, blocks: &[usize]) -> usize {
        let stripes = &array.parts().stripes;
        let (cache, stripe) = (stripes.cache().unwrap(), StripeIndex(1));
        put(&cache, stripe, blocks);
        let rows = cache.dirty_rows(stripe);
        let held = if cache.fills_gaps() { stripes.with_gaps(&cache, stripe, rows) } else { rows };
        stripes.blocks_to_work_with(&cache, stripe, held)
    }

    #[test]
    fn of_few_rows_all_blocks_count() {
        let (_world, array) = array(CacheKind::Stripe);
        assert_eq!(used(&array, &[0, 3]), 2 * 4);
    }

    /// A column of five rows has its old blocks and their parity read, or the blocks of the two other columns.
    #[test]
    fn it_is_what_its_plan_reads_and_its_parity() {
        let (_world, array) = array(CacheKind::Stripe);
        assert_eq!(used(&array, &[0, 1, 2, 3, 4]), 5 + 5 + 5);
    }

    /// Rows 0, 3, and 6 are reconstructed from the blocks of the two other columns.
    #[test]
    fn with_gaps_they_count_too() {
        let (_world, array) = array(CacheKind::StripeCt);
        assert_eq!(used(&array, &[0, 3, 6]), 7 + 7 + 3);
    }

    /// Streams of whole stripes seldom wait.
    #[test]
    fn what_is_all_dirty_takes_memory_for_parity_only() {
        let (_world, array) = array(CacheKind::StripeCt);
        assert_eq!(used(&array, &Vec::from_iter(0..3 * ROWS)), ROWS);
    }
}
