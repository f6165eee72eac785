//! Writes and lengths of files.

use std::{collections::BTreeSet, ops::Range};

use stripewise_device::{IoBuf, SharedBuf};
use stripewise_format::rafs::{
    inode::FileType,
    key::{Key, KeyKind},
};

use super::{
    Attr, FsError, SetAttr,
    attr::PERMISSIONS,
    read::blocks_of,
    state::{Now, State},
};
use crate::{
    buffer::{Owner, Temperature},
    mutants::{Mutant, lives},
    shape::BLOCK_BYTES,
};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes of a file at most: offsets must fit what callers use, which is signed.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64 & !(BLOCK - 1);
/// The same in blocks.
pub(crate) const FILE_BLOCKS_MAX: u64 = FILE_BYTES_MAX / BLOCK;

impl State {
    /// Writes bytes of a file into the buffer.
    pub(super) async fn write(
        &mut self,
        inode: u64,
        offset_bytes: u64,
        data: SharedBuf,
        now: Now,
    ) -> Result<(), FsError> {
        let attr = self.file(inode).await?;
        let end = offset_bytes.checked_add(data.len() as u64).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(FsError::TooLarge(FILE_BYTES_MAX))?;
        if data.is_empty() {
            return Ok(());
        }
        let bytes = offset_bytes..end;
        let blocks = blocks_of(&bytes);
        self.check_writable()?;
        self.reserve(blocks.end - blocks.start + 1)?;
        self.look_at_inode(inode).await?;
        let grown = attr.is.size_bytes.max(end);
        if grown > attr.is.size_bytes {
            self.lose_left_overs(&attr).await?;
        }
        let tail = if offset_bytes > attr.is.size_bytes {
            self.zeroed_tail(&attr, blocks.start).await?
        } else {
            None
        };
        self.look_at_buffered(inode, blocks.clone()).await?;
        if let Some((block, _)) = tail {
            self.look_at_buffered(inode, block..block + 1).await?;
        }
        let data = self.whole_blocks(&attr, bytes, data).await?;
        // Nothing fails from here on.
        self.counters.client_writes += 1;
        self.counters.client_blocks += blocks.end - blocks.start;
        let owner = Owner { folder: attr.is.parent, inode };
        if let Some((block, tail)) = tail {
            self.buffer_write(owner, block, &tail, now);
        }
        for (first, part) in data {
            self.buffer_write(owner, first, &part, now);
        }
        self.touch(inode)?.size_bytes = grown;
        self.note_parts(inode, grown, &blocks);
        self.note_change(inode, now)
    }

    /// Sets what is set of an inode.
    pub(super) async fn set_attr(&mut self, number: u64, set: SetAttr, now: Now) -> Result<Attr, FsError> {
        self.live(number).await?;
        self.check_writable()?;
        self.look_at_inode(number).await?;
        if let Some(size_bytes) = set.size_bytes {
            self.set_size(number, size_bytes, now).await?;
        }
        let inode = self.touch(number)?;
        if let Some(permissions) = set.permissions {
            inode.mode = inode.mode & !PERMISSIONS | permissions & PERMISSIONS;
        }
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.accessed_ns = set.accessed_ns.unwrap_or(inode.accessed_ns);
        inode.modified_ns = set.modified_ns.unwrap_or(inode.modified_ns);
        inode.changed_ns = now.ns;
        if lives(Mutant::AttributesForgotten) {
            self.dirty.remove(&number);
        }
        self.attr(number).await
    }

    /// Gives a file another length.
    async fn set_size(&mut self, number: u64, size_bytes: u64, now: Now) -> Result<(), FsError> {
        let attr = self.file(number).await?;
        if size_bytes > FILE_BYTES_MAX {
            return Err(FsError::TooLarge(FILE_BYTES_MAX));
        }
        if size_bytes > attr.is.size_bytes {
            self.reserve(1)?;
            self.lose_left_overs(&attr).await?;
            if let Some((block, tail)) = self.zeroed_tail(&attr, u64::MAX).await? {
                self.look_at_buffered(number, block..block + 1).await?;
                self.buffer_write(Owner { folder: attr.is.parent, inode: number }, block, &tail, now);
            }
        } else if size_bytes == attr.is.size_bytes {
            self.lose_left_overs(&attr).await?;
        } else {
            self.lose_blocks(number, size_bytes.div_ceil(BLOCK)..u64::MAX).await?;
            if !lives(Mutant::ShrunkOverwritten) {
                self.shrunk.insert(number);
            }
        }
        let live = self.live(number).await?;
        live.inode.size_bytes = size_bytes;
        live.kept_bytes = live.kept_bytes.min(size_bytes);
        self.raise_kept(number);
        self.note_change(number, now)
    }

    /// Makes bytes of a file zeroes without blocks, where whole blocks are among them. Its length stays.
    pub(super) async fn punch(&mut self, number: u64, bytes: Range<u64>, now: Now) -> Result<(), FsError> {
        let attr = self.file(number).await?;
        let bytes = bytes.start.min(attr.is.size_bytes)..bytes.end.min(attr.is.size_bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        self.check_writable()?;
        self.look_at_inode(number).await?;
        // The last block of a file is whole if nothing of the file lies behind the hole.
        let end = if bytes.end == attr.is.size_bytes { bytes.end.next_multiple_of(BLOCK) } else { bytes.end };
        let whole = bytes.start.div_ceil(BLOCK)..end / BLOCK;
        let mut zeroed = Vec::new();
        let touched = blocks_of(&bytes);
        let edges = BTreeSet::from([touched.start, touched.end - 1]);
        for block in edges.into_iter().filter(|block| !whole.contains(block)) {
            self.look_at_buffered(number, block..block + 1).await?;
            let data = self.block(number, block).await?;
            // What is zero already, such as an older hole, needs no block.
            if data[in_block(block, &bytes)].iter().any(|byte| *byte != 0) {
                zeroed.push((block, zeroed_at(data, block, &bytes)));
            }
        }
        if !zeroed.is_empty() {
            self.reserve(zeroed.len() as u64)?;
        }
        if !whole.is_empty() {
            self.lose_blocks(number, whole).await?;
        }
        let owner = Owner { folder: attr.is.parent, inode: number };
        zeroed.iter().for_each(|(block, data)| self.buffer_write(owner, *block, data, now));
        self.raise_kept(number);
        self.note_change(number, now)
    }

    /// A file that is in memory.
    pub(super) async fn file(&mut self, number: u64) -> Result<Attr, FsError> {
        let attr = self.attr(number).await?;
        match attr.file_type {
            FileType::File => Ok(attr),
            FileType::Folder => Err(FsError::IsFolder),
            _ => Err(FsError::Invalid("only files have bytes")),
        }
    }

    /// Puts whole blocks of a file into the buffer.
    fn buffer_write(&mut self, owner: Owner, first: u64, data: &SharedBuf, now: Now) {
        let blocks = first..first + (data.len() / BLOCK_BYTES) as u64;
        if !lives(Mutant::OverwriteJournaled) {
            self.journaled.outdate(owner.inode, blocks.clone());
        }
        if self.overtakes(owner.inode, &blocks) {
            self.overtaken.insert(owner.inode);
        }
        self.buffer.write(owner, Temperature::New, first, data, now.at);
    }

    /// Blocks that have places are in the buffer again, to get others. Behind the length that the tree tells, they hold it back.
    pub(super) fn note_moved(&mut self, inode: u64, blocks: &Range<u64>) {
        if self.live.get(&inode).is_some_and(|live| blocks.end * BLOCK > live.kept_bytes) {
            self.overtaken.insert(inode);
        }
    }

    /// Whether a write of these blocks leaves nothing that a sync which is under way would make durable: older blocks are gone from the
    /// buffer, or the length that the tree tells could not pass the new ones.
    fn overtakes(&self, inode: u64, blocks: &Range<u64>) -> bool {
        let next = self.buffer.runs(inode, blocks.start).next();
        let replaces = next.is_some_and(|run| run.start < blocks.end);
        let holds_back = self.live.get(&inode).is_some_and(|live| {
            blocks.start * BLOCK < live.inode.size_bytes && blocks.end * BLOCK > live.kept_bytes
        });
        replaces || holds_back
    }

    /// A file that is in memory loses blocks, wherever they are. Its extents are read first: if that fails, it loses none.
    async fn lose_blocks(&mut self, number: u64, blocks: Range<u64>) -> Result<(), FsError> {
        if blocks.start == 0 {
            self.look_at(&[Key::new(number, KeyKind::Inline, 0)]).await?;
        }
        self.look_at_blocks(number, blocks.clone()).await?;
        self.begin()?;
        let lost = self.drop_everywhere(number, blocks).await;
        self.end(lost)
    }

    async fn drop_everywhere(&mut self, number: u64, blocks: Range<u64>) -> Result<(), FsError> {
        self.buffer.drop_blocks(number, blocks.clone());
        for run in self.journaled.remove(number, blocks.clone()) {
            if !lives(Mutant::LostNotTold) {
                self.store.forget_data(number, run);
            }
        }
        // What is not there is not removed: the leaf that it belongs to may be gone by then, and the next one unread.
        let inline = Key::new(number, KeyKind::Inline, 0);
        let has_inline = blocks.contains(&0) && self.store.tree().get(inline).await?.is_some();
        self.unmap(number, blocks, usize::MAX).await?;
        if has_inline {
            self.store.remove(inline).await?;
        }
        Ok(())
    }

    /// A file that is going to grow loses what it has behind its end: nobody may see that again.
    async fn lose_left_overs(&mut self, attr: &Attr) -> Result<(), FsError> {
        if !self.live(attr.inode).await?.has_left_overs || lives(Mutant::LeftOversSeen) {
            return Ok(());
        }
        self.lose_blocks(attr.inode, attr.is.size_bytes.div_ceil(BLOCK)..u64::MAX).await?;
        self.live(attr.inode).await?.has_left_overs = false;
        Ok(())
    }

    /// The last block of a file that does not fill it, with zeroes behind the file's end; none if there is no such block, or if it is not
    /// before this one. Whatever lay there must not be seen when the file grows.
    async fn zeroed_tail(&mut self, attr: &Attr, before: u64) -> Result<Option<(u64, SharedBuf)>, FsError> {
        let size = attr.is.size_bytes;
        let block = size / BLOCK;
        if size.is_multiple_of(BLOCK) || block >= before || lives(Mutant::TailSeen) {
            return Ok(None);
        }
        let data = self.block(attr.inode, block).await?;
        Ok(Some((block, zeroed_at(data, block, &(size..(block + 1) * BLOCK)))))
    }

    /// Bytes to be written, and what the file has beside them in their blocks.
    async fn whole_blocks(
        &mut self,
        attr: &Attr,
        bytes: Range<u64>,
        data: SharedBuf,
    ) -> Result<Vec<(u64, SharedBuf)>, FsError> {
        let mut all = Vec::new();
        let (mut at, mut left) = (bytes.start, data);
        while !left.is_empty() {
            let block = at / BLOCK;
            let in_block = (at % BLOCK) as usize;
            let (first, count);
            if in_block > 0 || left.len() < BLOCK_BYTES {
                count = left.len().min(BLOCK_BYTES - in_block);
                first = self.merged(attr, block, in_block, &left[..count]).await?;
            } else {
                count = left.len() / BLOCK_BYTES * BLOCK_BYTES;
                first = aligned(left.slice(0..count));
            }
            all.push((block, first));
            let len = left.len();
            left = left.into_slice(count..len);
            at += count as u64;
        }
        Ok(all)
    }

    /// A block of a file with other bytes at some place of it.
    async fn merged(
        &mut self,
        attr: &Attr,
        block: u64,
        at: usize,
        bytes: &[u8],
    ) -> Result<SharedBuf, FsError> {
        let size = attr.is.size_bytes;
        let start = block * BLOCK;
        let is_new = start >= size || at == 0 && start + bytes.len() as u64 >= size;
        let mut data = if is_new {
            IoBuf::zeroed(BLOCK_BYTES)
        } else {
            let mut data = self.block(attr.inode, block).await?;
            data[(size - start).min(BLOCK) as usize..].fill(0);
            data
        };
        data[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(data.freeze())
    }
}

/// What of a block lies among bytes of its file.
fn in_block(block: u64, bytes: &Range<u64>) -> Range<usize> {
    let within = |byte: u64| byte.saturating_sub(block * BLOCK).min(BLOCK) as usize;
    within(bytes.start)..within(bytes.end)
}

/// A block of a file with zeroes at some bytes of the file.
fn zeroed_at(mut data: IoBuf, block: u64, bytes: &Range<u64>) -> SharedBuf {
    data[in_block(block, bytes)].fill(0);
    data.freeze()
}

/// Direct I/O wants memory that begins at a multiple of a device's block. What a client writes from the middle of a block on does not.
fn aligned(data: SharedBuf) -> SharedBuf {
    if data.as_ptr().addr().is_multiple_of(BLOCK_BYTES) { data } else { IoBuf::copy_of(&data).freeze() }
}
