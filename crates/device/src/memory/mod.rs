//! Members in memory: every request is done at once. For benchmarks, tests and RAM-backed arrays.
//!
//! There are no locks: as on a disk, requests that overlap while they are under way may each see or leave a
//! mixture of both. The memory uses large pages if it can, since members are large and written all over.

#![allow(unsafe_code)]

pub(crate) mod racing;

use memmap2::{Advice, MmapOptions, MmapRaw};

use crate::{
    Completion, Device, DeviceInfo, IoError, IoErrorKind, IoFuture, MediaKind, ReadBufs, ReadDone, WriteBufs,
    WriteFlags, ZeroFlags, bufs_len,
    parts::{Part, within},
};

/// A member whose bytes are in memory.
pub struct MemoryDevice {
    info: DeviceInfo,
    bytes: Bytes,
}

impl MemoryDevice {
    /// A zeroed member of the given size, with 512-byte logical blocks.
    ///
    /// # Panics
    /// If there is not that much address space.
    pub fn new(name: impl Into<String>, size_bytes: u64) -> Self {
        Self::with_block_bytes(name, size_bytes, 512)
    }

    /// As [`MemoryDevice::new`] with a given logical block size.
    ///
    /// # Panics
    /// If there is not that much address space, or the block size is not a power of two.
    pub fn with_block_bytes(name: impl Into<String>, size_bytes: u64, logical_block_bytes: u32) -> Self {
        assert!(logical_block_bytes.is_power_of_two(), "blocks of {logical_block_bytes} bytes");
        let (name, media) = (name.into(), MediaKind::Ssd);
        let info = DeviceInfo { name, size_bytes, logical_block_bytes, media, unmaps: Some(true) };
        Self { info, bytes: Bytes::new(size_bytes as usize) }
    }

    fn check(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
        check(&self.info, offset_bytes, len_bytes)
    }

    fn write_by(&self, copy: fn(&Bytes, usize, &[u8]), offset_bytes: u64, from: &WriteBufs) -> Completion {
        let result = self.check(offset_bytes, bufs_len(from) as u64);
        if result.is_ok() {
            let mut offset = offset_bytes as usize;
            for buf in from {
                copy(&self.bytes, offset, buf);
                offset += buf.len();
            }
        }
        IoFuture::ready(result)
    }
}

/// Whether a request lies within a device and on its blocks.
fn check(info: &DeviceInfo, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
    let end = offset_bytes.checked_add(len_bytes).ok_or(IoError::new(IoErrorKind::Refused))?;
    if end > info.size_bytes {
        return Err(IoError::new(IoErrorKind::Truncated));
    }
    if (offset_bytes | len_bytes) & (u64::from(info.logical_block_bytes) - 1) != 0 {
        return Err(IoError::from_errno(libc::EINVAL));
    }
    Ok(())
}

impl Device for MemoryDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, mut into: ReadBufs) -> IoFuture<ReadDone> {
        let result = self.check(offset_bytes, bufs_len(&into) as u64);
        if result.is_ok() {
            let mut offset = offset_bytes as usize;
            for buf in &mut into {
                self.bytes.copy_out(offset, buf);
                offset += buf.len();
            }
        }
        IoFuture::ready(ReadDone { result, bufs: into })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, _flags: WriteFlags) -> Completion {
        self.write_by(Bytes::copy_in, offset_bytes, &from)
    }

    fn write_uncached(&self, offset_bytes: u64, from: WriteBufs, _flags: WriteFlags) -> Completion {
        self.write_by(Bytes::copy_in_uncached, offset_bytes, &from)
    }

    fn flush(&self) -> Completion {
        IoFuture::ready(Ok(()))
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, _: ZeroFlags) -> Completion {
        let result = self.check(offset_bytes, len_bytes);
        if result.is_ok() {
            self.bytes.zero(offset_bytes as usize, len_bytes as usize);
        }
        IoFuture::ready(result)
    }
}

/// A member that stores no data: it drops what is written, and a read leaves its buffer as it was. It keeps
/// only its first bytes, where an array's metadata lies. The cost of an array over such members is that of
/// the engine itself.
pub struct NullDevice {
    kept: MemoryDevice,
    info: DeviceInfo,
}

impl NullDevice {
    /// A member of the given size that keeps the bytes below `kept_bytes`.
    pub fn new(name: impl Into<String>, size_bytes: u64, kept_bytes: u64) -> Self {
        let kept = MemoryDevice::new(name, kept_bytes);
        let info = DeviceInfo { size_bytes, ..kept.info.clone() };
        Self { kept, info }
    }

    /// Whether a request is for the kept bytes. One that begins there and ends behind them fails as
    /// truncated.
    fn is_kept(&self, offset_bytes: u64) -> bool {
        offset_bytes < self.kept.info.size_bytes
    }
}

impl Device for NullDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        if self.is_kept(offset_bytes) {
            return self.kept.read(offset_bytes, into);
        }
        let result = check(&self.info, offset_bytes, bufs_len(&into) as u64);
        IoFuture::ready(ReadDone { result, bufs: into })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        if self.is_kept(offset_bytes) {
            return self.kept.write(offset_bytes, from, flags);
        }
        IoFuture::ready(check(&self.info, offset_bytes, bufs_len(&from) as u64))
    }

    fn flush(&self) -> Completion {
        IoFuture::ready(Ok(()))
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        if self.is_kept(offset_bytes) {
            return self.kept.write_zeroes(offset_bytes, len_bytes, flags);
        }
        IoFuture::ready(check(&self.info, offset_bytes, len_bytes))
    }
}

/// Memory that any number of threads read and write at the same time, byte by byte. No reference into it
/// exists.
struct Bytes {
    map: MmapRaw,
    len: usize,
}

impl Bytes {
    fn new(len: usize) -> Self {
        // A mapping cannot be empty.
        let map =
            MmapOptions::new().len(len.max(1)).map_anon().expect("address space for a member in memory");
        // Only speed depends on it; some systems have no large pages.
        let _ = map.advise(Advice::HugePage);
        Self { map: map.into(), len }
    }

    /// Where a range begins.
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "{len} bytes at {offset} of {}", self.len);
        // SAFETY: the range lies in the mapping, as was just checked.
        unsafe { self.map.as_mut_ptr().add(offset) }
    }

    fn copy_out(&self, offset: usize, to: &mut [u8]) {
        let _part = within(Part::Copy);
        // SAFETY: both ranges are valid, and `to`, being exclusive, is not in the mapping.
        unsafe { racing::copy_out(self.at(offset, to.len()), to.as_mut_ptr(), to.len()) }
    }

    fn copy_in(&self, offset: usize, from: &[u8]) {
        let _part = within(Part::Copy);
        // SAFETY: both ranges are valid, and `from` is not in the mapping, into which there are no
        // references.
        unsafe { racing::copy(from.as_ptr(), self.at(offset, from.len()), from.len()) }
    }

    fn copy_in_uncached(&self, offset: usize, from: &[u8]) {
        let _part = within(Part::Copy);
        // SAFETY: as in `copy_in`.
        unsafe { racing::copy_uncached(from.as_ptr(), self.at(offset, from.len()), from.len()) }
    }

    fn zero(&self, offset: usize, len: usize) {
        // SAFETY: the range is valid.
        unsafe { racing::zero(self.at(offset, len), len) }
    }
}

/// Copies as a [`MemoryDevice`] does for an [uncached](Device::write_uncached) write; for measurements beside
/// it.
///
/// # Panics
/// If the lengths differ.
pub fn copy_uncached(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy is as long as what it is of");
    // SAFETY: both ranges are valid, and `to`, being exclusive, is apart from `from`.
    unsafe { racing::copy_uncached(from.as_ptr(), to.as_mut_ptr(), from.len()) }
}

/// Copies as a [`MemoryDevice`] does for a read; for measurements beside it.
///
/// # Panics
/// If the lengths differ.
pub fn copy_out(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a copy is as long as what it is of");
    // SAFETY: both ranges are valid, and `to`, being exclusive, is apart from `from`.
    unsafe { racing::copy_out(from.as_ptr(), to.as_mut_ptr(), from.len()) }
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on;
    use smallvec::smallvec;

    use super::*;
    use crate::IoBuf;

    #[test]
    fn holds_what_was_written_and_refuses_what_is_not_its() {
        let device = MemoryDevice::new("m", 1 << 20);
        block_on(device.write(512, smallvec![IoBuf::copy_of(&[7; 1024]).freeze()], WriteFlags::default()))
            .unwrap();
        block_on(device.write_zeroes(1024, 512, ZeroFlags::default())).unwrap();
        let read = |offset, len| block_on(device.read(offset, smallvec![IoBuf::with_len(len)]));
        let block = read(0, 2048).into_one().unwrap();
        assert!(block[..512].iter().all(|b| *b == 0) && block[512..1024].iter().all(|b| *b == 7));
        assert!(block[1024..].iter().all(|b| *b == 0));
        assert_eq!(read(1 << 20, 512).result.unwrap_err().kind, IoErrorKind::Truncated);
        assert!(read(1, 512).result.is_err() && read(u64::MAX - 511, 512).result.is_err());
    }

    #[test]
    fn what_is_written_past_the_caches_is_there_whatever_its_place() {
        let device = MemoryDevice::with_block_bytes("m", 1 << 16, 1);
        let data: Vec<u8> = (0..10_000_u32).map(|i| (i % 251) as u8 + 1).collect();
        for (offset, len) in [(0, 4096), (64, 64), (1, 4096), (128, 4097), (4096, 63), (512, 10_000)] {
            block_on(device.write_zeroes(0, 1 << 16, ZeroFlags::default())).unwrap();
            let from = smallvec![IoBuf::copy_of(&data[..len]).freeze()];
            block_on(device.write_uncached(offset, from, WriteFlags::default())).unwrap();
            let read = block_on(device.read(0, smallvec![IoBuf::with_len(1 << 16)])).into_one().unwrap();
            let (before, rest) = read.split_at(offset as usize);
            let (written, behind) = rest.split_at(len);
            assert!(*written == data[..len], "{len} bytes at {offset}");
            assert!(
                before.iter().chain(behind).all(|byte| *byte == 0),
                "{len} bytes at {offset}, and no others"
            );
        }
        let past = smallvec![IoBuf::zeroed(64).freeze()];
        assert!(block_on(device.write_uncached(1 << 16, past, WriteFlags::default())).is_err());
    }

    #[test]
    fn long_reads_are_of_their_place_and_as_long_as_asked_for() {
        let device = MemoryDevice::with_block_bytes("m", 1 << 17, 1);
        let data: Vec<u8> = (0..1_u32 << 17).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        block_on(device.write(0, smallvec![IoBuf::copy_of(&data).freeze()], WriteFlags::default())).unwrap();
        for (offset, len) in [(0, 16 << 10), (4096, 64 << 10), (1, 16 << 10), (63, 50_001), (0, 1 << 17)] {
            let whole =
                block_on(device.read(offset as u64, smallvec![IoBuf::with_len(len)])).into_one().unwrap();
            assert!(whole[..] == data[offset..offset + len], "{len} bytes at {offset}");
            // In the middle of other bytes, aligned to lines and not.
            for before in [64, 2] {
                let mut apart = IoBuf::zeroed(before + len + 64);
                copy_out(&data[offset..offset + len], &mut apart[before..before + len]);
                let (head, rest) = apart.split_at(before);
                let (copied, tail) = rest.split_at(len);
                assert!(*copied == data[offset..offset + len], "{len} bytes at {offset}, to {before}");
                assert!(
                    head.iter().chain(tail).all(|byte| *byte == 0),
                    "{len} bytes to {before}, and no others"
                );
            }
        }
    }

    #[test]
    fn requests_that_overlap_leave_bytes_of_either() {
        let device = MemoryDevice::new("m", 4096);
        let write = |value| {
            for _ in 0..1000 {
                let data = smallvec![IoBuf::copy_of(&[value; 4096]).freeze()];
                block_on(device.write(0, data, WriteFlags::default())).unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| write(1));
            scope.spawn(|| write(2));
        });
        let block = block_on(device.read(0, smallvec![IoBuf::with_len(4096)])).into_one().unwrap();
        assert!(block.iter().all(|b| [1, 2].contains(b)));
    }
}
