//! A loop device for a mount that must have a block device, and does not use it.

use std::path::Path;

use super::{
    AttachError,
    loopdev::{LoopDevice, LoopSettings},
};

/// A loop device over a file or block device. Dropped, it goes with its last user: what is mounted on it keeps it.
pub struct LoopAnchor(LoopDevice);

impl LoopAnchor {
    /// Binds a free loop device with blocks of so many bytes.
    ///
    /// # Errors
    /// If there are no loop devices, none is free, or the file cannot be opened.
    pub fn over(backing: &Path, block_bytes: u32, read_only: bool) -> Result<Self, AttachError> {
        let settings = LoopSettings { block_bytes, read_only, partition_scan: false };
        LoopDevice::bind(backing, &settings).map(Self)
    }

    /// Its node, such as `/dev/loop3`.
    #[must_use]
    pub fn node(&self) -> &Path {
        self.0.node()
    }
}

impl Drop for LoopAnchor {
    fn drop(&mut self) {
        if let Err(error) = self.0.release_at_last_close() {
            tracing::warn!(%error, node = %self.node().display(), "a loop device stays behind; `losetup --detach` frees it");
        }
    }
}
