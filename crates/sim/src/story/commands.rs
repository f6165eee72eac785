//! An operator's commands in calm times, each awaited; and the array's report afterwards.

use stripewise_device::Device;
use stripewise_engine::{ArrayError, ArrayReport, MemberState};

use super::{Story, operator::SPARE_UNITS_MAX};
use crate::check::{Checker, Violation};

impl Story {
    /// The array's report.
    pub(super) fn report(&self) -> Result<ArrayReport, Violation> {
        let array = self.array().clone();
        self.finish(async move { array.report().await }, "a report")
    }

    /// A unit's state in the array. None: it is not attached.
    pub(super) fn state_of(&self, unit: usize) -> Result<Option<MemberState>, Violation> {
        let (report, name) = (self.report()?, self.units[unit].name());
        Ok(report.members.iter().find(|member| member.name == name).map(|member| member.state))
    }

    /// Adds a failed or unattached unit as a new one.
    pub(super) fn add_again(&mut self, unit: usize) -> Result<(), Violation> {
        self.units[unit].renew(&self.shape);
        let (array, device) = (self.array().clone(), self.units[unit].device.clone());
        let name = self.units[unit].name().to_owned();
        self.say(|_| format!("{name} is added again"));
        let add = async move {
            // A failed member is attached until it is removed.
            let _ = array.remove(&name).await;
            array.add(device).await
        };
        let added = self.finish(add, "adding")?;
        added.map_err(|error| Checker::Service.violation(format!("adding a device again: {error}")))
    }

    /// Adds a spare: an idle unit, or a new one. None: there are enough.
    pub(super) fn spare_unit(&mut self) -> Result<Option<usize>, Violation> {
        let block_bytes = self.array().geometry().logical_block_bytes();
        let fits = |unit: &usize| self.units[*unit].device.info().logical_block_bytes <= block_bytes;
        if let Some(idle) = self.idle_units().into_iter().find(fits) {
            return self.add_again(idle).map(|()| Some(idle));
        }
        if self.units.len() >= self.shape.members + SPARE_UNITS_MAX {
            return Ok(None);
        }
        self.add_new_unit()?;
        Ok(Some(self.units.len() - 1))
    }

    /// Asks that a unit take another one's place.
    pub(super) fn replace_with(
        &mut self,
        old: usize,
        new: usize,
    ) -> Result<Result<(), ArrayError>, Violation> {
        let (from, to) = (self.units[old].name().to_owned(), self.units[new].name().to_owned());
        self.say(|_| format!("{from} is to be replaced with {to}"));
        let array = self.array().clone();
        self.finish(async move { array.replace(&from, &to).await }, "replacing a member")
    }

    /// Begins to replace a serving member with a spare.
    pub(super) fn begin_replacing(&mut self, old: usize, new: usize) -> Result<(), Violation> {
        let begun = self.replace_with(old, new)?;
        begun.map_err(|error| Checker::Service.violation(format!("replacing a member: {error}")))
    }

    /// Jobs end, no member is missing, and everything is as it must be.
    pub(super) fn expect_whole(&mut self, why: &str) -> Result<(), Violation> {
        let report = self.wait_for_jobs()?;
        if report.degraded() > 0 {
            let states: Vec<_> =
                report.members.iter().map(|m| format!("{} {}", m.name, m.state.name())).collect();
            let what = format!("{why}, and the array is degraded still: {}", states.join(", "));
            return Err(Checker::Service.violation(what));
        }
        self.check_content()?;
        self.check_redundancy()
    }
}
