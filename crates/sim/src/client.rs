//! Clients of an array: they write, flush, zero, discard and read anywhere, and check what they read.

use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;
use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, WriteFlags, ZeroFlags};
use stripewise_engine::{Array, ArrayError};

use crate::check::{Checker, SECTOR_BYTES, Sectors, Violation, WriteTicket};

/// What the clients of an array share: what it may hold, and whether anything was wrong.
pub struct Desk {
    /// What each sector may hold.
    pub sectors: Mutex<Sectors>,
    /// The first thing that was wrong.
    violation: Mutex<Option<Violation>>,
}

impl Desk {
    /// The desk of a zeroed array.
    pub fn new(array_bytes: u64) -> Arc<Self> {
        Arc::new(Self { sectors: Mutex::new(Sectors::new(array_bytes)), violation: Mutex::new(None) })
    }

    /// Notes what is wrong, if nothing was before.
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

/// Writes of a stream at most: some that are not gathered, and more than one stripe of the rest.
const STREAM_MAX: usize = 24;

type Written = Result<(), ArrayError>;

/// A write under way.
struct Writing<F> {
    ticket: WriteTicket,
    fua: bool,
    done: F,
}

/// A client at work.
pub struct Client {
    /// Whose.
    pub array: Array,
    /// Where it looks up what it may read.
    pub desk: Arc<Desk>,
    /// What it does.
    pub rng: Rng,
    /// The sector near which it likes to work: within a few rows, so that clients meet.
    pub home: usize,
}

impl Client {
    /// Sends requests until so many are done, or the array is being stopped.
    pub async fn run(mut self, requests: usize) {
        for _ in 0..requests {
            match self.request().await {
                Ok(()) => {}
                Err(ArrayError::Closed) => return,
                Err(error) => {
                    let what =
                        format!("a request failed although the level tolerates what was lost: {error}");
                    return self.desk.report(Checker::Service.violation(what));
                }
            }
        }
    }

    async fn request(&mut self) -> Result<(), ArrayError> {
        let (first, count) = self.range();
        match self.rng.u8(..24) {
            0..11 => self.write(first, count).await,
            11 => self.stream(first).await,
            12 => self.zero(first, count).await,
            13 => self.discard(first, count).await,
            14..17 => self.flush().await,
            _ => self.read(first, count).await,
        }
    }

    /// Where the next request goes: mostly near home, sometimes anywhere.
    fn range(&mut self) -> (usize, usize) {
        let sectors = self.desk.sectors.lock().count();
        let longest = [1, 8, 8, 24, 64, 512][self.rng.usize(..6)].min(sectors);
        let count = if self.rng.bool() { longest } else { self.rng.usize(1..=longest) };
        let first =
            if self.rng.u8(..4) == 0 { self.rng.usize(..sectors) } else { self.home + self.rng.usize(..64) };
        let first = if self.rng.bool() { first / 8 * 8 } else { first };
        (first.min(sectors - count), count)
    }

    async fn write(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let writing = self.start_write(first, count);
        self.end_write(writing).await
    }

    /// Writes that lie one behind the other, many at once: the array may write several as one.
    async fn stream(&mut self, first: usize) -> Result<(), ArrayError> {
        let each = [1, 8, 8, 24][self.rng.usize(..4)];
        let end = self.desk.sectors.lock().count().min(first + each * self.rng.usize(2..=STREAM_MAX));
        let starts = (first..end).step_by(each);
        let writing: Vec<_> = starts.map(|at| self.start_write(at, each.min(end - at))).collect();
        let mut result = Ok(());
        for writing in writing {
            result = result.and(self.end_write(writing).await);
        }
        result
    }

    fn start_write(&mut self, first: usize, count: usize) -> Writing<impl Future<Output = Written> + use<>> {
        let fua = self.rng.u8(..5) == 0;
        let mut content = IoBuf::with_len(count * SECTOR_BYTES);
        let ticket = {
            let mut sectors = self.desk.sectors.lock();
            sectors.fill(first, &mut content);
            sectors.begin_write(first, &content)
        };
        let offset = (first * SECTOR_BYTES) as u64;
        Writing { ticket, fua, done: self.array.write(offset, content.freeze(), WriteFlags { fua }) }
    }

    async fn end_write(&self, writing: Writing<impl Future<Output = Written>>) -> Written {
        self.end(writing.ticket, writing.done.await, writing.fua)
    }

    async fn zero(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let ticket = self.desk.sectors.lock().begin_zeroes(first, count);
        let (offset, len) = ((first * SECTOR_BYTES) as u64, (count * SECTOR_BYTES) as u64);
        let flags = ZeroFlags { may_unmap: self.rng.bool() };
        let result = self.array.write_zeroes(offset, len, flags).await;
        self.end(ticket, result, false)
    }

    /// Whole stripes read as zeroes afterwards; the rest is left as it is.
    async fn discard(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let stripe = self.array.geometry().stripe_bytes() as usize / SECTOR_BYTES;
        let whole = first.div_ceil(stripe) * stripe..(first + count) / stripe * stripe;
        let ticket = self.desk.sectors.lock().begin_zeroes(whole.start, whole.len());
        let (offset, len) = ((first * SECTOR_BYTES) as u64, (count * SECTOR_BYTES) as u64);
        let result = self.array.discard(offset, len).await;
        self.end(ticket, result, false)
    }

    fn end(&self, ticket: WriteTicket, result: Result<(), ArrayError>, fua: bool) -> Result<(), ArrayError> {
        self.desk.sectors.lock().end_write(ticket, result.is_ok(), fua);
        result
    }

    async fn flush(&mut self) -> Result<(), ArrayError> {
        let begun = self.desk.sectors.lock().begin_flush();
        self.array.flush().await?;
        self.desk.sectors.lock().end_flush(begun);
        Ok(())
    }

    /// Reads from the array as a device, whose errors say less.
    async fn read_device(&self, offset: u64, buf: IoBuf) -> Result<IoBuf, ArrayError> {
        let len = buf.len();
        match self.array.device().read(offset, smallvec![buf]).await.into_one() {
            Ok(content) => Ok(content),
            Err(error) => {
                let content = self.array.read(offset, IoBuf::with_len(len)).await?;
                let what = format!("a read of the device failed, and of the array did not: {error}");
                self.desk.report(Checker::Service.violation(what));
                Ok(content)
            }
        }
    }

    async fn read(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let ticket = self.desk.sectors.lock().begin_read();
        let (offset, buf) = ((first * SECTOR_BYTES) as u64, IoBuf::with_len(count * SECTOR_BYTES));
        // Both ways lead to the same bytes.
        let content = if (first / 8 + count).is_multiple_of(2) {
            self.array.read(offset, buf).await?
        } else {
            self.read_device(offset, buf).await?
        };
        let checked = self.desk.sectors.lock().end_read(ticket, first, &content);
        checked.err().into_iter().for_each(|violation| self.desk.report(violation));
        Ok(())
    }
}
