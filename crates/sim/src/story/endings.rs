//! How some stories end: past the level's tolerance, with the operator's commands after that, or with two
//! halves that each ran alone. An ending begins with a whole array, and nothing comes after it.

use fastrand::Rng;

use super::{Story, Unit};
use crate::check::Violation;

/// How a story ends, after its last life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Without a special ending.
    Plain,
    /// More members are lost than the level tolerates, and come back.
    Beyond,
    /// Two halves run apart.
    Split,
    /// More blocks of some rows cannot be read than redundancy makes up for.
    Lost,
    /// Too few current members are left, and a stale one is taken by force.
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
        // A cache takes what is written to lost rows, and then every flush fails, before a power failure and at a stop.
        self.may_cache = ending != Ending::Lost;
        self.say(|_| format!("ending: {ending:?}"));
        match ending {
            Ending::Plain => self.disagree(),
            Ending::Beyond => self.go_beyond(),
            Ending::Split => self.split(),
            Ending::Lost => self.lose_rows(),
            Ending::Stale => self.take_stale(),
        }
    }

    /// Opens the array, and brings it back to full redundancy. False: that is not possible.
    pub(super) fn is_made_whole(&mut self) -> Result<bool, Violation> {
        if self.array.is_none() {
            self.open()?;
        }
        self.settle()?;
        Ok(self.was_whole && self.losses() == 0 && self.units.iter().all(Unit::is_sound))
    }
}
