//! `auto`: through or back, by how long members are occupied by a byte of the clients.
//!
//! While there is room, writes are put: the cache takes a burst as fast as memory does. Once it is full, members
//! decide how fast clients are served, and the way that occupies them for a shorter time is the faster one. Both are
//! measured at the same time: a sample of the stripes, a small share, goes the other way. It has no more than its share of
//! the cache, so that it finds what all stripes would find. Writes of each size are weighed by themselves.
//!
//! Where members are not the limit, such as flash under a few clients, or where both ways occupy them alike,
//! [turns](super::Turns) decide.

use std::time::Duration;

use stripewise_device::Timestamp;

use super::{
    Passing, PastPolicy,
    past::{Bound, Past, Seen, Spent, Verdict, Weighed, Why},
    ways::{Blocks, SIZES, Sizes, Ways},
};

pub(super) static POLICY: PastPolicy = PastPolicy {
    name: "cost",
    number: 2,
    summary: "past a full cache if members are occupied for a shorter time so, as a sample of stripes shows",
    make: || Box::new(Weighing::default()),
};

/// How long what is spent is summed up before it is looked at.
const WINDOW: Duration = Duration::from_millis(200);
/// Members are the limit if they were occupied for so much of the time.
const BUSY: f64 = 0.5;
/// What the sample may cost: the other way's extra time, of all time.
const SAMPLE_COST: f64 = 0.003;
/// The bounds on the sample's share, and what it is until the other way is known: so large that this is soon.
const SAMPLE_MIN: f64 = 1.0 / 2048.0;
const SAMPLE_MAX: f64 = 1.0 / 64.0;
const SAMPLE_FIRST: f64 = 1.0 / 16.0;
/// A sample that goes by way of the cache has room for so many stripes at least, and no more than this share of it.
const SAMPLE_STRIPES: u64 = 8;
const SAMPLE_ROOM_MAX: f64 = 0.25;
/// Costs that differ by less than this factor are alike.
const ALIKE: f64 = 1.25;
/// Writes went past the cache, so many in a window at least, and members were not busy: each client waits for one write
/// after the other. That is not tried again for so long.
const PASSED_MIN: u64 = 8;
const NOT_AGAIN: Duration = Duration::from_secs(60);
/// Writes go another way if the share of stripes that goes through has changed by more than this.
const OTHER_SHARE: f64 = 0.5;

/// What is summed up.
#[derive(Debug, Clone, Copy)]
struct Window {
    since: Timestamp,
    /// What had been spent by then, and how many blocks were dirty.
    spent: Spent,
    dirty: u64,
}

impl Window {
    fn new(seen: &Seen<'_>) -> Self {
        Self { since: seen.now, spent: (seen.spent)(), dirty: seen.fill.dirty }
    }
}

/// Weighs the ways.
#[derive(Debug, Default)]
struct Weighing {
    is_full: bool,
    /// Writes go past the cache, but for the sample.
    is_through: bool,
    window: Option<Window>,
    /// What the ways cost, by the size of writes.
    ways: [Ways; SIZES],
    /// Which size clients write.
    sizes: Sizes,
    /// So many destaged blocks are not counted for this size: as many were dirty when clients changed to it.
    older: u64,
    /// What destaged blocks took lately.
    blocks: Blocks,
    /// Writes go another way since the last window: of some that are counted in this one, members are still to be occupied.
    is_settling: bool,
    bound: Option<Bound>,
    /// How busy members were in the last window; none before there was one.
    busy: Option<f64>,
    /// Not through before.
    not_before: Timestamp,
    turns: Passing,
}

impl Past for Weighing {
    fn next(&mut self, seen: &Seen<'_>) -> Verdict {
        let verdict = self.decide(seen);
        let before = self.bound.replace(verdict.bound);
        if before.is_some_and(|before| before.differs_from(verdict.bound, OTHER_SHARE)) {
            self.window = None;
            self.is_settling = true;
        }
        verdict
    }
}

impl Weighing {
    fn decide(&mut self, seen: &Seen<'_>) -> Verdict {
        self.older = self.older.min(seen.fill.dirty);
        self.look_at_size(seen);
        self.is_full = self.is_through || seen.is_full(self.is_full);
        if !self.is_full {
            self.window = None;
            self.busy = None;
            return self.turns.next(seen);
        }
        self.measure(seen);
        if self.is_through {
            self.turns.pause(Some(true));
            let share = self.sample().max(self.room_of_sample(seen));
            return self.verdict(Bound::share(1.0 - share), share);
        }
        if self.busy.is_some_and(|busy| busy < BUSY) || self.are_alike() {
            return self.turns.next(seen);
        }
        let expected = match self.known() {
            (Some(through), Some(back)) if seen.now >= self.not_before => Some(through < back),
            _ => None,
        };
        self.turns.pause(expected);
        self.verdict(Bound::share(self.sample()), 1.0)
    }

    /// Takes note of what was spent since the window began, if it is over.
    fn measure(&mut self, seen: &Seen<'_>) {
        let Some(before) = self.window else {
            self.window = Some(Window::new(seen));
            return;
        };
        let time = seen.now.since(before.since);
        if time < WINDOW {
            return;
        }
        let now = Window::new(seen);
        self.window = Some(now);
        let (spent, earlier) = (now.spent, before.spent);
        if spent.members != earlier.members {
            // One took what it had spent with it.
            return;
        }
        let [through, back] = [(spent.through, earlier.through), (spent.back, earlier.back)]
            .map(|(now, before)| now.since(before));
        let older = self.older;
        self.older = older.saturating_sub(back.count);
        if std::mem::take(&mut self.is_settling) {
            return;
        }
        self.blocks.add(back.ns, back.count);
        let ways = &mut self.ways[self.sizes.now()];
        ways.through.add(through.ns as f64, through.bytes, through.count);
        if let Some(of_one) = self.blocks.ns_of_one().filter(|_| older == 0) {
            // What has become dirty is still to be destaged.
            let owed = (now.dirty as f64 - before.dirty as f64) * of_one;
            ways.back.add(back.ns as f64 + owed, back.bytes, back.count);
        }
        ways.fade();
        let occupied_ns = through.ns + back.ns + spent.others_ns.saturating_sub(earlier.others_ns);
        let busy = occupied_ns as f64 / (time.as_nanos() as f64 * spent.members.max(1) as f64);
        self.busy = Some(busy);
        self.choose(busy, through.count, seen.now);
    }

    /// Looks which size clients write. If it is another one than before, what is dirty is older.
    fn look_at_size(&mut self, seen: &Seen<'_>) {
        if self.sizes.look(seen.written) {
            self.older = seen.fill.dirty;
            // A window of both sizes says nothing of either, and what was chosen for another size nothing of this one.
            self.window = None;
            let (through, back) = self.known();
            self.is_through &= through.is_some() && back.is_some();
        }
    }

    /// Chooses anew, after a window with so many writes past the cache.
    fn choose(&mut self, busy: f64, passed: u64, now: Timestamp) {
        let (Some(through), Some(back)) = self.known() else { return };
        if !self.is_through {
            self.is_through = busy >= BUSY && ALIKE * through <= back && now >= self.not_before;
            return;
        }
        let is_slack = busy < BUSY;
        // Once clients hardly write any more, the cache is there for the next burst, however busy members are.
        self.is_through = !is_slack && passed >= PASSED_MIN && through <= back;
        if is_slack && passed >= PASSED_MIN {
            self.not_before = Timestamp(now.0 + NOT_AGAIN.as_nanos() as u64);
        }
    }

    /// Whether both ways cost nearly the same: then what else they cost decides.
    fn are_alike(&self) -> bool {
        matches!(self.known(), (Some(through), Some(back)) if through < ALIKE * back && back < ALIKE * through)
    }

    /// What a byte of writes of this size costs through, and back.
    fn known(&self) -> (Option<f64>, Option<f64>) {
        self.ways[self.sizes.now()].known()
    }

    /// The share of stripes that goes the other way.
    fn sample(&self) -> f64 {
        let (through, back) = self.known();
        let (chosen, other) = if self.is_through { (through, back) } else { (back, through) };
        match (chosen, other) {
            (_, None) => SAMPLE_FIRST,
            (Some(chosen), Some(other)) if other > 0.0 => {
                (SAMPLE_COST * chosen / other).clamp(SAMPLE_MIN, SAMPLE_MAX)
            }
            _ => SAMPLE_MAX,
        }
    }

    /// The share of the cache without which a sample there would show nothing.
    fn room_of_sample(&self, seen: &Seen<'_>) -> f64 {
        let blocks = SAMPLE_STRIPES * seen.stripe_blocks;
        (blocks as f64 / seen.fill.high.max(1) as f64).min(SAMPLE_ROOM_MAX)
    }

    fn verdict(&self, bound: Bound, share: f64) -> Verdict {
        let (through_ns, back_ns) = self.known();
        let sample = if self.is_through { share } else { self.sample() };
        let why = if through_ns.is_some() && back_ns.is_some() { Why::Cost } else { Why::Unknown };
        let weighed = Weighed { passes: self.is_through, why, sample, through_ns, back_ns };
        Verdict { bound, share, weighed }
    }
}

#[cfg(test)]
mod tests;
