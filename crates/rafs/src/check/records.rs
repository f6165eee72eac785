//! What the journal repeats on the tree, as a mount would.

use std::{collections::BTreeMap, sync::Arc};

use stripewise_device::{IoBuf, IoError};
use stripewise_format::rafs::{
    anchor::JournalPosition,
    journal::{Change, RecordHead},
    key::Key,
    superblock::{FIRST_JOURNAL_STRIPE, Superblock},
};

use super::{
    Problem,
    reader::{Missing, unless_lost},
};
use crate::{
    journal::{self, ReplayError},
    shape::StripeNo,
    store::ReplayedData,
    volume::{Volume, is_lost},
};

/// Changes of items: values, or none for those that are gone.
pub(crate) type Edits = BTreeMap<Key, Option<Arc<[u8]>>>;

/// What was repeated.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) edits: Edits,
    /// What was taken and freed, by record.
    pub(crate) space: Vec<Vec<Change>>,
    /// How many records.
    pub(crate) records: u64,
    /// Blocks of files that came along.
    pub(crate) data: ReplayedData,
    /// Where the next record goes.
    pub(crate) end: JournalPosition,
    pub(crate) problem: Option<Problem>,
}

/// Reads all records behind a position, up to the first one that is not there.
///
/// # Errors
/// If the volume does not answer. Records that cannot be read now may still count, so they are not given up. What the medium has lost
/// stays lost.
pub(crate) async fn read(
    volume: &Arc<dyn Volume>,
    superblock: &Superblock,
    from: JournalPosition,
) -> Result<Records, IoError> {
    let stripes = (StripeNo(FIRST_JOURNAL_STRIPE), superblock.journal_stripes);
    let mut repeat = journal::Replay::new(volume.clone(), superblock.journal_id(), stripes, from);
    let mut records = Records::none(from);
    loop {
        match repeat.next().await {
            Ok(Some(record)) => records.take_up(record.changes, record.data),
            Ok(None) => break,
            Err(error) => {
                let sequence = repeat.position().sequence;
                let why = error.to_string();
                let lost = |later| Problem::Journal { sequence, later, why };
                records.problem = Some(match error {
                    ReplayError::Rotten { later, .. } | ReplayError::NewerAnchor { later } => lost(later),
                    ReplayError::Unknown { sequence, error } => Problem::UnknownRecord { sequence, error },
                    ReplayError::Io(error) if is_lost(&error) => lost(sequence),
                    ReplayError::Io(error) => return Err(error),
                });
                break;
            }
        }
    }
    records.end = repeat.position();
    Ok(records)
}

impl Records {
    /// Without any record: the next one goes there.
    pub(crate) fn none(end: JournalPosition) -> Self {
        Self {
            edits: Edits::new(),
            space: Vec::new(),
            records: 0,
            data: ReplayedData::default(),
            end,
            problem: None,
        }
    }

    fn take_up(&mut self, changes: Vec<Change>, mut data: Vec<stripewise_device::SharedBuf>) {
        self.records += 1;
        let mut space = Vec::new();
        for change in changes {
            match change {
                Change::Put(key, value) => drop(self.edits.insert(key, Some(value.into()))),
                Change::Delete(key) => drop(self.edits.insert(key, None)),
                Change::Take(..) | Change::Free(_) => space.push(change),
                Change::Data { inode, first, blocks } => {
                    let rest = data.split_off(data.len().min(blocks as usize));
                    let blocks = std::mem::replace(&mut data, rest);
                    self.data.put(inode, first, blocks);
                }
                Change::Forget { inode, first, blocks } => self.data.forget(inode, first..first + blocks),
            }
        }
        self.space.push(space);
    }
}

/// The heads of all records that begin somewhere in the journal, each with the row where it begins. The records were not looked at as a
/// whole: what a crash has left of a row may look like a head.
///
/// # Errors
/// If a row cannot be read just now.
pub(crate) async fn heads(
    volume: &Arc<dyn Volume>,
    superblock: &Superblock,
) -> Result<Vec<(u64, RecordHead)>, IoError> {
    let rows = u64::from(volume.geometry().rows());
    let mut found = Vec::new();
    for stripe in 0..superblock.journal_stripes {
        for (row, first) in (stripe * rows..).zip(first_blocks(volume, stripe).await?) {
            let head = first.and_then(|first| RecordHead::decode(&first, superblock.journal_id()).ok());
            found.extend(head.map(|head| (row, head)));
        }
    }
    Ok(found)
}

/// The epochs of records, with the lowest number of each and where that begins, in a journal whose rows have so many blocks.
pub(crate) fn epochs(heads: &[(u64, RecordHead)], row_blocks: u32) -> BTreeMap<u64, JournalPosition> {
    let mut found: BTreeMap<u64, JournalPosition> = BTreeMap::new();
    for (row, head) in heads {
        let block = row * u64::from(row_blocks);
        let position = JournalPosition { epoch: head.id.epoch, sequence: head.id.sequence, block };
        let lowest = found.entry(position.epoch).or_insert(position);
        if position.sequence < lowest.sequence {
            *lowest = position;
        }
    }
    found
}

/// Whether one of the records that seem to begin with these heads is whole.
///
/// # Errors
/// If it cannot be read just now.
pub(crate) async fn has_whole(
    volume: &Arc<dyn Volume>,
    superblock: &Superblock,
    heads: &[(u64, RecordHead)],
) -> Result<bool, IoError> {
    let stripes = (StripeNo(FIRST_JOURNAL_STRIPE), superblock.journal_stripes);
    // Nothing is repeated: from where on does not matter.
    let from = JournalPosition { epoch: 0, sequence: 0, block: 0 };
    let journal = journal::Replay::new(volume.clone(), superblock.journal_id(), stripes, from);
    for (row, head) in heads {
        if journal.is_whole(*row, head).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The first block of each row of a stripe of the journal, if the medium has it.
async fn first_blocks(volume: &Arc<dyn Volume>, stripe: u64) -> Result<Vec<Option<IoBuf>>, IoError> {
    let (geometry, at) = (volume.geometry(), StripeNo(FIRST_JOURNAL_STRIPE + stripe));
    if let Ok(blocks) = volume.read_rows(at, 0..geometry.rows()).await {
        return Ok(blocks.into_iter().step_by(geometry.data_columns() as usize).map(Some).collect());
    }
    let mut firsts = Vec::new();
    for row in 0..geometry.rows() {
        let read = volume.read_rows(at, row..row + 1).await;
        let blocks = unless_lost(read.map_err(Missing::Io))?;
        firsts.push(blocks.and_then(|blocks| blocks.into_iter().next()));
    }
    Ok(firsts)
}
