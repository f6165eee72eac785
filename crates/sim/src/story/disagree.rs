//! Members that describe different arrays: the array that most of them describe counts; on a tie, no device
//! decides.

use stripewise_engine::{AssembleError, geometry::Level};

use super::Story;
use crate::check::{Checker, Violation, superblock::Rewrite};

impl Story {
    /// Makes some members of a stopped array describe another one.
    pub(super) fn disagree(&mut self) -> Result<(), Violation> {
        if self.rng.bool() || !self.is_made_whole()? {
            return Ok(());
        }
        let mut serving = self.units_by_role();
        self.stop()?;
        self.rng.shuffle(&mut serving);
        let half = serving.len() / 2;
        // An even number of them: an odd number has a majority.
        serving.truncate(2 * half);
        let is_chunk = self.shape.level != Level::Raid1 && self.rng.bool();
        for unit in serving[..half].iter().copied() {
            self.rewrite_superblock(unit, |block| match is_chunk {
                true => Rewrite::with_longer_chunks(block),
                false => block.made_later(1),
            });
        }
        self.say(|_| format!("{half} members say otherwise, and {half} do not"));
        self.expect_undecided(&serving)
    }

    /// Nothing is opened, in whatever order the devices are given.
    fn expect_undecided(&mut self, given: &[usize]) -> Result<(), Violation> {
        for _ in 0..2 {
            let force = self.rng.bool();
            let opening = self.start_opening(force, |unit| given.contains(&unit));
            match self.wait_for(opening, "assembling members that disagree")? {
                Err(AssembleError::Disagree { .. }) => {}
                Err(error) => {
                    let what = format!("members disagree, half against half, and are not called so: {error}");
                    return Err(Checker::Service.violation(what));
                }
                Ok(_) => {
                    let what = "members disagree, half against half, and the array is open";
                    return Err(Checker::Currency.violation(what));
                }
            }
        }
        Ok(())
    }
}
