//! The `Device` trait: one member's bytes, and the shapes of its requests.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{IoBuf, IoError, IoFuture, SharedBuf};

/// The buffers of one scatter read, filled in order. They are lent to the device until the read is done.
pub type ReadBufs = SmallVec<[IoBuf; 2]>;

/// The buffers of one gather write, taken in order.
pub type WriteBufs = SmallVec<[SharedBuf; 2]>;

/// A finished read: the outcome, and the buffers handed back (their contents are undefined on error).
#[derive(Debug)]
pub struct ReadDone {
    /// Whether every byte was read.
    pub result: Result<(), IoError>,
    /// The buffers that were lent; none if the read's runtime ended, which loses them.
    pub bufs: ReadBufs,
}

impl ReadDone {
    /// The single buffer of a read that lent one.
    pub fn into_one(mut self) -> Result<IoBuf, IoError> {
        self.result?;
        Ok(self.bufs.pop().expect("a read returns the buffers it was lent"))
    }

    /// The outcome, and the single buffer of a read of `len` bytes: another one if the read lost it.
    pub fn with_buf(mut self, len: usize) -> (Result<(), IoError>, IoBuf) {
        (self.result, self.bufs.pop().unwrap_or_else(|| IoBuf::with_len(len)))
    }

    /// Takes out the only buffer; none if the read failed. It returns no `Result`: an error would share its
    /// memory with the fields of the buffer, and compilers would then move the buffer in small pieces.
    ///
    /// # Panics
    /// If the read has succeeded and its buffer was taken out before.
    #[inline]
    pub fn take_read(&mut self) -> Option<IoBuf> {
        match self.result {
            Ok(()) => Some(self.bufs.pop().expect("a read returns the buffers it was lent")),
            Err(_) => None,
        }
    }
}

/// The future of a request that returns nothing but success or failure.
pub type Completion = IoFuture<Result<(), IoError>>;

/// The total length of a list of buffers, in bytes.
pub fn bufs_len<B: AsRef<[u8]>>(bufs: &[B]) -> usize {
    bufs.iter().map(|b| b.as_ref().len()).sum()
}

/// How durable a write must be when it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteFlags {
    /// Force unit access: the data is on stable media at completion.
    pub fua: bool,
}

/// How zeroes may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZeroFlags {
    /// The range may be unmapped (punched), as long as it reads as zeroes afterwards.
    pub may_unmap: bool,
    /// Refuse the request ([`IoErrorKind::Refused`](crate::IoErrorKind::Refused)) where it would cost as much
    /// as a write.
    pub fast_only: bool,
}

/// What kind of medium a member is, as far as the operating system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MediaKind {
    /// Not known.
    #[default]
    Unknown,
    /// Rotating disk.
    Hdd,
    /// Solid state.
    Ssd,
}

/// A run of bytes of one allocation state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its length.
    pub len_bytes: u64,
    /// Nothing is stored there, and it reads as zeroes. False promises nothing.
    pub is_hole: bool,
}

/// Facts about a member that do not change while it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// A name for messages, such as a path. Not an identity.
    pub name: String,
    /// Usable size in bytes.
    pub size_bytes: u64,
    /// Smallest unit and alignment of I/O in bytes: 512 or 4096.
    pub logical_block_bytes: u32,
    /// The medium.
    pub media: MediaKind,
    /// Whether a [`Device::write_zeroes`] that may unmap frees the range, at a fraction of the cost of
    /// writing it. None: the operating system does not tell.
    pub unmaps: Option<bool>,
}

/// One member: a range of bytes that can be read, written and flushed.
///
/// A call queues the request at once; the future only waits for it. Requests are independent: the device may
/// do them in any order and none waits for another. Dropping the future does not cancel the request, and the
/// buffers stay with the device until it is done.
///
/// Offsets and lengths are multiples of [`DeviceInfo::logical_block_bytes`]. Durability is what
/// `docs/failure-model.md` assumes: a write without FUA may be lost, torn at 512 B or reordered until a flush
/// that was issued after its completion has completed.
pub trait Device: Send + Sync + 'static {
    /// The member's unchanging facts.
    fn info(&self) -> &DeviceInfo;

    /// Reads `bufs_len(&into)` bytes at `offset_bytes`.
    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone>;

    /// Writes all of `from` at `offset_bytes`.
    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion;

    /// As [`Device::write`], for a range that was not just read: it need not be fetched into caches, nor kept
    /// in them. Only devices in memory treat it differently.
    fn write_uncached(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.write(offset_bytes, from, flags)
    }

    /// Makes every write that completed before this call durable.
    fn flush(&self) -> Completion;

    /// Makes the range read as zeroes.
    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion;

    /// Tells the device that the content of the range is no longer needed. What it reads as afterwards is
    /// undefined. A device that has no use for the hint, or for which it would cost as much as writing, does
    /// nothing.
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        let _ = (offset_bytes, len_bytes);
        IoFuture::ready(Ok(()))
    }

    /// Which parts of the range, from its start on, are holes. The answer covers at least the range's first
    /// block and at most the range. A device that cannot tell reports everything as stored.
    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        let _ = offset_bytes;
        IoFuture::ready(Ok(vec![Extent { len_bytes, is_hole: false }]))
    }
}

/// A shared device is a device: a layer can wrap one that has other holders.
impl<D: Device + ?Sized> Device for Arc<D> {
    fn info(&self) -> &DeviceInfo {
        (**self).info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        (**self).read(offset_bytes, into)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        (**self).write(offset_bytes, from, flags)
    }

    fn write_uncached(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        (**self).write_uncached(offset_bytes, from, flags)
    }

    fn flush(&self) -> Completion {
        (**self).flush()
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        (**self).write_zeroes(offset_bytes, len_bytes, flags)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        (**self).discard(offset_bytes, len_bytes)
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        (**self).extents(offset_bytes, len_bytes)
    }
}
