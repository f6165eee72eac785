//! What the two ways cost, by the size of writes: a byte of a large write costs members less than one of a small write, and
//! by another factor one way than the other.

use crate::members::stats::Served;

/// A way is known after so many writes past the cache, or destaged blocks.
const KNOWN_WRITES: f64 = 64.0;
const KNOWN_BLOCKS: f64 = 256.0;
/// After so many times as much, it counts half.
const HALVED_AFTER: f64 = 8.0;
/// Sizes of writes that are told apart: of up to 11 KiB on average, and of up to twice as much each. So powers of two lie far
/// from the bounds.
pub(super) const SIZES: usize = 7;
const SIZE_FIRST_BYTES: u64 = 11 << 10;
/// The size is that of the mean of so many requests.
const MEAN_OF: f64 = 64.0;
/// It changes if the mean is beyond the bound by this factor.
const BEYOND: f64 = 1.25;

/// What both ways have cost lately.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ways {
    pub(super) through: Cost,
    pub(super) back: Cost,
}

impl Ways {
    /// What a byte costs through, and back.
    pub(super) fn known(&self) -> (Option<f64>, Option<f64>) {
        (self.through.of_byte(KNOWN_WRITES), self.back.of_byte(KNOWN_BLOCKS))
    }

    /// What is older counts half, once there is enough of it.
    pub(super) fn fade(&mut self) {
        if self.through.count > HALVED_AFTER * KNOWN_WRITES && self.back.count > HALVED_AFTER * KNOWN_BLOCKS {
            self.through.halve();
            self.back.halve();
        }
    }
}

/// What one way has cost lately.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    ns: f64,
    bytes: f64,
    count: f64,
}

impl Cost {
    pub(super) fn add(&mut self, ns: f64, bytes: u64, count: u64) {
        self.ns += ns;
        self.bytes += bytes as f64;
        self.count += count as f64;
    }

    fn halve(&mut self) {
        self.ns /= 2.0;
        self.bytes /= 2.0;
        self.count /= 2.0;
    }

    /// Of a byte, in nanoseconds.
    fn of_byte(&self, known_after: f64) -> Option<f64> {
        (self.count >= known_after && self.bytes > 0.0).then(|| self.ns.max(0.0) / self.bytes)
    }
}

/// What destaged blocks took lately.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    ns: f64,
    count: f64,
}

impl Blocks {
    pub(super) fn add(&mut self, ns: u64, count: u64) {
        if self.count > HALVED_AFTER * KNOWN_BLOCKS {
            self.ns /= 2.0;
            self.count /= 2.0;
        }
        self.ns += ns as f64;
        self.count += count as f64;
    }

    /// One, in nanoseconds. While members work on the first ones, none has ended.
    pub(super) fn ns_of_one(&self) -> Option<f64> {
        (self.count >= KNOWN_BLOCKS).then(|| self.ns / self.count)
    }
}

/// Which size clients write: of the mean of the last requests, some dozens of them.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    last: Served,
    /// Sums over requests, of which older ones count less.
    bytes: f64,
    requests: f64,
    /// One of the sizes that are told apart; none before the first request.
    now: Option<usize>,
}

impl Sizes {
    /// The place of the size that clients write.
    pub(super) fn now(&self) -> usize {
        self.now.unwrap_or_default()
    }

    /// Looks at what clients have written so far. Returns whether they write another size than before.
    pub(super) fn look(&mut self, written: Served) -> bool {
        let requests = (written.requests - self.last.requests) as f64;
        let bytes = (written.bytes - self.last.bytes) as f64;
        self.last = written;
        let older = (MEAN_OF - requests).max(0.0) / MEAN_OF;
        self.bytes = older * self.bytes + bytes;
        self.requests = older * self.requests + requests;
        if self.requests < MEAN_OF / 2.0 {
            return false;
        }
        let mean = self.bytes / self.requests;
        let size = size_of(mean as u64);
        match self.now {
            Some(now) if size == now => false,
            // A mean about the bound of two sizes stays with one of them.
            Some(now) if [BEYOND, 1.0 / BEYOND].iter().any(|by| size_of((mean * by) as u64) == now) => false,
            before => {
                self.now = Some(size);
                before.is_some()
            }
        }
    }
}

/// The place of a size among those that are told apart.
fn size_of(bytes: u64) -> usize {
    (0..SIZES - 1).find(|size| bytes <= SIZE_FIRST_BYTES << size).unwrap_or(SIZES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_apart_by_factors_of_two() {
        let of = [0, 1, 4096, 11_264, 11_265, 16_384, 65_536, 131_072, 262_144, 524_288, u64::MAX];
        assert_eq!(of.map(size_of), [0, 0, 0, 0, 1, 1, 3, 4, 5, 6, 6]);
        let other = |bits: u64| [0.8, 1.25].map(|by| size_of((by * (1_u64 << bits) as f64) as u64));
        assert!(
            (12..19).all(|bits| other(bits) == [size_of(1 << bits); 2]),
            "powers of two are not about a bound"
        );
    }

    /// Tells whether the size changes in so many looks, with so many requests in each and these bytes in turns.
    fn changes(sizes: &mut Sizes, looks: u64, requests: u64, bytes: &[u64]) -> usize {
        let turns = bytes.iter().cycle().take(looks as usize);
        turns
            .filter(|bytes| {
                let mut written = sizes.last;
                written.requests += requests;
                written.bytes += requests * **bytes;
                sizes.look(written)
            })
            .count()
    }

    #[test]
    fn a_size_changes_once_and_a_mean_about_a_bound_does_not_change_it() {
        let mut sizes = Sizes::default();
        assert_eq!((changes(&mut sizes, 100, 20, &[65_536]), sizes.now()), (0, 3), "the first one");
        assert_eq!(
            (changes(&mut sizes, 100, 20, &[4096]), sizes.now()),
            (3, 0),
            "by way of what lies between"
        );
        assert_eq!(changes(&mut sizes, 1, 1, &[65_536]), 0, "a stray one");
        changes(&mut sizes, 100, 10, &[4096]);
        assert!(changes(&mut sizes, 1000, 10, &[4096, 4096, 4096, 40_000]) <= 1);
        assert_eq!(changes(&mut sizes, 1000, 100, &[11_000, 11_600]), 0);
    }

    #[test]
    fn a_way_is_known_after_enough_of_it_and_what_is_older_fades() {
        let mut ways = Ways::default();
        ways.through.add(100.0, 10, 63);
        ways.back.add(500.0, 10, 256);
        assert_eq!(ways.known(), (None, Some(50.0)));
        for _ in 0..1000 {
            ways.through.add(1000.0, 10, 64);
            ways.back.add(20.0, 10, 256);
            ways.fade();
        }
        let (Some(through), Some(back)) = ways.known() else { panic!("both are known") };
        assert!((through - 100.0).abs() < 1.0 && (back - 2.0).abs() < 0.1, "{through}, {back}");
    }
}
