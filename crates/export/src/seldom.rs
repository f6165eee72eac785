//! Rate-limited messages about clients: however often clients connect and leave, the log grows by some lines
//! a minute.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The first of a kind are reported one by one.
const BURST: u32 = 5;
/// Then there is silence until this much time has passed since the first of them.
const WINDOW: Duration = Duration::from_secs(60);

/// Messages of one kind.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the first of the burst came.
    since: Option<Instant>,
    told: u32,
    untold: u64,
}

impl Seldom {
    /// Counts one more. Some if it is to be reported: then with how many were not, since the last report.
    pub fn count(&self) -> Option<u64> {
        self.count_at(Instant::now())
    }

    fn count_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        if state.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            (state.since, state.told) = (Some(now), 0);
        }
        if state.told == BURST {
            state.untold += 1;
            return None;
        }
        state.told += 1;
        Some(std::mem::take(&mut state.untold))
    }

    /// How many were not reported, and will not be: to be said at the end.
    pub fn rest(&self) -> u64 {
        std::mem::take(&mut self.0.lock().untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_by_its_first_and_then_by_number() {
        let (seldom, start) = (Seldom::default(), Instant::now());
        let told = (0..100_000).filter_map(|_| seldom.count_at(start)).count();
        assert_eq!(told, BURST as usize);
        assert_eq!(seldom.count_at(start + WINDOW), Some(99_995), "and so many more");
        assert_eq!(seldom.count_at(start + WINDOW), Some(0));
        assert_eq!(seldom.rest(), 0);
        let untold = (0..10).filter(|_| seldom.count_at(start + WINDOW).is_none()).count() as u64;
        assert_eq!((untold, seldom.rest(), seldom.rest()), (7, 7, 0));
    }
}
