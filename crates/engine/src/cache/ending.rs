//! How the cache learns what became of a write that it lent blocks to, or that passes it by.

use std::sync::Arc;

use super::Cache;
use crate::{
    compute::CachedCells,
    mutants::{Mutant, lives},
    shape::geometry::StripeIndex,
};

/// What ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// CachedCells are destaged. `epoch` is that of the moment when they were lent.
    Destage { epoch: u64 },
    /// A whole stripe is written or zeroed past the cache.
    Pass,
}

/// Tells the cache how a write ended, when it is dropped: while the rows are still locked. A write that did not
/// [succeed](Ending::succeed) has failed.
pub(crate) struct Ending {
    pub(super) cache: Arc<Cache>,
    pub(super) stripe: StripeIndex,
    /// The dirty cells when it began. They are kept, so that no address of a block is used again.
    pub(super) cells: Arc<CachedCells>,
    pub(super) of: Of,
    pub(super) has_succeeded: bool,
}

impl Ending {
    /// All was written.
    pub(crate) fn succeed(&mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        match self.of {
            Of::Destage { epoch } => {
                if self.has_succeeded || lives(Mutant::CleanOnError) {
                    self.cache.destaged(self.stripe, &self.cells, epoch);
                }
            }
            Of::Pass => self.cache.passed(self.stripe, &self.cells, self.has_succeeded),
        }
        // Its blocks first, so that a writer that waits for memory finds them free.
        self.cells = Arc::default();
        self.cache.tell_waiting();
    }
}
