//! Clients of an array: they write, flush, zero, discard and read anywhere, and check the data they read.

mod blocks;

use std::{
    future::poll_fn,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use fastrand::Rng;
use parking_lot::Mutex;
use stripewise_device::{
    BoxFuture, Device, Extent, IoBuf, IoError, ReadDone, SharedBuf, WriteBufs, WriteFlags, ZeroFlags,
};
use stripewise_engine::{Array, ArrayError};

use crate::{
    check::{Checker, SECTOR_BYTES, Sectors, Violation, WriteTicket},
    world::elsewhere,
};

/// The state shared by an array's clients: its allowed contents, and whether anything was wrong.
pub struct Desk {
    /// What each sector may hold.
    pub sectors: Mutex<Sectors>,
    /// The sectors that clients use, in separate parts: all, unless the array is too large for that.
    pub windows: Vec<Range<usize>>,
    /// Requests may fail: more members are lost than the level tolerates.
    pub is_lenient: AtomicBool,
    /// The first thing that was wrong.
    violation: Mutex<Option<Violation>>,
}

impl Desk {
    /// The desk of a zeroed array, all of which is used.
    pub fn new(array_bytes: u64) -> Arc<Self> {
        let all = Range { start: 0, end: array_bytes as usize / SECTOR_BYTES };
        Self::of_windows(array_bytes, vec![all])
    }

    /// The desk of a zeroed array that is used in parts.
    pub fn of_windows(array_bytes: u64, windows: Vec<Range<usize>>) -> Arc<Self> {
        Arc::new(Self {
            sectors: Mutex::new(Sectors::new(array_bytes)),
            windows,
            is_lenient: AtomicBool::new(false),
            violation: Mutex::new(None),
        })
    }

    /// Notes a violation, unless there was one before.
    pub fn report(&self, violation: Violation) {
        self.violation.lock().get_or_insert(violation);
    }

    /// The first thing that was wrong.
    ///
    /// # Errors
    /// It.
    pub fn check(&self) -> Result<(), Violation> {
        self.violation.lock().clone().map_or(Ok(()), Err)
    }
}

/// The most writes of a stream: some that are not gathered, and more than one stripe of the others.
const STREAM_MAX: usize = 24;
/// Sectors of a block of 4 KiB.
const BLOCK_SECTORS: usize = 8;
/// The most polls of a request before it is given up.
const POLLS_MAX: u8 = 3;
/// Sectors of the longest zeroing: 4 MiB.
const ZEROED_MAX: usize = 8192;

type Written = Result<(), ArrayError>;

/// A write under way.
struct Writing<F> {
    ticket: WriteTicket,
    fua: bool,
    done: F,
}

/// The result of a request to the array as a device, whose errors do not say that the array is being stopped.
async fn told<T>(array: &Array, result: Result<T, IoError>) -> Result<T, ArrayError> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => match array.read(0, IoBuf::with_len(0)).await {
            Err(ArrayError::Closed) => Err(ArrayError::Closed),
            _ => Err(ArrayError::Io { member: array.name(), error }),
        },
    }
}

/// Polls a future at most so many times, once for each wake-up, and drops it at the next wake-up.
async fn polled<F: Future>(times: u8, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (Box::pin(future), times);
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// A client at work.
pub struct Client {
    /// Its array.
    pub array: Array,
    /// The record of what it may read.
    pub desk: Arc<Desk>,
    /// The source of its choices.
    pub rng: Rng,
    /// The sector near which it mostly works: within a few rows, so that clients meet.
    pub home: usize,
    /// One in so many writes must be durable when it is acknowledged.
    pub fua_one_in: u8,
}

impl Client {
    /// Sends requests until the given number is done, or the array is being stopped.
    pub async fn run(mut self, requests: usize) {
        for _ in 0..requests {
            match self.request().await {
                Ok(()) => {}
                Err(ArrayError::Closed) => return,
                Err(_) if self.desk.is_lenient.load(Ordering::Relaxed) => {}
                Err(error) => {
                    let what =
                        format!("a request failed although the level tolerates what was lost: {error}");
                    return self.desk.report(Checker::Service.violation(what));
                }
            }
        }
    }

    /// Writes and reads one block of 4 KiB and parts of it, and nothing else: several such clients get in
    /// each other's way.
    pub async fn crowd(mut self, block: usize, requests: usize) {
        for _ in 0..requests {
            let (first, count) = self.part_of(block);
            let done = match self.rng.u8(..16) {
                0 => self.zero_stripe_of(block).await,
                1 => self.extents(first, count).await,
                2..9 => self.write(first, count).await,
                _ => self.read(first, count).await,
            };
            match done {
                Ok(()) => {}
                Err(ArrayError::Closed) => return,
                Err(error) => {
                    let what = format!("a request of many to a block failed: {error}");
                    return self.desk.report(Checker::Service.violation(what));
                }
            }
        }
    }

    /// Writes one of some blocks of 4 KiB or a part of one, or flushes.
    pub async fn write_or_flush(mut self, blocks: Vec<usize>) {
        let done = match self.rng.u8(..4) {
            0 => self.flush().await,
            _ => {
                let block = blocks[self.rng.usize(..blocks.len())];
                let (first, count) = self.part_of(block);
                self.write(first, count).await
            }
        };
        if let Err(error) = done {
            let what = format!("a request of many to a row failed: {error}");
            self.desk.report(Checker::Service.violation(what));
        }
    }

    /// Writes one block of 4 KiB.
    pub async fn write_block(self, block: usize) {
        self.write_run(block, BLOCK_SECTORS).await;
    }

    /// Writes some sectors.
    pub async fn write_run(mut self, first: usize, count: usize) {
        if let Err(error) = self.write(first, count).await {
            let what = format!("a write of {count} sectors failed: {error}");
            self.desk.report(Checker::Service.violation(what));
        }
    }

    /// A block of 4 KiB, or one of its smallest parts.
    fn part_of(&mut self, block: usize) -> (usize, usize) {
        let unit = self.unit();
        match self.rng.bool() {
            true => (block, BLOCK_SECTORS),
            false => (block + self.rng.usize(..BLOCK_SECTORS / unit) * unit, unit),
        }
    }

    /// Writes one block of 4 KiB over and over, without a pause, so many times or until `is_enough` is set.
    pub async fn keep_writing(mut self, block: usize, requests: usize, is_enough: Arc<AtomicBool>) {
        for _ in 0..requests {
            if is_enough.load(Ordering::Relaxed) {
                return;
            }
            if let Err(error) = self.write(block, BLOCK_SECTORS).await {
                let what = format!("a write of many to a row failed: {error}");
                return self.desk.report(Checker::Service.violation(what));
            }
        }
    }

    /// Reads one block of 4 KiB so many times, and mostly gives up before it has been read.
    pub async fn give_up(mut self, block: usize, requests: usize) {
        for _ in 0..requests {
            let ticket = self.desk.sectors.lock().begin_read();
            let content = IoBuf::with_len(BLOCK_SECTORS * SECTOR_BYTES);
            let reading = self.array.read((block * SECTOR_BYTES) as u64, content);
            match polled(self.rng.u8(1..=POLLS_MAX), reading).await {
                None => self.desk.sectors.lock().give_up_read(ticket),
                Some(Ok(content)) => {
                    let checked = self.desk.sectors.lock().end_read(ticket, block, &content);
                    checked.err().into_iter().for_each(|violation| self.desk.report(violation));
                }
                Some(Err(error)) => {
                    let what = format!("a read of many that are given up failed: {error}");
                    return self.desk.report(Checker::Service.violation(what));
                }
            }
        }
    }

    async fn request(&mut self) -> Result<(), ArrayError> {
        let (first, count) = self.range();
        match self.rng.u8(..50) {
            0..20 => self.write(first, count).await,
            20 => self.write_rows(first, count).await,
            21 => self.write_blocks(first, count).await,
            22..24 => self.stream(first).await,
            24..26 => self.zero(first, count).await,
            26..28 => self.discard(first, count).await,
            28..34 => self.flush().await,
            34 => self.extents(first, count).await,
            35 => self.read_rows(first, count).await,
            36 => self.read_without(first, count).await,
            _ => self.read(first, count).await,
        }
    }

    /// Whether the next request is made as by a thread that is no worker of the world.
    fn is_elsewhere(&mut self) -> bool {
        self.rng.u8(..4) == 0
    }

    /// Sectors of the smallest request.
    fn unit(&self) -> usize {
        self.array.geometry().logical_block_bytes() as usize / SECTOR_BYTES
    }

    /// Where the next request goes: mostly near home, sometimes anywhere.
    fn range(&mut self) -> (usize, usize) {
        let unit = self.unit();
        let anywhere = self.rng.u8(..4) == 0;
        let at_home = |window: &&Range<usize>| !anywhere && window.contains(&self.home);
        let window = self.desk.windows.iter().find(at_home).cloned();
        let window =
            window.unwrap_or_else(|| self.desk.windows[self.rng.usize(..self.desk.windows.len())].clone());
        let longest =
            [1usize, 8, 8, 24, 64, 512][self.rng.usize(..6)].next_multiple_of(unit).min(window.len());
        let count =
            if self.rng.bool() { longest } else { self.rng.usize(1..=longest).next_multiple_of(unit) };
        let first = if anywhere { self.rng.usize(window.clone()) } else { self.home + self.rng.usize(..64) };
        let first = if unit > 1 || self.rng.bool() { first / 8 * 8 } else { first };
        (first.min(window.end - count), count)
    }

    /// The end of the window that a sector is in.
    fn window_end(&self, sector: usize) -> usize {
        let window = self.desk.windows.iter().find(|window| window.contains(&sector));
        window.expect("requests lie in windows").end
    }

    async fn write(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let writing = self.start_write(first, count);
        self.end_write(writing).await
    }

    /// Writes one behind the other, many at once: the array may write several as one.
    async fn stream(&mut self, first: usize) -> Result<(), ArrayError> {
        let each = [1, 8, 8, 24][self.rng.usize(..4)].max(self.unit());
        let end = self.window_end(first).min(first + each * self.rng.usize(2..=STREAM_MAX));
        let ways = [first..end, first..self.end_of_second(first, end)];
        let parts = ways.into_iter().flat_map(|way| {
            let len = move |at: usize| each.min(way.end - at);
            (way.start..way.end).step_by(each).map(move |at| (at, len(at)))
        });
        let writing: Vec<_> = parts.map(|(at, count)| self.start_write(at, count)).collect();
        let mut result = Ok(());
        for writing in writing {
            result = result.and(self.end_write(writing).await);
        }
        result
    }

    /// Where a second stream in the same direction ends: now and then with the last stripe that the first one
    /// ends.
    fn end_of_second(&mut self, first: usize, end: usize) -> usize {
        let stripe = self.array.geometry().stripe_bytes() as usize / SECTOR_BYTES;
        if self.rng.u8(..3) == 0 { (end / stripe * stripe).max(first) } else { first }
    }

    fn start_write(&mut self, first: usize, count: usize) -> Writing<BoxFuture<Written>> {
        let fua = self.rng.u8(..self.fua_one_in) == 0;
        let mut content = IoBuf::with_len(count * SECTOR_BYTES);
        let ticket = {
            let mut sectors = self.desk.sectors.lock();
            sectors.fill(first, &mut content);
            sectors.begin_write(first, &content)
        };
        let offset = (first * SECTOR_BYTES) as u64;
        let (flags, content) = (WriteFlags { fua }, content.freeze());
        let (is_elsewhere, array) = (self.is_elsewhere(), self.array.clone());
        let done: BoxFuture<Written> = if self.rng.u8(..4) == 0 {
            let (device, parts) = (array.device(), self.in_parts(&content));
            let written = elsewhere(is_elsewhere, || device.write(offset, parts, flags));
            Box::pin(async move { told(&array, written.await).await })
        } else {
            Box::pin(elsewhere(is_elsewhere, || array.write(offset, content, flags)))
        };
        Writing { ticket, fua, done }
    }

    /// The same bytes in one to three buffers of whole sectors.
    fn in_parts(&mut self, content: &SharedBuf) -> WriteBufs {
        let lens = self.part_lens(content.len());
        let mut start = 0;
        let part = |len| {
            start += len;
            content.slice(start - len..start)
        };
        lens.into_iter().map(part).collect()
    }

    /// Lengths of the one to three buffers of a request of `len` bytes: every other time whole blocks, which
    /// the engine does not copy.
    fn part_lens(&mut self, len: usize) -> Vec<usize> {
        let grain = if self.rng.bool() { BLOCK_SECTORS * SECTOR_BYTES } else { SECTOR_BYTES };
        let grains = len / grain;
        let mut cuts: Vec<usize> =
            (0..self.rng.usize(..3)).map(|_| self.rng.usize(..=grains) * grain).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|cut| cut[1] - cut[0]).collect()
    }

    async fn end_write(&self, writing: Writing<BoxFuture<Written>>) -> Written {
        self.end(writing.ticket, writing.done.await, writing.fua)
    }

    /// Zeroes a range, now and then to the end of the window: longer than any other kind of request.
    async fn zero(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let to_the_end = self.rng.u8(..8) == 0;
        let count = if to_the_end { (self.window_end(first) - first).min(ZEROED_MAX) } else { count };
        let ticket = self.desk.sectors.lock().begin_zeroes(first, count);
        let (offset, len) = ((first * SECTOR_BYTES) as u64, (count * SECTOR_BYTES) as u64);
        let flags = ZeroFlags { may_unmap: self.rng.bool(), ..ZeroFlags::default() };
        let result = if self.rng.u8(..4) == 0 {
            told(&self.array, self.array.device().write_zeroes(offset, len, flags).await).await
        } else {
            elsewhere(self.is_elsewhere(), || self.array.write_zeroes(offset, len, flags)).await
        };
        self.end(ticket, result, false)
    }

    /// Zeroes the whole stripe that a sector is in, if clients may use all of it.
    async fn zero_stripe_of(&mut self, sector: usize) -> Result<(), ArrayError> {
        let stripe = self.array.geometry().stripe_bytes() as usize / SECTOR_BYTES;
        let first = sector / stripe * stripe;
        let is_used = |window: &Range<usize>| window.start <= first && first + stripe <= window.end;
        if self.desk.windows.iter().any(is_used) { self.zero(first, stripe).await } else { Ok(()) }
    }

    /// Asks where data is stored: where the array reports a hole, reads return zeroes.
    ///
    /// # Errors
    /// What the array says.
    pub async fn extents(&self, first: usize, count: usize) -> Result<(), ArrayError> {
        let ticket = self.desk.sectors.lock().begin_read();
        let (offset, len) = ((first * SECTOR_BYTES) as u64, (count * SECTOR_BYTES) as u64);
        let extents = told(&self.array, self.array.device().extents(offset, len).await).await?;
        let mut at = first;
        let mut holes = Vec::new();
        for Extent { len_bytes, is_hole } in extents {
            let sectors = at..at + len_bytes as usize / SECTOR_BYTES;
            at = sectors.end;
            holes.extend(is_hole.then_some(sectors));
        }
        let checked = self.desk.sectors.lock().end_holes(ticket, holes);
        checked.err().into_iter().for_each(|violation| self.desk.report(violation));
        Ok(())
    }

    /// Whole stripes read as zeroes afterwards if all members unmap; else nothing changes. The rest of the
    /// range stays as it is.
    async fn discard(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let stripe = self.array.geometry().stripe_bytes() as usize / SECTOR_BYTES;
        let whole = first.div_ceil(stripe) * stripe..(first + count) / stripe * stripe;
        let ticket = self.desk.sectors.lock().begin_zeroes(whole.start, whole.len());
        let (offset, len) = ((first * SECTOR_BYTES) as u64, (count * SECTOR_BYTES) as u64);
        let unmapped_before = self.array.unmaps();
        let result = if self.rng.u8(..4) == 0 {
            told(&self.array, self.array.device().discard(offset, len).await).await
        } else {
            self.array.discard(offset, len).await
        };
        let mut sectors = self.desk.sectors.lock();
        match (unmapped_before, self.array.unmaps()) {
            (false, false) if result.is_ok() => sectors.withdraw(ticket),
            // Members came or went meanwhile: the discard may have happened or not.
            (before, after) => sectors.end_write(ticket, result.is_ok() && before && after, false),
        }
        result
    }

    fn end(&self, ticket: WriteTicket, result: Result<(), ArrayError>, fua: bool) -> Result<(), ArrayError> {
        self.desk.sectors.lock().end_write(ticket, result.is_ok(), fua);
        result
    }

    async fn flush(&mut self) -> Result<(), ArrayError> {
        let begun = self.desk.sectors.lock().begin_flush();
        if self.rng.u8(..4) == 0 {
            told(&self.array, self.array.device().flush().await).await?;
        } else {
            elsewhere(self.is_elsewhere(), || self.array.flush()).await?;
        }
        self.desk.sectors.lock().end_flush(begun);
        Ok(())
    }

    /// Reads from the array as a device, whose errors say less.
    async fn read_device(&mut self, offset: u64, len: usize) -> Result<IoBuf, ArrayError> {
        let parts = self.part_lens(len).into_iter().map(IoBuf::with_len).collect();
        let read = elsewhere(self.is_elsewhere(), || self.array.device().read(offset, parts));
        let ReadDone { result, bufs } = read.await;
        match result {
            Ok(()) => {
                Ok(IoBuf::copy_of(&bufs.iter().flat_map(|buf| buf.iter().copied()).collect::<Vec<u8>>()))
            }
            Err(error) => {
                let content = self.array.read(offset, IoBuf::with_len(len)).await?;
                // Meanwhile another client may have written all of it into the cache.
                let again =
                    self.array.device().read(offset, [IoBuf::with_len(len)].into_iter().collect()).await;
                if again.result.is_ok() {
                    return Ok(content);
                }
                let what = format!("a read of the device failed, and of the array did not: {error}");
                self.desk.report(Checker::Service.violation(what));
                Ok(content)
            }
        }
    }

    async fn read(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let ticket = self.desk.sectors.lock().begin_read();
        let (offset, len) = ((first * SECTOR_BYTES) as u64, count * SECTOR_BYTES);
        // Both calls return the same bytes.
        let content = if (first / 8 + count).is_multiple_of(2) {
            elsewhere(self.is_elsewhere(), || self.array.read(offset, IoBuf::with_len(len))).await?
        } else {
            self.read_device(offset, len).await?
        };
        let checked = self.desk.sectors.lock().end_read(ticket, first, &content);
        checked.err().into_iter().for_each(|violation| self.desk.report(violation));
        Ok(())
    }
}
