//! What the papers leave as future work: the choice by exact extents and by the measured costs of members.

mod left;
mod one;
mod price;
mod several;

use std::sync::Arc;

use self::{
    left::Left,
    several::{BandSet, Weighing},
};
use super::{
    by_counts::by_counts,
    policy::{Policy, WriteSelection},
    view::Stripe,
};
use crate::plan::{costs::ColumnCosts, matrix::Band};

pub(super) static POLICY: Policy = Policy {
    name: "cost",
    summary: "what reads the fewest blocks (RCW, if equal), or what costs less than that by a tenth, and then for as long as it \
              costs less; by exact extents and what \
              each member is measured to take",
    number: 4,
    make: || Arc::new(Cost::default()),
};

/// Estimates what each cycle costs. Leaves the cycle that reads the fewest blocks if the other is cheaper by
/// a tenth (raid4s-modthresh 4.3 asks for this).
///
/// The cost is the time until the write would finish, plus the time that it takes from other requests. That
/// is the work that it gives each member, times the requests that wait there, less what the same requests
/// wait for elsewhere. So a busy member's time is dear and an idle member's is nearly free, which makes
/// parity on an SSD cheap. The rows of a stripe are weighed together: two bands of one stripe with the same
/// cycle read the same columns in one run. That is why `modified` is ahead of `modthresh` just past half a
/// stripe.
///
/// Once it has left the fewest reads, it stays with its choice for as long as that is cheaper at all.
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

    fn choose(&self, stripe: &Stripe<'_>, costs: &dyn ColumnCosts, bands: &mut [Band]) {
        if let [band] = bands {
            if band.free {
                one::choose(stripe, costs, &self.left, band);
            }
            return;
        }
        let (weighed, beyond) = bands.split_at_mut(bands.len().min(BandSet::BITS as usize));
        by_counts(beyond, |rmw, rcw| rmw < rcw);
        if weighed.iter().any(|band| band.free) {
            // Large, so it is filled in place.
            let mut weighing = Weighing::default();
            weighing.take_in(stripe, costs, weighed);
            weighing.choose(weighed, &self.left, costs.parity_member());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Classic, *};
    use crate::{
        plan::{
            Cycle, Presence, StripeState, build,
            costs::{MemberCost, ServiceTime},
        },
        shape::geometry::{Geometry, Level, StripeIndex, StripeSpan},
    };

    /// The cycles of a write to a 4+1 array of 64 KiB chunks, whose members have these costs by column.
    fn cycles(costs: &[MemberCost], start_kib: usize, len_kib: usize) -> Vec<(usize, Cycle)> {
        cycles_of(&Cost::default(), &costs, start_kib, len_kib)
    }

    fn cycles_of(
        policy: &Cost,
        costs: &dyn ColumnCosts,
        start_kib: usize,
        len_kib: usize,
    ) -> Vec<(usize, Cycle)> {
        let bands = bands_by(policy, costs, &state_of(start_kib, len_kib));
        bands.iter().map(|band| (band.rows.len(), band.cycle)).collect()
    }

    fn state_of(start_kib: usize, len_kib: usize) -> StripeState {
        state_with(start_kib, len_kib, |_| Presence::Present)
    }

    fn state_with(start_kib: usize, len_kib: usize, presence: impl Fn(usize) -> Presence) -> StripeState {
        let geometry = Geometry::new(Level::Raid4, 5, 64 << 10, 1 << 20, 512).unwrap();
        let (start, len) = (start_kib << 10, len_kib << 10);
        let span = StripeSpan { stripe: StripeIndex(0), start, len, request_offset: 0 };
        StripeState::for_write(&geometry, &span, true, presence)
    }

    fn bands_by(policy: &dyn WriteSelection, costs: &dyn ColumnCosts, state: &StripeState) -> Vec<Band> {
        build(state, policy, costs).unwrap().bands.to_vec()
    }

    fn hdd(queue: f32) -> MemberCost {
        MemberCost { queue, ..MemberCost::HDD }
    }

    fn any_cost(rng: &mut fastrand::Rng) -> MemberCost {
        let mut time = || ServiceTime { fixed_ns: rng.f32() * 1e6, block_ns: rng.f32() * 1e5 };
        MemberCost { read: time(), write: time(), rewrite: time(), queue: rng.f32() * 4.0 }
    }

    /// Whatever members cost, and whatever was chosen before.
    #[test]
    fn a_stripe_of_one_band_is_weighed_as_one_of_several_is() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (one, several) = (Cost::default(), Left::default());
        let mut compared = 0;
        for _ in 0..20_000 {
            let costs = Rotated(std::array::from_fn(|_| any_cost(&mut rng)), rng.usize(..5));
            let (unit_kib, missing) = ([1, 4, 64][rng.usize(..3)], rng.usize(..8));
            let start = rng.usize(..256 / unit_kib);
            let len = rng.usize(1..=256 / unit_kib - start);
            let presence = |column| if column == missing { Presence::Missing } else { Presence::Present };
            let state = state_with(start * unit_kib, len * unit_kib, presence);
            let mut bands = bands_by(&Classic, &costs, &state);
            if !matches!(&bands[..], [band] if band.free) {
                continue;
            }
            compared += 1;
            let mut weighing = Weighing::default();
            weighing.take_in(&Stripe::of(&state), &costs, &bands);
            weighing.choose(&mut bands, &several, costs.parity_member());
            assert_eq!(bands_by(&one, &costs, &state), bands);
        }
        assert!(compared > 1000, "{compared}");
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

    /// RMW waits for one read and one write, even if another member is slow. RCW waits for a read of the
    /// slower member and for a write.
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

    /// The members' costs by column, and the member that has the stripe's parity.
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

    /// RCW reads two disks at which the same requests wait. RMW reads one of them, and parity. The time taken
    /// from other requests does not double with the disks.
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

    /// One row has three dirty blocks, and fifteen rows have two. If each is chosen by itself, as by
    /// modthresh, they read from all members. That is why `modified` is ahead of it just past 128 KiB
    /// (raid4s-modthresh 4.1).
    #[test]
    fn the_rows_of_a_stripe_are_looked_at_together() {
        let raid4s = [hdd(2.0), hdd(2.0), hdd(2.0), hdd(2.0), MemberCost::SSD];
        let [(1, first), (15, second)] = cycles(&raid4s, 0, 132)[..] else { panic!("two bands") };
        assert_eq!(first, second);
    }
}
