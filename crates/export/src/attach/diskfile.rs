//! A device seen as a file: checks the requests that the FUSE layer passes on, and translates them for the
//! device. Knows nothing of FUSE.
//!
//! Alignment: a read of any range takes the enclosing blocks. A write or zeroing that does not consist of
//! whole logical blocks is refused with EINVAL: the loop device never sends one, and a read-modify-write here
//! would have to exclude every other write to its blocks to be safe.
//!
//! Holes: the kernel's loop driver sends both a discard and a write-zeroes-with-unmap as PUNCH_HOLE, and the
//! second must read as zeroes. So a hole is always [`Device::write_zeroes`], never [`Device::discard`], which
//! promises nothing about the content.

use std::{ops::Range, sync::Arc};

use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, IoError, IoErrorKind, SharedBuf, WriteFlags, ZeroFlags};

/// The device zeroes in pieces of this many bytes, so that a file system that discards everything does not
/// occupy the whole array at once.
const ZERO_PIECE_BYTES: u64 = 64 << 20;

/// An errno.
pub(super) type Refusal = i32;

/// Which operations the file allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Access {
    pub(super) read_only: bool,
    /// Take PUNCH_HOLE. If it is refused as not supported, the loop driver gives discards up for good. (Its
    /// queue setting `discard_max_bytes` will not do: once zero, the kernel never raises it again on that
    /// node.)
    pub(super) discard: bool,
    /// Take PUNCH_HOLE also if the device cannot unmap, so that a hole costs as much as writing zeroes.
    pub(super) slow_discard: bool,
}

/// A device as the content of a file.
pub(super) struct DiskFile {
    device: Arc<dyn Device>,
    size_bytes: u64,
    block_bytes: u64,
    access: Access,
}

impl DiskFile {
    /// The file of `device`, with its size in whole logical blocks.
    pub(super) fn new(device: Arc<dyn Device>, access: Access) -> Self {
        let info = device.info();
        let block_bytes = u64::from(info.logical_block_bytes);
        let size_bytes = info.size_bytes / block_bytes * block_bytes;
        Self { device, size_bytes, block_bytes, access }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(super) fn block_bytes(&self) -> u32 {
        self.device.info().logical_block_bytes
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.access.read_only
    }

    /// Reads up to `len_bytes`, less at the end of the file. Returns the buffer and the range of it that
    /// holds the bytes.
    pub(super) async fn read(
        &self,
        offset_bytes: u64,
        len_bytes: u32,
    ) -> Result<(IoBuf, Range<usize>), Refusal> {
        let end = offset_bytes.saturating_add(u64::from(len_bytes)).min(self.size_bytes);
        if offset_bytes >= end {
            return Ok((IoBuf::with_len(0), 0..0));
        }
        let first = offset_bytes / self.block_bytes * self.block_bytes;
        let last = end.next_multiple_of(self.block_bytes);
        let buf = IoBuf::with_len((last - first) as usize);
        let buf = self.device.read(first, smallvec![buf]).await.into_one().map_err(errno)?;
        Ok((buf, (offset_bytes - first) as usize..(end - first) as usize))
    }

    /// Writes whole blocks.
    pub(super) async fn write(&self, offset_bytes: u64, data: SharedBuf) -> Result<(), Refusal> {
        self.check_change(offset_bytes, data.len() as u64)?;
        self.device.write(offset_bytes, smallvec![data], WriteFlags::default()).await.map_err(errno)
    }

    /// Makes completed writes durable.
    pub(super) async fn flush(&self) -> Result<(), Refusal> {
        self.device.flush().await.map_err(errno)
    }

    /// Serves fallocate: punching holes and zeroing ranges. The size is fixed, so other modes have no
    /// meaning.
    pub(super) async fn allocate(&self, offset_bytes: u64, len_bytes: u64, mode: i32) -> Result<(), Refusal> {
        let may_unmap = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            libc::FALLOC_FL_PUNCH_HOLE if self.access.discard => true,
            libc::FALLOC_FL_ZERO_RANGE => false,
            _ => return Err(libc::EOPNOTSUPP),
        };
        self.check_change(offset_bytes, len_bytes)?;
        let flags = ZeroFlags { may_unmap, fast_only: may_unmap && !self.access.slow_discard };
        let end = offset_bytes + len_bytes;
        let mut at = offset_bytes;
        while at < end {
            let now = (end - at).min(ZERO_PIECE_BYTES);
            self.device.write_zeroes(at, now, flags).await.map_err(|error| errno_of_zeroes(error, flags))?;
            at += now;
        }
        Ok(())
    }

    fn check_change(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), Refusal> {
        if self.access.read_only {
            return Err(libc::EROFS);
        }
        if !offset_bytes.is_multiple_of(self.block_bytes) || !len_bytes.is_multiple_of(self.block_bytes) {
            return Err(libc::EINVAL);
        }
        let fits = offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.size_bytes);
        if fits { Ok(()) } else { Err(libc::ENOSPC) }
    }
}

/// As [`errno`], for zeroing: zeroes that would cost too much are (no longer) supported, so that the kernel
/// falls back.
fn errno_of_zeroes(error: IoError, flags: ZeroFlags) -> Refusal {
    let is_slow = flags.fast_only && error.kind == IoErrorKind::Refused;
    if is_slow { libc::EOPNOTSUPP } else { errno(error) }
}

/// The errno that the kernel reports for a device's error.
fn errno(error: IoError) -> Refusal {
    match error.kind {
        IoErrorKind::NoSpace => libc::ENOSPC,
        // An errno such as EINVAL from deep below would be misread as the caller's fault.
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        sync::atomic::{AtomicBool, Ordering},
        task::{Context, Poll, Waker},
    };

    use stripewise_device::{
        Completion, DeviceInfo, IoFuture, ReadBufs, ReadDone, WriteBufs, memory::MemoryDevice,
    };

    use super::*;

    /// Memory members complete at once, so one poll is all.
    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("a memory member made us wait"),
        }
    }

    fn file() -> DiskFile {
        file_with(Access { read_only: false, discard: true, slow_discard: true })
    }

    fn file_with(access: Access) -> DiskFile {
        DiskFile::new(Arc::new(MemoryDevice::with_block_bytes("m", 1 << 20, 4096)), access)
    }

    fn read(file: &DiskFile, offset: u64, len: u32) -> Vec<u8> {
        let (buf, range) = now(file.read(offset, len)).unwrap();
        buf[range].to_vec()
    }

    #[test]
    fn unaligned_reads_see_what_aligned_writes_left() {
        let file = file();
        let data: Vec<u8> = (0..8192u32).map(|i| (i % 251) as u8).collect();
        now(file.write(4096, IoBuf::copy_of(&data).freeze())).unwrap();
        assert_eq!(read(&file, 5000, 5000), data[904..5904]);
        assert_eq!(read(&file, 4095, 2), [0, data[0]]);
    }

    #[test]
    fn the_end_of_the_file_ends_reads_and_refuses_writes() {
        let file = file();
        assert_eq!(read(&file, (1 << 20) - 10, 4096).len(), 10);
        assert!(read(&file, 1 << 20, 4096).is_empty());
        assert!(read(&file, u64::MAX - 5, 4096).is_empty());
        assert_eq!(now(file.write(1 << 20, IoBuf::zeroed(4096).freeze())), Err(libc::ENOSPC));
        assert_eq!(now(file.allocate(u64::MAX - 4095, 4096, libc::FALLOC_FL_ZERO_RANGE)), Err(libc::ENOSPC));
    }

    #[test]
    fn part_blocks_are_refused_for_changes() {
        let file = file();
        assert_eq!(now(file.write(512, IoBuf::zeroed(4096).freeze())), Err(libc::EINVAL));
        assert_eq!(now(file.write(0, IoBuf::zeroed(512).freeze())), Err(libc::EINVAL));
        assert_eq!(now(file.allocate(0, 512, libc::FALLOC_FL_ZERO_RANGE)), Err(libc::EINVAL));
    }

    #[test]
    fn holes_read_as_zeroes() {
        let file = file();
        now(file.write(0, IoBuf::copy_of(&[7; 16384]).freeze())).unwrap();
        now(file.allocate(4096, 8192, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)).unwrap();
        let back = read(&file, 0, 16384);
        assert!(back[4096..12288].iter().all(|byte| *byte == 0));
        assert!(back[..4096].iter().chain(&back[12288..]).all(|byte| *byte == 7));
        assert_eq!(now(file.allocate(0, 4096, 0)), Err(libc::EOPNOTSUPP));
    }

    /// A disk that zeroes fast, until it does not.
    struct Changing(MemoryDevice, AtomicBool);

    impl Device for Changing {
        fn info(&self) -> &DeviceInfo {
            self.0.info()
        }
        fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
            self.0.read(offset_bytes, into)
        }
        fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
            self.0.write(offset_bytes, from, flags)
        }
        fn flush(&self) -> Completion {
            self.0.flush()
        }
        fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
            if flags.fast_only && self.1.load(Ordering::Relaxed) {
                return IoFuture::ready(Err(IoError::new(IoErrorKind::Refused)));
            }
            self.0.write_zeroes(offset_bytes, len_bytes, flags)
        }
    }

    #[test]
    fn discards_are_given_up_once_they_cost_as_much_as_writes() {
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        for (slow_discard, then) in [(false, Err(libc::EOPNOTSUPP)), (true, Ok(()))] {
            let disk = MemoryDevice::with_block_bytes("m", 1 << 20, 4096);
            let device = Arc::new(Changing(disk, AtomicBool::new(false)));
            let file =
                DiskFile::new(device.clone(), Access { read_only: false, discard: true, slow_discard });
            assert_eq!(now(file.allocate(0, 4096, hole)), Ok(()));
            device.1.store(true, Ordering::Relaxed);
            assert_eq!(now(file.allocate(0, 4096, hole)), then);
            assert_eq!(now(file.allocate(0, 4096, libc::FALLOC_FL_ZERO_RANGE)), Ok(()));
        }
    }

    #[test]
    fn a_read_only_file_does_not_change() {
        let file = file_with(Access { read_only: true, discard: true, slow_discard: true });
        assert_eq!(now(file.write(0, IoBuf::zeroed(4096).freeze())), Err(libc::EROFS));
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        assert_eq!(now(file.allocate(0, 4096, hole)), Err(libc::EROFS));
    }

    #[test]
    fn without_discards_zeroing_remains() {
        let file = file_with(Access { read_only: false, discard: false, slow_discard: true });
        assert_eq!(now(file.allocate(0, 4096, libc::FALLOC_FL_PUNCH_HOLE)), Err(libc::EOPNOTSUPP));
        assert_eq!(now(file.allocate(0, 4096, libc::FALLOC_FL_ZERO_RANGE)), Ok(()));
    }
}
