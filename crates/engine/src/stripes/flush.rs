//! Flush: everything acknowledged before becomes durable, and can be read after a crash.
//!
//! Sectors that a member's bad-block log lists are not read at the next opening. So a flush or a write with
//! FUA also takes off the logs the sectors that were written since they were listed. It does so before it is
//! acknowledged, not with the next round of housekeeping.

use smallvec::SmallVec;
use stripewise_device::WriteFlags;

use super::Stripes;
use crate::{
    cache::DestageReason,
    error::ArrayError,
    mutants::{Mutant, lives},
};

impl Stripes {
    /// Serves a flush request.
    pub(crate) async fn flush_request(&self) -> Result<(), ArrayError> {
        let _request = self.requests.enter();
        self.check_request(&self.geometry(), 0, 0)?;
        self.stats.count_flush();
        if self.cache.look(Option::is_some) {
            Box::pin(self.destage_written(DestageReason::Flush)).await?;
        }
        if self.logs_are_behind() && !lives(Mutant::ListedAfterFlush) {
            return Box::pin(self.flush_and_unlist()).await;
        }
        self.flush().await
    }

    /// Flushes all members. A member that cannot flush is dropped.
    pub(crate) async fn flush(&self) -> Result<(), ArrayError> {
        let topology = self.members.load();
        if topology.failed {
            return Err(ArrayError::Failed);
        }
        let flushed = topology.members().skip(usize::from(lives(Mutant::FlushSkipsMember)));
        let flushes: SmallVec<[_; 8]> = flushed.map(|member| (member, member.device.flush())).collect();
        let mut failed = Vec::new();
        for (member, flush) in flushes {
            if let Err(error) = flush.await {
                failed.push((member.clone(), error));
            }
        }
        self.settle(&topology, failed).await
    }

    /// Whether a member's log may list sectors that were written since they were listed.
    pub(crate) fn logs_are_behind(&self) -> bool {
        self.members.look(|topology| topology.members().any(|member| member.bad_blocks.are_behind()))
    }

    /// Flushes all members, and takes off their logs the sectors that were written before the flush.
    pub(crate) async fn flush_and_unlist(&self) -> Result<(), ArrayError> {
        let _one_at_a_time = self.unlisting.lock().await;
        let topology = self.members.load();
        let written: Vec<_> = topology
            .members()
            .map(|member| (member.clone(), member.bad_blocks.written_since()))
            .filter(|(_, written)| !written.is_empty())
            .collect();
        if written.is_empty() || !lives(Mutant::UnlistedBeforeFlush) {
            self.flush().await?;
        }
        if written.is_empty() {
            return Ok(());
        }
        written.iter().for_each(|(member, written)| member.bad_blocks.settle(written));
        self.members.write_down().await?;
        written.iter().for_each(|(member, _)| member.bad_blocks.settled());
        Ok(())
    }

    /// Whether a write must not be acknowledged yet: it must be durable, and a log may list sectors that it
    /// has written.
    pub(super) fn must_unlist(&self, flags: WriteFlags) -> bool {
        flags.fua && self.logs_are_behind() && !lives(Mutant::ListedAfterFua)
    }

    /// The outcome of a write. If the write must be durable, this first waits until its data can be read
    /// after a crash.
    pub(super) async fn as_durable(
        &self,
        flags: WriteFlags,
        written: Result<(), ArrayError>,
    ) -> Result<(), ArrayError> {
        if written.is_err() || !self.must_unlist(flags) {
            return written;
        }
        Box::pin(self.flush_and_unlist()).await
    }
}
