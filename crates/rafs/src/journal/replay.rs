//! The replay: the records that were committed since the anchor, in order.

use std::sync::Arc;

use stripewise_device::{IoBuf, IoError, SharedBuf};
use stripewise_format::rafs::{
    anchor::JournalPosition,
    journal::{Change, RecordError, RecordHead, RecordId},
};
use thiserror::Error;
use uuid::Uuid;

use super::ring::Ring;
use crate::{
    mutants::{Mutant, lives},
    shape::{BLOCK_BYTES, StripeNo},
    volume::Volume,
};

/// Why the journal cannot be replayed to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// The volume cannot read it.
    #[error("the journal cannot be read: {0}; see to the volume's members, then try again")]
    Io(#[from] IoError),
    /// A record cannot be read, and later ones can: it was durable once.
    #[error("record {sequence} of the journal is damaged ({error}), and {later} after it is valid; run fsck")]
    Rotten {
        /// Its number.
        sequence: u64,
        /// What is wrong with it.
        error: RecordError,
        /// A later one's number.
        later: u64,
    },
}

/// A record that was committed.
#[derive(Debug)]
pub struct Replayed {
    /// Its number.
    pub sequence: u64,
    /// Its changes.
    pub changes: Vec<Change>,
    /// Its data blocks.
    pub data: Vec<SharedBuf>,
}

/// Reads records from a position on.
pub struct Replay {
    volume: Arc<dyn Volume>,
    ring: Ring,
    uuid: Uuid,
    next: JournalPosition,
    /// Rows that were not read yet.
    left: u64,
}

impl Replay {
    /// The records from the anchor's position on, of the journal in these stripes.
    ///
    /// # Panics
    /// If there is no stripe.
    #[must_use]
    pub fn new(volume: Arc<dyn Volume>, uuid: Uuid, stripes: (StripeNo, u64), from: JournalPosition) -> Self {
        let ring = Ring::new(volume.geometry(), stripes);
        Self { volume, ring, uuid, next: from, left: ring.rows() }
    }

    /// Where the record after the last one would be.
    #[must_use]
    pub fn position(&self) -> JournalPosition {
        self.next
    }

    /// The next record; none at the end of what was committed.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub async fn next(&mut self) -> Result<Option<Replayed>, ReplayError> {
        if self.left == 0 {
            return Ok(None);
        }
        let row = self.ring.row_of(self.next.block);
        let JournalPosition { epoch, sequence, .. } = self.next;
        let is_next = |id: &RecordId| id.epoch == epoch && id.sequence == sequence;
        let head = self.head(row, self.left, |id| is_next(id) || lives(Mutant::LastLapReplayed)).await?;
        let error = match head {
            Ok(head) => match self.open(row, &head).await? {
                Ok(replayed) => {
                    self.left -= self.rows_of(&head);
                    let block = self.ring.block_of(row + self.rows_of(&head));
                    self.next = JournalPosition { epoch, sequence: sequence.saturating_add(1), block };
                    return Ok(Some(replayed));
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        match self.later(row).await? {
            Some(later) => Err(ReplayError::Rotten { sequence, error, later }),
            None => Ok(None),
        }
    }

    /// The number of a later record of this epoch that begins behind this row, and is valid.
    async fn later(&self, row: u64) -> Result<Option<u64>, ReplayError> {
        let JournalPosition { epoch, sequence, .. } = self.next;
        for ahead in 1..self.left {
            let (at, left) = (row + ahead, self.left - ahead);
            let head = self.head(at, left, |id| id.epoch == epoch && id.sequence > sequence).await?;
            if let Ok(head) = head
                && self.open(at, &head).await?.is_ok()
            {
                return Ok(Some(head.id.sequence));
            }
        }
        Ok(None)
    }

    /// The head of the record that begins with a row, if it is one of those that are wanted and has so many rows at most.
    async fn head(
        &self,
        row: u64,
        rows_max: u64,
        is_wanted: impl Fn(&RecordId) -> bool,
    ) -> Result<Result<RecordHead, RecordError>, IoError> {
        let first = self.rows(row, 1).await?;
        Ok(match RecordHead::decode(&first[0], self.uuid) {
            Ok(head) if !is_wanted(&head.id) => Err(RecordError::NoMagic),
            Ok(head) if !(1..=rows_max).contains(&self.rows_of(&head)) => Err(RecordError::Lengths),
            head => head,
        })
    }

    /// Reads a record, and looks whether it is valid.
    async fn open(&self, row: u64, head: &RecordHead) -> Result<Result<Replayed, RecordError>, IoError> {
        let blocks = self.rows(row, self.rows_of(head)).await?;
        let mut bytes = Vec::with_capacity(blocks.len() * BLOCK_BYTES);
        blocks.iter().for_each(|block| bytes.extend_from_slice(block));
        Ok(head.open(&bytes).map(|(changes, data)| {
            let data = data.chunks(BLOCK_BYTES).map(|block| IoBuf::copy_of(block).freeze()).collect();
            Replayed { sequence: head.id.sequence, changes, data }
        }))
    }

    fn rows_of(&self, head: &RecordHead) -> u64 {
        u64::from(head.blocks.div_ceil(self.ring.row_blocks()))
    }

    /// The blocks of rows.
    async fn rows(&self, first: u64, rows: u64) -> Result<Vec<IoBuf>, IoError> {
        let mut blocks = Vec::new();
        for (run, _) in self.ring.runs(first, rows) {
            blocks.extend(self.volume.read_rows(run.stripe, run.row..run.row + run.rows).await?);
        }
        Ok(blocks)
    }
}
