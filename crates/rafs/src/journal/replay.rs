//! The replay: the records that were committed since the anchor, in order.

use std::{ops::Range, sync::Arc};

use futures_util::future::try_join_all;
use stripewise_device::{IoBuf, IoError, ReadDone, SharedBuf};
use stripewise_format::rafs::{
    anchor::JournalPosition,
    journal::{Change, RecordError, RecordHead, RecordId},
    value::ValueError,
};
use thiserror::Error;
use uuid::Uuid;

use super::ring::{Ring, Run};
use crate::{
    healing::Healing,
    mutants::{Mutant, lives},
    shape::{BLOCK_BYTES, Cell, Order, StripeNo},
    volume::{Volume, is_lost},
};

/// Why the journal cannot be replayed to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReplayError {
    /// The volume cannot read it.
    #[error("the journal cannot be read: {0}; see to the volume's members, then try again")]
    Io(#[from] IoError),
    /// A record cannot be read, and later ones can: it was durable once.
    #[error(
        "record {sequence} of the journal is damaged ({error}), and {later} after it is valid; mount it \
         read-only to see what was before it, or run fsck"
    )]
    Rotten {
        /// Its number.
        sequence: u64,
        /// What is wrong with it.
        error: RecordError,
        /// A later one's number.
        later: u64,
    },
    /// A record is whole, and holds a change that this program does not know.
    #[error(
        "record {sequence} of the journal is whole, and holds a change that this program does not know ({error}); use a later \
         program: fsck would drop this record and all after it"
    )]
    Unknown {
        /// Its number.
        sequence: u64,
        /// What is wrong with the change.
        error: ValueError,
    },
    /// Records count from a later anchor on, which was durable once.
    #[error(
        "the newest anchor is lost: record {later} of the journal belongs to a later checkpoint than the anchor that is \
         left; run fsck"
    )]
    NewerAnchor {
        /// The record's number.
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

/// Rows of which the first blocks are read at once where a mount looks for later records. Tests have short journals.
const ROWS_AT_ONCE: u64 = if cfg!(test) { 5 } else { 1024 };

/// How rows are read.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// From their own places.
    Own,
    /// In one of the volume's other ways: a member is not believed.
    Other(u32),
}

/// Reads records from a position on.
pub struct Replay {
    volume: Arc<dyn Volume>,
    ring: Ring,
    uuid: Uuid,
    next: JournalPosition,
    /// Rows that were not read yet.
    left: u64,
    healing: Option<Arc<Healing>>,
}

impl Replay {
    /// The records from the anchor's position on, of the journal in these stripes.
    ///
    /// # Panics
    /// If there is no stripe.
    #[must_use]
    pub fn new(volume: Arc<dyn Volume>, uuid: Uuid, stripes: (StripeNo, u64), from: JournalPosition) -> Self {
        let ring = Ring::new(volume.geometry(), stripes);
        Self { volume, ring, uuid, next: from, left: ring.rows(), healing: None }
    }

    /// What redundancy has of records that are damaged is written back.
    pub(crate) fn healed_by(self, healing: Arc<Healing>) -> Self {
        Self { healing: Some(healing), ..self }
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
        let error = match self.record(row, Way::Own).await? {
            Ok(record) => return Ok(Some(self.pass(row, record))),
            Err(RecordError::Change(error)) => {
                return Err(ReplayError::Unknown { sequence: self.next.sequence, error });
            }
            Err(error) => error,
        };
        // Nothing tells a record that has rotted from one that a crash has torn. If redundancy has all of it, it counts in either case.
        if let Some(record) = self.rotten(row).await? {
            return Ok(Some(self.pass(row, record)));
        }
        match self.later(row).await? {
            Some(id) if id.epoch > self.next.epoch => Err(ReplayError::NewerAnchor { later: id.sequence }),
            Some(id) => Err(ReplayError::Rotten { sequence: self.next.sequence, error, later: id.sequence }),
            None => Ok(None),
        }
    }

    /// A record counts: the next one begins behind its rows.
    fn pass(&mut self, row: u64, (rows, replayed): (u64, Replayed)) -> Replayed {
        let JournalPosition { epoch, sequence, .. } = self.next;
        self.left -= rows;
        let block = self.ring.block_of(row + rows);
        self.next = JournalPosition { epoch, sequence: sequence.saturating_add(1), block };
        replayed
    }

    /// The next record, which begins with a row, and how many rows it has.
    async fn record(&self, row: u64, way: Way) -> Result<Result<(u64, Replayed), RecordError>, IoError> {
        let JournalPosition { epoch, sequence, .. } = self.next;
        let is_next =
            |id: &RecordId| id.epoch == epoch && id.sequence == sequence || lives(Mutant::LastLapReplayed);
        let head = match self.head(row, self.left, is_next, way).await? {
            Ok(head) => head,
            Err(error) => return Ok(Err(error)),
        };
        let replayed = self.open(row, &head, way).await?;
        Ok(replayed.map(|replayed| (self.rows_of(&head), replayed)))
    }

    /// The next record as redundancy has it, if one member is not believed. The member gets it back.
    async fn rotten(&self, row: u64) -> Result<Option<(u64, Replayed)>, IoError> {
        for way in 0..self.volume.other_ways() {
            let Ok(Ok(record)) = self.record(row, Way::Other(way)).await else { continue };
            if self.healing.is_none() {
                return Ok(Some(record));
            }
            self.heal(row, record.0, way).await?;
            // Parity may have changed meanwhile, as a resync makes it fit what lies there.
            if let Ok(record) = self.record(row, Way::Own).await? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Writes back what a member should have of some rows: once the record counts, parity alone must not have it.
    async fn heal(&self, first: u64, rows: u64, way: u32) -> Result<(), IoError> {
        let Some(healing) = &self.healing else { return Ok(()) };
        for (run, _) in self.ring.runs(first, rows) {
            for (column, blocks) in self.otherwise(&run, way).await? {
                for (row, block) in (run.row..).zip(blocks) {
                    healing.write_back(way, run.stripe, Cell { row, column }, &block.freeze()).await?;
                }
            }
        }
        Ok(())
    }

    /// The columns of some rows that lie on the member that is not believed.
    async fn otherwise(&self, run: &Run, way: u32) -> Result<Vec<(u32, Vec<IoBuf>)>, IoError> {
        let mut columns = Vec::new();
        for column in 0..self.ring.row_blocks() {
            let rows = run.row..run.row + run.rows;
            let blocks = self.volume.read_otherwise(way, column, run.stripe, rows).await?;
            columns.extend(blocks.map(|blocks| (column, blocks)));
        }
        Ok(columns)
    }

    /// A later record that begins with this row or behind it, and is valid: of this epoch, or of a later one. The first record behind an
    /// anchor goes where the one behind the last would be.
    async fn later(&self, row: u64) -> Result<Option<RecordId>, ReplayError> {
        let JournalPosition { epoch, sequence, .. } = self.next;
        let is_later = |id: &RecordId| {
            let is_newer = id.epoch > epoch;
            is_newer || id.epoch == epoch && id.sequence > sequence
        };
        let (mut at, end) = (row, row + self.left);
        while at < end {
            let blocks = self.first_blocks(at, ROWS_AT_ONCE.min(end - at)).await?;
            for (at, block) in (at..).zip(&blocks) {
                if let Ok(head) = self.head_in(block, end - at, is_later)
                    && matches!(self.open(at, &head, Way::Own).await?, Ok(_) | Err(RecordError::Change(_)))
                {
                    return Ok(Some(head.id));
                }
            }
            at += blocks.len() as u64;
        }
        Ok(None)
    }

    /// The first blocks of rows, of several stripes at once: a record begins with one.
    async fn first_blocks(&self, first: u64, rows: u64) -> Result<Vec<IoBuf>, IoError> {
        let geometry = self.volume.geometry();
        let read = |(run, _): (Run, Range<usize>)| {
            let cell = Cell { row: run.row, column: 0 };
            let block = geometry.block(run.stripe, geometry.slot(Order::Columns, cell));
            let into = (0..run.rows).map(|_| IoBuf::with_len(BLOCK_BYTES)).collect();
            let read = self.volume.read(geometry.offset_bytes(Order::Columns, block), into);
            async move {
                let ReadDone { result, bufs } = read.await;
                result.map(|()| bufs)
            }
        };
        let runs = try_join_all(self.ring.runs(first, rows).map(read)).await?;
        Ok(runs.into_iter().flatten().collect())
    }

    /// The head of the record that begins with a row, if it is one of those that are wanted and has so many rows at most.
    async fn head(
        &self,
        row: u64,
        rows_max: u64,
        is_wanted: impl Fn(&RecordId) -> bool,
        way: Way,
    ) -> Result<Result<RecordHead, RecordError>, IoError> {
        let first = self.rows(row, 1, way).await?;
        Ok(self.head_in(&first[0], rows_max, is_wanted))
    }

    /// As [`Replay::head`], of a row whose first block is in hand.
    fn head_in(
        &self,
        first: &[u8],
        rows_max: u64,
        is_wanted: impl Fn(&RecordId) -> bool,
    ) -> Result<RecordHead, RecordError> {
        match RecordHead::decode(first, self.uuid) {
            Ok(head) if !is_wanted(&head.id) => Err(RecordError::NoMagic),
            Ok(head) if !(1..=rows_max).contains(&self.rows_of(&head)) => Err(RecordError::Lengths),
            head => head,
        }
    }

    /// Reads a record, and looks whether it is valid.
    async fn open(
        &self,
        row: u64,
        head: &RecordHead,
        way: Way,
    ) -> Result<Result<Replayed, RecordError>, IoError> {
        let blocks = self.rows(row, self.rows_of(head), way).await?;
        let mut bytes = Vec::with_capacity(blocks.len() * BLOCK_BYTES);
        blocks.iter().for_each(|block| bytes.extend_from_slice(block));
        Ok(head.open(&bytes).map(|(changes, data)| {
            let data = data.chunks(BLOCK_BYTES).map(|block| IoBuf::copy_of(block).freeze()).collect();
            Replayed { sequence: head.id.sequence, changes, data }
        }))
    }

    /// Whether the record that begins with a row is whole, as it lies there or as redundancy has it.
    ///
    /// # Errors
    /// If it cannot be read just now.
    pub(crate) async fn is_whole(&self, row: u64, found: &RecordHead) -> Result<bool, IoError> {
        let is_it = |id: &RecordId| *id == found.id;
        for way in std::iter::once(Way::Own).chain((0..self.volume.other_ways()).map(Way::Other)) {
            let opened = match self.head(row, self.ring.rows(), is_it, way).await {
                Ok(Ok(head)) => self.open(row, &head, way).await,
                Ok(Err(_)) => continue,
                Err(error) => Err(error),
            };
            match opened {
                Ok(Ok(_) | Err(RecordError::Change(_))) => return Ok(true),
                Err(error) if !is_lost(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }

    fn rows_of(&self, head: &RecordHead) -> u64 {
        u64::from(head.blocks.div_ceil(self.ring.row_blocks()))
    }

    /// The blocks of rows.
    async fn rows(&self, first: u64, rows: u64, how: Way) -> Result<Vec<IoBuf>, IoError> {
        let mut blocks = Vec::new();
        for (run, _) in self.ring.runs(first, rows) {
            let rows = run.row..run.row + run.rows;
            let mut read = self.volume.read_rows(run.stripe, rows).await?;
            if let Way::Other(way) = how {
                for (column, others) in self.otherwise(&run, way).await? {
                    let own = read.iter_mut().skip(column as usize);
                    let own = own.step_by(self.ring.row_blocks() as usize);
                    own.zip(others).for_each(|(block, other)| *block = other);
                }
            }
            blocks.extend(read);
        }
        Ok(blocks)
    }
}
