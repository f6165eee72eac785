//! Loop devices: a file becomes a block device. With direct I/O, so that its data is cached only once, above.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use super::{
    AttachError, LoopBacking,
    blockdev::{self, GoesOn},
    ioctl,
};

const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Another program may take the device that we were told is free, but not this many times in a row.
const RACES_MAX: usize = 32;

/// The settings of a loop device.
pub(super) struct LoopSettings {
    pub(super) block_bytes: u32,
    pub(super) read_only: bool,
    pub(super) partition_scan: bool,
}

/// A bound loop device. Dropping this leaves it bound.
pub(super) struct LoopDevice {
    node: PathBuf,
    /// Distinguishes this binding from later ones of the same node; empty where the kernel does not number
    /// them.
    sequence: String,
}

/// Opens `/dev/loop-control`.
pub(super) fn open_control() -> Result<File, AttachError> {
    let node = "/dev/loop-control";
    OpenOptions::new().read(true).write(true).open(node).map_err(|source| AttachError::Missing {
        node: node.into(),
        remedy: "load the kernel module `loop`, or let the container have the device",
        source,
    })
}

impl LoopDevice {
    /// Binds a free loop device to the file.
    pub(super) fn bind(backing: &Path, settings: &LoopSettings) -> Result<Self, AttachError> {
        let control = open_control()?;
        let file = OpenOptions::new().read(true).write(!settings.read_only).open(backing);
        let file = file.map_err(AttachError::system("open", backing))?;
        for _ in 0..RACES_MAX {
            let number =
                ioctl::loop_get_free(&control).map_err(AttachError::system("ask", "/dev/loop-control"))?;
            let node = PathBuf::from(format!("/dev/loop{number}"));
            match configure(&node, &file, backing, settings)? {
                Bound::Yes => return Ok(Self { sequence: blockdev::sequence_of(&node), node }),
                Bound::Taken => {}
            }
        }
        Err(AttachError::NoFreeDevice { kind: "loop", remedy: "try again" })
    }

    pub(super) fn node(&self) -> &Path {
        &self.node
    }

    /// Writes out the cached data and unbinds the device, unless it is in use.
    pub(super) fn release(&self, goes_on: GoesOn<'_>) -> Result<(), AttachError> {
        if !self.is_bound() {
            return Ok(());
        }
        let claimed = blockdev::claim_written_out(&self.node, 0, goes_on)?;
        clear(&claimed).map_err(AttachError::system("unbind", &self.node))?;
        drop(claimed);
        blockdev::wait_gone(&self.node, || !self.is_bound())
    }

    /// Makes the kernel unbind the device at its last close.
    pub(super) fn release_at_last_close(&self) -> Result<(), AttachError> {
        clear_node(&self.node)
    }

    /// Whether the device is still bound, and by us. The file's path does not tell: it changes when the FUSE
    /// file system is unmounted lazily.
    fn is_bound(&self) -> bool {
        backing_of(&self.node).is_some() && blockdev::sequence_of(&self.node) == self.sequence
    }
}

enum Bound {
    Yes,
    Taken,
}

fn configure(
    node: &Path,
    file: &File,
    backing: &Path,
    settings: &LoopSettings,
) -> Result<Bound, AttachError> {
    let device = OpenOptions::new().read(true).write(!settings.read_only).open(node);
    let device = device.map_err(|source| AttachError::Missing {
        node: node.to_owned(),
        remedy: "have the node made (udev or devtmpfs), or let the container have it",
        source,
    })?;
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = LO_FLAGS_DIRECT_IO
        | flag(settings.read_only, LO_FLAGS_READ_ONLY)
        | flag(settings.partition_scan, LO_FLAGS_PARTSCAN);
    match ioctl::loop_configure(&device, file.as_fd(), settings.block_bytes, flags, name_field(backing)) {
        Ok(()) => Ok(Bound::Yes),
        Err(Errno::BUSY) => Ok(Bound::Taken),
        Err(error) => Err(AttachError::system("bind (LOOP_CONFIGURE needs Linux 5.8)", node)(error)),
    }
}

/// The name that losetup shows: the end of the path, terminated by NUL.
fn name_field(path: &Path) -> [u8; 64] {
    let mut field = [0; 64];
    let bytes = path.as_os_str().as_bytes();
    let shown = &bytes[bytes.len().saturating_sub(63)..];
    field[..shown.len()].copy_from_slice(shown);
    field
}

fn clear(device: &File) -> io::Result<()> {
    match ioctl::loop_clear(device) {
        // Not bound (any more).
        Ok(()) | Err(Errno::NXIO) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Unbinds a loop device, at its last close.
pub(super) fn clear_node(node: &Path) -> Result<(), AttachError> {
    let device = File::open(node).map_err(AttachError::system("open", node))?;
    clear(&device).map_err(AttachError::system("unbind", node))
}

/// The file that a loop device is bound to.
pub(super) fn backing_of(node: &Path) -> Option<PathBuf> {
    let mut path = fs::read(blockdev::sysfs(node).join("loop/backing_file")).ok()?;
    path.pop_if(|last| *last == b'\n');
    Some(PathBuf::from(OsStr::from_bytes(&path)))
}

/// What lies under an open loop device, or under a partition of one; none for any other device.
pub fn loop_backing(device: &File) -> Option<LoopBacking> {
    ioctl::loop_status(device).ok()
}

/// All bound loop devices with their files.
pub(super) fn all_bound() -> Vec<(PathBuf, PathBuf)> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let nodes = entries.map(|entry| Path::new("/dev").join(entry.file_name()));
    nodes.filter_map(|node| backing_of(&node).map(|backing| (node, backing))).collect()
}
