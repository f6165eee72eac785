//! A member with a volatile cache: a crash may lose, tear at 512 bytes, or reorder unflushed writes. A member
//! can also be told to be slow, to answer at once, to refuse zero-writes, or to lie.
//!
//! Errors that a member admits come from [`stripewise_device::wrap::Fault`], which stacks on this.

mod image;
mod media;

use std::{
    ops::{Deref, Range},
    sync::Arc,
    time::Duration,
};

use fixedbitset::FixedBitSet;
use image::{BLOCK_BYTES, Image};
pub use media::{Fate, OpenWrite};
use media::{FlushPoint, Media, SECTOR_BYTES, Ticket};
use parking_lot::{Mutex, MutexGuard};
use smallvec::smallvec;
use stripewise_device::{
    Completion, Device, DeviceInfo, Extent, IoBuf, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone,
    SharedBuf, WriteBufs, WriteFlags, ZeroFlags, bufs_len,
};

use crate::{
    events::{DATA_OFFSET_MIN, EventCounts, EventKind, EventLog},
    executor::Executor,
    world::SimSleep,
};

/// The longest time of an I/O; each takes a random part of it, so that they overtake one another.
const LATENCY_MAX_NS: u64 = 200_000;

/// A simulated member.
pub struct SimMember {
    info: DeviceInfo,
    number: usize,
    events: Arc<EventLog>,
    counts: Arc<EventCounts>,
    state: Arc<State>,
}

struct State {
    executor: Arc<Executor>,
    media: Mutex<Media>,
    temper: Mutex<Temper>,
    /// Blocks read since the watch began.
    reads: Mutex<Option<FixedBitSet>>,
    manners: Manners,
}

/// A member's permanent traits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// How many of eight requests are done at once.
    pub at_once: u8,
    /// How it serves a request to zero a range.
    pub zeroes: Zeroes,
    /// Whether it reports that (`DeviceInfo::unmaps`), or leaves it to be tried.
    pub tells: bool,
    /// Smallest unit of I/O.
    pub block_bytes: u32,
}

impl Default for Manners {
    fn default() -> Self {
        Self { at_once: 0, zeroes: Zeroes::Unmap, tells: true, block_bytes: SECTOR_BYTES as u32 }
    }
}

/// How a member serves a request to zero a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zeroes {
    /// It frees the range.
    Unmap,
    /// It writes zeroes, which takes as long as any write; it refuses fast-only requests.
    Write,
    /// It does not support the request.
    Refuse,
}

/// A member's present behaviour.
struct Temper {
    /// Factor on the usual latency.
    slowness: u32,
    /// A further factor for writes of metadata.
    metadata_slowness: u32,
    /// A further factor for flushes.
    flush_slowness: u32,
    /// A lie for the next write from this byte on.
    lie: Option<(u64, Lie)>,
    /// The next write fails, after some of it has arrived.
    fails: bool,
}

impl Temper {
    const CALM: Self = Self { slowness: 1, metadata_slowness: 1, flush_slowness: 1, lie: None, fails: false };

    fn take_lie(&mut self, offset_bytes: u64) -> Option<Lie> {
        self.lie.take_if(|(from_bytes, _)| *from_bytes <= offset_bytes).map(|(_, lie)| lie)
    }
}

/// What a member may do to a write that it acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Nothing arrives.
    Lost,
    /// It arrives at this byte instead.
    Misdirected(u64),
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

/// What a power failure leaves of a member, for later worlds.
pub struct MemberImage(Image);

impl MemberImage {
    /// A number for the bytes: equal for equal bytes.
    pub fn digest(&self) -> u64 {
        self.0.digest()
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

/// A member's bytes.
pub struct Bytes<'a>(Held<'a>);

enum Held<'a> {
    /// The bytes themselves: the cache is empty, and nothing changes them.
    Locked(MutexGuard<'a, Media>),
    /// A copy.
    Copied(Image),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Locked(media) => media.settled().expect("it is settled as long as it is locked"),
            Held::Copied(bytes) => bytes,
        }
    }
}

impl Bytes<'_> {
    /// Blocks of 4 KiB that may hold other bytes than zeroes.
    pub fn written(&self) -> &FixedBitSet {
        match &self.0 {
            Held::Locked(media) => media.written(),
            Held::Copied(bytes) => bytes.written(),
        }
    }
}

impl SimMember {
    pub(crate) fn new(
        info: DeviceInfo,
        manners: Manners,
        number: usize,
        executor: Arc<Executor>,
        (events, counts): (Arc<EventLog>, Arc<EventCounts>),
    ) -> Self {
        let media = Media::new(info.size_bytes as usize);
        Self::of(info, manners, number, executor, (events, counts), media)
    }

    /// A member with these bytes, and default traits.
    pub(crate) fn holding(
        info: DeviceInfo,
        number: usize,
        executor: Arc<Executor>,
        noted: (Arc<EventLog>, Arc<EventCounts>),
        bytes: &MemberImage,
    ) -> Self {
        Self::of(info, Manners::default(), number, executor, noted, Media::with(&bytes.0))
    }

    fn of(
        info: DeviceInfo,
        manners: Manners,
        number: usize,
        executor: Arc<Executor>,
        (events, counts): (Arc<EventLog>, Arc<EventCounts>),
        media: Media,
    ) -> Self {
        let (media, temper) = (Mutex::new(media), Mutex::new(Temper::CALM));
        let state = State { executor, media, temper, reads: Mutex::new(None), manners };
        Self { info, number, events, counts, state: Arc::new(state) }
    }

    /// The number of changes so far to what a power failure may leave.
    pub fn changes(&self) -> u64 {
        self.state.media.lock().changes()
    }

    /// A digest of the bytes that no power failure can take: equal for equal bytes.
    pub fn stable_digest(&self) -> u64 {
        self.state.media.lock().digest()
    }

    /// The writes whose fate a power failure would decide now.
    pub fn open_writes(&self) -> Vec<OpenWrite> {
        self.state.media.lock().open_writes()
    }

    /// What a power failure would leave that gave the open writes these fates.
    pub fn left_by(&self, fates: &[Fate]) -> MemberImage {
        MemberImage(self.state.media.lock().left_by(fates))
    }

    /// All bytes as reads see them, to begin other worlds with.
    pub fn image(&self) -> MemberImage {
        MemberImage(self.state.media.lock().bytes().compact_copy())
    }

    pub(crate) fn lose_power(&self) {
        let mut media = self.state.media.lock();
        self.state.executor.with_rng(|rng| media.lose_power(rng));
    }

    pub(crate) fn lose_program(&self) {
        let mut media = self.state.media.lock();
        self.state.executor.with_rng(|rng| media.lose_program(rng));
    }

    /// The world ends: requests under way no longer arrive.
    pub(crate) fn end(&self) {
        self.state.media.lock().end();
    }

    /// What reads would see now.
    pub fn snapshot(&self) -> MemberSnapshot {
        MemberSnapshot(self.state.media.lock().bytes().to_vec())
    }

    /// What reads would see now, without a copy if the cache is empty. Requests may wait while it is held.
    pub fn bytes(&self) -> Bytes<'_> {
        let media = self.state.media.lock();
        Bytes(if media.settled().is_none() { Held::Copied(media.bytes()) } else { Held::Locked(media) })
    }

    /// Changes bytes unnoticed: a bit flip, a foreign write.
    pub fn poke(&self, offset_bytes: u64, bytes: &[u8]) {
        self.state.media.lock().poke(offset_bytes as usize, bytes);
    }

    /// Forgets the blocks of 4 KiB that lie wholly in a range and have nothing in the cache: they are holes.
    pub fn punch(&self, range_bytes: Range<u64>) {
        self.state.media.lock().punch(range_bytes.start as usize..range_bytes.end as usize);
    }

    /// From now on requests take `times` as long.
    pub fn set_slowness(&self, times: u32) {
        self.state.temper.lock().slowness = times;
    }

    /// From now on writes of metadata take `times` as long as others, and none is done at once.
    pub fn set_metadata_slowness(&self, times: u32) {
        self.state.temper.lock().metadata_slowness = times;
    }

    /// From now on flushes take `times` as long as others, and none is done at once.
    pub fn set_flush_slowness(&self, times: u32) {
        self.state.temper.lock().flush_slowness = times;
    }

    /// The next write at or behind `from_bytes` is acknowledged and does something else.
    pub fn lie_once(&self, from_bytes: u64, lie: Lie) {
        self.state.temper.lock().lie = Some((from_bytes, lie));
    }

    /// The next write fails, after the usual time, and after a part of it has arrived.
    pub fn fail_once(&self) {
        self.state.temper.lock().fails = true;
    }

    /// Whether the next write will fail.
    pub fn will_fail(&self) -> bool {
        self.state.temper.lock().fails
    }

    /// From now on the blocks read are noted.
    pub fn watch_reads(&self) {
        let blocks = self.info.size_bytes as usize / BLOCK_BYTES + 1;
        *self.state.reads.lock() = Some(FixedBitSet::with_capacity(blocks));
    }

    /// The blocks of 4 KiB that were read at least in part since [`SimMember::watch_reads`]; the watch ends
    /// here.
    pub fn watched_reads(&self) -> FixedBitSet {
        self.state.reads.lock().take().unwrap_or_default()
    }

    /// Ends all special behaviour.
    pub fn calm_down(&self) {
        *self.state.temper.lock() = Temper::CALM;
    }

    fn check(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
        let inside = offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.info.size_bytes);
        let block = u64::from(self.state.manners.block_bytes);
        let aligned = offset_bytes.is_multiple_of(block) && len_bytes.is_multiple_of(block);
        match (inside, aligned) {
            (false, _) => Err(IoError::new(IoErrorKind::Truncated)),
            (_, false) => Err(IoError::new(IoErrorKind::Refused)),
            _ => Ok(()),
        }
    }

    /// Records a request, with the hash of the data to be written.
    fn note(&self, kind: EventKind, offset_bytes: u64, len_bytes: u64, content: u64) {
        let what = (kind as u64) << 32 | self.number as u64;
        self.state.executor.note([what, offset_bytes, len_bytes, content]);
        self.events.note(self.state.executor.now(), self.number, kind, offset_bytes, len_bytes);
        self.counts.count(kind, offset_bytes);
    }

    fn write_content(&self, offset_bytes: u64, mut content: WriteBufs, fua: bool) -> Completion {
        if let Err(error) = self.check(offset_bytes, bufs_len(&content) as u64) {
            return IoFuture::ready(Err(error));
        }
        let latency = self.state.write_latency(offset_bytes);
        let lie = self.state.temper.lock().take_lie(offset_bytes);
        let target = match lie {
            Some(Lie::Lost) => return later(latency, || Ok(())),
            Some(Lie::Misdirected(elsewhere)) => elsewhere,
            None => offset_bytes,
        };
        let fails = std::mem::take(&mut self.state.temper.lock().fails);
        if fails {
            self.counts.count_failure();
            let sectors = bufs_len(&content) / SECTOR_BYTES;
            let arrived = self.state.executor.with_rng(|rng| rng.usize(..=sectors)) * SECTOR_BYTES;
            content = first_bytes(&content, arrived);
        }
        let ticket = self.state.media.lock().begin_write(target as usize, content);
        let in_flight = InFlight { state: self.state.clone(), ticket, fua };
        later(latency, move || {
            in_flight.complete();
            if fails { Err(IoError::new(IoErrorKind::Medium)) } else { Ok(()) }
        })
    }
}

/// The result of a request after its latency, or, without one, at once.
fn later<T: Send + 'static>(
    latency: Option<SimSleep>,
    outcome: impl FnOnce() -> T + Send + 'static,
) -> IoFuture<T> {
    let Some(latency) = latency else { return IoFuture::ready(outcome()) };
    IoFuture::boxed(async move {
        latency.await;
        outcome()
    })
}

/// A sum, and a sum of the sums, which is sensitive to places, of a sample: each buffer's first sector, where
/// metadata has its own checksums, and every ninth word of the rest, some of each sector. Summing everything
/// takes 5 % of a story.
fn hash(content: &WriteBufs) -> u64 {
    let (mut sum, mut sum_of_sums) = (0u64, 0u64);
    let mut add = |word: &[u8; 8]| {
        sum = sum.wrapping_add(u64::from_le_bytes(*word));
        sum_of_sums = sum_of_sums.wrapping_add(sum);
    };
    for buf in content {
        let words = buf.as_chunks().0;
        let (first, rest) = words.split_at(words.len().min(SECTOR_BYTES / 8));
        first.iter().for_each(&mut add);
        rest.as_chunks::<9>().0.iter().for_each(|words| add(&words[0]));
    }
    sum.rotate_left(32) ^ sum_of_sums
}

/// The first `left` bytes.
fn first_bytes(content: &WriteBufs, mut left: usize) -> WriteBufs {
    let mut first = |buf: &SharedBuf| {
        let len = left.min(buf.len());
        left -= len;
        buf.slice(0..len)
    };
    content.iter().map(&mut first).collect()
}

impl State {
    /// How long an I/O takes. None: it is done at once.
    fn latency(&self) -> Option<SimSleep> {
        let at_once = self.manners.at_once;
        if at_once > 0 && self.executor.with_rng(|rng| rng.u8(..8)) < at_once {
            return None;
        }
        Some(self.delay(1))
    }

    /// How long a write takes.
    fn write_latency(&self, offset_bytes: u64) -> Option<SimSleep> {
        let times = self.temper.lock().metadata_slowness;
        if times == 1 || offset_bytes >= DATA_OFFSET_MIN { self.latency() } else { Some(self.delay(times)) }
    }

    /// How long a flush takes.
    fn flush_latency(&self) -> Option<SimSleep> {
        let times = self.temper.lock().flush_slowness;
        if times == 1 { self.latency() } else { Some(self.delay(times)) }
    }

    fn delay(&self, times: u32) -> SimSleep {
        let slowness = u64::from(self.temper.lock().slowness * times);
        let nanos = self.executor.with_rng(|rng| rng.u64(1000..LATENCY_MAX_NS)) * slowness;
        SimSleep::new(self.executor.clone(), Duration::from_nanos(nanos))
    }

    fn complete_flush(&self, point: FlushPoint) {
        self.media.lock().complete_flush(point);
    }
}

/// A write under way. If its future is dropped it still completes, some time later: dropping a future cancels
/// nothing.
struct InFlight {
    state: Arc<State>,
    ticket: Ticket,
    fua: bool,
}

impl InFlight {
    fn complete(&self) {
        self.state.media.lock().complete_write(self.ticket, self.fua);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.state.media.lock().is_pending(self.ticket) {
            return;
        }
        let orphan = Self { state: self.state.clone(), ..*self };
        let latency = self.state.delay(1);
        self.state.executor.spawn(Box::pin(async move {
            latency.await;
            orphan.complete();
        }));
    }
}

impl Device for SimMember {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, mut into: ReadBufs) -> IoFuture<ReadDone> {
        let len = bufs_len(&into) as u64;
        self.note(EventKind::Read, offset_bytes, len, 0);
        if let Err(error) = self.check(offset_bytes, len) {
            return IoFuture::ready(ReadDone { result: Err(error), bufs: into });
        }
        if let Some(reads) = &mut *self.state.reads.lock() {
            let (start, end) = (offset_bytes as usize, (offset_bytes + len) as usize);
            reads.insert_range(start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES));
        }
        let (state, latency) = (self.state.clone(), self.state.latency());
        later(latency, move || {
            let mut at = offset_bytes as usize;
            let media = state.media.lock();
            for buf in &mut into {
                media.read(at, buf);
                at += buf.len();
            }
            drop(media);
            ReadDone { result: Ok(()), bufs: into }
        })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        let kind = if flags.fua { EventKind::WriteFua } else { EventKind::Write };
        self.note(kind, offset_bytes, bufs_len(&from) as u64, hash(&from));
        self.write_content(offset_bytes, from, flags.fua)
    }

    fn flush(&self) -> Completion {
        self.note(EventKind::Flush, 0, 0, 0);
        let point = self.state.media.lock().begin_flush();
        let (state, latency) = (self.state.clone(), self.state.flush_latency());
        later(latency, move || {
            state.complete_flush(point);
            Ok(())
        })
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        let zeroes = self.state.manners.zeroes;
        if zeroes == Zeroes::Refuse || zeroes == Zeroes::Write && flags.fast_only {
            return IoFuture::ready(Err(IoError::new(IoErrorKind::Refused)));
        }
        self.note(EventKind::Zero, offset_bytes, len_bytes, 0);
        self.write_content(offset_bytes, smallvec![IoBuf::zeroed(len_bytes as usize).freeze()], false)
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        let media = self.state.media.lock();
        let mut extents: Vec<Extent> = Vec::new();
        let (mut at, end) = (offset_bytes, offset_bytes + len_bytes);
        while at < end {
            let next = ((at / BLOCK_BYTES as u64 + 1) * BLOCK_BYTES as u64).min(end);
            let (is_hole, len_bytes) = (media.is_hole(at as usize), next - at);
            match extents.last_mut() {
                Some(last) if last.is_hole == is_hole => last.len_bytes += len_bytes,
                _ => extents.push(Extent { len_bytes, is_hole }),
            }
            at = next;
        }
        IoFuture::ready(Ok(extents))
    }
}
