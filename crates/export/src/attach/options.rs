//! How to attach a device.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use stripewise_device::DeviceInfo;

use super::{AttachError, AttachMethod};

const BLOCK_BYTES_MIN: u32 = 512;
/// The kernel's page size on most machines, and the largest block that all its block code takes.
const BLOCK_BYTES_MAX: u32 = 4096;
/// More readers than this only fight for one queue.
const FUSE_THREADS_MAX: usize = 4;

/// As long as a command waits for its array.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Options of [`attach`](super::attach). Start from [`AttachOptions::new`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AttachOptions {
    /// The method; `None` takes the best that works.
    pub method: Option<AttachMethod>,
    /// A folder of the daemon, such as `/run/stripewise`. The FUSE file is mounted in `attach-NAME` under it.
    pub runtime_dir: PathBuf,
    /// The attachment's name: a plain file name, unique in its runtime folder.
    pub name: String,
    /// Logical block size of the block device: 512, 1024, 2048 or 4096, and no less than the device's own.
    /// `None` takes the device's own.
    pub block_bytes: Option<u32>,
    /// Refuse writes.
    pub read_only: bool,
    /// Look for a partition table and make its partitions block devices too (loop only; nbd has `max_part`).
    pub partition_scan: bool,
    /// Let the block device take discards. Turn it off where zeroing costs as much as writing: on a loop
    /// device a discarded range must read as zeroes (see the module's notes), and mkfs discards everything.
    pub discard: bool,
    /// Take discards also while zeroing costs the device as much as writing, which may change while it is
    /// attached. Otherwise a loop device refuses them then, and the kernel gives them up; over nbd the
    /// device's own [`Device::discard`] decides.
    ///
    /// [`Device::discard`]: stripewise_device::Device::discard
    pub slow_discard: bool,
    /// Threads that take requests from FUSE.
    pub fuse_threads: usize,
    /// How long the device may take to answer when the kernel looks for partitions.
    pub answer_wait: Duration,
    /// Connections of a kernel nbd device.
    pub nbd_connections: usize,
}

impl AttachOptions {
    /// The defaults: best method, the device's block size, writable, with partitions and discards.
    pub fn new(runtime_dir: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            method: None,
            runtime_dir: runtime_dir.into(),
            name: name.into(),
            block_bytes: None,
            read_only: false,
            partition_scan: true,
            discard: true,
            slow_discard: true,
            fuse_threads: cores.clamp(2, FUSE_THREADS_MAX),
            answer_wait: ANSWER_WAIT,
            nbd_connections: cores.clamp(1, FUSE_THREADS_MAX),
        }
    }

    /// The folder on which the FUSE file is mounted.
    pub fn mount_point(&self) -> PathBuf {
        self.runtime_dir.join(format!("attach-{}", self.name))
    }

    /// The socket between the kernel and the NBD server of [`AttachMethod::KernelNbd`].
    pub(super) fn socket(&self) -> PathBuf {
        self.runtime_dir.join(format!("attach-{}.sock", self.name))
    }

    /// Checks the name, and settles the block size.
    pub(super) fn check(&self, device: &DeviceInfo) -> Result<u32, AttachError> {
        if Path::new(&self.name).file_name().is_none_or(|name| name != self.name.as_str()) {
            return Err(AttachError::BadOption {
                option: "name",
                value: format!("{:?}", self.name),
                why: "it must be a plain file name".into(),
            });
        }
        let least = device.logical_block_bytes.max(BLOCK_BYTES_MIN);
        let block_bytes = self.block_bytes.unwrap_or(least);
        if block_bytes.is_power_of_two() && (least..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return Ok(block_bytes);
        }
        Err(AttachError::BadOption {
            option: "block size",
            value: block_bytes.to_string(),
            why: format!("{} takes a power of two from {least} to {BLOCK_BYTES_MAX} bytes", device.name),
        })
    }
}

#[cfg(test)]
mod tests {
    use stripewise_device::MediaKind;

    use super::*;

    fn checked(name: &str, block_bytes: Option<u32>, device_block_bytes: u32) -> Result<u32, AttachError> {
        let info = DeviceInfo {
            name: "m".into(),
            size_bytes: 1 << 20,
            logical_block_bytes: device_block_bytes,
            media: MediaKind::Unknown,
            unmaps: None,
        };
        let mut options = AttachOptions::new("/run/x", name);
        options.block_bytes = block_bytes;
        options.check(&info)
    }

    #[test]
    fn the_block_size_is_the_devices_or_larger() {
        assert_eq!(checked("a", None, 512).unwrap(), 512);
        assert_eq!(checked("a", None, 4096).unwrap(), 4096);
        assert_eq!(checked("a", Some(4096), 512).unwrap(), 4096);
        assert!(checked("a", Some(512), 4096).is_err());
        assert!(checked("a", Some(8192), 512).is_err());
        assert!(checked("a", Some(1000), 512).is_err());
    }

    #[test]
    fn names_stay_in_their_folder() {
        for name in ["", ".", "..", "a/b", "/a", "a/", "../a"] {
            assert!(checked(name, None, 512).is_err(), "{name:?}");
        }
        assert!(checked("array-0.x", None, 512).is_ok());
    }
}
