//! Flush: everything acknowledged before becomes durable.

use smallvec::SmallVec;

use super::{Array, Shared, detached::Detached};
use crate::{
    error::ArrayError,
    mutants::{Mutant, lives},
};

impl Array {
    /// Makes every write acknowledged before this call durable.
    ///
    /// # Errors
    /// [`ArrayError::Failed`] when so many members cannot flush that data may be lost.
    pub fn flush(&self) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        let shared = self.shared.clone();
        Detached::start(self.env(), async move { shared.flush_request().await })
    }
}

impl Shared {
    /// Serves a flush request.
    pub(crate) async fn flush_request(&self) -> Result<(), ArrayError> {
        let _request = self.requests.enter();
        self.check_request(0, 0)?;
        self.stats.count_flush();
        self.flush().await
    }

    /// Flushes all members; one that cannot is dropped.
    pub(crate) async fn flush(&self) -> Result<(), ArrayError> {
        let topology = self.topology.load();
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
}
