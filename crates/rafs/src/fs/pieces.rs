//! Pieces of files that became full part by part: they move to stripes of their own.
//!
//! A piece of a file is a stripe long. While it is not full it lies in stripes with others. Once it is, its blocks are read into the
//! buffer, from where the next write-out takes them as a whole.
//!
//! The paper goes by the size of files alone (rafs III-A): all of one that is longer than a stripe is a large file. A mount by its rules
//! pads parts of pieces with zeroes, so that they have stripes of their own from the beginning.

use std::ops::Range;

use stripewise_device::{IoBuf, SharedBuf, Timestamp};
use stripewise_format::rafs::space::GroupKind;

use super::{
    FsError, Technique,
    state::{Now, State},
    write_out::Scope,
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

    /// Notes the pieces of a file of this length among these blocks, which were just written to the buffer, if they are to be padded.
    pub(super) fn note_parts(&mut self, inode: u64, size_bytes: u64, blocks: &Range<u64>) {
        let of_piece = u64::from(self.volume.geometry().stripe_blocks());
        if self.pads && !self.without.has(Technique::Layout) && size_bytes > of_piece * BLOCK_BYTES as u64 {
            let pieces = blocks.start / of_piece..blocks.end.div_ceil(of_piece);
            self.to_pad.extend(pieces.map(|piece| (inode, piece)));
        }
    }

    /// Pads one of the noted pieces that may be written out, if there is one of which nothing has a place yet: what is missing of it is in
    /// the buffer then, as zeroes that have waited since `until`. False if not. A piece whose extents cannot be read now is not padded.
    pub(super) async fn pad_piece(&mut self, scope: Scope, until: Timestamp) -> bool {
        let of_piece = u64::from(self.volume.geometry().stripe_blocks());
        while let Some((inode, piece)) = self.next_to_pad(scope, until) {
            self.to_pad.remove(&(inode, piece));
            let blocks = piece * of_piece..(piece + 1) * of_piece;
            let missing = self.buffer.missing(inode, blocks.clone());
            let count: u64 = missing.iter().map(|run| run.end - run.start).sum();
            let has_room =
                self.buffer.room() >= count && self.reserve(count).is_ok() && self.has_whole_stripe();
            let has_none = || async { self.mapped(inode, blocks).await.is_ok_and(|all| all.is_empty()) };
            if count == 0 || !has_room || !has_none().await {
                continue;
            }
            let Ok(live) = self.live(inode).await else { continue };
            let owner = Owner { folder: live.inode.parent, inode };
            for run in missing {
                let zeroes = IoBuf::zeroed((run.end - run.start) as usize * BLOCK_BYTES).freeze();
                self.buffer.write(owner, Temperature::New, run.start, &zeroes, until);
            }
            return true;
        }
        false
    }

    /// A noted piece that may be written out: of one file only one of which something has waited since `until` or longer.
    fn next_to_pad(&self, scope: Scope, until: Timestamp) -> Option<(u64, u64)> {
        let of_piece = u64::from(self.volume.geometry().stripe_blocks());
        let (pieces, until) = match scope {
            Scope::All => ((0, 0)..=(u64::MAX, u64::MAX), Timestamp(u64::MAX)),
            Scope::File(inode) => ((inode, 0)..=(inode, u64::MAX), until),
        };
        let is_due = |(inode, piece): &&(u64, u64)| {
            self.buffer.is_due(*inode, piece * of_piece..(piece + 1) * of_piece, until)
        };
        self.to_pad.range(pieces).find(is_due).copied()
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
            || self.look_at_move(inode, blocks.clone()).await.is_err()
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
