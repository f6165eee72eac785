//! `auto`: through or back, by how long members are occupied by a byte of the clients.
//!
//! While there is room, writes are put: the cache takes a burst as fast as memory does. Once it is full, members
//! decide how fast clients are served, and the way that occupies them for a shorter time is the faster one. Both are
//! measured at the same time: a sample of the stripes, a small share, goes the other way. It has no more than its share of
//! the cache, so that it finds what all stripes would find. Writes of each size are weighed by themselves.
//!
//! Where members are not the limit, such as flash under a few clients, or where both ways occupy them alike,
//! [turns](super::Turns) decide. So they do on streams: past the cache, writes of a stream are gathered into whole stripes, but
//! hardly those of a sample, whose neighbours go the other way. Both ways write whole stripes then, and the cache copies what it
//! takes: where clients are served alike, streams go past it.

use std::time::Duration;

use stripewise_device::Timestamp;

use super::{
    Flushes, Passing, PastPolicy, Turns,
    passing::EXCESS_MAX,
    past::{Bound, Past, Seen, Spent, Verdict, Weighed, Why},
    ways::{Blocks, SIZES, Sizes, Ways},
};
use crate::{members::stats::Served, shape::rows::BLOCK_BYTES};

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
/// Clients write streams if so much of what they write is destaged as whole stripes, as soon as these are dirty.
const STREAMED: f64 = 0.5;
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
#[derive(Debug)]
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
    /// Clients write streams.
    is_streamed: bool,
    /// How busy members were in the last window; none before there was one.
    busy: Option<f64>,
    /// Not through before.
    not_before: Timestamp,
    turns: Passing,
    /// Whether streams go by way of the cache.
    streams: Turns,
}

impl Default for Weighing {
    fn default() -> Self {
        Self {
            is_full: false,
            is_through: false,
            window: None,
            ways: Default::default(),
            sizes: Sizes::default(),
            older: 0,
            blocks: Blocks::default(),
            is_settling: false,
            bound: None,
            is_streamed: false,
            busy: None,
            not_before: Timestamp::default(),
            turns: Passing::default(),
            streams: Turns::new(true),
        }
    }
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
        self.is_full =
            self.is_through || self.streams_pass() || seen.lacks_memory || seen.is_full(self.is_full);
        if !self.is_full {
            self.window = None;
            self.busy = None;
            self.streams.pause(seen.now);
            self.is_streamed = false;
            return self.turns.next(seen);
        }
        self.measure(seen);
        if self.is_streamed {
            self.turns.pause(None, seen.now);
            return Verdict::of_all(!self.puts_streams(seen), Why::Served);
        }
        self.streams.pause(seen.now);
        if self.is_through {
            self.turns.pause(Some(true), seen.now);
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
        self.turns.pause(expected, seen.now);
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
        let written_blocks = (through.bytes + back.bytes) / BLOCK_BYTES as u64;
        let full_blocks = spent.full_blocks - earlier.full_blocks;
        let gathered = spent.gathered - earlier.gathered;
        self.look_for_streams((written_blocks, full_blocks), (through.count, gathered));
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

    /// Streams go past the cache. What is dirty stays so then, unless it is old: the cache counts as full all the same.
    fn streams_pass(&self) -> bool {
        self.is_streamed && self.bound == Some(Bound::ALL)
    }

    /// Whether streams go by way of the cache.
    fn puts_streams(&mut self, seen: &Seen<'_>) -> bool {
        if seen.excess > EXCESS_MAX {
            self.streams.pause(seen.now);
            return self.streams.best();
        }
        self.streams.next(taken(seen), Flushes::Seldom, seen.now)
    }

    /// Looks whether clients write streams: of so many blocks, so many were destaged as whole stripes at once; or of so many writes that
    /// went past the cache, so many were gathered. Writes that have not reached members yet say nothing, and a trial of the other way is
    /// not cut off.
    fn look_for_streams(&mut self, (written, full): (u64, u64), (passed, gathered): (u64, u64)) {
        let is_share = |some: u64, all: u64| all > 0 && some as f64 >= STREAMED * all as f64;
        self.is_streamed = match self.streams_pass() {
            _ if self.is_streamed && self.streams.is_tried() => written > 0,
            true if passed == 0 => written > 0,
            true => is_share(gathered, passed),
            false => is_share(full, written),
        };
    }

    /// Looks which size clients write. If it is another one than before, what is dirty is older.
    fn look_at_size(&mut self, seen: &Seen<'_>) {
        if self.sizes.look(seen.written) {
            self.older = seen.fill.dirty;
            // A window of both sizes says nothing of either, and what was chosen for another size nothing of this one.
            self.window = None;
            self.is_streamed = false;
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

/// What clients have written and members have taken: the cache takes some of a stream faster than members do, but only once.
fn taken(seen: &Seen<'_>) -> Served {
    let dirty_bytes = seen.fill.dirty * BLOCK_BYTES as u64;
    Served { bytes: seen.written.bytes.saturating_sub(dirty_bytes), ..seen.written }
}

#[cfg(test)]
mod tests;
