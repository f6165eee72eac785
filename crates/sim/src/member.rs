//! A member with a volatile cache: what is not flushed may be lost, torn at 512 bytes, or reordered by a crash.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use stripewise_device::{
    Completion, Device, DeviceInfo, IoError, IoErrorKind, IoFuture, MediaKind, ReadBufs, ReadDone, WriteBufs,
    WriteFlags, ZeroFlags, bufs_len,
};

use crate::{executor::Executor, world::SimSleep};

/// The unit of tearing.
const SECTOR_BYTES: usize = 512;
/// The longest that an I/O takes; each takes a random part of it, so that they overtake one another.
const LATENCY_MAX_NS: u64 = 200_000;

/// A simulated member.
pub struct SimMember {
    info: DeviceInfo,
    executor: Arc<Executor>,
    disk: Arc<Mutex<Disk>>,
}

/// The bytes of a member at one moment, for checkers.
#[derive(Clone, PartialEq, Eq)]
pub struct MemberSnapshot(Vec<u8>);

impl MemberSnapshot {
    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

struct Disk {
    /// What reads see.
    current: Vec<u8>,
    /// What is on stable media, where it differs from `current`: by sector.
    stable: BTreeMap<usize, [u8; SECTOR_BYTES]>,
    /// Writes asked for and not completed.
    in_flight: BTreeMap<u64, (usize, Vec<u8>)>,
    next_write: u64,
    /// Grows with each power loss; requests of an earlier life change nothing.
    life: u64,
}

impl Disk {
    fn apply(&mut self, offset: usize, bytes: &[u8], durable: bool) {
        for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            let at = offset + index * SECTOR_BYTES;
            let number = at / SECTOR_BYTES;
            if durable {
                self.stable.remove(&number);
            } else {
                let old = self.sector(number);
                self.stable.entry(number).or_insert(old);
            }
            self.current[at..at + sector.len()].copy_from_slice(sector);
        }
    }

    fn sector(&self, number: usize) -> [u8; SECTOR_BYTES] {
        let at = number * SECTOR_BYTES;
        self.current[at..at + SECTOR_BYTES].try_into().expect("members are whole sectors")
    }

    /// The sectors not yet on stable media, as they are now.
    fn volatile_sectors(&self) -> Vec<(usize, [u8; SECTOR_BYTES])> {
        self.stable.keys().map(|number| (*number, self.sector(*number))).collect()
    }

    /// A flush has made this content of a sector stable; what was written since is volatile still.
    fn settle(&mut self, number: usize, content: [u8; SECTOR_BYTES]) {
        if self.sector(number) == content {
            self.stable.remove(&number);
        } else if let Some(stable) = self.stable.get_mut(&number) {
            *stable = content;
        }
    }

    /// Sectors in a volatile state fall back to stable ones, or not; writes under way arrive in part, or not.
    fn lose_power(&mut self, rng: &mut fastrand::Rng) {
        let keep_all = rng.u8(..4) == 0;
        for (number, old) in std::mem::take(&mut self.stable) {
            if !keep_all && rng.bool() {
                let at = number * SECTOR_BYTES;
                self.current[at..at + SECTOR_BYTES].copy_from_slice(&old);
            }
        }
        for (offset, bytes) in std::mem::take(&mut self.in_flight).into_values() {
            let torn = rng.u8(..3);
            for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                if torn == 2 || torn == 1 && rng.bool() {
                    let at = offset + index * SECTOR_BYTES;
                    self.current[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
        self.life += 1;
    }
}

impl SimMember {
    pub(crate) fn new(name: String, size_bytes: u64, executor: Arc<Executor>) -> Self {
        let info = DeviceInfo { name, size_bytes, logical_block_bytes: 512, media: MediaKind::Ssd };
        let disk = Disk {
            current: vec![0; size_bytes as usize],
            stable: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            next_write: 0,
            life: 0,
        };
        Self { info, executor, disk: Arc::new(Mutex::new(disk)) }
    }

    pub(crate) fn lose_power(&self) {
        let mut disk = self.disk.lock();
        self.executor.with_rng(|rng| disk.lose_power(rng));
    }

    /// The world ends: nothing under way arrives any more.
    pub(crate) fn end(&self) {
        self.disk.lock().life += 1;
    }

    /// What reads would see now.
    pub fn snapshot(&self) -> MemberSnapshot {
        MemberSnapshot(self.disk.lock().current.clone())
    }

    /// Changes bytes behind everybody's back: a bit flip, a foreign write.
    pub fn poke(&self, offset_bytes: u64, bytes: &[u8]) {
        let start = offset_bytes as usize;
        self.disk.lock().current[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn check(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
        let inside = offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.info.size_bytes);
        let aligned = offset_bytes.is_multiple_of(512) && len_bytes.is_multiple_of(512);
        match (inside, aligned) {
            (false, _) => Err(IoError::new(IoErrorKind::Truncated)),
            (_, false) => Err(IoError::new(IoErrorKind::Refused)),
            _ => Ok(()),
        }
    }

    fn latency(&self) -> SimSleep {
        latency(&self.executor)
    }

    fn note(&self, kind: u64, offset_bytes: u64, len_bytes: u64) {
        self.executor.note(kind << 60 ^ offset_bytes.rotate_left(8) ^ len_bytes);
    }

    fn write_bytes(&self, offset_bytes: u64, bytes: Vec<u8>, fua: bool) -> Completion {
        if let Err(error) = self.check(offset_bytes, bytes.len() as u64) {
            return IoFuture::ready(Err(error));
        }
        let (id, life) = {
            let mut disk = self.disk.lock();
            disk.next_write += 1;
            let id = disk.next_write;
            disk.in_flight.insert(id, (offset_bytes as usize, bytes));
            (id, disk.life)
        };
        let (disk, latency) = (self.disk.clone(), self.latency());
        let executor = self.executor.clone();
        let in_flight = InFlight { disk, executor, id, life, fua };
        IoFuture::boxed(async move {
            latency.await;
            in_flight.complete();
            Ok(())
        })
    }
}

/// A write under way. If nobody waits for it any more it still completes, some time later: a dropped future cancels
/// nothing.
struct InFlight {
    disk: Arc<Mutex<Disk>>,
    executor: Arc<Executor>,
    id: u64,
    life: u64,
    fua: bool,
}

impl InFlight {
    fn complete(&self) {
        let mut disk = self.disk.lock();
        if disk.life == self.life
            && let Some((offset, bytes)) = disk.in_flight.remove(&self.id)
        {
            disk.apply(offset, &bytes, self.fua);
        }
    }

    fn is_under_way(&self) -> bool {
        let disk = self.disk.lock();
        disk.life == self.life && disk.in_flight.contains_key(&self.id)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.is_under_way() {
            return;
        }
        let orphan = Self { executor: self.executor.clone(), disk: self.disk.clone(), ..*self };
        let latency = latency(&self.executor);
        self.executor.spawn(Box::pin(async move {
            latency.await;
            orphan.complete();
        }));
    }
}

/// How long an I/O takes.
fn latency(executor: &Arc<Executor>) -> SimSleep {
    let nanos = executor.with_rng(|rng| rng.u64(1000..LATENCY_MAX_NS));
    SimSleep::new(executor.clone(), Duration::from_nanos(nanos))
}

impl Device for SimMember {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, mut into: ReadBufs) -> IoFuture<ReadDone> {
        let len = bufs_len(&into) as u64;
        self.note(1, offset_bytes, len);
        if let Err(error) = self.check(offset_bytes, len) {
            return IoFuture::ready(ReadDone { result: Err(error), bufs: into });
        }
        let (disk, latency) = (self.disk.clone(), self.latency());
        IoFuture::boxed(async move {
            latency.await;
            let mut at = offset_bytes as usize;
            let disk = disk.lock();
            for buf in &mut into {
                let len = buf.len();
                buf.copy_from_slice(&disk.current[at..at + len]);
                at += len;
            }
            ReadDone { result: Ok(()), bufs: into }
        })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.note(if flags.fua { 3 } else { 2 }, offset_bytes, bufs_len(&from) as u64);
        let bytes = from.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.write_bytes(offset_bytes, bytes, flags.fua)
    }

    fn flush(&self) -> Completion {
        self.note(4, 0, 0);
        let (covered, life) = {
            let disk = self.disk.lock();
            (disk.volatile_sectors(), disk.life)
        };
        let (disk, latency) = (self.disk.clone(), self.latency());
        IoFuture::boxed(async move {
            latency.await;
            let mut disk = disk.lock();
            if disk.life == life {
                covered.into_iter().for_each(|(number, content)| disk.settle(number, content));
            }
            Ok(())
        })
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, _: ZeroFlags) -> Completion {
        self.note(5, offset_bytes, len_bytes);
        self.write_bytes(offset_bytes, vec![0; len_bytes as usize], false)
    }
}
