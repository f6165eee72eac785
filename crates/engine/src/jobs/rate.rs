//! How fast members take what is destaged, as measured. What may be dirty follows from it, where a flush may take only so long.

use std::time::Duration;

use stripewise_device::Timestamp;

/// Weight of the newest measurement.
const WEIGHT: f64 = 1.0 / 8.0;
/// Time and blocks that a measurement takes at least.
const MEASURED_FOR: Duration = Duration::from_millis(100);
const MEASURED_BLOCKS: u64 = 64;

/// How much members are asked to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pace {
    /// Nothing.
    None,
    /// They might take more, or have other writes to do.
    Some,
    /// As much as they can.
    All,
}

/// Measures how fast members take blocks.
#[derive(Default)]
pub(super) struct Rate {
    /// When the measurement began, with how many blocks destaged, and the least that members were asked to take since.
    since: Option<(Timestamp, u64, Pace)>,
    blocks_per_s: f64,
}

impl Rate {
    /// So many blocks were destaged so far. Returns how many members take in a second, if there is something new to say. If
    /// they were not asked for all that they can, it is no less than they took.
    pub(super) fn note(&mut self, destaged: u64, now: Timestamp, pace: Pace) -> Option<f64> {
        if pace == Pace::None {
            self.since = None;
            return None;
        }
        let (since, before, least) = *self.since.get_or_insert((now, destaged, pace));
        let pace = least.min(pace);
        self.since = Some((since, before, pace));
        let (time, blocks) = (now.since(since), destaged - before);
        if time < MEASURED_FOR || blocks < MEASURED_BLOCKS {
            return None;
        }
        self.since = None;
        let measured = blocks as f64 / time.as_secs_f64();
        if pace < Pace::All && measured <= self.blocks_per_s {
            return None;
        }
        let weight = if self.blocks_per_s == 0.0 { 1.0 } else { WEIGHT };
        self.blocks_per_s += weight * (measured - self.blocks_per_s);
        Some(self.blocks_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members take so many blocks in a second, and are asked so. Returns the last that was said.
    fn run(rate: &mut Rate, clock: &mut (u64, u64), blocks_per_s: u64, pace: Pace) -> Option<f64> {
        (0..1000).fold(None, |last, _| {
            clock.0 += 10_000_000;
            clock.1 += blocks_per_s / 100;
            rate.note(clock.1, Timestamp(clock.0), pace).or(last)
        })
    }

    #[test]
    fn it_falls_only_while_members_are_asked_for_all_that_they_can() {
        let (mut rate, mut clock) = (Rate::default(), (0, 0));
        let mut told = |blocks_per_s, pace| run(&mut rate, &mut clock, blocks_per_s, pace).map(f64::round);
        assert_eq!(told(1000, Pace::None), None);
        assert_eq!(told(1000, Pace::Some), Some(1000.0), "the first one");
        assert_eq!(told(5000, Pace::All), Some(5000.0));
        assert_eq!(told(1000, Pace::Some), None, "they might take more");
        assert_eq!(told(8000, Pace::Some), Some(8000.0), "they take more");
        assert_eq!(told(2000, Pace::All), Some(2000.0));
    }

    #[test]
    fn a_measurement_ends_when_nothing_is_asked() {
        let mut rate = Rate::default();
        let second = |n: u64| Timestamp(n * 1_000_000_000);
        assert_eq!(rate.note(0, second(0), Pace::All), None);
        assert_eq!(rate.note(100, second(1), Pace::None), None);
        assert_eq!(rate.note(100, second(100), Pace::All), None);
        assert_eq!(rate.note(1100, second(101), Pace::All), Some(1000.0));
    }
}
