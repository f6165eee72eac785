//! The tree of the last checkpoint, held for a look at it while the file system is in use.

use std::sync::{Arc, atomic::Ordering};

use futures_util::lock::OwnedMutexGuard;
use stripewise_format::rafs::{anchor::Anchor, superblock::Superblock};

use super::{Fs, FsError};
use crate::{store::Hold, volume::Volume};

/// What the last checkpoint has made durable. Until this is dropped, none of its nodes is overwritten, unless [space is
/// short](HeldTree::is_lost); an unmount waits for that.
pub(crate) struct HeldTree {
    pub(crate) volume: Arc<dyn Volume>,
    pub(crate) superblock: Superblock,
    /// The anchor, and at which of the two places it is.
    pub(crate) anchor: (usize, Anchor),
    fs: Fs,
    held: Arc<Hold>,
    _alone: OwnedMutexGuard<()>,
}

impl Fs {
    /// Makes a checkpoint, and holds its tree; in a mount for reading, that of the last one. None if another task holds one.
    ///
    /// # Errors
    /// [`FsError`], if no checkpoint can be made.
    pub(crate) async fn hold_tree(&self) -> Result<Option<HeldTree>, FsError> {
        let Some(alone) = self.shared.looking.clone().try_lock_owned() else { return Ok(None) };
        if !self.shared.options.is_read_only {
            self.checkpoint().await?;
        }
        let mut state = self.shared.state.lock().await;
        let (held, anchor) = state.store.hold_tree();
        Ok(Some(HeldTree {
            volume: self.shared.volume.clone(),
            superblock: state.store.superblock().clone(),
            anchor,
            fs: self.clone(),
            held,
            _alone: alone,
        }))
    }
}

impl HeldTree {
    /// Whether the file system ends, and waits for this to be dropped.
    pub(crate) fn is_ending(&self) -> bool {
        self.fs.shared.is_ending.load(Ordering::Acquire)
    }

    /// Whether its nodes may have been overwritten: clients needed the space.
    pub(crate) fn is_lost(&self) -> bool {
        self.held.has_ended()
    }
}
