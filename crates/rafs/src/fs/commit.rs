//! Commits and checkpoints of the state.

use std::{collections::BTreeSet, ops::Range};

use stripewise_device::SharedBuf;
use stripewise_format::rafs::key::{Key, KeyKind};

use super::{FsError, entries::orphan_key, state::State};
use crate::{
    mutants::{Mutant, lives},
    shape::BLOCK_BYTES,
    store::FileBlocks,
    tree::{Scan, Tree},
};

/// What comes along with a commit.
#[derive(Default)]
struct Gathered {
    data: Vec<FileBlocks>,
    /// The lengths that the files' inodes had in the tree before.
    before: Vec<(u64, u64)>,
    /// Blocks of files of which the journal had no version before.
    new: Vec<(u64, u64)>,
}

/// Extents that are looked at in one step when a file is freed.
const FREED_EXTENTS: usize = 512;

impl State {
    /// Makes all names and attributes durable, and the buffered blocks of these files, of each up to `blocks_max`: they come along in the
    /// journal. All blocks of files that have [replaced](State::replacing) others come along, too.
    ///
    /// # Errors
    /// [`FsError`]; then all is as it was, and is tried again by the next commit.
    pub(super) async fn commit(&mut self, files: &[u64], blocks_max: usize) -> Result<(), FsError> {
        let files: BTreeSet<u64> = self.replacing.iter().chain(files).copied().collect();
        self.look_at_dirty(&files).await?;
        self.begin()?;
        let gathered = self.gather(&files, blocks_max).await;
        let Gathered { data, before, new } = self.end(gathered)?;
        if !self.replacing.is_empty() {
            // Some of them may have been written out since the rename.
            self.store.let_data_come_first();
        }
        let committed = self.store.commit(&data).await;
        if let Err(error) = committed {
            for FileBlocks { inode, first, blocks } in &data {
                self.journaled.outdate(*inode, *first..*first + blocks.len() as u64);
            }
            for (inode, block) in new {
                self.journaled.remove(inode, block..block + 1);
            }
            for (inode, kept_bytes) in before {
                self.lower_kept(inode, kept_bytes);
            }
            return Err(error.into());
        }
        self.shrunk.clear();
        self.replacing.clear();
        self.counters.commits += 1;
        self.counters.journaled_blocks += data.iter().map(|one| one.blocks.len() as u64).sum::<u64>();
        self.drop_idle();
        Ok(())
    }

    /// Reads what is going to change of the tree when inodes and small files are put there, before anything does.
    async fn look_at_dirty(&mut self, files: &BTreeSet<u64>) -> Result<(), FsError> {
        self.check_writable()?;
        let inodes = self.dirty.iter().chain(files).map(|number| Key::new(*number, KeyKind::Inode, 0));
        self.look_at(&inodes.collect::<Vec<_>>()).await?;
        for inode in files {
            let is_first_alone = self.pending(*inode).take(2).eq([0]);
            if is_first_alone && self.live.contains_key(inode) && self.is_small(*inode).await? {
                self.look_at(&[Key::new(*inode, KeyKind::Inline, 0)]).await?;
            }
        }
        Ok(())
    }

    async fn gather(&mut self, files: &BTreeSet<u64>, blocks_max: usize) -> Result<Gathered, FsError> {
        let mut gathered = Gathered::default();
        for inode in files {
            let Some(live) = self.live.get(inode) else { continue };
            gathered.before.push((*inode, live.kept_bytes));
            let blocks_max = if self.replacing.contains(inode) { usize::MAX } else { blocks_max };
            self.gather_file(*inode, blocks_max, &mut gathered).await?;
        }
        self.put_dirty().await?;
        Ok(gathered)
    }

    async fn gather_file(
        &mut self,
        inode: u64,
        blocks_max: usize,
        gathered: &mut Gathered,
    ) -> Result<(), FsError> {
        let pending: Vec<u64> = self.pending(inode).take(blocks_max).collect();
        if pending == [0] && self.is_small(inode).await? {
            if let Some(part) = self.buffer.read(inode, 0..1).first() {
                self.put_inline(inode, &part.data).await?;
            }
            return Ok(());
        }
        let runs = pending.chunk_by(|one, next| one + 1 == *next).map(|run| run[0]..run[run.len() - 1] + 1);
        for run in runs {
            let parts = self.buffer.read(inode, run.clone());
            let blocks = parts.iter().flat_map(|part| in_blocks(&part.data)).collect();
            let new = self.journaled.add(inode, run.clone());
            gathered.new.extend(new.into_iter().map(|block| (inode, block)));
            gathered.data.push(FileBlocks { inode, first: run.start, blocks });
        }
        self.raise_kept(inode);
        Ok(())
    }

    /// Blocks of a file that a crash would lose.
    pub(super) fn pending(&self, inode: u64) -> impl Iterator<Item = u64> {
        self.buffer.runs(inode, 0).flatten().filter(move |block| !self.journaled.is_current(inode, *block))
    }

    /// A commit has failed: the tree must not tell lengths that it would have made durable.
    fn lower_kept(&mut self, inode: u64, kept_bytes: u64) {
        if let Some(live) = self.live.get_mut(&inode)
            && live.kept_bytes != kept_bytes
        {
            live.kept_bytes = kept_bytes.min(live.kept_bytes);
            self.dirty.insert(inode);
        }
        self.raise_kept(inode);
    }

    /// Whether a crash would lose blocks of a file.
    pub(super) fn has_pending(&self, inode: u64) -> bool {
        self.pending(inode).next().is_some()
    }

    /// Files that need places before a checkpoint: they have blocks that are durable in the journal only, or have replaced others.
    pub(super) fn need_places(&self) -> BTreeSet<u64> {
        self.journaled.files().into_iter().chain(self.replacing.iter().copied()).collect()
    }

    /// Whether blocks of these files, or of files that [need places](State::need_places), wait for them.
    pub(super) fn wait_for_places(&self, files: &[u64]) -> bool {
        let mut all = self.replacing.iter().chain(files);
        !self.journaled.is_empty() || all.any(|inode| self.has_pending(*inode))
    }

    /// Whether a commit would make nothing durable.
    pub(super) fn is_committed(&self) -> bool {
        self.dirty.is_empty() && !self.store.has_changes()
    }

    /// Writes the tree: the journal is empty then. Nothing may be durable in the journal only.
    pub(super) async fn checkpoint(&mut self) -> Result<(), FsError> {
        assert!(
            self.journaled.is_empty() || lives(Mutant::JournaledNotWrittenOut),
            "blocks that came along with commits are written out before a checkpoint"
        );
        self.look_at_dirty(&BTreeSet::new()).await?;
        self.begin()?;
        let put = self.put_dirty().await;
        self.end(put)?;
        self.store.checkpoint().await?;
        self.shrunk.clear();
        self.replacing.clear();
        self.put_off.clear();
        self.counters.checkpoints += 1;
        self.drop_idle();
        Ok(())
    }

    /// Writes the tree for the last time. Nothing may be buffered.
    pub(super) async fn close(&mut self) -> Result<(), FsError> {
        assert!(self.buffer.blocks() == 0 && self.journaled.is_empty(), "all is written out before the end");
        self.look_at_dirty(&BTreeSet::new()).await?;
        self.begin()?;
        let put = self.put_dirty().await;
        self.end(put)?;
        self.store.close().await?;
        self.is_read_only = true;
        Ok(())
    }

    /// The next inode without names and users that can be freed.
    pub(super) fn next_unused(&self) -> Option<u64> {
        self.unused.difference(&self.put_off).next().copied()
    }

    /// Frees some of what inodes without names and users have.
    pub(super) async fn free_some(&mut self) -> Result<(), FsError> {
        let Some(number) = self.next_unused() else { return Ok(()) };
        self.check_writable()?;
        if self.look_at_unused(number).await.is_err() {
            self.drop_content(number);
            self.put_off.insert(number);
            return Ok(());
        }
        self.begin()?;
        let freed = self.free_inode(number).await;
        self.end(freed)
    }

    /// Reads what is going to change when an inode is freed, before anything does.
    async fn look_at_unused(&self, number: u64) -> Result<(), FsError> {
        self.look_at(&[orphan_key(number)]).await?;
        self.first_mapped(number, 0..u64::MAX, FREED_EXTENTS).await?;
        items_of(self.store.tree(), number).await?;
        Ok(())
    }

    /// Nobody can see what is in memory only of an inode without names and users.
    fn drop_content(&mut self, number: u64) {
        self.buffer.drop_blocks(number, 0..u64::MAX);
        self.to_pad.retain(|(inode, _)| *inode != number);
        for run in self.journaled.remove(number, 0..u64::MAX) {
            self.store.forget_data(number, run);
        }
    }

    async fn free_inode(&mut self, number: u64) -> Result<(), FsError> {
        self.drop_content(number);
        let most = if lives(Mutant::OrphanFreedInPart) { 1 } else { FREED_EXTENTS };
        // These are read before leaves become empty, and go.
        let items = items_of(self.store.tree(), number).await?;
        if !self.unmap(number, 0..u64::MAX, most).await? && !lives(Mutant::OrphanFreedInPart) {
            return Ok(());
        }
        self.remove_all(items).await?;
        self.store.remove(orphan_key(number)).await?;
        self.unused.remove(&number);
        self.dirty.remove(&number);
        self.drop_live(number);
        Ok(())
    }
}

/// The keys of all that the tree has of an inode but for its extents.
async fn items_of(tree: &Tree, number: u64) -> Result<Vec<Key>, FsError> {
    let mut scan =
        Scan::over(Key::new(number, KeyKind::Inode, 0)..=Key::new(number, KeyKind::Xattr, u64::MAX));
    let mut keys = Vec::new();
    while let Some(items) = scan.batch(tree).await? {
        keys.extend(items.into_iter().map(|item| item.key));
    }
    Ok(keys)
}

fn in_blocks(data: &SharedBuf) -> impl Iterator<Item = SharedBuf> {
    let blocks: Range<usize> = 0..data.len() / BLOCK_BYTES;
    blocks.map(move |at| data.slice(at * BLOCK_BYTES..(at + 1) * BLOCK_BYTES))
}
