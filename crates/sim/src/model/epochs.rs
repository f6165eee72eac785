//! What a flush waits for: buffered data by the flush before which it came.

use std::collections::VecDeque;

/// A flush that waits for buffered data.
#[derive(Clone, Copy)]
pub(super) struct Flush {
    pub(super) id: u64,
    /// The newest epoch of the data it waits for.
    pub(super) epoch: u64,
    /// When the firmware is through with its arrival.
    pub(super) ready: u64,
}

/// How many pieces of buffered data there are of each epoch; a flush begins a new one.
pub(super) struct Epochs {
    /// The last is the current one, and may be empty; of the others, the first is not.
    pieces: VecDeque<u32>,
    first: u64,
}

impl Epochs {
    pub(super) fn new() -> Self {
        Self { pieces: VecDeque::from([0]), first: 0 }
    }

    /// The epoch of data that comes now.
    pub(super) fn current(&self) -> u64 {
        self.first + self.pieces.len() as u64 - 1
    }

    pub(super) fn add(&mut self, epoch: u64) {
        self.pieces[(epoch - self.first) as usize] += 1;
    }

    /// A piece is on the medium, or part of another. Retired epochs are forgotten by [`Self::retire`] only,
    /// so that a piece may take the place of the last of its epoch.
    pub(super) fn remove(&mut self, epoch: u64) {
        self.pieces[(epoch - self.first) as usize] -= 1;
    }

    /// Forgets the oldest epochs of which nothing is left, but not the current one.
    pub(super) fn retire(&mut self) {
        while self.pieces.len() > 1 && self.pieces[0] == 0 {
            self.pieces.pop_front();
            self.first += 1;
        }
    }

    /// Everything buffered so far belongs to the epoch that is returned or to earlier ones; what comes later,
    /// to the next.
    pub(super) fn close(&mut self) -> u64 {
        let closed = self.current();
        self.pieces.push_back(0);
        self.retire();
        closed
    }

    /// Whether all data of an epoch and of those before is on the medium.
    pub(super) fn is_settled(&self, epoch: u64) -> bool {
        epoch < self.first
    }
}
