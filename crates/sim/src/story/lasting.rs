//! An operator's command on a member outlasts a power failure right after the command: a removed spare stays
//! away, and facts given about a member are kept.

use stripewise_engine::{MemberReport, MemberState};

use super::Story;
use crate::check::{Checker, Violation};

impl Story {
    /// A spare is removed, and is not a spare when the array is opened with it.
    pub(super) fn remove_a_spare(&mut self) -> Result<(), Violation> {
        let Some(spare) = self.spare_unit()? else { return Ok(()) };
        let name = self.units[spare].name().to_owned();
        self.wait_for_jobs()?;
        self.say(|_| format!("{name}, a spare, is removed"));
        let removed = self.remove_calmly(spare)?;
        removed.map_err(|error| Checker::Service.violation(format!("removing a spare: {error}")))?;
        self.open_anew()?;
        let state = self.state_of(spare)?.filter(|state| *state != MemberState::Faulty);
        if let Some(state) = state {
            let what =
                format!("{name} was removed from the array, and is {} at the next opening", state.name());
            return Err(Checker::Currency.violation(what));
        }
        self.expect_whole("a spare was removed")
    }

    /// An operator sets a member's write rating, or its class; then power fails.
    pub(super) fn tell_of_a_member(&mut self) -> Result<(), Violation> {
        self.flush_all()?;
        let unit = self.any_serving();
        let mut said = self.report_of(unit)?;
        let (array, name) = (self.array().clone(), said.name.clone());
        let told = if self.side_rng.bool() {
            said.endurance.rated_write_bytes = self.side_rng.u64(1..1 << 40);
            said.endurance.warranty_margin_days = self.side_rng.u32(..1000);
            // The caller cannot set the start of the count.
            let mut endurance = said.endurance;
            endurance.written_since_s = 0;
            self.say(|_| format!("{name} may be written {} bytes", endurance.rated_write_bytes));
            self.finish(async move { array.set_endurance(&name, endurance).await }, "rating a member")?
        } else {
            said.class_given = true;
            let class = said.class;
            self.say(|_| format!("{name} is said to be {class:?}"));
            self.finish(async move { array.set_class(&name, class).await }, "classing a member")?
        };
        told.map_err(|error| Checker::Service.violation(format!("telling of a member: {error}")))?;
        self.lose_power()?;
        self.open_plainly()?;
        let kept = self.report_of(unit)?;
        if what_was_said(&kept) == what_was_said(&said) {
            return self.expect_whole("an operator told of a member");
        }
        let what = format!(
            "an operator said of {}: {}; after a power failure it keeps: {}",
            said.name,
            what_was_said(&said),
            what_was_said(&kept)
        );
        Err(Checker::Metadata.violation(what))
    }

    /// The array's report of an attached unit.
    pub(super) fn report_of(&self, unit: usize) -> Result<MemberReport, Violation> {
        let (report, name) = (self.report()?, self.units[unit].name());
        let member = report.members.into_iter().find(|member| member.name == name);
        member.ok_or_else(|| Checker::Service.violation(format!("{name} is not attached")))
    }
}

/// The facts that an operator can give about a member, in words.
fn what_was_said(member: &MemberReport) -> String {
    let endurance = &member.endurance;
    format!(
        "class {:?}, given: {}, rated for {} bytes, counted since {} s, warranty until {} s and {} days",
        member.class,
        member.class_given,
        endurance.rated_write_bytes,
        endurance.written_since_s,
        endurance.warranty_end_s,
        endurance.warranty_margin_days
    )
}
