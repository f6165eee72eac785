//! How much of what clients put is dirty already, as measured. Where that is much, clients work on about as much as the cache
//! holds, and what is destaged early is soon written again.

/// Weight of the newest measurement.
const WEIGHT: f64 = 1.0 / 4.0;
/// A measurement takes this part of the blocks that may be dirty.
const MEASURED_PARTS: u64 = 16;

/// Measures the share of rewrites.
#[derive(Default)]
pub(super) struct Rewrites {
    /// Blocks that had been put, and that had become dirty, when the measurement began.
    since: Option<(u64, u64)>,
    share: f64,
}

impl Rewrites {
    /// So many blocks were put so far, and so many became dirty by that. So many may be dirty.
    pub(super) fn note(&mut self, put: u64, dirtied: u64, dirty_max: u64) {
        let (put_before, dirtied_before) = *self.since.get_or_insert((put, dirtied));
        let blocks = put.saturating_sub(put_before);
        if blocks < (dirty_max / MEASURED_PARTS).max(1) {
            return;
        }
        self.since = Some((put, dirtied));
        // Parts of blocks are put, too: more blocks may become dirty than whole ones are put.
        let new = dirtied.saturating_sub(dirtied_before).min(blocks);
        let measured = 1.0 - new as f64 / blocks as f64;
        self.share += WEIGHT * (measured - self.share);
    }

    /// Of what was put lately, so much was dirty already.
    pub(super) fn share(&self) -> f64 {
        self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts blocks, of which this share is dirty already, in a cache of 1600. Returns the share as measured.
    fn run(rewrites: &mut Rewrites, clock: &mut (u64, u64), percent: u64, blocks: u64) -> f64 {
        for _ in 0..blocks / 10 {
            clock.0 += 10;
            clock.1 += 10 - percent / 10;
            rewrites.note(clock.0, clock.1, 1600);
        }
        rewrites.share()
    }

    #[test]
    fn the_share_follows_what_clients_do() {
        let (mut rewrites, mut clock) = (Rewrites::default(), (0, 0));
        assert_eq!(run(&mut rewrites, &mut clock, 0, 1000), 0.0);
        let mut after = |percent, blocks| run(&mut rewrites, &mut clock, percent, blocks);
        let soon = after(90, 300);
        assert!(0.3 < soon && soon < 0.7, "{soon}: it takes some measurements");
        assert!((after(90, 2000) - 0.9).abs() < 0.01);
        assert!(after(0, 2000) < 0.01, "it falls, too");
    }

    /// An array may have served clients for long when it gets another cache.
    #[test]
    fn what_was_before_the_first_look_does_not_count() {
        let mut rewrites = Rewrites::default();
        rewrites.note(1_000_000, 0, 1600);
        assert_eq!(rewrites.share(), 0.0);
        rewrites.note(1_000_100, 150, 1600);
        assert_eq!(rewrites.share(), 0.0, "parts of blocks were put");
    }
}
