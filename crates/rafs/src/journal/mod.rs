//! The journal: a ring of rows in which commits become durable, and its replay.
//!
//! One commit is under way at a time: its record is written, then flushed, and the next record is written after that. So a record that
//! cannot be read, but has a valid successor, was durable once: it has rotted, and is not the end of what was committed.

mod replay;
mod ring;

use std::sync::Arc;

use stripewise_device::{IoBuf, IoError, SharedBuf};
use stripewise_format::rafs::{
    anchor::JournalPosition,
    journal::{Change, RecordId},
};
use thiserror::Error;
use uuid::Uuid;

pub use self::replay::{Replay, ReplayError, Replayed};
use self::ring::Ring;
use crate::{
    mutants::{Mutant, lives},
    shape::{BLOCK_BYTES, StripeNo},
    store::Written,
    volume::Volume,
};

/// What clients have changed, to be committed.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The changes.
    pub changes: Vec<Change>,
    /// The data blocks that come with them.
    pub data: Vec<SharedBuf>,
}

/// Why a transaction was not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CommitError {
    /// There is no room before the records that the anchor needs: a checkpoint makes some.
    #[error("the journal is full until the next checkpoint")]
    Full,
    /// It does not fit a record, or not even an empty journal.
    #[error("the changes do not fit the journal; commit them in parts, or make the journal larger")]
    TooLarge,
    /// The volume could not write or flush it. Whether it is there after a crash is not known.
    #[error("the journal cannot be written: {0}; what was not committed stays in memory")]
    Io(#[from] IoError),
}

/// A journal that is written to.
pub struct Journal {
    volume: Arc<dyn Volume>,
    ring: Ring,
    uuid: Uuid,
    /// Where the next record goes.
    next: JournalPosition,
    /// Rows behind the records that count.
    free_rows: u64,
    written: Written,
}

impl Journal {
    /// A journal in these stripes, whose next record goes to `next` and none of whose records counts: they are all in the tree.
    ///
    /// # Panics
    /// If there is no stripe.
    #[must_use]
    pub fn new(volume: Arc<dyn Volume>, uuid: Uuid, stripes: (StripeNo, u64), next: JournalPosition) -> Self {
        let ring = Ring::new(volume.geometry(), stripes);
        Self { volume, ring, uuid, next, free_rows: ring.rows(), written: Written::default() }
    }

    /// Where the next record goes: everything before it is committed.
    #[must_use]
    pub fn position(&self) -> JournalPosition {
        self.next
    }

    /// Commits a transaction: it is durable when this returns.
    ///
    /// # Errors
    /// [`CommitError`]. After an error of the volume the next record has the same number and place.
    pub async fn commit(&mut self, transaction: &Transaction) -> Result<(), CommitError> {
        let JournalPosition { epoch, sequence, block } = self.next;
        let id = RecordId { uuid: self.uuid, epoch, sequence };
        let Transaction { changes, data } = transaction;
        let front = id.encode(changes, data, self.ring.row_blocks()).ok_or(CommitError::TooLarge)?;
        let rows = u64::from(front.blocks / self.ring.row_blocks());
        if rows > self.ring.rows() {
            return Err(CommitError::TooLarge);
        }
        if rows > self.free_rows {
            return Err(CommitError::Full);
        }
        let mut blocks: Vec<SharedBuf> = in_blocks(&front.bytes).chain(data.iter().cloned()).collect();
        blocks.resize(front.blocks as usize, IoBuf::zeroed(BLOCK_BYTES).freeze());
        let first = self.ring.row_of(block);
        let mut written = Ok(());
        for (run, range) in self.ring.runs(first, rows) {
            written = written.and(self.volume.write_rows(run.stripe, run.row, &blocks[range]).await);
            self.written.count_rows(run.rows, &self.volume.geometry());
        }
        written?;
        if !lives(Mutant::RecordNotFlushed) {
            self.volume.flush().await?;
        }
        let after = self.ring.block_of(first + rows);
        self.next = JournalPosition { epoch, sequence: sequence.saturating_add(1), block: after };
        self.free_rows -= rows;
        Ok(())
    }

    /// Writes zeroes where the next record goes, if that row is free. A record that a crash has torn is not there from now on, even if
    /// redundancy comes to have all of it, or what it lacks is left of the next record, which a crash has torn as well. A flush makes that
    /// durable.
    ///
    /// # Errors
    /// Those of the volume.
    pub async fn seal(&self) -> Result<(), IoError> {
        if self.free_rows == 0 {
            return Ok(());
        }
        let zeroes = vec![IoBuf::zeroed(BLOCK_BYTES).freeze(); self.ring.row_blocks() as usize];
        for (run, _) in self.ring.runs(self.ring.row_of(self.next.block), 1) {
            self.volume.write_rows(run.stripe, run.row, &zeroes).await?;
        }
        Ok(())
    }

    /// Where records after a checkpoint begin. They are of another epoch: a record whose commit has failed may be there all the
    /// same, and the tree has its changes.
    #[must_use]
    pub fn next_epoch(&self) -> JournalPosition {
        let raised = u64::from(!lives(Mutant::EpochStays));
        JournalPosition { epoch: self.next.epoch.saturating_add(raised), ..self.next }
    }

    /// The tree of a durable anchor has all records before this position: their rows may be written again.
    pub fn forget_before(&mut self, position: JournalPosition) {
        self.next.epoch = self.next.epoch.max(position.epoch);
        let [from, to] = [position, self.next].map(|position| self.ring.row_of(position.block));
        let rows = self.ring.rows();
        let is_all = position.sequence == self.next.sequence || lives(Mutant::JournalFreedEarly);
        let used = if is_all { 0 } else { (to + rows - from - 1) % rows + 1 };
        self.free_rows = rows - used;
    }

    /// What was written to its stripes.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    /// How many rows records may still take, and how many the journal has.
    #[must_use]
    pub fn room(&self) -> (u64, u64) {
        (self.free_rows, self.ring.rows())
    }
}

fn in_blocks(bytes: &[u8]) -> impl Iterator<Item = SharedBuf> {
    bytes.chunks(BLOCK_BYTES).map(|block| IoBuf::copy_of(block).freeze())
}

#[cfg(test)]
mod tests;
