//! Members that are block devices or regular files, with O_DIRECT over io_uring.
//!
//! A member is opened exclusively: block devices with `O_EXCL` (the kernel refuses what is mounted or held by
//! another driver), regular files with an advisory lock. Regular files may be sparse; zeroes are written as
//! holes.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use rustix::fs::SeekFrom;
use thiserror::Error;

use crate::{
    Completion, Device, DeviceInfo, Extent, IoError, IoErrorKind, IoFuture, MediaKind, ReadBufs, ReadDone,
    WriteBufs, WriteFlags, ZeroFlags,
    sync::Event,
    uring::{
        files::{self, OpenFile},
        op::{Command, FileRequest, OpHandle, Outcome, Payload},
    },
};

/// Why a member could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The path is neither a block device nor a regular file.
    #[error("{path}: not a block device or regular file; give a disk, partition, loop device or file")]
    WrongKind {
        /// The path as given.
        path: String,
    },
    /// Something else took its place while it was being opened.
    #[error("{path}: it was replaced while it was being opened; look at what is there now, then try again")]
    Replaced {
        /// The path as given.
        path: String,
    },
    /// It is in use elsewhere.
    #[error("{path}: in use (mounted, or held by another array or process); unmount or stop that first")]
    Busy {
        /// The path as given.
        path: String,
    },
    /// It is to be written, and cannot be.
    #[error("{path}: it is read-only (blockdev --getro tells 1); have it made writable, or only read it")]
    ReadOnly {
        /// The path as given.
        path: String,
    },
    /// The operating system refused.
    #[error("{path}: {source}")]
    Os {
        /// The path as given.
        path: String,
        /// What it said.
        source: io::Error,
    },
}

/// The most extents in one answer.
const EXTENTS_MAX: usize = 1024;

/// How to open a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FileOptions {
    /// Open it for reading only, without claiming it.
    pub read_only: bool,
    /// Claim it also if it is only read: nobody else who claims it writes to it meanwhile.
    pub claimed: bool,
    /// Assume that its queue can be polled even if the system does not say so.
    pub poll: bool,
}

impl FileOptions {
    /// Sets whether it is opened [for reading only](#structfield.read_only).
    #[must_use]
    pub const fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Sets whether it is [claimed](#structfield.claimed) also if it is only read.
    #[must_use]
    pub const fn claimed(self, claimed: bool) -> Self {
        Self { claimed, ..self }
    }

    const fn claims(self) -> bool {
        self.claimed || !self.read_only
    }

    /// Sets whether its queue is taken [to be pollable](#structfield.poll).
    #[must_use]
    pub const fn poll(self, poll: bool) -> Self {
        Self { poll, ..self }
    }
}

/// How often, and at what interval, to try again to open a member in use: the kernel releases what a process
/// had in its rings some time after that process has ended.
const BUSY_POLLS: u32 = 25;
const BUSY_POLL: Duration = Duration::from_millis(20);

/// A member on a block device or regular file.
#[derive(Debug)]
pub struct FileDevice {
    info: DeviceInfo,
    target: Arc<Target>,
    is_block: bool,
}

/// Where requests go. A write that is to be synced has it, too: the file is left after its last request.
#[derive(Debug)]
struct Target {
    file: Arc<OpenFile>,
    /// The size of a regular file; 0 of a block device.
    file_bytes: u64,
    /// Whether its queue can be polled; false once the kernel has refused.
    can_poll: Arc<AtomicBool>,
}

impl Target {
    fn submit(&self, command: Command, payload: Payload) -> OpHandle {
        let Self { file, file_bytes, can_poll } = self;
        OpHandle::submit_to_file(FileRequest { file, file_bytes: *file_bytes, can_poll, command, payload })
    }
}

impl FileDevice {
    /// Opens a member; only tasks of a [`crate::uring::Runtime`] may make requests to it: others fail with
    /// [`IoErrorKind::NoRuntime`].
    ///
    /// # Errors
    /// [`OpenError`], naming the path and what to do.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let os = |source| OpenError::Os { path: name.clone(), source };
        let before = std::fs::metadata(path).map_err(os)?;
        let is_block = before.file_type().is_block_device();
        if !is_block && !before.is_file() {
            return Err(OpenError::WrongKind { path: name });
        }
        let claim = || claim(path, &name, is_block, options);
        let file = match claim() {
            Err(OpenError::Busy { .. }) => {
                // It may be one of ours that workers are about to release.
                files::wait_for_leaving();
                claim_again(claim)?
            }
            claimed => claimed?,
        };
        // Check the file that was opened: the path may lead elsewhere from one moment to the next.
        let metadata = file.metadata().map_err(os)?;
        if metadata.file_type() != before.file_type() {
            return Err(OpenError::Replaced { path: name });
        }
        // The kernel lets such a device be opened for writing, and refuses each write.
        if is_block && !options.read_only && is_read_only(metadata.rdev()) {
            return Err(OpenError::ReadOnly { path: name });
        }
        let info = if is_block {
            block_info(name.clone(), &file, metadata.rdev()).map_err(os)?
        } else {
            file_info(name.clone(), &file, metadata.len(), metadata.dev()).map_err(os)?
        };
        let dev = if is_block { metadata.rdev() } else { metadata.dev() };
        let can_poll = Arc::new(AtomicBool::new(options.poll || queue_says(dev, "io_poll", "1")));
        let file_bytes = if is_block { 0 } else { info.size_bytes };
        let target = Arc::new(Target { file: OpenFile::new(file.into(), &info.name), file_bytes, can_poll });
        Ok(Self { info, target, is_block })
    }
}

/// Tries again, for a while, to claim a member that is in use.
fn claim_again(claim: impl Fn() -> Result<File, OpenError>) -> Result<File, OpenError> {
    for _ in 0..BUSY_POLLS {
        match claim() {
            Err(OpenError::Busy { .. }) => thread::sleep(BUSY_POLL),
            claimed => return claimed,
        }
    }
    claim()
}

/// Opens a member, exclusively if it is to be claimed.
fn claim(path: &Path, name: &str, is_block: bool, options: FileOptions) -> Result<File, OpenError> {
    let file = open_direct(path, is_block, options).map_err(|e| busy_or_os(name, e))?;
    if options.claims() && !is_block {
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| busy_or_os(name, e.into()))?;
    }
    Ok(file)
}

/// Opens with O_DIRECT where the file system supports it; tmpfs and a few others do not.
fn open_direct(path: &Path, is_block: bool, options: FileOptions) -> io::Result<File> {
    let exclusive = if is_block && options.claims() { libc::O_EXCL } else { 0 };
    let open = |flags| {
        OpenOptions::new().read(true).write(!options.read_only).custom_flags(flags | exclusive).open(path)
    };
    match open(libc::O_DIRECT) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => open(0),
        result => result,
    }
}

fn busy_or_os(name: &str, error: io::Error) -> OpenError {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EWOULDBLOCK | libc::ETXTBSY) => OpenError::Busy { path: name.to_owned() },
        _ => OpenError::Os { path: name.to_owned(), source: error },
    }
}

fn file_info(name: String, file: &File, size_bytes: u64, dev: u64) -> io::Result<DeviceInfo> {
    let mask = rustix::fs::StatxFlags::DIOALIGN;
    let statx = rustix::fs::statx(file, "", rustix::fs::AtFlags::EMPTY_PATH, mask)?;
    let direct_align = if statx.stx_mask & mask.bits() != 0 { statx.stx_dio_offset_align } else { 0 };
    let logical_block_bytes = if direct_align <= 512 { 512 } else { 4096 };
    // The system does not say whether the file system makes holes; trying costs little.
    Ok(DeviceInfo { name, size_bytes, logical_block_bytes, media: media_kind(dev), unmaps: None })
}

fn block_info(name: String, file: &File, rdev: u64) -> io::Result<DeviceInfo> {
    let size_bytes =
        rustix::fs::ioctl_blksszget(file).and_then(|sector| Ok((sector, block_size_bytes(file)?)));
    let (sector, size_bytes) = size_bytes?;
    let (media, unmaps) = (media_kind(rdev), Some(queue_unmaps(rdev)));
    Ok(DeviceInfo { name, size_bytes, logical_block_bytes: sector, media, unmaps })
}

/// A block device's size, by seeking to its end: that needs no ioctl of our own.
fn block_size_bytes(file: &File) -> rustix::io::Result<u64> {
    rustix::fs::seek(file, SeekFrom::End(0))
}

/// What sysfs says of the queue of the disk that holds device number `dev`; a partition's queue is its
/// parent's.
fn queue_value(dev: u64, name: &str) -> Option<String> {
    let base = format!("/sys/dev/block/{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let read = |folder: &str| std::fs::read_to_string(format!("{base}/{folder}/{name}")).ok();
    read("queue").or_else(|| read("../queue")).map(|value| value.trim().to_owned())
}

/// Whether the kernel refuses to write to a disk or partition.
fn is_read_only(dev: u64) -> bool {
    let path = format!("/sys/dev/block/{}:{}/ro", rustix::fs::major(dev), rustix::fs::minor(dev));
    std::fs::read_to_string(path).is_ok_and(|value| value.trim() == "1")
}

fn queue_says(dev: u64, name: &str, value: &str) -> bool {
    queue_value(dev, name).as_deref() == Some(value)
}

/// Whether zeroing a range of a disk unmaps it. A disk that supports both discards and writing zeroes does
/// the latter by unmapping. A disk that only supports writing zeroes (WRITE SAME on a hard disk) still has to
/// write the whole range.
fn queue_unmaps(dev: u64) -> bool {
    let takes = |name| queue_value(dev, name).is_some_and(|bytes| bytes != "0");
    takes("discard_max_bytes") && takes("write_zeroes_max_bytes")
}

fn media_kind(dev: u64) -> MediaKind {
    match queue_value(dev, "rotational").as_deref() {
        Some("1") => MediaKind::Hdd,
        Some("0") => MediaKind::Ssd,
        _ => MediaKind::Unknown,
    }
}

impl Device for FileDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        let op = self.submit(Command::Read { offset_bytes }, Payload::Read(into));
        IoFuture::uring(op, finish_read)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        // The kernel's FUSE drops the flag of an asynchronous direct write, and says nothing.
        let syncs_after = flags.fua && self.target.file.is_served();
        let rw_flags = if flags.fua && !syncs_after { libc::RWF_DSYNC } else { 0 };
        let op = self.submit(Command::Write { offset_bytes, rw_flags }, Payload::Write(from));
        if !syncs_after {
            return IoFuture::uring(op, finish);
        }
        let (target, written) = (self.target.clone(), IoFuture::uring(op, finish));
        IoFuture::boxed(async move {
            written.await?;
            IoFuture::uring(target.submit(Command::Sync, Payload::None), finish).await
        })
    }

    fn flush(&self) -> Completion {
        IoFuture::uring(self.submit(Command::Sync, Payload::None), finish)
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        // On a block device PUNCH_HOLE means "zero, and unmap if you can"; ZERO_RANGE keeps the blocks
        // allocated.
        let mode = libc::FALLOC_FL_KEEP_SIZE
            | if flags.may_unmap { libc::FALLOC_FL_PUNCH_HOLE } else { libc::FALLOC_FL_ZERO_RANGE };
        if flags.fast_only && self.info.unmaps == Some(false) {
            return IoFuture::ready(Err(IoError::new(IoErrorKind::Refused)));
        }
        let op = self.submit(Command::Allocate { offset_bytes, len_bytes, mode }, Payload::None);
        IoFuture::uring(op, finish)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        if self.info.unmaps == Some(false) {
            return IoFuture::ready(Ok(()));
        }
        self.write_zeroes(offset_bytes, len_bytes, ZeroFlags { may_unmap: true, fast_only: true })
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        let range = offset_bytes..offset_bytes.saturating_add(len_bytes).min(self.info.size_bytes);
        if self.is_block {
            return IoFuture::ready(Ok(vec![Extent { len_bytes: range.end - range.start, is_hole: false }]));
        }
        let (file, size_bytes) = (self.target.file.clone(), self.info.size_bytes);
        let look = move || {
            let extents = file_extents(file.as_fd(), range);
            // What a file has lost at its end is not a hole.
            let now = rustix::fs::fstat(&*file).map_or(0, |stat| stat.st_size as u64);
            if now >= size_bytes { Ok(extents) } else { Err(IoError::new(IoErrorKind::Truncated)) }
        };
        if !self.target.file.is_served() {
            return IoFuture::ready(look());
        }
        // The file's server may hang; the worker must not.
        let done = Event::default();
        let answer = done.clone();
        let asked = thread::Builder::new().name("stripewise-look".into()).spawn(move || answer.set(look()));
        match asked {
            Ok(_) => IoFuture::boxed(async move { done.wait().await }),
            Err(error) => IoFuture::ready(Err(IoError::from_errno(error.raw_os_error().unwrap_or(0)))),
        }
    }
}

/// Cuts a range of a file at its holes; what the file system does not report counts as stored.
fn file_extents(fd: BorrowedFd<'_>, range: std::ops::Range<u64>) -> Vec<Extent> {
    let mut extents = Vec::new();
    let mut at = range.start;
    while at < range.end && extents.len() < EXTENTS_MAX {
        // ENXIO: nothing is stored from here to the end of the file.
        let data = match rustix::fs::seek(fd, SeekFrom::Data(at)) {
            Err(rustix::io::Errno::NXIO) => range.end,
            found => found.unwrap_or(at).clamp(at, range.end),
        };
        let hole = rustix::fs::seek(fd, SeekFrom::Hole(data)).unwrap_or(range.end).clamp(data, range.end);
        if data > at {
            extents.push(Extent { len_bytes: data - at, is_hole: true });
        }
        if hole > data {
            extents.push(Extent { len_bytes: hole - data, is_hole: false });
        }
        at = hole;
    }
    extents
}

impl FileDevice {
    fn submit(&self, command: Command, payload: Payload) -> OpHandle {
        self.target.submit(command, payload)
    }

    /// Whether this is a block device (else a regular file).
    pub fn is_block(&self) -> bool {
        self.is_block
    }
}

/// For callers that ask the kernel more about the file that is actually open.
impl AsFd for FileDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.target.file.as_fd()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.file.leave();
    }
}

fn finish(outcome: Outcome) -> Result<(), IoError> {
    outcome.result.map(drop)
}

fn finish_read(outcome: Outcome) -> ReadDone {
    let bufs = match outcome.payload {
        Payload::Read(bufs) => bufs,
        // They went with their runtime.
        _ => ReadBufs::new(),
    };
    ReadDone { result: outcome.result.map(drop), bufs }
}
