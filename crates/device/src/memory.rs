//! A member in memory: every request is done at once. For benchmarks, tests and RAM-backed arrays.

use parking_lot::RwLock;

use crate::{
    Completion, Device, DeviceInfo, IoError, IoErrorKind, IoFuture, MediaKind, ReadBufs, ReadDone, WriteBufs,
    WriteFlags, ZeroFlags, bufs_len,
};

/// Bytes under one lock. Large enough that a chunk rarely crosses shards, small enough that threads rarely meet.
const SHARD_BYTES: usize = 1 << 20;

/// A member whose bytes are in memory.
pub struct MemoryDevice {
    info: DeviceInfo,
    shards: Vec<RwLock<Box<[u8]>>>,
}

impl MemoryDevice {
    /// A zeroed member of the given size, with 512-byte logical blocks.
    pub fn new(name: impl Into<String>, size_bytes: u64) -> Self {
        Self::with_block_bytes(name, size_bytes, 512)
    }

    /// As [`MemoryDevice::new`] with a given logical block size.
    pub fn with_block_bytes(name: impl Into<String>, size_bytes: u64, logical_block_bytes: u32) -> Self {
        let info = DeviceInfo { name: name.into(), size_bytes, logical_block_bytes, media: MediaKind::Ssd };
        let shard_count = size_bytes.div_ceil(SHARD_BYTES as u64);
        let shards = (0..shard_count).map(|_| RwLock::new(vec![0; SHARD_BYTES].into_boxed_slice())).collect();
        Self { info, shards }
    }

    fn check(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
        let end = offset_bytes.checked_add(len_bytes).ok_or(IoError::new(IoErrorKind::Refused))?;
        if end > self.info.size_bytes {
            return Err(IoError::new(IoErrorKind::Truncated));
        }
        let block = u64::from(self.info.logical_block_bytes);
        if !offset_bytes.is_multiple_of(block) || !len_bytes.is_multiple_of(block) {
            return Err(IoError::from_errno(libc::EINVAL));
        }
        Ok(())
    }

    /// Copies out; the range has been checked.
    fn copy_out(&self, mut offset: usize, mut to: &mut [u8]) {
        while !to.is_empty() {
            let (shard, at) = (offset / SHARD_BYTES, offset % SHARD_BYTES);
            let (now, rest) = to.split_at_mut((SHARD_BYTES - at).min(to.len()));
            now.copy_from_slice(&self.shards[shard].read()[at..at + now.len()]);
            offset += now.len();
            to = rest;
        }
    }

    /// Runs `change` on each shard's part of a checked range.
    fn change(&self, mut offset: usize, len: usize, mut change: impl FnMut(&mut [u8])) {
        let end = offset + len;
        while offset < end {
            let (shard, at) = (offset / SHARD_BYTES, offset % SHARD_BYTES);
            let now = (SHARD_BYTES - at).min(end - offset);
            change(&mut self.shards[shard].write()[at..at + now]);
            offset += now;
        }
    }
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
                self.copy_out(offset, buf);
                offset += buf.len();
            }
        }
        IoFuture::ready(ReadDone { result, bufs: into })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, _flags: WriteFlags) -> Completion {
        let result = self.check(offset_bytes, bufs_len(&from) as u64);
        if result.is_ok() {
            let mut offset = offset_bytes as usize;
            for buf in &from {
                let mut source: &[u8] = buf;
                self.change(offset, buf.len(), |part| {
                    let (now, rest) = source.split_at(part.len());
                    part.copy_from_slice(now);
                    source = rest;
                });
                offset += buf.len();
            }
        }
        IoFuture::ready(result)
    }

    fn flush(&self) -> Completion {
        IoFuture::ready(Ok(()))
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, _: ZeroFlags) -> Completion {
        let result = self.check(offset_bytes, len_bytes);
        if result.is_ok() {
            self.change(offset_bytes as usize, len_bytes as usize, |part| part.fill(0));
        }
        IoFuture::ready(result)
    }
}
