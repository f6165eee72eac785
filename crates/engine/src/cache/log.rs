//! The seam of a durable log: dirty cells that survive a power failure elsewhere than on members.

use crate::{compute::CachedCells, shape::geometry::StripeIndex};

/// Keeps dirty cells durable beside the members.
pub(crate) trait Log: Send + Sync {
    /// Whether all that is dirty of these cells survives a power failure. Then a flush leaves them, and they are
    /// destaged when room is needed, or when they are old. Asked with the lock of their bucket held: it must not wait.
    fn holds(&self, stripe: StripeIndex, cells: &CachedCells) -> bool;
}

/// No log: what is dirty is in memory only.
pub(super) struct NoLog;

impl Log for NoLog {
    fn holds(&self, _: StripeIndex, _: &CachedCells) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stripewise_device::{IoBuf, Timestamp, WriteBufs};

    use super::*;
    use crate::{
        cache::{Cache, CacheKind, CacheSettings, Way},
        compute::Data,
        shape::{
            geometry::{Geometry, Level, StripeSpan},
            rows::BLOCK_BYTES,
        },
    };

    /// A log of the stripes with even numbers.
    struct OfEven;

    impl Log for OfEven {
        fn holds(&self, stripe: StripeIndex, _: &CachedCells) -> bool {
            stripe.0.is_multiple_of(2)
        }
    }

    #[test]
    fn a_flush_leaves_what_a_log_holds() {
        let geometry = Geometry::new(Level::Raid5, 3, 4 * BLOCK_BYTES as u32, 4 << 20, 512).unwrap();
        let settings = CacheSettings::new(CacheKind::Stripe, 4 << 20);
        let mut cache = Cache::new(&settings, 4 << 20, &geometry).unwrap().unwrap();
        Arc::get_mut(&mut cache).unwrap().log = Box::new(OfEven);
        for stripe in (0..6).map(StripeIndex) {
            let data = Data::of(WriteBufs::from_iter([IoBuf::zeroed(BLOCK_BYTES).freeze()]), 0);
            let span = StripeSpan { stripe, start: 0, len: BLOCK_BYTES, request_offset: 0 };
            cache.put(&span, &data, Way::Back, Timestamp::default()).unwrap();
        }
        let stripes = |all: Vec<crate::destage::Candidate>| {
            all.into_iter().map(|candidate| candidate.stripe.0).collect::<Vec<_>>()
        };
        let epoch = cache.end_epoch();
        assert_eq!(stripes(cache.to_flush_until(epoch)), [1, 3, 5]);
        assert_eq!(stripes(cache.dirty_until(epoch)), [0, 1, 2, 3, 4, 5]);
    }
}
