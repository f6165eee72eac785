//! Linear threshold scheduling (Varma and Jacob, 1998; msc-ct I-A): the more of the cache is dirty, the faster it is
//! destaged.

use super::{Fill, When, WhenPolicy};

pub(super) static POLICY: WhenPolicy = WhenPolicy {
    name: "lt",
    number: 1,
    summary: "from the low mark on, the faster the more is dirty; at the high mark as fast as members can",
    make: || Box::new(LinearThreshold),
};

/// Full stripes go at once from this part of the low mark below it.
const BELOW_PARTS: u64 = 16;

/// From this share of rewrites on the low mark rises, and at the other one it has risen.
const RISES_FROM: f64 = 0.5;
const RISEN_AT: f64 = 0.8;
/// It rises by this part of what lies between the marks.
const RISE: f64 = 0.9;

struct LinearThreshold;

impl When for LinearThreshold {
    fn in_flight(&mut self, fill: Fill, most: usize) -> usize {
        if fill.dirty < fill.low {
            return 0;
        }
        let (above, range) = (fill.dirty - fill.low, fill.high.saturating_sub(fill.low).max(1));
        (above * most as u64 / range).clamp(1, most as u64) as usize
    }

    /// Where clients write the same blocks again and again, what is destaged early is destaged in vain.
    fn low_mark(&self, fill: Fill, rewritten: f64) -> u64 {
        let part = ((rewritten - RISES_FROM) / (RISEN_AT - RISES_FROM)).clamp(0.0, 1.0);
        fill.low + (fill.high.saturating_sub(fill.low) as f64 * RISE * part) as u64
    }

    /// On disks that rotate a stripe waits to be written again, and for its neighbours, until nearly as much is dirty as the low
    /// mark allows. From there on a stream's stripes go as they come, so that the stream never reaches the mark. On flash they
    /// go while they are in the processor's caches.
    fn takes_full_from(&self, fill: Fill, rotates: bool) -> Option<u64> {
        Some(if rotates { fill.low - fill.low / BELOW_PARTS } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_stripes_wait_on_disks_that_rotate_while_there_is_room() {
        let from = |rotates| LinearThreshold.takes_full_from(Fill { dirty: 1, low: 80, high: 90 }, rotates);
        assert_eq!([false, true].map(from), [Some(0), Some(75)]);
    }

    #[test]
    fn the_low_mark_rises_with_rewrites_and_stays_below_the_high_one() {
        let low = |rewritten| LinearThreshold.low_mark(Fill { dirty: 1, low: 80, high: 90 }, rewritten);
        assert_eq!([0.0, 0.5, 0.65, 0.8, 1.0].map(low), [80, 80, 84, 89, 89]);
        let alike = Fill { dirty: 1, low: 90, high: 90 };
        assert_eq!(LinearThreshold.low_mark(alike, 1.0), 90);
    }

    #[test]
    fn the_rate_grows_with_what_is_dirty() {
        let count = |dirty| LinearThreshold.in_flight(Fill { dirty, low: 80, high: 90 }, 60);
        assert_eq!([79, 80, 81, 85, 89, 90, 100].map(count), [0, 1, 6, 30, 54, 60, 60]);
    }
}
