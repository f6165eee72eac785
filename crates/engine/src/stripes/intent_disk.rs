//! What the write-intent bitmap needs of the array.

use super::Stripes;
use crate::{
    intent::{Holder, IntentDisk},
    metadata::ledger::FailedMember,
};

impl IntentDisk for Stripes {
    fn has_failed(&self) -> bool {
        self.members.look(|topology| topology.failed)
    }

    async fn record_clean(&self, clean: bool) -> bool {
        self.members.record_clean(clean).await.is_ok()
    }

    fn holders(&self) -> Vec<Holder> {
        self.members.holders()
    }

    async fn fail_members(&self, failed: Vec<FailedMember>) -> bool {
        self.members.fail_all(failed).await.is_ok()
    }

    async fn flush_members(&self) -> bool {
        self.flush().await.is_ok()
    }
}
