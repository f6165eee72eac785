//! Keeps a job within its speed limits: the lower one while clients are busy, otherwise the upper one.

use std::time::Duration;

use stripewise_device::Timestamp;

use super::SpeedLimits;

/// The window over which speed is measured and held.
const WINDOW: Duration = Duration::from_millis(500);

/// A job's recent speed.
pub(crate) struct Speed {
    window_start: Timestamp,
    window_bytes: u64,
    /// The speed in the last whole window.
    pub(crate) bytes_per_s: u64,
    served: u64,
}

impl Speed {
    pub(crate) fn new(now: Timestamp, served: u64) -> Self {
        Self { window_start: now, window_bytes: 0, bytes_per_s: 0, served }
    }

    /// Counts a batch and returns how long to rest before the next one.
    pub(crate) fn after_batch(
        &mut self,
        now: Timestamp,
        bytes: u64,
        served: u64,
        limits: SpeedLimits,
    ) -> Option<Duration> {
        self.window_bytes += bytes;
        let elapsed = now.since(self.window_start);
        let busy = served != self.served;
        let limit =
            if busy { limits.min_bytes_per_s.min(limits.max_bytes_per_s) } else { limits.max_bytes_per_s };
        let due = Duration::from_secs_f64(self.window_bytes as f64 / limit.max(1) as f64);
        let rest = due.checked_sub(elapsed).filter(|rest| *rest > Duration::from_millis(1));
        if elapsed + rest.unwrap_or_default() >= WINDOW {
            let window = (elapsed + rest.unwrap_or_default()).as_secs_f64();
            self.bytes_per_s = (self.window_bytes as f64 / window) as u64;
            self.window_start = Timestamp(now.0 + rest.unwrap_or_default().as_nanos() as u64);
            self.window_bytes = 0;
            self.served = served;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_limit_is_held_over_time() {
        let limits = SpeedLimits { min_bytes_per_s: MIB, max_bytes_per_s: 100 * MIB };
        let mut now = Timestamp(0);
        let mut speed = Speed::new(now, 0);
        for _ in 0..1000 {
            // Each batch takes one millisecond, which alone would be 1000 MiB/s.
            now.0 += 1_000_000;
            now.0 += speed.after_batch(now, MIB, 0, limits).unwrap_or_default().as_nanos() as u64;
        }
        let rate = 1000.0 / (now.0 as f64 / 1e9);
        assert!((95.0..105.0).contains(&rate), "{rate} MiB/s");
    }

    #[test]
    fn busy_clients_get_the_lower_limit() {
        let limits = SpeedLimits { min_bytes_per_s: MIB, max_bytes_per_s: u64::MAX };
        let mut speed = Speed::new(Timestamp(0), 0);
        assert_eq!(speed.after_batch(Timestamp(1_000_000), MIB, 0, limits), None);
        let rest = speed.after_batch(Timestamp(2_000_000), MIB, 5, limits).unwrap();
        assert!(rest > Duration::from_millis(1900), "{rest:?}");
    }
}
