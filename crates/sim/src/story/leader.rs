//! A power failure leaves a member one event ahead of the others, and just that one is absent at the next
//! opening: when it comes back it must not count.

use std::collections::BTreeSet;

use super::Story;
use crate::check::Violation;

/// One possible opening in so many is without the members that are ahead.
const ONE_IN: u8 = 2;

impl Story {
    /// Opens the array without the members that are ahead, writes, and cuts power; then they are back. Does
    /// nothing if no member is ahead that may be absent.
    pub(super) fn leave_out_leaders(&mut self) -> Result<(), Violation> {
        let leaders = self.leaders();
        // If two halves can each run, two sets that count each other as failed are a split, as far as an
        // opening can tell.
        let may_split = 2 * (self.shape.members - self.shape.tolerance()) <= self.shape.members;
        let may_leave =
            !may_split && !leaders.is_empty() && self.losses() + leaders.len() <= self.shape.tolerance();
        if !may_leave || self.is_foreign || self.side_rng.u8(..ONE_IN) != 0 {
            return Ok(());
        }
        for unit in &leaders {
            if self.take_victim(*unit).is_none() {
                return Ok(());
            }
        }
        self.say(|story| {
            let names: Vec<&str> = leaders.iter().map(|unit| story.units[*unit].name()).collect();
            format!("{} is an event ahead, and absent", names.join(", "))
        });
        leaders.iter().for_each(|unit| self.units[*unit].faults.set_gone(true));
        self.open_until_it_serves()?;
        self.array().pause_jobs();
        self.write_durably()?;
        self.lose_power()?;
        leaders.iter().for_each(|unit| self.units[*unit].faults.set_gone(false));
        self.note_hole();
        Ok(())
    }

    /// Members in sync whose superblock is newer than that of others.
    fn leaders(&mut self) -> BTreeSet<usize> {
        let leaders = self.with_image(|image, units| {
            let newest = image.freshest().events;
            let serving = image.in_sync().into_iter().flatten();
            let is_newest = |unit: &usize| image.superblock(*unit).is_some_and(|own| own.events == newest);
            let (ahead, behind): (BTreeSet<usize>, BTreeSet<usize>) = serving.partition(is_newest);
            let are_there = ahead.iter().chain(&behind).all(|unit| units[*unit].stays());
            if behind.is_empty() || !are_there { BTreeSet::new() } else { ahead }
        });
        leaders.unwrap_or_default()
    }
}
