//! Superblocks and anchors, with all their copies.

use std::{collections::BTreeMap, sync::Arc};

use stripewise_device::IoError;
use stripewise_format::rafs::{
    anchor::{Anchor, JournalPosition, Root},
    journal::RecordHead,
    superblock::Superblock,
};

use super::{
    Problem, Progress,
    reader::{Reader, Wanted},
    records::{epochs, has_whole, heads},
    roots::{has_lost_nodes, newest_root},
    scan::{Found, scan},
};
use crate::{
    fs::MountError,
    store::{self, GENERATIONS_APART, GroundError},
    volume::Volume,
};

/// Where everything begins.
pub(crate) struct Base {
    pub(crate) superblock: Superblock,
    /// The anchor from which all else is read, and at which of the two places it is. One that was lost is made anew from what else there is.
    pub(crate) anchor: (usize, Anchor),
    /// Where the next anchor goes: to the place that does not hold what counts.
    pub(crate) next_place: usize,
    /// The highest generation of an anchor, and of all nodes, if they had to be looked for.
    pub(crate) generation: u64,
    /// All nodes of the volume, if they had to be looked for.
    pub(crate) found: Option<Vec<Found>>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) notes: Vec<Problem>,
}

impl Base {
    pub(crate) async fn read(volume: &Arc<dyn Volume>, progress: &Progress) -> Result<Self, MountError> {
        let superblock = store::read_superblock(&**volume).await?;
        store::check_shape(&superblock, volume.geometry())?;
        store::check_writable(&superblock)?;
        let (mut problems, mut notes) = (bad_superblocks(volume, &superblock).await, Vec::new());
        let mut anchors = Vec::new();
        for place in superblock.anchor_places() {
            let decode = |bytes: &[u8]| Anchor::decode(bytes, place, superblock.uuid);
            let anchor =
                store::read_anchor(&**volume, &superblock, place).await.map_err(GroundError::from)?;
            let bad = store::bad_copies(&**volume, place, |bytes| decode(bytes) == anchor).await;
            match anchor {
                Err(error) => problems.push(Problem::Anchor { place, why: error.to_string() }),
                Ok(_) => notes.extend((bad > 0).then_some(Problem::AnchorCopies { place, bad })),
            }
            anchors.push(anchor);
        }
        let all = [anchors[0], anchors[1]];
        let generation = all.iter().flatten().map(|anchor| anchor.generation).max();
        let newest = Anchor::newest(all);
        let mut base = Self {
            superblock,
            anchor: newest.unwrap_or((1, nothing())),
            next_place: newest.map_or(0, |(at, _)| 1 - at),
            generation: generation.unwrap_or(0),
            found: None,
            problems,
            notes,
        };
        let heads = heads(volume, &base.superblock).await.map_err(GroundError::from)?;
        let epochs = epochs(&heads, volume.geometry().data_columns());
        let is_lost = all.iter().any(Result::is_err)
            || base.is_newer_lost(volume, &heads).await.map_err(GroundError::from)?;
        if is_lost
            && !base.rebuild(volume, &epochs, newest.is_ok(), progress).await.map_err(GroundError::from)?
        {
            newest.map_err(GroundError::from)?;
        }
        Ok(base)
    }

    /// That of a file system that is mounted. Nothing else is looked for: what is newer than this anchor's tree may be incomplete.
    pub(crate) async fn of_mounted(
        volume: &Arc<dyn Volume>,
        superblock: Superblock,
        anchor: (usize, Anchor),
    ) -> Result<Self, MountError> {
        store::check_writable(&superblock)?;
        let problems = bad_superblocks(volume, &superblock).await;
        let (next_place, generation) = (1 - anchor.0, anchor.1.generation);
        let found = Some(Vec::new());
        Ok(Self { superblock, anchor, next_place, generation, found, problems, notes: Vec::new() })
    }

    /// Whether a later anchor was durable, whose place holds an older one again: a record counts from it. If what looks like the head of one
    /// is all that there is, the anchor's own tree decides: what came later may have taken the places of its nodes.
    async fn is_newer_lost(
        &self,
        volume: &Arc<dyn Volume>,
        heads: &[(u64, RecordHead)],
    ) -> Result<bool, IoError> {
        let epoch = self.anchor.1.journal.epoch;
        let newer: Vec<_> = heads.iter().filter(|(_, head)| head.id.epoch > epoch).copied().collect();
        if newer.is_empty() || has_whole(volume, &self.superblock, &newer).await? {
            return Ok(!newer.is_empty());
        }
        match self.root() {
            Some(root) => has_lost_nodes(&Reader::new(volume.clone(), &self.superblock), root).await,
            None => Ok(false),
        }
    }

    /// An anchor is lost. If it was the newer one, its tree is there still. Returns whether there is a tree.
    async fn rebuild(
        &mut self,
        volume: &Arc<dyn Volume>,
        epochs: &BTreeMap<u64, JournalPosition>,
        has_anchor: bool,
        progress: &Progress,
    ) -> Result<bool, IoError> {
        let reader = Reader::new(volume.clone(), &self.superblock);
        let found = scan(&reader, &self.superblock, progress).await?;
        let (at, anchor) = self.anchor;
        let anchors = has_anchor.then_some((anchor.generation, self.root()));
        let root = newest_root(&reader, &found, anchors).await?;
        self.note_found(found);
        let Some(Wanted { place, generation, level, .. }) = root else { return Ok(has_anchor) };
        let last = epochs.last_key_value().map_or(0, |(epoch, _)| *epoch);
        // Without any anchor, nothing says which records are not in the tree.
        let epoch = if has_anchor { anchor.journal.epoch.saturating_add(1) } else { last.saturating_add(1) };
        let block = JournalPosition { epoch, sequence: 0, block: 0 };
        let journal = epochs.get(&epoch).copied().unwrap_or(block);
        let root = Root { place, generation, level };
        self.problems.push(Problem::NewerTree { generation: root.generation });
        // Counts are made anew.
        self.anchor = (
            if has_anchor { 1 - at } else { at },
            Anchor { generation: root.generation, root, journal, ..anchor },
        );
        Ok(true)
    }

    /// The root, as a walk wants it; none if the tree is empty.
    pub(crate) fn root(&self) -> Option<Wanted> {
        let Root { place, generation, level } = self.anchor.1.root;
        (generation > 0).then_some(Wanted { place, generation, level, low: None, high: None, is_root: true })
    }

    /// All nodes of the volume were looked for. What is written later has a higher generation than all of them.
    pub(crate) fn note_found(&mut self, found: Vec<Found>) {
        let highest = found.iter().map(|found| found.generation).max();
        self.generation = self.generation.max(highest.unwrap_or(0));
        self.found = Some(found);
    }

    /// The generation of what a repair writes: higher than those of all that a crash may have left.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.saturating_add(GENERATIONS_APART + 1)
    }
}

/// The places of superblocks that are damaged.
async fn bad_superblocks(volume: &Arc<dyn Volume>, superblock: &Superblock) -> Vec<Problem> {
    let mut problems = Vec::new();
    for place in superblock.places() {
        let good = |bytes: &[u8]| Superblock::decode(bytes).is_ok_and(|(one, _)| one == *superblock);
        let bad = store::bad_copies(&**volume, place, good).await;
        problems.extend((bad > 0).then_some(Problem::Superblock { place, bad }));
    }
    problems
}

/// What an anchor would say if there were none.
fn nothing() -> Anchor {
    Anchor {
        generation: 0,
        root: Root { place: 0, generation: 0, level: 0 },
        journal: JournalPosition { epoch: 0, sequence: 0, block: 0 },
        is_clean: false,
        next_inode: 1,
        inodes: 0,
        used_blocks: 0,
    }
}
