//! Pieces of files that became full part by part: they move to stripes of their own.
//!
//! A piece of a file is a stripe long. While it is not full it lies in stripes with others. Once it is, its blocks are read into the
//! buffer, from where the next write-out takes them as a whole.

use std::ops::Range;

use stripewise_device::SharedBuf;
use stripewise_format::rafs::space::GroupKind;

use super::{
    FsError,
    state::{Now, State},
};
use crate::{
    buffer::{Owner, Temperature},
    shape::BLOCK_BYTES,
};

impl State {
    /// Notes the pieces of a file among these blocks, which were just written out, if they are full and do not lie in stripes of their
    /// own.
    pub(super) async fn note_full(&mut self, inode: u64, blocks: &Range<u64>) -> Result<(), FsError> {
        let of_piece = u64::from(self.volume.geometry().stripe_blocks());
        for piece in blocks.start / of_piece..blocks.end.div_ceil(of_piece) {
            if self.is_full(inode, piece * of_piece..(piece + 1) * of_piece).await? {
                self.full.insert((inode, piece));
            }
        }
        Ok(())
    }

    /// Whether all blocks of a piece have places, and not all of them in stripes of their own.
    async fn is_full(&mut self, inode: u64, blocks: Range<u64>) -> Result<bool, FsError> {
        let size_bytes = self.live(inode).await?.inode.size_bytes;
        if size_bytes < blocks.end * BLOCK_BYTES as u64 {
            return Ok(false);
        }
        let all = self.mapped(inode, blocks.clone()).await?;
        let parts: Vec<_> = all.iter().filter_map(|one| one.part(&blocks)).collect();
        let counted: u64 = parts.iter().map(|part| u64::from(part.extent.blocks)).sum();
        Ok(counted == blocks.end - blocks.start && parts.iter().any(|part| part.extent.crcs.is_some()))
    }

    /// Whether a piece would get a stripe of its own.
    fn has_whole_stripe(&mut self) -> bool {
        let opened = self.store.open_stripe(GroupKind::Large, self.near);
        if let Some(opened) = opened {
            self.store.close_stripe(opened.stripe);
        }
        opened.is_some()
    }

    /// Reads one full piece into the buffer, if there is one and it has room. False if not.
    pub(super) async fn gather_piece(&mut self, now: Now) -> Result<bool, FsError> {
        let of_piece = u64::from(self.volume.geometry().stripe_blocks());
        if self.buffer.room() < 2 * of_piece || self.reserve(of_piece).is_err() {
            return Ok(false);
        }
        if !self.has_whole_stripe() {
            return Ok(false);
        }
        let Some((inode, piece)) = self.full.pop_first() else { return Ok(false) };
        let blocks = piece * of_piece..(piece + 1) * of_piece;
        let is_there = self.live.contains_key(&inode) || self.live(inode).await.is_ok();
        if !is_there
            || !self.buffer.read(inode, blocks.clone()).is_empty()
            || !self.is_full(inode, blocks.clone()).await?
        {
            return Ok(true);
        }
        let bytes = blocks.start * BLOCK_BYTES as u64..blocks.end * BLOCK_BYTES as u64;
        let data: SharedBuf = self.bytes(inode, bytes).await?.freeze();
        let folder = self.live(inode).await?.inode.parent;
        self.note_moved(inode, &blocks);
        self.buffer.write(Owner { folder, inode }, Temperature::Moved, blocks.start, &data, now.at);
        self.counters.moved_pieces += 1;
        Ok(true)
    }
}
