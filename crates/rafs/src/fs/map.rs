//! Where the blocks of files lie: extents in the tree.
//!
//! An extent with CRCs is written out of place. One without is a stripe of its file, or what is left of one, and is overwritten where
//! it lies.

use std::ops::Range;

use stripewise_format::{
    crc::crc32c,
    rafs::{
        key::{Key, KeyKind},
        space::{CHECKED_BLOCKS_MAX, Extent, GroupKind},
    },
};

use super::{FsError, state::State, write::FILE_BLOCKS_MAX};
use crate::{
    mutants::{Mutant, lives},
    shape::BlockNo,
    tree::Scan,
};

/// An extent of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// Its first block in the file.
    pub(crate) first: u64,
    /// Where it lies.
    pub(crate) extent: Extent,
}

impl Mapped {
    /// Its blocks in the file.
    pub(crate) fn blocks(&self) -> Range<u64> {
        self.first..self.first + u64::from(self.extent.blocks)
    }

    /// Where some of its blocks lie.
    fn places(&self, blocks: &Range<u64>) -> Range<BlockNo> {
        let place = |block: u64| BlockNo(self.extent.place + block - self.first);
        place(blocks.start)..place(blocks.end)
    }

    /// Where one of its blocks lies.
    pub(super) fn place(&self, block: u64) -> BlockNo {
        self.places(&(block..block + 1)).start
    }

    /// Whether these bytes may be one of its blocks: their CRC is that of the block, if it has one.
    pub(super) fn has(&self, block: u64, bytes: &[u8]) -> bool {
        let crcs = self.extent.crcs.as_ref();
        crcs.is_none_or(|crcs| crcs[(block - self.first) as usize] == crc32c(bytes))
    }

    /// The part of it that has these blocks; none if it has none of them.
    pub(crate) fn part(&self, blocks: &Range<u64>) -> Option<Self> {
        let own = self.blocks();
        let end = if lives(Mutant::PartNotCut) { blocks.end } else { own.end.min(blocks.end) };
        let within = own.start.max(blocks.start)..end;
        if within.is_empty() {
            return None;
        }
        let crcs = self.extent.crcs.as_ref().map(|crcs| {
            let skipped = if lives(Mutant::CrcsNotCut) { 0 } else { (within.start - self.first) as usize };
            crcs[skipped..skipped + (within.end - within.start) as usize].to_vec()
        });
        let place = self.places(&within).start.0;
        let blocks = (within.end - within.start) as u32;
        Some(Self { first: within.start, extent: Extent { place, blocks, crcs } })
    }

    /// What it keeps when its file loses some of these blocks: what lies before them, and behind them.
    fn rests(&self, blocks: &Range<u64>) -> impl Iterator<Item = Self> {
        let own = self.blocks();
        let behind = if lives(Mutant::ExtentTailLost) { 0..0 } else { blocks.end.min(own.end)..own.end };
        [own.start..blocks.start.max(own.start), behind].into_iter().filter_map(|rest| self.part(&rest))
    }

    /// Extents that items of the tree can hold, with the same blocks.
    fn items(&self) -> Vec<Self> {
        let most = if self.extent.crcs.is_some() { CHECKED_BLOCKS_MAX } else { usize::MAX };
        let Range { start, end } = self.blocks();
        let to = |from: u64| end.min(from.saturating_add(most as u64));
        (start..end).step_by(most).filter_map(|from| self.part(&(from..to(from)))).collect()
    }
}

impl State {
    /// The extents that have some of these blocks of a file, in order.
    pub(super) async fn mapped(&self, inode: u64, blocks: Range<u64>) -> Result<Vec<Mapped>, FsError> {
        self.first_mapped(inode, blocks, usize::MAX).await
    }

    /// As [`State::mapped`], but not many more than `max`.
    pub(super) async fn first_mapped(
        &self,
        inode: u64,
        blocks: Range<u64>,
        max: usize,
    ) -> Result<Vec<Mapped>, FsError> {
        let mut all = Vec::new();
        if blocks.is_empty() {
            return Ok(all);
        }
        let key = |block| Key::new(inode, KeyKind::Extent, block);
        let tree = self.store.tree();
        let before = tree.last(key(0)..=key(blocks.start)).await?;
        if let Some(item) = before {
            all.push(mapped(inode, item.key, &item.value)?);
        }
        if blocks.end - blocks.start > 1 {
            let mut scan = Scan::over(key(blocks.start + 1)..=key(blocks.end - 1));
            while all.len() <= max
                && let Some(items) = scan.batch(tree).await?
            {
                for item in items {
                    all.push(mapped(inode, item.key, &item.value)?);
                }
            }
        }
        all.retain(|one| one.blocks().end > blocks.start);
        Ok(all)
    }

    /// Reads where these keys are, or belong, before anything changes there: a change that cannot read ends all changes.
    pub(super) async fn look_at(&self, keys: &[Key]) -> Result<(), FsError> {
        for key in keys {
            self.store.tree().get(*key).await?;
        }
        Ok(())
    }

    /// Reads where an inode is, before it changes, so that a commit can tell of it.
    pub(super) async fn look_at_inode(&self, number: u64) -> Result<(), FsError> {
        if self.dirty.contains(&number) {
            Ok(())
        } else {
            self.look_at(&[Key::new(number, KeyKind::Inode, 0)]).await
        }
    }

    /// As [`State::look_at_move`], for blocks that are going to be buffered, if they will have to come along with the next commit.
    pub(super) async fn look_at_buffered(&self, inode: u64, blocks: Range<u64>) -> Result<(), FsError> {
        if self.replacing.contains(&inode) { self.look_at_move(inode, blocks).await } else { Ok(()) }
    }

    /// Reads what is going to change of the tree when blocks of a file are written out to other places.
    pub(super) async fn look_at_move(&self, inode: u64, blocks: Range<u64>) -> Result<(), FsError> {
        self.look_at_inode(inode).await?;
        if blocks.start == 0 {
            self.look_at(&[Key::new(inode, KeyKind::Inline, 0)]).await?;
        }
        self.look_at_blocks(inode, blocks).await
    }

    /// Reads what is going to change of the tree when blocks of a file lose their places, or get others, before anything does.
    pub(super) async fn look_at_blocks(&self, inode: u64, blocks: Range<u64>) -> Result<(), FsError> {
        let all = self.mapped(inode, blocks.clone()).await?;
        let has_rest = all.last().is_some_and(|last| last.blocks().end > blocks.end);
        if has_rest { self.look_at(&[extent_key(inode, blocks.end)]).await } else { Ok(()) }
    }

    /// A file loses blocks: their places are freed. `max` bounds the extents that are looked at. Returns whether that was all.
    pub(super) async fn unmap(
        &mut self,
        inode: u64,
        blocks: Range<u64>,
        max: usize,
    ) -> Result<bool, FsError> {
        let mut all = self.first_mapped(inode, blocks.clone(), max).await?;
        let is_all = all.len() <= max;
        all.truncate(max);
        let gone = self.replace(inode, &blocks, &all, Vec::new()).await?;
        self.remove_all(gone).await?;
        Ok(is_all)
    }

    /// Removes items.
    pub(super) async fn remove_all(&mut self, keys: Vec<Key>) -> Result<(), FsError> {
        for key in keys {
            self.store.remove(key).await?;
        }
        Ok(())
    }

    /// A file gets extents in the place of what old ones have of these blocks: the places of these are freed. Returns the keys that the
    /// change [removes](State::remove_all), once it has put all that it puts. A leaf that becomes empty goes, and what is put where it was
    /// belongs to the one beside it, which nobody has [looked at](State::look_at_blocks).
    async fn replace(
        &mut self,
        inode: u64,
        blocks: &Range<u64>,
        old: &[Mapped],
        new: Vec<Mapped>,
    ) -> Result<Vec<Key>, FsError> {
        let (mut put, mut removed) = (new, Vec::new());
        put.extend(old.iter().flat_map(|one| one.rests(blocks)));
        for one in &put {
            self.store.put(extent_key(inode, one.first), one.extent.encode().into()).await?;
        }
        for one in old {
            let Some(gone) = one.part(blocks) else { continue };
            if put.iter().all(|put| put.first != one.first) {
                removed.push(extent_key(inode, one.first));
            }
            self.store.let_data_come_first();
            if !lives(Mutant::OldPlacesLeak) {
                self.store.free(one.places(&gone.blocks()))?;
            }
            let of_file = self.touch(inode)?;
            of_file.blocks = of_file.blocks.saturating_sub(gone.extent.blocks.into());
            self.moved(inode);
        }
        Ok(removed)
    }

    /// The places of blocks that were written to free ones are taken. The file [gets](State::map) them next.
    pub(super) fn take(&mut self, kind: GroupKind, new: &Mapped) -> Result<(), FsError> {
        Ok(self.store.take(kind, new.places(&new.blocks()))?)
    }

    /// A file gets blocks whose places were taken, in the place of what it had there. Returns the keys that are to be
    /// [removed](State::remove_all) after all others have got theirs.
    pub(super) async fn map(&mut self, inode: u64, new: Mapped) -> Result<Vec<Key>, FsError> {
        let blocks = new.blocks();
        let stay = lives(Mutant::OldExtentsStay);
        let old = if stay { Vec::new() } else { self.mapped(inode, blocks.clone()).await? };
        let removed = self.replace(inode, &blocks, &old, new.items()).await?;
        self.touch(inode)?.blocks += u64::from(new.extent.blocks);
        self.moved(inode);
        Ok(removed)
    }

    /// Reads of this file that are under way have looked at places that it may no longer have.
    fn moved(&mut self, inode: u64) {
        let version = self.new_version();
        if let Some(live) = self.live.get_mut(&inode) {
            live.version = version;
        }
    }
}

fn extent_key(inode: u64, first: u64) -> Key {
    Key::new(inode, KeyKind::Extent, first)
}

pub(super) fn mapped(inode: u64, key: Key, value: &[u8]) -> Result<Mapped, FsError> {
    let extent = Extent::decode(value).map_err(|error| FsError::Item { inode, error })?;
    let end = key.offset.checked_add(extent.blocks.into());
    if end.is_none_or(|end| end > FILE_BLOCKS_MAX) {
        return Err(FsError::Damaged { inode, block: key.offset });
    }
    Ok(Mapped { first: key.offset, extent })
}
