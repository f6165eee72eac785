//! A moment of a history at which power fails, and the contents allowed afterwards.

use super::{life::Life, teller::DATA_OFFSET_BYTES};
use crate::{
    check::Sectors,
    member::Fate,
    outlook::{Known, Moment, mix},
};

/// A moment at which power fails.
pub(super) struct Point {
    pub(super) moment: Moment,
    /// The contents allowed afterwards.
    pub(super) sectors: Sectors,
    allowed: u64,
    lost: Option<usize>,
}

impl Point {
    pub(super) fn of(life: &mut Life) -> Self {
        let mut sectors = life.sectors.lock().clone();
        sectors.crash();
        Self { moment: life.outlook.moment(), allowed: sectors.digest(), sectors, lost: life.lost }
    }

    fn beginning(&self) -> u64 {
        mix(self.allowed, self.lost.map_or(0, |lost| lost as u64 + 1))
    }

    /// Equal for points with equal possible results.
    pub(super) fn digest(&self) -> u64 {
        mix(self.beginning(), self.moment.digest(DATA_OFFSET_BYTES))
    }

    /// Equal for equal states. The result of each member's fates is computed once.
    pub(super) fn state_digest(&self, life: &Life, fates: &[Fate], known: &mut Known) -> u64 {
        mix(self.beginning(), life.outlook.left_digest(&self.moment, fates, known))
    }
}
