//! The commands that wait for the mechanism, and which of them goes next.

use super::mechanism::{Mechanism, Moment, Target};

/// How much of a command's age counts against its positioning time: 1/32. Shortest positioning time first
/// alone lets far requests starve (Jacobson and Wilkes 1991 weigh age for that). No access takes longer than
/// about 30 ms to reach, so after 32 * 30 ms a command goes before every new one.
const AGE_SHIFT: u32 = 5;

/// A command that needs the medium.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    pub(super) id: u64,
    pub(super) target: Target,
    pub(super) arrived: u64,
    /// When the firmware is through with its arrival.
    pub(super) ready: u64,
}

/// Commands in no order.
#[derive(Default)]
pub(super) struct Queue(Vec<Command>);

/// A choice and its price: positioning time less the credit for age, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<T> {
    pub(super) what: T,
    pub(super) price_ns: i64,
}

impl Queue {
    pub(super) fn push(&mut self, command: Command) {
        self.0.push(command);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, index: usize) -> Command {
        self.0.swap_remove(index)
    }

    /// The cheapest of the commands that are ready.
    pub(super) fn cheapest(&self, mechanism: &Mechanism, moment: &Moment) -> Option<Choice<usize>> {
        let ready = self.0.iter().enumerate().filter(|(_, command)| command.ready <= moment.now);
        least(
            ready.map(|(index, command)| {
                (index, price_ns(mechanism, moment, &command.target, command.arrived))
            }),
        )
    }

    /// When the next command becomes ready.
    pub(super) fn next_ready(&self) -> Option<u64> {
        self.0.iter().map(|command| command.ready).min()
    }

    /// Takes out every read that `served` finds to need the medium no longer; `served` may shorten the
    /// others.
    pub(super) fn serve_reads(&mut self, mut served: impl FnMut(&mut Command) -> bool) {
        self.0.retain_mut(|command| command.target.write || !served(command));
    }
}

/// Tells the places in a queue apart.
const PLACE_BITS: u32 = 16;
/// The most commands that a drive may have.
pub(super) const QUEUE_DEPTH_MAX: usize = 1 << PLACE_BITS;

/// The cheapest of some choices, by their places. The price goes to the upper bits of a number, the place to
/// the lower: the least number is found without branches, which nobody could foresee.
#[inline(always)]
pub(super) fn least(priced: impl Iterator<Item = (usize, i64)>) -> Option<Choice<usize>> {
    let least = priced.map(|(place, price_ns)| price_ns << PLACE_BITS | place as i64).min()?;
    Some(Choice { what: (least & ((1 << PLACE_BITS) - 1)) as usize, price_ns: least >> PLACE_BITS })
}

/// What going to a target costs. Inlined, as [`Mechanism::reach`].
#[inline(always)]
pub(super) fn price_ns(mechanism: &Mechanism, moment: &Moment, target: &Target, since: u64) -> i64 {
    let reach = mechanism.reach(moment, target) as i64 - moment.now as i64;
    let age = moment.now.saturating_sub(since) >> AGE_SHIFT;
    reach - age as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_the_first_of_the_cheapest_whatever_the_sign() {
        let of =
            |prices: &[i64]| least(prices.iter().copied().enumerate()).map(|best| (best.what, best.price_ns));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7, 3, 5, 3]), Some((1, 3)));
        assert_eq!(of(&[0, -1, -9_000_000_000, 4, -9_000_000_000]), Some((2, -9_000_000_000)));
        let last = QUEUE_DEPTH_MAX - 1;
        assert_eq!(least([(0, 1), (last, -1)].into_iter()).map(|best| best.what), Some(last));
    }
}
