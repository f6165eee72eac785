//! The one way by which the array's state changes.

use std::sync::{Arc, atomic::Ordering};

use super::{Limit, Roster};
use crate::{
    error::ArrayError,
    jobs::events::ArrayEvent,
    members::topology::{Place, Recorded, Topology},
    metadata::ledger::{FailedMember, Ledger, Standing},
    mutants::{Mutant, lives},
};

impl Roster {
    /// The one way by which the array's state changes. `change` alters ledger and topology under the ledger's
    /// lock. The result is written to all members, and members that cannot take it are dropped. Only then
    /// does a request acknowledge anything that relies on the change. Once the array has failed, nothing is
    /// changed or written.
    pub(crate) async fn change_state(
        &self,
        change: impl FnOnce(&mut Ledger, &Topology) -> Result<Option<Topology>, ArrayError>,
    ) -> Result<(), ArrayError> {
        self.change_state_then(change, |_| None).await
    }

    /// As [`Roster::change_state`], with a second topology that counts only once the change is on all
    /// remaining members. `then` makes it from the topology of that moment, in which a member may have failed
    /// meanwhile.
    pub(crate) async fn change_state_then(
        &self,
        change: impl FnOnce(&mut Ledger, &Topology) -> Result<Option<Topology>, ArrayError>,
        then: impl FnOnce(&Topology) -> Option<Topology>,
    ) -> Result<(), ArrayError> {
        if self.life.is_read_only() {
            return Err(ArrayError::ReadOnly);
        }
        let mut ledger = self.ledger.lock().await;
        let topology = self.topology.load();
        if topology.failed {
            return Err(ArrayError::Failed);
        }
        let recorded = Recorded::pending();
        if let Some(mut next) = change(&mut ledger, &topology)? {
            next.recorded = recorded.clone();
            self.put(next);
        }
        let result = self.write_down(&mut ledger, &recorded).await;
        if result.is_ok()
            && let Some(next) = then(&self.topology.load())
        {
            self.put(next);
        }
        recorded.set();
        result
    }

    /// Makes this the current topology.
    ///
    /// # Panics
    /// If data is missing although the array does not count as failed.
    fn put(&self, next: Topology) {
        assert!(
            next.failed || next.survives(),
            "an array that has lost more than its level tolerates has failed"
        );
        self.topology.store(Arc::new(next));
    }

    /// Changes the ledger alone, and writes it to all members.
    pub(crate) async fn record(&self, change: impl FnOnce(&mut Ledger)) -> Result<(), ArrayError> {
        self.change_state(|ledger, _| {
            change(ledger);
            Ok(None)
        })
        .await
    }

    /// Brings members that a crash left one event behind level with the others, before the event count is
    /// raised. Otherwise two crashes in a row would leave them two events behind, and stale.
    pub(crate) async fn catch_up(&self) -> Result<(), ArrayError> {
        if lives(Mutant::NoCatchUp) {
            return Ok(());
        }
        let mut ledger = self.ledger.lock().await;
        let failed = ledger.write_behind(&[], self.life.env().wall_clock_us()).await;
        self.drop_unwritable(&mut ledger, failed).await
    }

    /// Drops members that could not take their metadata, and records that on the others.
    pub(super) async fn drop_unwritable(
        &self,
        ledger: &mut Ledger,
        failed: Vec<FailedMember>,
    ) -> Result<(), ArrayError> {
        if failed.is_empty() {
            return Ok(());
        }
        let recorded = Recorded::pending();
        let result = match self.drop_members(ledger, failed, &recorded, Limit::GiveUp) {
            Ok(_) => self.write_down(ledger, &recorded).await,
            Err(error) => Err(error),
        };
        recorded.set();
        result
    }

    /// Writes the ledger to all members and drops those that cannot take it, until all remaining members have
    /// it.
    pub(super) async fn write_down(
        &self,
        ledger: &mut Ledger,
        recorded: &Recorded,
    ) -> Result<(), ArrayError> {
        loop {
            let failed = ledger.write_all(self.life.env().wall_clock_us()).await;
            if failed.is_empty() {
                return Ok(());
            }
            self.drop_members(ledger, failed, recorded, Limit::GiveUp)?;
        }
    }

    /// Takes members out of topology and ledger: all of them or, beyond the tolerance, none. False if there
    /// was nothing to do.
    pub(super) fn drop_members(
        &self,
        ledger: &mut Ledger,
        failed: Vec<FailedMember>,
        recorded: &Recorded,
        limit: Limit,
    ) -> Result<bool, ArrayError> {
        let mut next = (*self.topology.load()).clone();
        let mut dropped = Vec::new();
        for (member, error) in failed {
            let place = next.place_of(&member);
            let is_spare = ledger.entry_mut(&member).is_some_and(|entry| entry.standing == Standing::Spare);
            if place.is_none() && !is_spare {
                continue;
            }
            place.into_iter().for_each(|place| next.remove(place));
            dropped.push((member, place, error));
        }
        if dropped.is_empty() {
            return Ok(false);
        }
        let is_wrongly_lost =
            lives(Mutant::IncomingCountsAsLoss) && self.topology.load().spare() < dropped.len();
        if !next.survives() || is_wrongly_lost {
            if limit == Limit::GiveUp {
                dropped.iter().for_each(|(member, _, error)| {
                    tracing::warn!(member = member.name(), %error, "member failed, and the array cannot do without it");
                });
                self.note_lost(dropped.iter().map(|(member, ..)| member));
                self.give_up(recorded);
            }
            return Err(ArrayError::Failed);
        }
        next.recorded = recorded.clone();
        let mut events = Vec::with_capacity(dropped.len());
        for (member, place, error) in dropped {
            match limit {
                // An operator's order, and no error of the member.
                Limit::Ordered => tracing::info!(member = member.name(), "member declared failed"),
                Limit::Refuse | Limit::GiveUp => {
                    tracing::warn!(member = member.name(), %error, "member failed")
                }
            }
            ledger.set_standing(&member, Standing::Faulty);
            place.into_iter().for_each(|place| settle_slot(ledger, &next, place));
            let (member, role) = (member.name().to_owned(), place.map(Place::role));
            events.push(ArrayEvent::MemberFailed { member, role });
        }
        self.put(next);
        self.holders_changed.store(true, Ordering::Release);
        // A spare may take the vacant role.
        self.members_changed.store(true, Ordering::Release);
        events.iter().for_each(|event| self.tell(event));
        self.board.poke();
        Ok(true)
    }

    /// Marks the array as failed: it stays as it is on disk, and takes no more writes.
    fn give_up(&self, recorded: &Recorded) {
        tracing::error!("the array has lost more members than it tolerates: it stops writing");
        let mut next = (*self.topology.load()).clone();
        next.failed = true;
        next.recorded = recorded.clone();
        self.put(next);
        self.tell(&ArrayEvent::ArrayFailed);
    }
}

/// Makes the primary of a slot active after another member has left the slot: a member whose replacement
/// failed stays.
fn settle_slot(ledger: &mut Ledger, topology: &Topology, left: Place) {
    let index = left.role();
    let slot = &topology.slots[index.0];
    if let Some(primary) = &slot.primary
        && !lives(Mutant::ReplacedStaysFaulty)
    {
        ledger.set_standing(primary, Standing::Active(index));
    }
}
