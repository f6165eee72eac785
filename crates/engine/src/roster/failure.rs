//! Members that fail. They are dropped from the array at once, and that is recorded on the survivors before
//! anything is acknowledged.

use std::{collections::BTreeSet, sync::Arc};

use super::{Limit, Roster};
use crate::{
    error::ArrayError,
    life::detached::Detached,
    members::{member::Member, topology::Recorded},
    metadata::ledger::FailedMember,
    mutants::{Mutant, lives},
};

impl Roster {
    /// Drops members from the array. This completes even if the caller goes away.
    ///
    /// # Errors
    /// [`ArrayError::Failed`] when the level does not tolerate it: then nothing is recorded, so that an
    /// operator can still bring the members back together.
    pub(crate) async fn fail_all(&self, failed: Vec<FailedMember>) -> Result<(), ArrayError> {
        self.fail_within(failed, Limit::GiveUp).await
    }

    /// As [`Roster::fail_all`], with a choice of what happens beyond the level's tolerance.
    pub(crate) async fn fail_within(
        &self,
        failed: Vec<FailedMember>,
        limit: Limit,
    ) -> Result<(), ArrayError> {
        let Some(roster) = self.me.upgrade() else { return Err(ArrayError::Closed) };
        let drop_them = async move {
            let _working = roster.life.work();
            roster.fail_now(failed, limit).await
        };
        Detached::start(self.life.env(), drop_them).await
    }

    async fn fail_now(&self, mut failed: Vec<FailedMember>, limit: Limit) -> Result<(), ArrayError> {
        let mut ledger = self.ledger.lock().await;
        if self.topology.load().failed {
            if limit == Limit::GiveUp {
                self.note_lost(failed.iter().map(|(member, _)| member));
            }
            return Err(ArrayError::Failed);
        }
        // A member may fail while the array is being opened, before all others are level.
        if self.records() && !lives(Mutant::FailedBeforeCatchUp) {
            let unwritable = ledger.write_behind(&failed, self.life.env().wall_clock_us()).await;
            failed.extend(unwritable);
        }
        let recorded = Recorded::pending();
        let result = match self.drop_members(&mut ledger, failed, &recorded, limit) {
            Ok(true) if self.records() && !lives(Mutant::FailureNotRecorded) => {
                self.write_down(&mut ledger, &recorded).await
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        recorded.set();
        result
    }

    /// Notes members that a failed array has lost.
    pub(super) fn note_lost<'a>(&self, members: impl Iterator<Item = &'a Arc<Member>>) {
        self.lost.lock().extend(members.map(|member| member.dev_number));
    }

    /// The numbers of the members that the array could not do without and has lost.
    pub(crate) fn lost(&self) -> BTreeSet<u32> {
        self.lost.lock().clone()
    }

    /// Whether failures are recorded.
    fn records(&self) -> bool {
        !self.life.is_read_only() || lives(Mutant::ReadOnlyRecords)
    }
}
