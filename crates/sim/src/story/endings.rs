//! How some stories end: past what the level tolerates, with what an operator then does about it, or with two halves that each
//! went on alone. An ending begins with an array that is whole, and nothing comes after it.

use fastrand::Rng;

use super::{Story, Unit};
use crate::check::Violation;

/// How a story ends, after its last life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// As it is.
    Plain,
    /// More members are lost than the level tolerates, and come back.
    Beyond,
    /// Two halves go on apart.
    Split,
    /// Rows of which more cannot be read than redundancy makes up for.
    Lost,
    /// Too few members are left that are current, and one that is not is taken by force.
    Stale,
}

const ENDINGS: [Ending; 12] = [
    Ending::Beyond,
    Ending::Beyond,
    Ending::Beyond,
    Ending::Split,
    Ending::Lost,
    Ending::Lost,
    Ending::Lost,
    Ending::Stale,
    Ending::Stale,
    Ending::Plain,
    Ending::Plain,
    Ending::Plain,
];

impl Story {
    /// Ends the story.
    pub(super) fn end(&mut self) -> Result<(), Violation> {
        self.rng = Rng::with_seed(self.plan.seed.rotate_left(31) ^ 0x454e_4400);
        let ending = ENDINGS[self.rng.usize(..ENDINGS.len())];
        self.say(|_| format!("ending: {ending:?}"));
        match ending {
            Ending::Plain => self.disagree(),
            Ending::Beyond => self.go_beyond(),
            Ending::Split => self.split(),
            Ending::Lost => self.lose_rows(),
            Ending::Stale => self.take_stale(),
        }
    }

    /// Opens the array, and brings it back to full redundancy. False: that cannot be.
    pub(super) fn is_made_whole(&mut self) -> Result<bool, Violation> {
        if self.array.is_none() {
            self.open()?;
        }
        self.settle()?;
        Ok(self.was_whole && self.losses() == 0 && self.units.iter().all(Unit::is_sound))
    }
}
