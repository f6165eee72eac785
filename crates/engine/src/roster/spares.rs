//! Spares that take a role: a vacant one, or that of a member that they replace.

use std::sync::Arc;

use super::{Roster, problem};
use crate::{
    error::ArrayError,
    members::{
        member::Member,
        topology::{Incoming, Place, SlotState, Topology},
    },
    metadata::ledger::{Ledger, Standing},
    mutants::{Mutant, lives},
    shape::geometry::{Level, MemberIndex, StripeIndex},
};

/// Where a resync is due, members that are being filled may differ from the others: they are filled again
/// from there.
pub(crate) fn hold_back(topology: &mut Topology, ledger: &mut Ledger, first_stale: StripeIndex) {
    let done_sectors = topology.geometry.sectors_before(first_stale);
    for (index, slot) in topology.slots.iter_mut().enumerate() {
        if let Some(incoming) =
            slot.incoming.clone().filter(|incoming| incoming.done_stripes() > first_stale.0)
        {
            let standing = Standing::Incoming { slot: MemberIndex(index), done_sectors };
            ledger.set_standing(&incoming.member, standing);
            slot.incoming = Some(Incoming::new(incoming.member.clone(), first_stale.0));
        }
    }
}

impl Roster {
    /// As [`hold_back`], of an open array.
    pub(crate) async fn hold_back(&self, first_stale: StripeIndex) -> Result<(), ArrayError> {
        if !self.topology().is_filled_at(first_stale) || lives(Mutant::FilledNotCompared) {
            return Ok(());
        }
        self.change_state(|ledger, topology| {
            let mut next = topology.clone();
            hold_back(&mut next, ledger, first_stale);
            Ok(Some(next))
        })
        .await
    }

    /// Begins to fill a spare that will replace a living member.
    pub(crate) async fn begin_replacing(&self, name: &str, with: &str) -> Result<(), ArrayError> {
        // Nothing would tell where a crash left the new member different from the old one.
        if self.topology().geometry.level() == Level::Raid0 {
            let what =
                "a member of level 0 is not replaced while the array runs: stop it, and copy the member";
            return Err(ArrayError::Unsupported(what.into()));
        }
        let (old, new) = (self.find(name).await?, self.find(with).await?);
        if lives(Mutant::ReplaceRefused) {
            return Err(problem(name, "it cannot be replaced"));
        }
        let place = self.topology.load().place_of(&old);
        let Some(Place::Primary(slot)) = place else {
            return Err(problem(name, "it is not an active member"));
        };
        self.begin_filling(slot, &new, Some(&old)).await
    }

    /// Makes a spare the incoming member of a slot. If `replaced` is given, that member must still be in the
    /// slot.
    async fn begin_filling(
        &self,
        slot: MemberIndex,
        member: &Arc<Member>,
        replaced: Option<&Arc<Member>>,
    ) -> Result<(), ArrayError> {
        self.change_state(|ledger, topology| {
            // Another member may have taken its place while this change waited for its turn.
            let has_left = |old: &&Arc<Member>| topology.place_of(old) != Some(Place::Primary(slot));
            if let Some(old) = replaced.filter(has_left) {
                return Err(problem(old.name(), "it is not an active member"));
            }
            let is_spare = ledger.entry_mut(member).is_some_and(|entry| entry.standing == Standing::Spare);
            let is_filled = topology.slots[slot.0].incoming.is_some() && !lives(Mutant::RoleGivenTwice);
            if !is_spare || is_filled {
                let what = "it is not a spare, or the role is being filled already";
                return Err(problem(member.name(), what));
            }
            ledger.set_standing(member, Standing::Incoming { slot, done_sectors: 0 });
            let mut next = topology.clone();
            next.slots[slot.0].incoming = Some(Incoming::new(member.clone(), 0));
            Ok(Some(next))
        })
        .await
    }

    /// Gives vacant roles to spares.
    pub(crate) async fn take_up_spares(&self) {
        loop {
            let next = self.next_spare(&*self.ledger.lock().await);
            let Some((slot, spare)) = next else { return };
            if let Err(error) = self.begin_filling(slot, &spare, None).await {
                tracing::warn!(%error, "a spare could not be taken up");
                return;
            }
        }
    }

    /// Whether a spare can take a vacant role. False while the state is changing: another look follows then.
    pub(crate) fn has_spare_for_role(&self) -> bool {
        self.ledger.try_lock().is_some_and(|ledger| self.next_spare(&ledger).is_some())
    }

    /// A vacant role, and a spare that can take it.
    fn next_spare(&self, ledger: &Ledger) -> Option<(MemberIndex, Arc<Member>)> {
        let is_vacant = |slot: &SlotState| slot.primary.is_none() && slot.incoming.is_none();
        let vacant = self.topology.load().slots.iter().position(is_vacant)?;
        let entry = ledger.entries.iter().find(|entry| entry.standing == Standing::Spare)?;
        Some((MemberIndex(vacant), entry.member.clone()))
    }
}
