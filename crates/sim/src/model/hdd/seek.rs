//! How long the arm takes over a distance.

use super::params::SeekTimes;

/// Up to this part of the full stroke the arm speeds up and slows down (square root of the distance); beyond,
/// it coasts (linear). Ruemmler and Wilkes 1994 measured 383 of 1962 cylinders for the HP 97560.
const SHORT_PART: f64 = 0.2;

/// t = a + b sqrt(d) for short distances d in cylinders, c + e d for long ones, continuous, and with exactly
/// the published single-track, average and full-stroke times.
#[derive(Debug, Clone)]
pub(super) struct SeekCurve {
    short_max: f64,
    a: f64,
    b: f64,
    c: f64,
    e: f64,
    /// The times over distances below [`NEAR`], by distance: most runs that a drive chooses among are near,
    /// and a root takes longer than a look.
    near_ns: Vec<u32>,
}

/// Distances in cylinders whose times are kept: 1 KiB, of which many fit into the cache closest to a
/// processor.
const NEAR: u32 = 256;

impl SeekCurve {
    /// The average weighs a distance x (as a part of the stroke) by 2 (1 - x), the density between random
    /// cylinders:
    ///
    /// with s = SHORT_PART, L = 1 - s, B = b sqrt(stroke):
    /// short part: a (2s - s^2) + 2B (s^1.5 / 1.5 - s^2.5 / 2.5);
    /// long part:  L^2 (full + 2 (a + B sqrt s)) / 3.
    ///
    /// The sum is the published average, which gives B. Only operations that IEEE 754 rounds exactly are
    /// used, so every machine has the same curve.
    pub(super) fn fit(times: &SeekTimes, cylinders: u32) -> Self {
        let stroke = f64::from(cylinders.max(2) - 1);
        let (a, average, full) =
            (f64::from(times.single_track_ns), f64::from(times.average_ns), f64::from(times.full_stroke_ns));
        let (s, root, long) = (SHORT_PART, SHORT_PART.sqrt(), 1.0 - SHORT_PART);
        let fixed = a * (2.0 * s - s * s) + long * long * (full + 2.0 * a) / 3.0;
        let per_b = 2.0 * (s * root / 1.5 - s * s * root / 2.5) + long * long * 2.0 * root / 3.0;
        let whole_b = (average - fixed) / per_b;
        let at_boundary = a + whole_b * root;
        assert!(whole_b > 0.0 && at_boundary < full, "seek times contradict one another: {times:?}");
        let e = (full - at_boundary) / (long * stroke);
        let b = whole_b / stroke.sqrt();
        // One cylinder takes `a` itself, so the root counts from there.
        let mut curve = Self { short_max: s * stroke, a, b, c: full - e * stroke, e, near_ns: Vec::new() };
        curve.near_ns = (0..NEAR).map(|distance| curve.computed_ns(distance)).collect();
        curve
    }

    /// The time over a distance of at least one cylinder, in nanoseconds.
    pub(super) fn time_ns(&self, cylinders: u32) -> u32 {
        self.near_ns.get(cylinders as usize).copied().unwrap_or_else(|| self.computed_ns(cylinders))
    }

    fn computed_ns(&self, cylinders: u32) -> u32 {
        let distance = f64::from(cylinders);
        let time = if distance <= self.short_max {
            self.a + self.b * (distance - 1.0).sqrt()
        } else {
            self.c + self.e * distance
        };
        time as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: SeekTimes =
        SeekTimes { single_track_ns: 200_000, average_ns: 3_500_000, full_stroke_ns: 7_400_000 };

    #[test]
    fn published_times_are_met() {
        let curve = SeekCurve::fit(&TIMES, 50_000);
        assert_eq!(curve.time_ns(1), 200_000);
        assert!(curve.time_ns(49_999).abs_diff(7_400_000) <= 1);
        // The mean over all pairs: distance d occurs 2 (n - d) times among n^2 pairs.
        let n = 50_000_u64;
        let sum: u128 = (1..n).map(|d| u128::from(2 * (n - d)) * u128::from(curve.time_ns(d as u32))).sum();
        let mean = (sum / u128::from(n * (n - 1))) as u64;
        assert!(mean.abs_diff(3_500_000) < 3_500_000 / 200, "mean {mean}");
    }

    #[test]
    fn farther_never_takes_less() {
        let curve = SeekCurve::fit(&TIMES, 50_000);
        assert!((1..49_999).all(|d| curve.time_ns(d) <= curve.time_ns(d + 1)));
    }
}
