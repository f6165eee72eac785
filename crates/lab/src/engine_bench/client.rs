//! A client: one of a thread's operations under way, over and over.
//!
//! Members in memory are done at once, so an operation that waits for nothing ends in the call that began it.
//! With several under way, a thread's clients take turns (`round`): each asks for its next operation, lets
//! the others run, and does it when its turn comes. The time of an operation is from asking to its end, as in
//! a queue of that depth; a client that must wait for rows or a region leaves the thread to the others.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Context, time::Instant};

use fastrand::Rng;
use stripewise_device::{
    IoBuf, SharedBuf, WriteFlags,
    parts::{Part, within},
};
use stripewise_engine::{Array, geometry::Geometry};

use super::{
    case::{Places, Work},
    round::Baton,
    turn::{BATCH, Latencies, Turn},
};

/// Identifies a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) worker: usize,
    pub(super) workers: usize,
    /// Its number among the clients of its worker.
    pub(super) slot: usize,
}

pub(super) struct Client {
    turn: Turn,
    array: Array,
    rng: Rng,
    source: SharedBuf,
    latencies: Latencies,
    /// Bytes of an operation.
    bytes: usize,
    /// Its number among the clients of its worker.
    slot: usize,
    /// The start of its worker's part of the places, for sequential operations.
    first: u64,
    places: u64,
    held: Held,
}

/// The places of [`Places::Held`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) count: u64,
    /// Bytes of each.
    bytes: u64,
    in_stripe: u64,
}

impl Held {
    /// Those in so many bytes at the start of the array.
    pub(super) fn of(geometry: &Geometry, held_bytes: u64, bytes: usize) -> Self {
        let (bytes, stripe_bytes) = (bytes as u64, geometry.stripe_bytes());
        let in_stripe = (stripe_bytes / bytes).saturating_sub(1).max(1);
        Self { count: (held_bytes / stripe_bytes).max(1) * in_stripe, bytes, in_stripe }
    }

    pub(super) fn place(&self, index: u64) -> u64 {
        (index / self.in_stripe * (self.in_stripe + 1) + index % self.in_stripe) * self.bytes
    }
}

impl Client {
    pub(super) fn new(turn: Turn, array: Array, seat: Seat, source: SharedBuf, latencies: Latencies) -> Self {
        let bytes = match turn.work {
            Work::Read { bytes, .. } | Work::Write { bytes, .. } => bytes,
            Work::Check | Work::Rebuild => unreachable!("jobs have no clients"),
        };
        let Seat { worker, workers, slot } = seat;
        let places = array.geometry().capacity_bytes() / bytes as u64 / workers as u64;
        let held = Held::of(&array.geometry(), turn.held_bytes, bytes);
        let rng = Rng::with_seed(turn.seed << 32 | (worker * turn.queue + slot) as u64);
        Self { turn, array, rng, source, latencies, bytes, slot, first: places * worker as u64, places, held }
    }

    /// Runs operation after operation, until the baton says that it is over; returns how many.
    pub(super) async fn run(mut self, baton: Arc<Baton>) -> u64 {
        // A client that is alone need not yield after each operation.
        let is_alone = self.turn.queue == 1;
        let at_once = if is_alone { BATCH } else { 1 };
        let (mut done, mut block) = (0, IoBuf::with_len(self.bytes));
        let mut asked = self.turn.latency.then(Instant::now);
        while baton.pass().await {
            if is_alone {
                asked = self.turn.latency.then(Instant::now);
            }
            for _ in 0..at_once {
                block = {
                    let mut operation = pin!(self.operation(done, block));
                    // The thread is within an operation while this one runs, and not while it waits: others
                    // run then.
                    let run = |context: &mut Context<'_>| {
                        let _part = within(Part::Rest);
                        operation.as_mut().poll(context)
                    };
                    poll_fn(run).await
                };
                asked = asked.map(|asked| self.note(asked));
                done += 1;
            }
        }
        done
    }

    /// Records the time of an operation asked for at `asked`; the next one is asked for right away.
    fn note(&self, asked: Instant) -> Instant {
        let now = Instant::now();
        self.latencies.lock().saturating_record((now - asked).as_nanos() as u64);
        now
    }

    async fn operation(&mut self, done: u64, block: IoBuf) -> IoBuf {
        // Clients of a worker share its part.
        let index = done * self.turn.queue as u64 + self.slot as u64;
        match self.turn.work {
            Work::Read { places, .. } => {
                let at = self.place(index, places);
                self.array.read(at, block).await.expect("members in memory do not fail")
            }
            Work::Write { places, .. } => {
                let (at, data) = (self.place(index, places), slice(&self.source, index, self.bytes));
                let written = self.array.write(at, data, WriteFlags::default()).await;
                written.expect("members in memory do not fail");
                if self.turn.flush_every.is_some_and(|every| (index + 1).is_multiple_of(every)) {
                    self.array.flush().await.expect("members in memory do not fail");
                }
                block
            }
            Work::Check | Work::Rebuild => block,
        }
    }

    /// The next place in its worker's part, or a random one.
    fn place(&mut self, index: u64, places: Places) -> u64 {
        let bytes = self.bytes as u64;
        match places {
            Places::Random => self.rng.u64(..(self.turn.span_bytes / bytes).max(1)) * bytes,
            Places::Sequential => (self.first + index % self.places.max(1)) * bytes,
            Places::Held => self.held.place(self.rng.u64(..self.held.count)),
        }
    }
}

/// The data of a thread's clients.
pub(super) fn source(bytes: usize) -> SharedBuf {
    let mut source = IoBuf::with_len(bytes);
    Rng::with_seed(1).fill(&mut source);
    source.freeze()
}

/// The data of an operation.
pub(super) fn slice(source: &SharedBuf, index: u64, len: usize) -> SharedBuf {
    let at = index as usize % (source.len() / len) * len;
    source.slice(at..at + len)
}

#[cfg(test)]
mod tests {
    use stripewise_engine::geometry::Level;

    use super::*;

    /// A stripe that is all dirty would be destaged.
    #[test]
    fn hits_leave_out_the_last_block_of_each_stripe() {
        let geometry = Geometry::new(Level::Raid5, 5, 64 << 10, 1 << 30, 512).expect("a possible shape");
        let held = Held::of(&geometry, 1 << 20, 4096);
        let places: Vec<u64> = (0..held.count).map(|index| held.place(index)).collect();
        let expected: Vec<u64> =
            (0..256).filter(|block| block % 64 != 63).map(|block| block * 4096).collect();
        assert_eq!(places, expected);
    }
}
