//! A stripe whose rows are in several states: its bands are weighed together.

use smallvec::SmallVec;

use super::{
    left::Left,
    price::{MARGIN, Price},
};
use crate::{
    plan::{
        costs::{ColumnCosts, MemberCost, Visit},
        matrix::{Band, Cycle, Estimate},
        selection::view::{Asked, Stripe},
    },
    shape::rows::RowSet,
};

/// Bands of the stripe, one bit each. A write without a cache makes at most five bands. Bands beyond these
/// bits are chosen by counts.
pub(super) type BandSet = u32;

/// A column, and the bands whose rows are read or written there. That is all rows of a band, or none.
#[derive(Clone, Copy)]
struct Weighed {
    cost: MemberCost,
    rmw_reads: BandSet,
    rcw_reads: BandSet,
    writes: BandSet,
}

impl Weighed {
    fn add(&mut self, bit: BandSet, asked: Asked) {
        let Asked { rmw_reads, rcw_reads, writes } = asked;
        let set = |test: bool| if test { bit } else { 0 };
        self.rmw_reads |= set(rmw_reads);
        self.rcw_reads |= set(rcw_reads);
        self.writes |= set(writes);
    }
}

/// The stripe's columns that matter, and the bands whose cycle is settled.
#[derive(Default)]
pub(super) struct Weighing {
    columns: SmallVec<[Weighed; 8]>,
    /// A row of each band.
    first_rows: SmallVec<[usize; 4]>,
    free: BandSet,
    settled_rmw: BandSet,
    settled_rcw: BandSet,
    /// The rows of each band, and the joint rows of those sets of bands that were asked for.
    visits: SmallVec<[(BandSet, Visit); 4]>,
}

impl Weighing {
    pub(super) fn take_in(&mut self, stripe: &Stripe<'_>, costs: &dyn ColumnCosts, bands: &[Band]) {
        for (index, band) in bands.iter().enumerate() {
            self.add_band(1 << index, band);
        }
        for column in 0..stripe.columns() {
            let mut weighed = Weighed { cost: costs.of(column), rmw_reads: 0, rcw_reads: 0, writes: 0 };
            for (bit, row) in self.first_rows.iter().enumerate() {
                weighed.add(1 << bit, stripe.asked(column, *row));
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

    /// Starts with what was chosen for such bands the last time. Changes to what is cheaper by more than the
    /// error of the estimates: first all bands alike, then each by itself.
    pub(super) fn choose(&mut self, bands: &mut [Band], left: &Left, parity: usize) {
        let fewest = Self::set_of(bands, |band| band.rmw < band.rcw);
        let mut rmw = fewest ^ Self::set_of(bands, |band| left.is_left(parity, (band.rmw, band.rcw)));
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
            left.note(parity, (band.rmw, band.rcw), (rmw ^ fewest) & bit != 0);
        }
    }

    fn set_of(bands: &[Band], test: impl Fn(&Band) -> bool) -> BandSet {
        let found = bands.iter().enumerate().filter(|(_, band)| band.free && test(band));
        found.fold(0, |set, (index, _)| set | 1 << index)
    }

    /// The price of the stripe's write, with these free bands by RMW and the other free bands by RCW.
    fn price_ns(&mut self, rmw: BandSet) -> f32 {
        let rcw = (self.free & !rmw) | self.settled_rcw;
        let rmw = rmw | self.settled_rmw;
        let mut price = Price::default();
        for index in 0..self.columns.len() {
            let Weighed { cost, rmw_reads, rcw_reads, writes } = self.columns[index];
            let reads = self.visit(rmw_reads & rmw | rcw_reads & rcw);
            let writes = self.visit(writes);
            let visit = |at: usize| &self.visits[at].1;
            price.add(&cost, reads.map(visit), writes.map(visit));
        }
        price.ns()
    }

    /// The index of the visit to the rows of these bands, if there are any.
    #[inline]
    fn visit(&mut self, bands: BandSet) -> Option<usize> {
        if bands == 0 {
            return None;
        }
        let known = self.visits.iter().position(|(known, _)| *known == bands);
        Some(known.unwrap_or_else(|| self.add_visit(bands)))
    }

    fn add_visit(&mut self, bands: BandSet) -> usize {
        let alone = self.visits.iter().filter(|(bit, _)| bit.is_power_of_two() && bands & bit != 0);
        let visit = Visit::to(alone.fold(RowSet::EMPTY, |all, (_, visit)| all | visit.rows()));
        self.visits.push((bands, visit));
        self.visits.len() - 1
    }
}

/// The fraction of the current price that the price of a change must fall below. Going back to fewest reads
/// needs no margin.
fn margin(fewest: BandSet, from: BandSet, to: BandSet) -> f32 {
    if (to ^ fewest).count_ones() >= (from ^ fewest).count_ones() { MARGIN } else { 1.0 }
}
