//! A member in memory for real threads: each sector is read and written in one step, and chance decides
//! whether a request is done at once or some time later.
//!
//! Each sector has a lock of its own. One lock for the whole member would order everything that passes
//! through it, and accesses that the engine forgot to order would look ordered.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use stripewise_device::{
    Completion, Device, DeviceInfo, EnvHandle, IoError, IoErrorKind, IoFuture, MediaKind, ReadBufs, ReadDone,
    WriteBufs, WriteFlags, ZeroFlags, bufs_len,
};

use crate::check::SECTOR_BYTES;

/// The longest that a request waits, in microseconds.
const LATENCY_MAX_US: u64 = 100;

/// Bytes that no other request cuts in two.
type Sector = [u8; SECTOR_BYTES];

/// A member. Sectors are never torn, as on a disk, but overlapping requests may interleave.
pub struct StressMember {
    info: DeviceInfo,
    env: EnvHandle,
    sectors: Arc<[Mutex<Sector>]>,
}

/// The sectors of a request, which must be whole sectors of the member.
fn of_request(sectors: &[Mutex<Sector>], offset_bytes: u64) -> impl Iterator<Item = &Mutex<Sector>> {
    sectors[offset_bytes as usize / SECTOR_BYTES..].iter()
}

impl StressMember {
    pub(super) fn new(name: String, size_bytes: u64, env: EnvHandle) -> Arc<Self> {
        let logical_block_bytes = SECTOR_BYTES as u32;
        let (media, unmaps) = (MediaKind::Ssd, Some(true));
        let info = DeviceInfo { name, size_bytes, logical_block_bytes, media, unmaps };
        let zeroed = (0..size_bytes as usize / SECTOR_BYTES).map(|_| Mutex::new([0; SECTOR_BYTES]));
        Arc::new(Self { info, env, sectors: zeroed.collect() })
    }

    /// All its bytes now.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        self.sectors.iter().flat_map(|sector| *sector.lock()).collect()
    }

    /// Does `step` now or later, and answers now or later.
    fn answer<T: Unpin + Send + 'static>(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        step: impl FnOnce(&[Mutex<Sector>], Result<(), IoError>) -> T + Send + 'static,
    ) -> IoFuture<T> {
        let checked = if offset_bytes + len_bytes > self.info.size_bytes {
            Err(IoError::new(IoErrorKind::Truncated))
        } else if (offset_bytes | len_bytes).is_multiple_of(SECTOR_BYTES as u64) {
            Ok(())
        } else {
            Err(IoError::new(IoErrorKind::Refused))
        };
        let chance = fastrand::u8(..4);
        if chance < 2 {
            return IoFuture::ready(step(&self.sectors, checked));
        }
        let sleep = self.env.sleep(Duration::from_micros(fastrand::u64(..LATENCY_MAX_US)));
        if chance == 2 {
            let done = step(&self.sectors, checked);
            return IoFuture::boxed(async move {
                sleep.await;
                done
            });
        }
        let sectors = self.sectors.clone();
        IoFuture::boxed(async move {
            sleep.await;
            step(&sectors, checked)
        })
    }
}

impl Device for StressMember {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, mut into: ReadBufs) -> IoFuture<ReadDone> {
        self.answer(offset_bytes, bufs_len(&into) as u64, move |sectors, result| {
            if result.is_ok() {
                let pieces = into.iter_mut().flat_map(|buf| buf.chunks_exact_mut(SECTOR_BYTES));
                for (sector, piece) in of_request(sectors, offset_bytes).zip(pieces) {
                    piece.copy_from_slice(&*sector.lock());
                }
            }
            ReadDone { result, bufs: into }
        })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, _: WriteFlags) -> Completion {
        self.answer(offset_bytes, bufs_len(&from) as u64, move |sectors, result| {
            result?;
            let pieces = from.iter().flat_map(|buf| buf.chunks_exact(SECTOR_BYTES));
            for (sector, piece) in of_request(sectors, offset_bytes).zip(pieces) {
                sector.lock().copy_from_slice(piece);
            }
            Ok(())
        })
    }

    fn flush(&self) -> Completion {
        self.answer(0, 0, |_, result| result)
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, _: ZeroFlags) -> Completion {
        self.answer(offset_bytes, len_bytes, move |sectors, result| {
            result?;
            let zeroed = of_request(sectors, offset_bytes).take(len_bytes as usize / SECTOR_BYTES);
            zeroed.for_each(|sector| sector.lock().fill(0));
            Ok(())
        })
    }
}
