//! Where requests go.

use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use parking_lot::Mutex;

use crate::math::{exp, ln};

/// How places are chosen within the span of a load. All are multiples of the load's unit, if the lengths of
/// `Sequential` and the bytes of `Stride` are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Offsets {
    /// Every place is equally likely.
    Uniform,
    /// One after another; all clients share one cursor. At the span's end it begins anew, or the load ends
    /// with [`Stop::Span`](crate::Stop::Span).
    Sequential,
    /// The n-th most popular place is chosen with a probability proportional to n^-theta; theta above 0, and
    /// not 1. Which places are popular is scattered over the span.
    Zipf {
        /// The skew.
        theta: f64,
    },
    /// As a page cache writes back what clients write anywhere in a file: of so many equally likely places at a time, each
    /// once, in ascending order. All clients share them.
    Sweeps {
        /// Places drawn at a time.
        places: u64,
    },
    /// Successive requests start so many bytes apart: the stride benchmark of msc-ct Fig. 8 with S * block.
    /// Ends as `Sequential` does.
    Stride {
        /// Bytes from start to start.
        bytes: u64,
    },
    /// As `Stride`, but the strides are exponentially distributed (msc-ct Fig. 15). In units.
    Skips {
        /// The mean, if there were no limit; at least 1.
        mean: u64,
        /// The longest; at least 1.
        max: u64,
    },
}

/// An exponentially distributed stride in whole blocks: geometrically distributed, from 1 on. Longer ones than `max` are
/// drawn anew, so that the mean comes out lower.
pub fn exponential_stride(rng: &mut Rng, mean: u64, max: u64) -> u64 {
    loop {
        let more = std::iter::repeat_with(|| rng.u64(..mean)).take_while(|drawn| *drawn > 0).count() as u64;
        if more < max {
            return 1 + more;
        }
    }
}

impl Offsets {
    /// Whether it has a moving cursor.
    pub(super) fn come_to_an_end(self) -> bool {
        match self {
            Self::Sequential | Self::Skips { .. } => true,
            Self::Stride { bytes } => bytes > 0,
            Self::Uniform | Self::Zipf { .. } | Self::Sweeps { .. } => false,
        }
    }
}

/// Chooses places within a span.
pub(super) struct Places {
    offsets: Offsets,
    units: u64,
    unit_bytes: u64,
    cursor: AtomicU64,
    zipf: Option<Zipf>,
    /// What is left of a sweep, in descending order.
    sweep: Mutex<Vec<u64>>,
}

impl Places {
    pub(super) fn new(offsets: Offsets, span_bytes: u64, unit_bytes: u64) -> Self {
        let units = span_bytes / unit_bytes;
        assert!(units > 0, "the span is smaller than the unit");
        let zipf = match offsets {
            Offsets::Zipf { theta } => Some(Zipf::new(units, theta)),
            _ => None,
        };
        Self { offsets, units, unit_bytes, cursor: AtomicU64::new(0), zipf, sweep: Mutex::default() }
    }

    /// Where a request of this length goes, from the span's start; `None` if a cursor is at the end and may
    /// not start again.
    pub(super) fn next(&self, rng: &mut Rng, len_bytes: u64, once: bool) -> Option<u64> {
        let span_bytes = self.units * self.unit_bytes;
        assert!(len_bytes <= span_bytes, "a request of {len_bytes} bytes is longer than the span");
        let starts = (span_bytes - len_bytes) / self.unit_bytes + 1;
        match self.offsets {
            Offsets::Uniform => Some(rng.u64(..starts) * self.unit_bytes),
            Offsets::Sweeps { places } => Some(self.of_sweep(rng, places, starts)),
            Offsets::Sequential => self.move_on(len_bytes, len_bytes, once),
            Offsets::Stride { bytes } => self.move_on(bytes, len_bytes, once),
            Offsets::Skips { mean, max } => {
                self.move_on(exponential_stride(rng, mean, max) * self.unit_bytes, len_bytes, once)
            }
            Offsets::Zipf { .. } => {
                let rank = self.zipf.as_ref().expect("made in new").draw(rng);
                Some(scatter(rank, self.units).min(starts - 1) * self.unit_bytes)
            }
        }
    }

    /// The next place of a sweep.
    fn of_sweep(&self, rng: &mut Rng, places: u64, starts: u64) -> u64 {
        let mut sweep = self.sweep.lock();
        if sweep.is_empty() {
            sweep.extend((0..places.max(1)).map(|_| rng.u64(..starts)));
            sweep.sort_unstable_by_key(|unit| std::cmp::Reverse(*unit));
            sweep.dedup();
        }
        sweep.pop().expect("places were drawn") * self.unit_bytes
    }

    fn move_on(&self, step_bytes: u64, len_bytes: u64, once: bool) -> Option<u64> {
        let span_bytes = self.units * self.unit_bytes;
        let at = self.cursor.fetch_add(step_bytes, Ordering::Relaxed);
        if at + len_bytes <= span_bytes {
            return Some(at);
        }
        if once {
            return None;
        }
        // The request that finds the end starts again; of several at the same moment, all but one follow
        // behind.
        self.cursor.store(step_bytes, Ordering::Relaxed);
        Some(0)
    }
}

/// A place for each rank, no two alike: ranks times a step that shares no factor with the number of places.
fn scatter(rank: u64, units: u64) -> u64 {
    // A step of the golden ratio's part of the span spreads neighbours far apart.
    let mut step = ((u128::from(units) * 618_033_989) / 1_000_000_000) as u64 | 1;
    while gcd(step, units) != 1 {
        step += 2;
    }
    (u128::from(rank) * u128::from(step) % u128::from(units)) as u64
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Zipf's distribution over any number of ranks in constant time: rejection-inversion (Hoermann and
/// Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996).
struct Zipf {
    count: f64,
    theta: f64,
    first: f64,
    last: f64,
    accept: f64,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Self {
        assert!(theta > 0.0 && theta != 1.0, "theta is above 0 and not 1");
        let mut zipf = Self { count: count as f64, theta, first: 0.0, last: 0.0, accept: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.count + 0.5);
        zipf.accept = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.power(2.0, -theta));
        zipf
    }

    fn power(&self, base: f64, exponent: f64) -> f64 {
        exp(exponent * ln(base))
    }

    /// The integral of x^-theta, up to a constant.
    fn integral(&self, x: f64) -> f64 {
        self.power(x, 1.0 - self.theta) / (1.0 - self.theta)
    }

    fn inverse(&self, y: f64) -> f64 {
        self.power((1.0 - self.theta) * y, 1.0 / (1.0 - self.theta))
    }

    /// A rank from 0; 0 is the most popular.
    fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.last + rng.f64() * (self.first - self.last);
            let x = self.inverse(u);
            let k = ((x + 0.5) as u64 as f64).clamp(1.0, self.count);
            if k - x <= self.accept || u >= self.integral(k + 0.5) - self.power(k, -self.theta) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_falls_as_zipf_says() {
        for theta in [0.6, 0.99, 1.2] {
            let (count, draws) = (1000, 400_000);
            let zipf = Zipf::new(count, theta);
            let mut rng = Rng::with_seed(1);
            let mut found = vec![0_u64; count as usize];
            (0..draws).for_each(|_| found[zipf.draw(&mut rng) as usize] += 1);
            let weight = |rank: u64| 1.0 / (rank as f64 + 1.0).powf(theta);
            let whole: f64 = (0..count).map(weight).sum();
            for rank in [0, 1, 2, 9, 99] {
                let expected = draws as f64 * weight(rank) / whole;
                let spread = 5.0 * expected.sqrt();
                let found = found[rank as usize] as f64;
                assert!(
                    (found - expected).abs() < spread,
                    "theta {theta} rank {rank}: {found} of {expected}"
                );
            }
        }
    }

    #[test]
    fn ranks_are_scattered_one_to_one() {
        for units in [1, 2, 10, 97, 1024, 3000] {
            let mut places: Vec<_> = (0..units).map(|rank| scatter(rank, units)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..units), "{units}");
        }
    }

    #[test]
    fn sweeps_go_up_and_begin_anew() {
        let mut rng = Rng::with_seed(1);
        let places = Places::new(Offsets::Sweeps { places: 100 }, 1 << 30, 4096);
        let found: Vec<_> = (0..250).map(|_| places.next(&mut rng, 4096, false).unwrap()).collect();
        let sweeps: Vec<_> = found.chunk_by(|one, next| one < next).map(<[u64]>::len).collect();
        assert_eq!(sweeps, [100, 100, 50]);
        let few = Places::new(Offsets::Sweeps { places: 100 }, 16 * 4096, 4096);
        let one: Vec<_> = (0..16).map(|_| few.next(&mut rng, 4096, false).unwrap() / 4096).collect();
        assert!(one.into_iter().eq(0..16), "each place once");
    }

    #[test]
    fn skips_have_the_mean_that_is_asked_for_and_a_limit() {
        let mut rng = Rng::with_seed(1);
        let places = Places::new(Offsets::Skips { mean: 10, max: 64 }, 1 << 30, 4096);
        let found: Vec<_> = (0..10_000).map(|_| places.next(&mut rng, 4096, true).unwrap() / 4096).collect();
        assert!(found.windows(2).all(|pair| (1..=64).contains(&(pair[1] - pair[0]))));
        let mean = found[9_999] as f64 / 9_999.0;
        assert!((9.0..10.2).contains(&mean), "{mean}");
    }

    #[test]
    fn cursors_stay_in_the_span() {
        let mut rng = Rng::with_seed(1);
        let places = Places::new(Offsets::Stride { bytes: 8192 }, 40_960, 4096);
        let found: Vec<_> = std::iter::from_fn(|| places.next(&mut rng, 4096, true)).collect();
        assert_eq!(found, [0, 8192, 16384, 24576, 32768]);
        let places = Places::new(Offsets::Sequential, 12_288, 4096);
        let found: Vec<_> = (0..5).map(|_| places.next(&mut rng, 4096, false).unwrap()).collect();
        assert_eq!(found, [0, 4096, 8192, 0, 4096]);
    }
}
