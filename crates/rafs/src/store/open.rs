//! Opening a store: the newest anchor's tree, and what was committed since.

use std::{
    ops::{Range, RangeInclusive},
    sync::{Arc, Weak},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use smallvec::smallvec;
use stripewise_device::{BoxFuture, IoBuf, IoError, SharedBuf};
use stripewise_format::rafs::{
    anchor::{Anchor, INODES_END},
    journal::{Change, Run},
    key::{Key, KeyKind},
    node::Item,
    superblock::{FIRST_JOURNAL_STRIPE, SlotOrder, Superblock},
};
use thiserror::Error;

use super::{
    FileBlocks, Ground, Store, StoreError, StripeCounts, discards::Discards, ground::write_row,
    replayed::ReplayedData, running::Running,
};
use crate::{
    healing::Healing,
    journal::{self, Journal, ReplayError, Replayed},
    mutants::{Mutant, lives},
    shape::{BLOCK_BYTES, BlockNo, Order, StripeNo},
    space::{Layout, Measure, Space},
    tree::{IsRight, NodeStore, Root, Scan, Tree, TreeError},
    volume::Volume,
};

/// So many generations lie between the last one of an anchor and the first one of a mount or a repair. Checkpoints of a mount that fail in
/// a row are fewer.
pub(crate) const GENERATIONS_APART: u64 = 1 << 16;

/// Why a store cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum OpenError {
    /// The journal.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// What the journal or the tree says does not go together, or cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What was repeated when a store was opened.
#[derive(Debug, Default)]
pub struct Replay {
    /// Records.
    pub records: u64,
    /// Blocks of files that came along, by file and block.
    pub data: Vec<FileBlocks>,
    /// Why nothing was repeated from a record on, where the store is to be read only.
    pub rotten: Option<ReplayError>,
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be changed. What redundancy has of damaged blocks is written back.
    Write,
    /// To be read: nothing is written. What was committed is repeated in memory, up to a record that is rotten.
    Read,
    /// To be read as the newest anchor has it: the journal is not looked at.
    ReadAnchor,
}

/// The most parts in which groups are taken up at once, and how many groups make another part worth it.
const PARTS_MAX: u64 = 32;
const PART_GROUPS_MIN: u64 = 1024;

/// The parts in which so many groups are taken up. The last one finds groups that lie outside, too.
fn parts_of(groups: u64) -> impl Iterator<Item = RangeInclusive<u64>> {
    let of_part = groups.div_ceil(PARTS_MAX).max(PART_GROUPS_MIN);
    let parts = groups.div_ceil(of_part).max(1);
    (0..parts).map(move |part| {
        let end = if part + 1 == parts { u64::MAX } else { (part + 1) * of_part - 1 };
        part * of_part..=end
    })
}

/// Where the tree has a group.
const fn group_key(group: u64) -> Key {
    Key::new(0, KeyKind::Group, group)
}

/// The next items of a scan, and what is left of it. None: there are no more.
async fn next_groups(tree: &Tree, mut scan: Scan) -> Result<Option<(Vec<Item>, Scan)>, TreeError> {
    Ok(scan.batch(tree).await?.map(|items| (items, scan)))
}

impl Store {
    /// Opens the store that was [found](Ground::read) on a volume. Up to so many clean nodes of the tree are kept in memory.
    ///
    /// What was committed is repeated in memory. Blocks of files that came along are handed out: they are in the journal only, until
    /// the caller has written them out and made a [checkpoint](Self::checkpoint). Before the caller writes anything, it
    /// [renews the anchors](Self::renew_anchors).
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(
        volume: Arc<dyn Volume>,
        ground: Ground,
        cached_nodes_max: usize,
        purpose: Purpose,
    ) -> Result<(Self, Replay), OpenError> {
        let Ground { superblock, anchor, .. } = ground;
        let (order, may_heal) = (order_of(&superblock), purpose == Purpose::Write);
        let healing = Arc::new(Healing::new(volume.clone(), order, may_heal));
        let nodes = Arc::new(Nodes { healing: healing.clone() });
        let (uuid, root, from) = (superblock.uuid, anchor.1.root, anchor.1.journal);
        let tree = if root.generation == 0 {
            Tree::new(nodes, uuid, cached_nodes_max)
        } else {
            let place = BlockNo(root.place);
            let root = Root { place, generation: root.generation, level: root.level };
            Tree::open(nodes, uuid, cached_nodes_max, root)
        };
        let stripes = (StripeNo(FIRST_JOURNAL_STRIPE), superblock.journal_stripes);
        let journal_id = superblock.journal_id();
        let repeat = journal::Replay::new(volume.clone(), journal_id, stripes, from);
        let mut repeat = if may_heal { repeat.healed_by(healing.clone()) } else { repeat };
        let mut store = Self {
            space: Space::new(layout(&volume, &superblock), Measure::Rows),
            journal: Journal::new(volume.clone(), journal_id, stripes, from),
            running: Running::default(),
            generation: anchor.1.generation,
            inodes: anchor.1.inodes,
            next_inode: anchor.1.next_inode,
            given_up: Default::default(),
            held: Weak::new(),
            kept: Vec::new(),
            filling: StripeNo(0),
            is_unflushed: false,
            may_trail: false,
            comes_first: false,
            has_data: false,
            discards: Discards::default(),
            written: StripeCounts::default(),
            has_failed: false,
            volume,
            healing,
            superblock,
            tree,
            anchor,
        };
        store.load_groups().await?;
        let replay = match purpose {
            Purpose::Write | Purpose::Read => store.repeat_all(&mut repeat, purpose).await?,
            Purpose::ReadAnchor => Replay::default(),
        };
        store.journal = Journal::new(store.volume.clone(), journal_id, stripes, repeat.position());
        store.journal.forget_before(from);
        if may_heal {
            store.journal.seal().await.map_err(StoreError::Io)?;
        }
        store.has_data = !replay.data.is_empty();
        Ok((store, replay))
    }

    /// Writes both anchors, which lead to the same tree, first where the older one is: once all that was found has proved good, and
    /// before anything else is written. A crash may have left copies of two anchors in one row of blocks, and nodes of a checkpoint that did
    /// not end: neither passes for what is written from here on, since generations of this mount are higher than all of theirs.
    ///
    /// The flushes are the records' as well: a record that was read may not be durable yet, and the mount uses again what it frees.
    ///
    /// # Errors
    /// [`IoError`]; then one of the anchors is as it was.
    pub async fn renew_anchors(&mut self) -> Result<(), IoError> {
        if lives(Mutant::AnchorsNotRenewed) {
            return Ok(());
        }
        let (newest, found) = self.anchor;
        let places = self.superblock.anchor_places();
        self.generation = found.generation.saturating_add(GENERATIONS_APART);
        for at in [1 - newest, newest] {
            self.generation = self.generation.saturating_add(1);
            self.anchor.1 = Anchor { generation: self.generation, is_clean: false, ..found };
            let bytes = self.anchor.1.encode(places[at], self.superblock.uuid);
            write_row(&*self.volume, places[at], &bytes).await?;
            self.volume.flush().await?;
        }
        Ok(())
    }

    /// Takes up the groups that the tree has, in several parts at once: within a part, a leaf is asked for when the one before it is
    /// there.
    async fn load_groups(&mut self) -> Result<(), StoreError> {
        let tree = &self.tree;
        // So that the parts find the first nodes of their ways in memory: each would read them, and mend them.
        tree.get(group_key(0)).await?;
        let scans = parts_of(self.superblock.groups())
            .map(|part| Scan::over(group_key(*part.start())..=group_key(*part.end())));
        let mut under_way: FuturesUnordered<_> = scans.map(|scan| next_groups(tree, scan)).collect();
        while let Some(read) = under_way.next().await {
            let Some((items, scan)) = read? else { continue };
            for item in items {
                self.space.load(item.key.offset, &item.value)?;
            }
            under_way.push(next_groups(tree, scan));
        }
        let (found, wanted) = (self.space.counts().taken, self.anchor.1.used_blocks);
        if found == wanted { Ok(()) } else { Err(StoreError::Used { found, wanted }) }
    }

    /// Makes the changes of all records again. What is to be read only ends before a record that is rotten.
    async fn repeat_all(
        &mut self,
        journal: &mut journal::Replay,
        purpose: Purpose,
    ) -> Result<Replay, OpenError> {
        let (mut records, mut data) = (0, ReplayedData::default());
        let rotten = loop {
            match journal.next().await {
                Ok(Some(record)) => self.repeat(record, &mut data).await?,
                Ok(None) => break None,
                Err(error @ ReplayError::Rotten { .. }) if purpose == Purpose::Read => break Some(error),
                Err(error) => return Err(error.into()),
            }
            records += 1;
        };
        Ok(Replay { records, data: data.into_runs(), rotten })
    }

    /// Makes a record's changes again.
    async fn repeat(&mut self, record: Replayed, of_files: &mut ReplayedData) -> Result<(), StoreError> {
        let Replayed { changes, mut data, .. } = record;
        for change in changes {
            match change {
                Change::Put(Key { kind: KeyKind::Inode, object: inode, .. }, _) if inode >= INODES_END => {
                    return Err(StoreError::Inode { inode });
                }
                Change::Put(key, value) => self.insert(key, value.into()).await?,
                Change::Delete(key) => {
                    self.delete(key).await?;
                }
                Change::Take(kind, run) => self.space.take(kind, blocks_of(run))?,
                Change::Free(run) => {
                    self.space.free(blocks_of(run))?;
                    self.running.freed.push(blocks_of(run));
                }
                Change::Data { inode, first, blocks } => {
                    let rest = data.split_off(data.len().min(blocks as usize));
                    let blocks = std::mem::replace(&mut data, rest);
                    of_files.put(inode, first, blocks);
                }
                Change::Forget { inode, first, blocks } => of_files.forget(inode, first..first + blocks),
            }
        }
        if lives(Mutant::ReplayFreesLate) { Ok(()) } else { self.end_running() }
    }
}

fn blocks_of(run: Run) -> Range<BlockNo> {
    BlockNo(run.place)..BlockNo(run.place + u64::from(run.blocks))
}

/// How the slots of all stripe groups are numbered.
pub(crate) fn order_of(superblock: &Superblock) -> Order {
    match superblock.order {
        SlotOrder::Rows => Order::Rows,
        SlotOrder::Columns => Order::Columns,
    }
}

pub(crate) fn layout(volume: &Arc<dyn Volume>, superblock: &Superblock) -> Layout {
    Layout {
        geometry: volume.geometry(),
        order: order_of(superblock),
        first: StripeNo(superblock.first_group_stripe()),
        group_stripes: superblock.group_stripes,
        groups: superblock.groups(),
    }
}

/// The nodes of a tree on a volume.
struct Nodes {
    healing: Arc<Healing>,
}

impl NodeStore for Nodes {
    fn read(&self, place: BlockNo) -> BoxFuture<Result<SharedBuf, IoError>> {
        let volume = self.healing.volume();
        let geometry = volume.geometry();
        if place.0 >= geometry.blocks() {
            return Box::pin(std::future::ready(Err(IoError::new(
                stripewise_device::IoErrorKind::Truncated,
            ))));
        }
        let offset_bytes = geometry.offset_bytes(self.healing.order(), place);
        let read = volume.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_BYTES)]);
        Box::pin(async move { read.await.into_one().map(IoBuf::freeze) })
    }

    fn find(&self, place: BlockNo, is_right: IsRight) -> BoxFuture<Result<Option<SharedBuf>, IoError>> {
        let healing = self.healing.clone();
        Box::pin(async move { healing.find(place, is_right).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_lies_in_one_part() {
        for groups in [0, 1, 1023, 1024, 1025, 4096, 32 * 1024, 32 * 1024 + 1, 524_279, u64::MAX / 8192] {
            let parts: Vec<_> = parts_of(groups).collect();
            assert!(!parts.is_empty() && parts.len() as u64 <= PARTS_MAX, "{groups}: {parts:?}");
            assert_eq!((*parts[0].start(), *parts[parts.len() - 1].end()), (0, u64::MAX));
            assert!(parts.windows(2).all(|two| two[0].end() + 1 == *two[1].start()), "{groups}: {parts:?}");
            let has_some = |part: &RangeInclusive<u64>| *part.start() < groups.max(1);
            assert!(parts.iter().all(has_some), "{groups}: {parts:?}");
        }
    }
}
