//! What the papers leave as future work: the choice by exact extents and by what members are measured to cost.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use smallvec::SmallVec;

use super::{Policy, WriteSelection, by_counts};
use crate::{
    plan::{
        Band, ColumnState, Cycle, Estimate, StripeState,
        costs::{ColumnCosts, MemberCost, ServiceTime, Visit},
    },
    rows::RowSet,
};

pub(super) static POLICY: Policy = Policy {
    name: "cost",
    summary: "what reads the fewest blocks (RCW, if equal), or what costs less than that by a tenth, and then for as long as it \
              costs less; by exact extents and what \
              each member is measured to take",
    number: 4,
    make: || Arc::new(Cost::default()),
};

/// Estimates what each cycle costs and leaves what reads the fewest blocks for what is cheaper by a tenth
/// (raid4s-modthresh 4.3 asks for this).
///
/// What counts is when the write would finish, plus what it takes from others: the work that it gives each member,
/// for as many requests as wait there, less what the same requests wait for elsewhere. So a busy member's time is dear and an idle one's is nearly free, which is what
/// makes parity on an SSD cheap. The rows of a stripe are looked at together: two bands of one stripe that choose
/// alike read the same columns in one run, which is why `modified` is ahead of `modthresh` just past half a stripe.
///
/// It keeps to what it left that for as long as that is cheaper at all.
#[derive(Debug, Default)]
pub struct Cost {
    left: Left,
}

impl WriteSelection for Cost {
    fn policy(&self) -> &'static Policy {
        &POLICY
    }

    fn needs_costs(&self) -> bool {
        true
    }

    fn choose(&self, stripe: &StripeState, costs: &dyn ColumnCosts, bands: &mut [Band]) {
        let (weighed, beyond) = bands.split_at_mut(bands.len().min(BandSet::BITS as usize));
        by_counts(beyond, |rmw, rcw| rmw < rcw);
        if weighed.iter().any(|band| band.free) {
            // Large, so it is made in its place.
            let mut weighing = Weighing::default();
            weighing.take_in(stripe, costs, weighed);
            weighing.choose(weighed, &self.left, costs.parity_member());
        }
    }
}

/// What a price must fall below, beside that of fewest reads, for those to be left: measured times scatter, and of two ways
/// that cost the same the one that asks less of the members is right more often. The summary above and docs/policies.md
/// call it a tenth.
const MARGIN: f32 = 0.9;

/// By which counts of reads (RMW's, RCW's) what reads the fewest blocks was left the last time: a bit each, for each place of
/// parity, since stripes whose parity lies elsewhere meet other members. Without this memory, what is cheaper by about a tenth
/// would be chosen now and not the next time, and requests of both kinds would get in each other's way.
#[derive(Debug, Default)]
struct Left([[AtomicU64; COUNTS_MAX * COUNTS_MAX / 64]; PARITIES_MAX]);

/// Counts from here on are not remembered.
const COUNTS_MAX: usize = 16;
/// Places of parity from here on share what is remembered with those before.
const PARITIES_MAX: usize = 8;

impl Left {
    /// The word and the bit of a band.
    fn place(&self, parity: usize, band: &Band) -> Option<(&AtomicU64, u64)> {
        let (rmw, rcw) = (band.rmw as usize, band.rcw as usize);
        let place = rmw * COUNTS_MAX + rcw;
        let words = &self.0[parity % PARITIES_MAX];
        (rmw.max(rcw) < COUNTS_MAX).then(|| (&words[place / 64], 1 << (place % 64)))
    }

    fn is_left(&self, parity: usize, band: &Band) -> bool {
        self.place(parity, band).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// Written only where it changes: all writers read it.
    fn note(&self, parity: usize, band: &Band, is_left: bool) {
        let Some((word, bit)) = self.place(parity, band) else { return };
        match (word.load(Relaxed) & bit != 0, is_left) {
            (false, true) => drop(word.fetch_or(bit, Relaxed)),
            (true, false) => drop(word.fetch_and(!bit, Relaxed)),
            _ => {}
        }
    }
}

/// How much of what members take from others is the same requests' waiting. Others wait at several members at once as this
/// write does, and what is delayed at two of them is delayed once: between requests that all wait at the same members (1)
/// and requests that have none in common (0).
const OVERLAP: f32 = 1.0 / 3.0;

/// Bands of the stripe, a bit each. A write without a cache makes five at most; what is beyond these is chosen by counts.
type BandSet = u32;

/// A column, and the bands whose rows are read or written there. The rows of a band are alike: all of them, or none.
#[derive(Clone, Copy)]
struct Weighed {
    cost: MemberCost,
    /// What an RMW reads: dirty blocks, or parity.
    rmw_reads: BandSet,
    /// What an RCW reads: what is not wholly new.
    rcw_reads: BandSet,
    writes: BandSet,
}

impl Weighed {
    fn add(&mut self, bit: BandSet, column: &ColumnState, row: usize, is_parity: bool) {
        let is_dirty = column.dirty.contains(row);
        let is_whole = is_dirty && !column.partial.contains(row);
        let is_read = column.readable() && !column.clean.contains(row);
        let set = |test: bool| if test { bit } else { 0 };
        self.rmw_reads |= set(is_read && (is_parity || is_dirty));
        self.rcw_reads |= set(is_read && !is_parity && !is_whole);
        self.writes |= set(column.writable() && (is_parity || is_dirty));
    }
}

/// The stripe's columns that matter, and the bands whose cycle is settled.
#[derive(Default)]
struct Weighing {
    columns: SmallVec<[Weighed; 8]>,
    /// A row of each band.
    first_rows: SmallVec<[usize; 4]>,
    free: BandSet,
    settled_rmw: BandSet,
    settled_rcw: BandSet,
    /// The rows of each band, and those that bands make together as far as they were asked for.
    visits: SmallVec<[(BandSet, Visit); 4]>,
}

impl Weighing {
    fn take_in(&mut self, stripe: &StripeState, costs: &dyn ColumnCosts, bands: &[Band]) {
        for (index, band) in bands.iter().enumerate() {
            self.add_band(1 << index, band);
        }
        for (index, column) in stripe.columns.iter().enumerate() {
            let is_parity = index >= stripe.data_columns;
            let mut weighed = Weighed { cost: costs.of(index), rmw_reads: 0, rcw_reads: 0, writes: 0 };
            for (bit, row) in self.first_rows.iter().enumerate() {
                weighed.add(1 << bit, column, *row, is_parity);
            }
            if weighed.writes | weighed.rmw_reads | weighed.rcw_reads != 0 {
                self.columns.push(weighed);
            }
        }
    }

    fn add_band(&mut self, bit: BandSet, band: &Band) {
        match band.cycle {
            _ if band.free => self.free |= bit,
            Cycle::Rmw => self.settled_rmw |= bit,
            Cycle::Rcw => self.settled_rcw |= bit,
            _ => {}
        }
        self.first_rows.push(band.rows.first().unwrap_or(0));
        self.visits.push((bit, Visit::to(band.rows)));
    }

    /// Starts with what was chosen for such bands the last time, and changes to what is cheaper by more than estimates are
    /// wrong: all bands alike, then each by itself.
    fn choose(&mut self, bands: &mut [Band], left: &Left, parity: usize) {
        let fewest = Self::set_of(bands, |band| band.rmw < band.rcw);
        let mut rmw = fewest ^ Self::set_of(bands, |band| left.is_left(parity, band));
        let mut best = self.price_ns(rmw);
        for alike in [self.free, 0] {
            if !self.free.is_power_of_two() && alike != rmw {
                let price = self.price_ns(alike);
                if price < best * margin(fewest, rmw, alike) {
                    (rmw, best) = (alike, price);
                }
            }
        }
        for (index, band) in bands.iter_mut().enumerate().filter(|(_, band)| band.free) {
            let bit = 1 << index;
            let other = self.price_ns(rmw ^ bit);
            let (rmw_ns, rcw_ns) = if rmw & bit != 0 { (best, other) } else { (other, best) };
            band.estimate = Some(Estimate { rmw_ns: rmw_ns as u64, rcw_ns: rcw_ns as u64 });
            if other < best * margin(fewest, rmw, rmw ^ bit) {
                (rmw, best) = (rmw ^ bit, other);
            }
            band.cycle = if rmw & bit != 0 { Cycle::Rmw } else { Cycle::Rcw };
            left.note(parity, band, (rmw ^ fewest) & bit != 0);
        }
    }

    fn set_of(bands: &[Band], test: impl Fn(&Band) -> bool) -> BandSet {
        let found = bands.iter().enumerate().filter(|(_, band)| band.free && test(band));
        found.fold(0, |set, (index, _)| set | 1 << index)
    }

    /// The price of the stripe's write with these of the free bands by RMW and the others by RCW.
    fn price_ns(&mut self, rmw: BandSet) -> f32 {
        let rcw = (self.free & !rmw) | self.settled_rcw;
        let rmw = rmw | self.settled_rmw;
        let (mut read_end, mut write_end) = (0.0_f32, 0.0_f32);
        let (mut from_others, mut most_from_others) = (0.0_f32, 0.0_f32);
        for index in 0..self.columns.len() {
            let Weighed { cost, rmw_reads, rcw_reads, writes } = self.columns[index];
            let reads = rmw_reads & rmw | rcw_reads & rcw;
            let mut work = 0.0;
            if reads != 0 {
                let ns = self.work_ns(reads, cost.read);
                read_end = read_end.max(ns + cost.queue * cost.read.fixed_ns);
                work += ns;
            }
            if writes != 0 {
                let time = if reads == 0 { cost.write } else { cost.rewrite };
                let ns = self.work_ns(writes, time);
                write_end = write_end.max(ns + cost.queue * cost.write.fixed_ns);
                work += ns;
            }
            from_others += cost.queue * work;
            most_from_others = most_from_others.max(cost.queue * work);
        }
        read_end + write_end + from_others + OVERLAP * (most_from_others - from_others)
    }

    /// How long the rows of these bands keep a member busy.
    #[inline]
    fn work_ns(&mut self, bands: BandSet, time: ServiceTime) -> f32 {
        if let Some((_, visit)) = self.visits.iter().find(|(known, _)| *known == bands) {
            return time.of(visit);
        }
        let alone = self.visits.iter().filter(|(bit, _)| bit.is_power_of_two() && bands & bit != 0);
        let visit = Visit::to(alone.fold(RowSet::EMPTY, |all, (_, visit)| all | visit.rows()));
        self.visits.push((bands, visit));
        time.of(&visit)
    }
}

/// What the price of a change must fall below: going back to fewest reads needs no doubt.
fn margin(fewest: BandSet, from: BandSet, to: BandSet) -> f32 {
    if (to ^ fewest).count_ones() >= (from ^ fewest).count_ones() { MARGIN } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        geometry::{Geometry, Level, StripeIndex, StripeSpan},
        plan::{Presence, build},
    };

    /// A 4+1 array of 64 KiB chunks; who costs what, by column.
    fn cycles(costs: &[MemberCost], start_kib: usize, len_kib: usize) -> Vec<(usize, Cycle)> {
        cycles_of(&Cost::default(), &costs, start_kib, len_kib)
    }

    fn cycles_of(
        policy: &Cost,
        costs: &dyn ColumnCosts,
        start_kib: usize,
        len_kib: usize,
    ) -> Vec<(usize, Cycle)> {
        let geometry = Geometry::new(Level::Raid4, 5, 64 << 10, 1 << 20, 512).unwrap();
        let (start, len) = (start_kib << 10, len_kib << 10);
        let span = StripeSpan { stripe: StripeIndex(0), start, len, request_offset: 0 };
        let state = StripeState::for_write(&geometry, &span, true, |_| Presence::Present);
        let plan = build(&state, policy, costs).unwrap();
        plan.bands.iter().map(|band| (band.rows.len(), band.cycle)).collect()
    }

    fn hdd(queue: f32) -> MemberCost {
        MemberCost { queue, ..MemberCost::HDD }
    }

    /// Where the drive's write cache makes rewrites fast, as it does in the paper's arrays.
    #[test]
    fn parity_on_an_idle_ssd_makes_half_a_stripe_a_small_write() {
        let rewrite = ServiceTime { fixed_ns: 2e6, block_ns: 27e3 };
        let cached = MemberCost { rewrite, ..hdd(2.0) };
        let raid4s = [cached, cached, cached, cached, MemberCost::SSD];
        assert_eq!(cycles(&raid4s, 0, 128), [(16, Cycle::Rmw)]);
        let uncached = [MemberCost { rewrite: MemberCost::HDD.write, ..hdd(2.0) }; 5];
        assert_eq!(cycles(&uncached, 0, 128), [(16, Cycle::Rcw)]);
        assert_eq!(cycles(&[hdd(2.0); 5], 0, 4), [(1, Cycle::Rmw)]);
    }

    #[test]
    fn a_member_that_is_slow_is_left_alone() {
        let slow = MemberCost { read: ServiceTime { fixed_ns: 125e6, block_ns: 27e3 }, ..hdd(8.0) };
        let one_slow = [hdd(1.0), hdd(1.0), hdd(1.0), slow, hdd(1.0)];
        assert_eq!(cycles(&one_slow, 0, 128), [(16, Cycle::Rmw)], "RCW would read the slow one");
        let slow_parity = [hdd(1.0), hdd(1.0), hdd(1.0), hdd(1.0), slow];
        assert_eq!(cycles(&slow_parity, 0, 128), [(16, Cycle::Rcw)], "RMW would");
    }

    /// RMW waits for one read and one write, whoever else is slow; RCW for a read of the slower one and a write.
    #[test]
    fn what_is_cheaper_by_less_than_a_tenth_is_not_taken() {
        let slower = |by: f32| {
            let ServiceTime { fixed_ns, block_ns } = MemberCost::SSD.read;
            MemberCost {
                read: ServiceTime { fixed_ns: by * fixed_ns, block_ns: by * block_ns },
                ..MemberCost::SSD
            }
        };
        let with_slower = |by: f32| {
            let [a, b, c, d] = [MemberCost::SSD; 4];
            cycles(&[a, b, c, slower(by), d], 0, 128)
        };
        assert_eq!(with_slower(1.0), [(16, Cycle::Rcw)], "as dear, and it reads a block less");
        assert_eq!(with_slower(1.2), [(16, Cycle::Rcw)], "2 to 2.2");
        assert_eq!(with_slower(1.3), [(16, Cycle::Rmw)], "2 to 2.3");
    }

    /// A stripe with its parity on some member, of SSDs of which the last is slower to read.
    struct Rotated([MemberCost; 5], usize);

    impl ColumnCosts for Rotated {
        fn of(&self, column: usize) -> MemberCost {
            self.0[column]
        }

        fn parity_member(&self) -> usize {
            self.1
        }
    }

    #[test]
    fn what_was_taken_once_is_kept_for_as_long_as_it_is_cheaper_where_parity_lies_alike() {
        let policy = Cost::default();
        let cycle = |by: f32, parity: usize| {
            let mut costs = [MemberCost::SSD; 5];
            costs[3].read.fixed_ns *= by;
            costs[3].read.block_ns *= by;
            cycles_of(&policy, &Rotated(costs, parity), 0, 128)[0].1
        };
        assert_eq!(cycle(1.2, 4), Cycle::Rcw, "cheaper by less than a tenth");
        assert_eq!(cycle(1.3, 4), Cycle::Rmw);
        assert_eq!(cycle(1.1, 4), Cycle::Rmw, "kept");
        assert_eq!(cycle(1.1, 3), Cycle::Rcw, "other stripes meet other members");
        assert_eq!(
            cycle(0.5, 4),
            Cycle::Rmw,
            "an idle member's speed decides nothing while another is as slow"
        );
    }

    #[test]
    fn one_goes_back_to_fewest_reads_as_soon_as_they_cost_less() {
        let policy = Cost::default();
        let slow = MemberCost { read: ServiceTime { fixed_ns: 125e6, block_ns: 27e3 }, ..hdd(8.0) };
        let unread = [hdd(1.0), hdd(1.0), hdd(1.0), slow, hdd(1.0)];
        let parity = [hdd(1.0), hdd(1.0), hdd(1.0), hdd(1.0), slow];
        let cycle = |costs: &[MemberCost; 5]| cycles_of(&policy, &Rotated(*costs, 4), 0, 128)[0].1;
        assert_eq!(
            [cycle(&unread), cycle(&parity), cycle(&[hdd(1.0); 5])],
            [Cycle::Rmw, Cycle::Rcw, Cycle::Rcw]
        );
    }

    /// RCW reads two disks where the same requests wait, RMW one of them and parity: what is taken from others does not
    /// double with the disks.
    #[test]
    fn requests_that_wait_at_two_members_are_delayed_once() {
        let time = |fixed_ns, block_ns| ServiceTime { fixed_ns, block_ns };
        let (read, write, rewrite) = (time(2.6e6, 43e3), time(0.0, 20e3), time(0.3e6, 43e3));
        let waited_for = |queue| MemberCost { read, write, rewrite, queue };
        let stupid = [MemberCost::SSD, waited_for(3.6), waited_for(3.5), waited_for(3.5), waited_for(0.5)];
        assert_eq!(cycles(&stupid, 0, 128), [(16, Cycle::Rcw)]);
        let apart = [MemberCost::SSD, waited_for(2.6), waited_for(3.5), waited_for(3.5), waited_for(0.5)];
        assert_eq!(cycles(&apart, 0, 128), [(16, Cycle::Rmw)], "a shorter queue is still worth it");
    }

    /// One row of three dirty blocks and fifteen of two: chosen each by itself, as modthresh does, they read from all
    /// members. That is why `modified` is ahead of it just past 128 KiB (raid4s-modthresh 4.1).
    #[test]
    fn the_rows_of_a_stripe_are_looked_at_together() {
        let raid4s = [hdd(2.0), hdd(2.0), hdd(2.0), hdd(2.0), MemberCost::SSD];
        let [(1, first), (15, second)] = cycles(&raid4s, 0, 132)[..] else { panic!("two bands") };
        assert_eq!(first, second);
    }
}
