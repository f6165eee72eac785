//! The end of a write: members are asked for their parts, and those that fail are dropped before anything is acknowledged.

use std::sync::Arc;

use smallvec::SmallVec;
use stripewise_device::{IoError, WriteFlags};

use super::{
    Shared,
    wait::{Requested, failures, wait_all},
};
use crate::{
    compute::Extents,
    error::ArrayError,
    geometry::StripeIndex,
    meter::IoClass,
    mutants::{Mutant, lives},
    stats::Cause,
    topology::{Member, Topology},
};

/// Writes under way, and to whom.
#[derive(Default)]
pub(super) struct Writes<'t> {
    pub(super) requested: Requested<Result<(), IoError>>,
    pub(super) members: SmallVec<[&'t Arc<Member>; 8]>,
}

/// How extents are to be written.
pub(super) struct How<'a> {
    pub(super) flags: WriteFlags,
    /// Whether a column's chunk has just been read.
    pub(super) after_read: &'a (dyn Fn(usize) -> bool + Sync),
    /// For whom that is.
    pub(super) cause: Cause,
}

impl Shared {
    /// Writes what a job has mended, all extents at once, where it has just read; fails the members that could not take
    /// theirs, and waits until what the write relied on is recorded.
    pub(crate) async fn write_out(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        mut extents: Extents,
    ) -> Result<(), ArrayError> {
        let how = How { flags: WriteFlags::default(), after_read: &|_| true, cause: Cause::Job };
        let mut writes = Writes::default();
        self.request_writes(topology, stripe, &mut extents, how, &mut writes);
        let Writes { mut requested, members } = writes;
        self.end_writes(topology, members.into_iter(), &mut requested).await
    }

    /// Asks for all writes at once.
    pub(super) fn request_writes<'t>(
        &self,
        topology: &'t Topology,
        stripe: StripeIndex,
        extents: &mut Extents,
        how: How<'_>,
        writes: &mut Writes<'t>,
    ) {
        let How { flags, after_read, cause } = how;
        let flags = if lives(Mutant::AcknowledgeBeforeFua) { WriteFlags::default() } else { flags };
        let start = self.geometry.chunk_start(stripe);
        for extent in extents.drain(..) {
            let reader =
                topology.reader(&self.geometry, stripe, extent.column).filter(|_| after_read(extent.column));
            let offset = start + extent.start as u64;
            let mut bufs = extent.bufs;
            let mut writers = topology.writers(&self.geometry, stripe, extent.column).peekable();
            while let Some(member) = writers.next() {
                let was_read = reader.is_some_and(|reader| Arc::ptr_eq(reader, member));
                let class = if was_read { IoClass::Rewrite } else { IoClass::Write };
                let is_last = writers.peek().is_none();
                let own = if is_last { std::mem::take(&mut bufs) } else { bufs.clone() };
                writes.requested.push(member.write_as(class, cause, offset, own, flags));
                writes.members.push(member);
                if lives(Mutant::RepairPassesIncoming) && matches!(cause, Cause::Job) {
                    break;
                }
            }
        }
    }

    /// Waits for writes, and settles what came of them.
    pub(super) async fn end_writes(
        &self,
        topology: &Topology,
        members: impl Iterator<Item = &Arc<Member>>,
        requested: &mut Requested<Result<(), IoError>>,
    ) -> Result<(), ArrayError> {
        wait_all(requested, self.is_metered()).await;
        self.settle(topology, failures(members, requested)).await
    }

    /// After writes: members that failed are dropped from the array, durably, before anything is acknowledged.
    pub(crate) async fn settle(
        &self,
        topology: &Topology,
        failed: Vec<(Arc<Member>, IoError)>,
    ) -> Result<(), ArrayError> {
        if !failed.is_empty() {
            // In a box, as the wait below: rarely wanted, and room in every write.
            Box::pin(self.fail_all(failed)).await?;
        }
        loop {
            if let Some(result) = topology.recorded.acknowledgement(|| self.topology.look(|now| now.failed)) {
                return result;
            }
            Box::pin(topology.recorded.wait()).await;
        }
    }
}
