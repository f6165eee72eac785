//! Write selection: RMW or RCW for a row where both are possible. One policy is one type behind one trait.

use super::{Cycle, StripeState};
use crate::rows::RowSet;

/// What a policy may look at.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// Reads that an RMW needs: dirty data cells and parity cells not in hand.
    pub rmw: u32,
    /// Reads that an RCW needs: data cells neither wholly dirty nor clean.
    pub rcw: u32,
    /// The rows this choice is for.
    pub rows: RowSet,
    /// The whole stripe's state.
    pub state: &'a StripeState,
}

/// Chooses between [`Cycle::Rmw`] and [`Cycle::Rcw`].
pub trait WriteSelection: Send + Sync {
    /// The policy's name, as `create` and `explain` take and print it.
    fn name(&self) -> &'static str;

    /// Whether to read-modify-write (else: reconstruct-write).
    fn prefers_rmw(&self, choice: &Choice<'_>) -> bool;

    /// The cycle chosen.
    fn choose(&self, choice: &Choice<'_>) -> Cycle {
        if self.prefers_rmw(choice) { Cycle::Rmw } else { Cycle::Rcw }
    }
}

/// md's rule: RMW when it reads fewer blocks (`handle_stripe_dirtying`; raid4s-modthresh 2.2.2; equivalent to
/// msc-ct II-A, RMW iff 2(1+d) < N - c).
#[derive(Debug, Clone, Copy, Default)]
pub struct Classic;

impl WriteSelection for Classic {
    fn name(&self) -> &'static str {
        "classic"
    }

    fn prefers_rmw(&self, choice: &Choice<'_>) -> bool {
        choice.rmw < choice.rcw
    }
}
