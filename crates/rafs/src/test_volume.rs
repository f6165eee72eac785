//! A volume for tests: in memory, losing power, failing, and stopping in the middle.

use std::{
    collections::BTreeMap,
    ops::Range,
    pin::pin,
    task::{Context, Poll},
};

use futures_util::task::noop_waker_ref;
use parking_lot::Mutex;
use smallvec::smallvec;
use stripewise_device::{Completion, IoBuf, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, SharedBuf};

use crate::{
    shape::{BLOCK_BYTES, Cell, Geometry, Order, StripeNo},
    volume::Volume,
};

const SECTOR: usize = 512;

/// A volume.
pub(crate) struct TestVolume {
    pub(crate) geometry: Geometry,
    state: Mutex<State>,
    /// Requests are not done at once, but after up to so many polls.
    polls: u32,
}

struct State {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Power fails after so many more writes and flushes. Later ones are made up: they are undone when the volume takes notice.
    left: u64,
    /// What was there when power failed: `now` and `durable`.
    stopped: Option<(Vec<u8>, Vec<u8>)>,
    /// So many more writes and flushes go well.
    good: u64,
    /// Flushes, and blocks that were read.
    flushes: u64,
    discarded: u64,
    reads: u64,
    turns: u64,
    /// Rows that were written as a whole, and blocks that were not.
    written: (u64, u64),
    /// Nothing can be read.
    is_unreadable: bool,
    /// Blocks that cannot be read until they are written, and why.
    spoilt: BTreeMap<usize, IoErrorKind>,
}

impl TestVolume {
    pub(crate) fn new(geometry: Geometry) -> Self {
        let bytes = vec![0; geometry.blocks() as usize * BLOCK_BYTES];
        let (left, good) = (u64::MAX, u64::MAX);
        let state = State {
            now: bytes.clone(),
            durable: bytes,
            left,
            stopped: None,
            good,
            flushes: 0,
            discarded: 0,
            reads: 0,
            turns: 1,
            written: (0, 0),
            is_unreadable: false,
            spoilt: BTreeMap::new(),
        };
        Self { geometry, state: Mutex::new(state), polls: 0 }
    }

    /// A volume whose requests are done after up to so many polls.
    pub(crate) fn slow(geometry: Geometry, polls: u32) -> Self {
        Self { polls, ..Self::new(geometry) }
    }

    /// A volume with the same bytes, all of which are durable.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::new(self.geometry);
        let now = self.state.lock().now.clone();
        {
            let mut state = copy.state.lock();
            (state.now, state.durable) = (now.clone(), now);
        }
        copy
    }

    /// All bytes, as they are now.
    pub(crate) fn bytes_now(&self) -> Vec<u8> {
        self.state.lock().now.clone()
    }

    /// Puts durable bytes somewhere, as no writer would.
    pub(crate) fn poke(&self, offset_bytes: u64, with: &[u8]) {
        let State { now, durable, .. } = &mut *self.state.lock();
        let at = offset_bytes as usize;
        [now, durable].into_iter().for_each(|bytes| bytes[at..at + with.len()].copy_from_slice(with));
    }

    /// A request that was carried out, and tells so later.
    fn later<T: Send + 'static>(&self, value: T) -> IoFuture<T> {
        if self.polls == 0 {
            return IoFuture::ready(value);
        }
        let mut left = {
            let mut state = self.state.lock();
            state.turns = state.turns.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state.turns >> 33) as u32 % (self.polls + 1)
        };
        let mut value = Some(value);
        IoFuture::boxed(std::future::poll_fn(move |context| {
            if left > 0 {
                left -= 1;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            value.take().map_or(Poll::Pending, Poll::Ready)
        }))
    }

    /// Power fails: a sector that was not flushed is kept if `keeps` says so.
    pub(crate) fn lose_power(&self, mut keeps: impl FnMut() -> bool) {
        self.go_on();
        let State { now, durable, .. } = &mut *self.state.lock();
        for (now, durable) in now.chunks_mut(SECTOR).zip(durable.chunks_mut(SECTOR)) {
            if now != durable && keeps() {
                durable.copy_from_slice(now);
            }
            now.copy_from_slice(durable);
        }
    }

    /// Whether power has failed since [`TestVolume::stop_after`], and writes or flushes were made up since.
    pub(crate) fn has_dropped(&self) -> bool {
        self.state.lock().stopped.is_some()
    }

    /// Flushes, and blocks that were read.
    pub(crate) fn flushes_and_reads(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.flushes, state.reads)
    }

    /// Power fails after so many more writes and flushes. The volume takes notice by [`TestVolume::lose_power`].
    pub(crate) fn stop_after(&self, count: u64) {
        self.state.lock().left = count;
    }

    /// After [`TestVolume::stop_after`]: the program ended, and another one begins.
    pub(crate) fn go_on(&self) {
        let mut state = self.state.lock();
        state.left = u64::MAX;
        if let Some((now, durable)) = state.stopped.take() {
            (state.now, state.durable) = (now, durable);
        }
    }

    /// Writes and flushes fail after so many more.
    pub(crate) fn fail_after(&self, count: u64) {
        self.state.lock().good = count;
    }

    /// Rows that were written as a whole, and blocks that were not.
    pub(crate) fn written(&self) -> (u64, u64) {
        self.state.lock().written
    }

    /// Stripes that were discarded.
    pub(crate) fn discarded(&self) -> u64 {
        self.state.lock().discarded
    }

    /// Where a cell's bytes are.
    fn bytes(&self, stripe: StripeNo, cell: Cell) -> Range<usize> {
        let block = self.geometry.block(stripe, self.geometry.slot(Order::Columns, cell));
        let start = self.geometry.offset_bytes(Order::Columns, block) as usize;
        start..start + BLOCK_BYTES
    }

    /// The first bytes of a row of a stripe rot.
    pub(crate) fn rot(&self, stripe: StripeNo, row: u32) {
        let range = self.bytes(stripe, Cell { row, column: 0 });
        let State { now, durable, .. } = &mut *self.state.lock();
        [now, durable].into_iter().for_each(|bytes| bytes[range.start..range.start + 100].fill(0xA5));
    }

    /// The first block of a row of a stripe cannot be read any more, until it is written.
    pub(crate) fn spoil(&self, stripe: StripeNo, row: u32) {
        let range = self.bytes(stripe, Cell { row, column: 0 });
        self.spoil_block(range.start as u64, IoErrorKind::Medium);
    }

    /// A block cannot be read any more, until it is written.
    pub(crate) fn spoil_block(&self, offset_bytes: u64, kind: IoErrorKind) {
        self.state.lock().spoilt.insert(offset_bytes as usize / BLOCK_BYTES, kind);
    }

    /// What could not be read can be read again.
    pub(crate) fn unspoil(&self) {
        self.state.lock().spoilt.clear();
    }

    /// Nothing can be read, or all can.
    pub(crate) fn fail_reads(&self, fail: bool) {
        self.state.lock().is_unreadable = fail;
    }

    fn write(&self, stripe: StripeNo, blocks: impl Iterator<Item = (Cell, SharedBuf)>) -> Completion {
        let result = self.state.lock().step();
        if result.is_ok() {
            for (cell, block) in blocks {
                let range = self.bytes(stripe, cell);
                let state = &mut *self.state.lock();
                state.spoilt.remove(&(range.start / BLOCK_BYTES));
                state.now[range].copy_from_slice(&block);
            }
        }
        self.later(result)
    }
}

impl State {
    /// Whether bytes can be read.
    fn read(&self, bytes: Range<usize>) -> Result<(), IoError> {
        let blocks = bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES);
        let spoilt = self.spoilt.range(blocks).next().map(|(_, kind)| *kind);
        let kind = if self.is_unreadable { Some(IoErrorKind::Medium) } else { spoilt };
        kind.map_or(Ok(()), |kind| Err(IoError::new(kind)))
    }

    /// A write or a flush comes.
    fn step(&mut self) -> Result<(), IoError> {
        self.good = self.good.checked_sub(1).ok_or(IoError::new(IoErrorKind::Medium))?;
        if self.left == 0 && self.stopped.is_none() {
            self.stopped = Some((self.now.clone(), self.durable.clone()));
        }
        self.left = self.left.saturating_sub(1);
        Ok(())
    }
}

impl Volume for TestVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, offset_bytes: u64, mut into: ReadBufs) -> IoFuture<ReadDone> {
        let mut at = offset_bytes as usize;
        let bytes: usize = into.iter().map(|buf| buf.len()).sum();
        self.state.lock().reads += (bytes / BLOCK_BYTES) as u64;
        for buf in &mut into {
            let len = buf.len();
            buf.copy_from_slice(&self.state.lock().now[at..at + len]);
            at += len;
        }
        let result = self.state.lock().read(offset_bytes as usize..at);
        self.later(ReadDone { result, bufs: into })
    }

    fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>> {
        let columns = self.geometry.data_columns();
        self.state.lock().reads += rows.len() as u64 * u64::from(columns);
        let cells = rows.flat_map(|row| (0..columns).map(move |column| Cell { row, column }));
        let block = |cell| {
            let range = self.bytes(stripe, cell);
            let state = &mut *self.state.lock();
            state.read(range.clone()).map(|()| IoBuf::copy_of(&state.now[range]))
        };
        let blocks = cells.map(block).collect();
        self.later(blocks)
    }

    fn write_rows(&self, stripe: StripeNo, first: u32, blocks: &[SharedBuf]) -> Completion {
        let columns = self.geometry.data_columns();
        assert!((blocks.len() as u32).is_multiple_of(columns), "whole rows");
        self.state.lock().written.0 += blocks.len() as u64 / u64::from(columns);
        let cell = |at: u32| Cell { row: first + at / columns, column: at % columns };
        self.write(stripe, (0..).map(cell).zip(blocks.iter().cloned()))
    }

    fn write_blocks(&self, stripe: StripeNo, blocks: &[(Cell, SharedBuf)]) -> Completion {
        self.state.lock().written.1 += blocks.len() as u64;
        self.write(stripe, blocks.iter().cloned())
    }

    fn flush(&self) -> Completion {
        let result = {
            let state = &mut *self.state.lock();
            state.flushes += 1;
            let result = state.step();
            if result.is_ok() {
                state.durable.copy_from_slice(&state.now);
            }
            result
        };
        self.later(result)
    }

    fn discard(&self, stripes: Range<StripeNo>) -> Completion {
        self.state.lock().discarded += stripes.end.0 - stripes.start.0;
        IoFuture::ready(Ok(()))
    }
}

/// So often does long work let others go on.
const YIELDS_MAX: u32 = 16;

/// What is done at once: memory never waits.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let (mut future, mut context) = (pin!(future), Context::from_waker(noop_waker_ref()));
    let polled = (0..YIELDS_MAX).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    });
    polled.expect("memory is done at once")
}

/// The bytes of a block, read from where it lies.
pub(crate) fn read_block(volume: &TestVolume, offset_bytes: u64) -> IoBuf {
    now(volume.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_BYTES)])).into_one().unwrap()
}
