//! All that operations share, behind one lock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use stripewise_device::Timestamp;
use stripewise_format::rafs::{
    inode::{FileType, Inode},
    key::{Key, KeyKind},
};

use super::{
    Attr, FsError, JournalMode, MountOptions, Without, cleaning::Cleaning, counters::Counters,
    journaled::Journaled,
};
use crate::{
    buffer::{Buffer, Lent, Temperature},
    mutants::{Mutant, lives},
    shape::StripeNo,
    store::Store,
    volume::Volume,
};

/// Free blocks that one buffered block may come to take: its own, and nodes of the tree on the way to its extent, copied.
const BLOCKS_EACH: u64 = 8;

/// When something happens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    /// For the buffer.
    pub(super) at: Timestamp,
    /// For inodes.
    pub(super) ns: i64,
}

/// An inode in memory.
#[derive(Debug)]
pub(super) struct Live {
    /// As callers see it.
    pub(super) inode: Inode,
    /// The length that a commit may tell: no data that a crash would lose lies before it, unless the tree told it before.
    pub(super) kept_bytes: u64,
    /// Callers that have it: each must give it back.
    pub(super) uses: u64,
    /// Changes whenever blocks of the file get other places.
    pub(super) version: u64,
    /// The file may have places behind its end: those of blocks that were written out before others, which a crash has lost.
    pub(super) has_left_overs: bool,
}

/// The state.
pub(super) struct State {
    pub(super) volume: Arc<dyn Volume>,
    pub(super) store: Store,
    pub(super) buffer: Buffer,
    pub(super) live: BTreeMap<u64, Live>,
    /// Those of them that have no users.
    pub(super) unheld: BTreeSet<u64>,
    /// Inodes that the tree does not have as they are.
    pub(super) dirty: BTreeSet<u64>,
    /// Blocks that are durable in the journal only.
    pub(super) journaled: Journaled,
    /// Files of which something was overwritten in the buffer, or before the end of what the tree knows of them, since all of them was
    /// durable. If a sync was under way then, it finds only what is too new for it.
    pub(super) overtaken: BTreeSet<u64>,
    /// Files with waiting blocks that took the places of others since the last commit, by a rename. Their blocks come along with the next
    /// one, so that a crash leaves all of the old one or of the new one. One that cannot be written out any more, as part of the tree is lost,
    /// is no longer among them.
    pub(super) replacing: BTreeSet<u64>,
    /// Files that have become shorter since the last commit. After a crash they may have their old lengths, so what lies behind their new
    /// ends is not overwritten until then.
    pub(super) shrunk: BTreeSet<u64>,
    /// Inodes without names and users, to be freed.
    pub(super) unused: BTreeSet<u64>,
    /// Inodes of `unused` whose items cannot be read now. They are tried again after the next checkpoint.
    pub(super) put_off: BTreeSet<u64>,
    /// Files whose extents cannot be read now, why, and their parts, which the write-out under way passes over.
    pub(super) aside: BTreeMap<u64, (FsError, Vec<Lent>)>,
    /// Pieces of files, a stripe each, that are full and lie in several parts: to be written as a whole.
    pub(super) full: BTreeSet<(u64, u64)>,
    /// Parts of pieces of large files, which are to have stripes of their own as if they were full; none is noted if they are not to.
    pub(super) to_pad: BTreeSet<(u64, u64)>,
    /// Where files were written out last: the next ones go on there.
    pub(super) near: StripeNo,
    /// The stripe that parts of files of a temperature were written to last. Its free rows are next.
    pub(super) filling: BTreeMap<Temperature, StripeNo>,
    pub(super) cleaning: Cleaning,
    /// Half-empty stripes are cleaned.
    pub(super) cleans: bool,
    /// How long after they were written.
    pub(super) cleaned_after: Duration,
    /// Of the paper's techniques, those that are off.
    pub(super) without: Without,
    /// All of a large file lies in stripes of its own.
    pub(super) pads: bool,
    pub(super) journal: JournalMode,
    pub(super) counters: Counters,
    pub(super) is_read_only: bool,
    /// A change is under way, or was not ended: what is in memory is no state of the file system.
    is_changing: bool,
    versions: u64,
}

impl State {
    pub(super) fn new(volume: Arc<dyn Volume>, store: Store, buffer: Buffer, options: &MountOptions) -> Self {
        Self {
            volume,
            store,
            buffer,
            live: BTreeMap::new(),
            unheld: BTreeSet::new(),
            dirty: BTreeSet::new(),
            journaled: Journaled::default(),
            overtaken: BTreeSet::new(),
            replacing: BTreeSet::new(),
            shrunk: BTreeSet::new(),
            unused: BTreeSet::new(),
            put_off: BTreeSet::new(),
            aside: BTreeMap::new(),
            full: BTreeSet::new(),
            to_pad: BTreeSet::new(),
            near: StripeNo(0),
            filling: BTreeMap::new(),
            cleaning: Cleaning::default(),
            cleans: options.cleans,
            cleaned_after: options.cleaned_after,
            without: options.without,
            pads: options.pads,
            journal: options.journal,
            counters: Counters::default(),
            is_read_only: options.is_read_only,
            is_changing: false,
            versions: 0,
        }
    }

    /// A change begins. All that may refuse it has been looked at.
    pub(super) fn begin(&mut self) -> Result<(), FsError> {
        self.check_writable()?;
        self.is_changing = true;
        Ok(())
    }

    /// The change has ended. If it has failed, some of it may have been made: then no more is written.
    pub(super) fn end<T>(&mut self, result: Result<T, FsError>) -> Result<T, FsError> {
        self.is_changing = result.is_err();
        result
    }

    pub(super) fn check_writable(&self) -> Result<(), FsError> {
        if self.is_read_only {
            return Err(FsError::ReadOnly);
        }
        if self.is_changing {
            return Err(FsError::Broken);
        }
        Ok(self.store.check()?)
    }

    /// Whether the file system has room for so many more blocks, with all that is buffered and what the tree needs for it.
    pub(super) fn reserve(&self, blocks: u64) -> Result<(), FsError> {
        let wanted = (self.buffer.blocks() + blocks).saturating_mul(BLOCKS_EACH);
        let is_there = self.store.free_blocks() >= wanted.saturating_add(self.reserved_blocks());
        if is_there || lives(Mutant::SpaceNotReserved) { Ok(()) } else { Err(FsError::NoSpace) }
    }

    /// Whether a checkpoint is due since it may soon need what is kept for changes that take no space: they make inodes and nodes of the
    /// tree dirty, too, and each node takes room until it is written.
    pub(super) fn needs_checkpoint(&self) -> bool {
        let (kept, inodes) = (self.reserved_blocks(), self.dirty.len() as u64);
        let wanted = self.buffer.blocks().saturating_mul(BLOCKS_EACH).saturating_add(kept / 2 + 2 * inodes);
        let has_many = self.store.tree().dirty_nodes() as u64 + inodes > kept / 8;
        has_many && self.store.free_blocks() < wanted
    }

    /// Blocks that are kept for what frees space.
    pub(super) fn reserved_blocks(&self) -> u64 {
        (self.volume.geometry().blocks() / 256).clamp(32, 4096)
    }

    /// A number that no version has.
    pub(super) fn new_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// An inode, read if it is not in memory.
    pub(super) async fn live(&mut self, number: u64) -> Result<&mut Live, FsError> {
        if !self.live.contains_key(&number) {
            let value = self.store.tree().get(Key::new(number, KeyKind::Inode, 0)).await?;
            let value = value.ok_or(FsError::Stale(number))?;
            let inode = Inode::decode(&value).map_err(|error| FsError::Item { inode: number, error })?;
            self.add_live(number, inode, true);
        }
        self.live.get_mut(&number).ok_or(FsError::Stale(number))
    }

    pub(super) fn add_live(&mut self, number: u64, inode: Inode, has_left_overs: bool) {
        let version = self.new_version();
        let live = Live { inode, kept_bytes: inode.size_bytes, uses: 0, version, has_left_overs };
        self.live.insert(number, live);
        self.unheld.insert(number);
    }

    /// An inode that is in memory, to be changed.
    pub(super) fn touch(&mut self, number: u64) -> Result<&mut Inode, FsError> {
        self.dirty.insert(number);
        self.live.get_mut(&number).map(|live| &mut live.inode).ok_or(FsError::Stale(number))
    }

    pub(super) async fn attr(&mut self, number: u64) -> Result<Attr, FsError> {
        let live = self.live(number).await?;
        Attr::of(number, &live.inode)
    }

    /// A folder that has names: others are gone.
    pub(super) async fn folder(&mut self, number: u64) -> Result<Inode, FsError> {
        let Attr { file_type, is, .. } = self.attr(number).await?;
        match file_type {
            FileType::Folder if is.links > 0 => Ok(is),
            FileType::Folder => Err(FsError::NotFound),
            _ => Err(FsError::NotFolder),
        }
    }

    /// Counts one more user of an inode that is in memory.
    pub(super) fn hold(&mut self, number: u64) {
        if let Some(live) = self.live.get_mut(&number) {
            live.uses += 1;
            self.unheld.remove(&number);
        }
    }

    /// Users give an inode back.
    pub(super) fn forget(&mut self, number: u64, uses: u64) {
        let Some(live) = self.live.get_mut(&number) else { return };
        live.uses = live.uses.saturating_sub(uses);
        if live.uses > 0 {
            return;
        }
        self.unheld.insert(number);
        if live.inode.links == 0 {
            self.unused.insert(number);
        } else if !self.is_needed(number) {
            self.drop_live(number);
        }
    }

    /// An inode leaves memory.
    pub(super) fn drop_live(&mut self, number: u64) {
        self.live.remove(&number);
        self.unheld.remove(&number);
    }

    /// Drops inodes from memory that are clean and that nobody uses.
    pub(super) fn drop_idle(&mut self) {
        let idle: Vec<u64> = self.unheld.iter().copied().filter(|number| !self.is_needed(*number)).collect();
        idle.into_iter().for_each(|number| self.drop_live(number));
    }

    /// Whether an inode must stay in memory: it is used, or the tree does not have it as it is.
    fn is_needed(&self, number: u64) -> bool {
        let Some(live) = self.live.get(&number) else { return false };
        let is_file = live.inode.file_type() == Ok(FileType::File);
        let is_kept = !is_file || live.kept_bytes == live.inode.size_bytes;
        live.uses > 0
            || !is_kept
            || self.dirty.contains(&number)
            || self.unused.contains(&number)
            || self.buffer.has(number)
    }

    /// Puts the inodes that have changed into the tree.
    pub(super) async fn put_dirty(&mut self) -> Result<(), FsError> {
        let dirty: Vec<u64> = self.dirty.iter().copied().collect();
        for number in dirty {
            self.put_inode(number).await?;
        }
        Ok(())
    }

    async fn put_inode(&mut self, number: u64) -> Result<(), FsError> {
        if let Some(live) = self.live.get(&number) {
            let is_file = live.inode.file_type() == Ok(FileType::File);
            let size_bytes = if is_file && !lives(Mutant::LengthTooEarly) {
                live.kept_bytes
            } else {
                live.inode.size_bytes
            };
            let value = Inode { size_bytes, ..live.inode }.encode();
            self.store.put(Key::new(number, KeyKind::Inode, 0), value.into()).await?;
        }
        self.dirty.remove(&number);
        Ok(())
    }
}
