//! A member in memory for real threads: each request is one step that no other request cuts in two, done at once or some
//! time later, as chance has it.

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use stripewise_device::{
    Completion, Device, DeviceInfo, EnvHandle, IoError, IoErrorKind, IoFuture, MediaKind, ReadBufs, ReadDone,
    WriteBufs, WriteFlags, ZeroFlags, bufs_len,
};

/// The longest that a request waits, in microseconds.
const LATENCY_MAX_US: u64 = 100;

/// A member. All its bytes are its own: sectors are never torn, as on a disk.
pub struct StressMember {
    info: DeviceInfo,
    env: EnvHandle,
    bytes: Arc<RwLock<Vec<u8>>>,
}

impl StressMember {
    pub(super) fn new(name: String, size_bytes: u64, env: EnvHandle) -> Arc<Self> {
        let info = DeviceInfo { name, size_bytes, logical_block_bytes: 512, media: MediaKind::Ssd };
        Arc::new(Self { info, env, bytes: Arc::new(RwLock::new(vec![0; size_bytes as usize])) })
    }

    /// All its bytes now.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        self.bytes.read().clone()
    }

    /// Does `step` now or later, and answers now or later.
    fn answer<T: Unpin + Send + 'static>(
        &self,
        end_bytes: u64,
        step: impl FnOnce(&RwLock<Vec<u8>>, Result<(), IoError>) -> T + Send + 'static,
    ) -> IoFuture<T> {
        let inside = end_bytes <= self.info.size_bytes;
        let checked = if inside { Ok(()) } else { Err(IoError::new(IoErrorKind::Truncated)) };
        let chance = fastrand::u8(..4);
        if chance < 2 {
            return IoFuture::ready(step(&self.bytes, checked));
        }
        let sleep = self.env.sleep(Duration::from_micros(fastrand::u64(..LATENCY_MAX_US)));
        if chance == 2 {
            let done = step(&self.bytes, checked);
            return IoFuture::boxed(async move {
                sleep.await;
                done
            });
        }
        let bytes = self.bytes.clone();
        IoFuture::boxed(async move {
            sleep.await;
            step(&bytes, checked)
        })
    }
}

impl Device for StressMember {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, mut into: ReadBufs) -> IoFuture<ReadDone> {
        let end = offset_bytes + bufs_len(&into) as u64;
        self.answer(end, move |bytes, result| {
            if result.is_ok() {
                let bytes = bytes.read();
                let mut at = offset_bytes as usize;
                for buf in &mut into {
                    let len = buf.len();
                    buf.copy_from_slice(&bytes[at..at + len]);
                    at += len;
                }
            }
            ReadDone { result, bufs: into }
        })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, _: WriteFlags) -> Completion {
        let end = offset_bytes + bufs_len(&from) as u64;
        self.answer(end, move |bytes, result| {
            result?;
            let mut bytes = bytes.write();
            let mut at = offset_bytes as usize;
            for buf in &from {
                bytes[at..at + buf.len()].copy_from_slice(buf);
                at += buf.len();
            }
            Ok(())
        })
    }

    fn flush(&self) -> Completion {
        self.answer(0, |_, result| result)
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, _: ZeroFlags) -> Completion {
        self.answer(offset_bytes + len_bytes, move |bytes, result| {
            result?;
            bytes.write()[offset_bytes as usize..(offset_bytes + len_bytes) as usize].fill(0);
            Ok(())
        })
    }
}
