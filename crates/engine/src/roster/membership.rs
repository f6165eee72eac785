//! What requests see of the roster.

use std::sync::{Arc, atomic::Ordering};

use stripewise_device::sync::{Reader, Seen};

use super::{Limit, Roster};
use crate::{error::ArrayError, intent::Holder, members::topology::Topology, metadata::ledger::FailedMember};

/// Shows requests which members there are now, and lets them report failed members.
pub(crate) struct Membership(Arc<Roster>);

impl Membership {
    pub(crate) fn of(roster: Arc<Roster>) -> Self {
        Self(roster)
    }

    /// The members, for as long as the request is under way.
    #[inline]
    pub(crate) fn get<'r>(&'r self, request: &'r Reader<'_>) -> Seen<'r, Topology> {
        self.0.topology.get(request)
    }

    /// The members now, for a caller that keeps them.
    pub(crate) fn load(&self) -> Arc<Topology> {
        self.0.topology.load()
    }

    /// Looks at the members that are there now.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Topology) -> T) -> T {
        self.0.topology.look(at)
    }

    /// Whether the cost of members' I/O is measured.
    #[inline]
    pub(crate) fn is_metered(&self) -> bool {
        self.0.metered.load(Ordering::Relaxed)
    }

    /// Drops members from the array. This completes even if the caller goes away.
    ///
    /// # Errors
    /// [`ArrayError::Failed`] when the level does not tolerate it.
    pub(crate) async fn fail_all(&self, failed: Vec<FailedMember>) -> Result<(), ArrayError> {
        self.0.fail_within(failed, Limit::GiveUp).await
    }

    /// As [`Membership::fail_all`], unless the array cannot do without them: then they stay.
    pub(crate) async fn fail_if_possible(&self, failed: Vec<FailedMember>) {
        let _ = self.0.fail_within(failed, Limit::Refuse).await;
    }

    /// Records that members may disagree, or that they do not.
    pub(crate) async fn record_clean(&self, clean: bool) -> Result<(), ArrayError> {
        self.0.record(|ledger| ledger.clean = clean).await
    }

    /// The members that hold copies of the bitmap now.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        self.0.holders()
    }

    /// Writes the metadata of all members anew.
    ///
    /// # Errors
    /// [`ArrayError::Failed`] when more members cannot take it than the level tolerates.
    pub(crate) async fn write_down(&self) -> Result<(), ArrayError> {
        self.0.record(|_| ()).await
    }
}
