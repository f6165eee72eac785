//! A look at a file system that is mounted: at the tree of its last checkpoint, while clients go on.

use std::{pin::pin, sync::Arc, task::Poll};

use thiserror::Error;

use super::{Base, Plan, Progress, Report, records::Records};
use crate::{
    fs::{Fs, FsError, MountError},
    volume::Volume,
};

/// Why a mounted file system was not looked at.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CheckError {
    /// The volume cannot be read, or what is on it cannot be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// No checkpoint can be made.
    #[error("no checkpoint can be made, so it cannot be looked at: {0}")]
    Checkpoint(FsError),
    /// Another look is under way.
    #[error("it is being looked at already; wait for that, and try again")]
    Busy,
    /// Clients needed the space.
    #[error("little space is left, and what was looked at has been overwritten; unmount it to look at it")]
    Overwritten,
    /// It was unmounted meanwhile.
    #[error("it was unmounted meanwhile; look at it again")]
    Ended,
}

/// Makes a checkpoint, and looks at its tree and at the superblocks. A mount for reading makes none: the last checkpoint is looked at. What
/// clients change from then on is left out, and so are the anchors, which change meanwhile. Nodes that are lost are not looked for elsewhere.
/// The volume is read by way of what `through` returns.
///
/// # Errors
/// [`CheckError`].
pub async fn check_mounted(
    fs: &Fs,
    through: impl FnOnce(Arc<dyn Volume>) -> Arc<dyn Volume>,
    progress: &Progress,
) -> Result<Report, CheckError> {
    let tree = fs.hold_tree().await.map_err(CheckError::Checkpoint)?.ok_or(CheckError::Busy)?;
    let volume = through(tree.volume.clone());
    let mut look = pin!(async {
        let base = Base::of_mounted(&volume, tree.superblock.clone(), tree.anchor).await?;
        let records = Records::none(base.anchor.1.journal);
        Ok(Plan::judge(&volume, base, records, 0, progress).await?.report)
    });
    // An unmount waits for the end of this, so each step looks for one.
    std::future::poll_fn(|context| {
        if tree.is_ending() {
            return Poll::Ready(Err(CheckError::Ended));
        }
        let looked = look.as_mut().poll(context);
        if tree.is_lost() {
            return Poll::Ready(Err(CheckError::Overwritten));
        }
        looked
    })
    .await
}
