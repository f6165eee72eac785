//! The end of a write: members that fail are dropped before anything is acknowledged.

use std::sync::Arc;

use stripewise_device::IoError;

use super::Stripes;
use crate::{
    error::ArrayError,
    members::{member::Member, topology::Topology},
};

impl Stripes {
    /// Ends writes: members that failed are dropped from the array, durably, before anything is acknowledged.
    pub(crate) async fn settle(
        &self,
        topology: &Topology,
        failed: Vec<(Arc<Member>, IoError)>,
    ) -> Result<(), ArrayError> {
        if !failed.is_empty() {
            // In a box, like the wait below: it is rarely needed, and would take room in every write.
            Box::pin(self.members.fail_all(failed)).await?;
        }
        loop {
            if let Some(result) = topology.recorded.acknowledgement(|| self.members.look(|now| now.failed)) {
                return result;
            }
            Box::pin(topology.recorded.wait()).await;
        }
    }
}
