//! Reads of files.
//!
//! A read looks up where the blocks lie and what is buffered, then reads without the lock, and then looks at whether the file still
//! has these places. If not, others may have them by now, and it begins anew.

use std::{ops::Range, sync::Arc};

use smallvec::smallvec;
use stripewise_device::{IoBuf, IoError, IoFuture, SharedBuf};
use stripewise_format::rafs::{
    inode::FileType,
    key::{Key, KeyKind},
};

use super::{Fs, FsError, map::Mapped, state::State};
use crate::{
    buffer::Part,
    healing::Healing,
    mutants::{Mutant, lives},
    shape::{BLOCK_BYTES, BlockNo, Geometry, Order, StripeNo},
    volume::Volume,
};

/// Times that a read looks up places anew before it keeps others from changing them.
const TRIES: usize = 4;

/// What a read needs.
pub(super) struct Plan {
    bytes: Range<u64>,
    version: u64,
    /// A small file's bytes, which are its first block.
    inline: Option<Arc<[u8]>>,
    places: Vec<Mapped>,
    /// These are newer.
    buffered: Vec<Part>,
}

impl Fs {
    /// Reads up to so many bytes of a file. Fewer come only at its end.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn read(&self, inode: u64, offset_bytes: u64, len: usize) -> Result<IoBuf, FsError> {
        for _ in 0..TRIES {
            let plan = self.shared.state.lock().await.plan_read(inode, offset_bytes, len).await?;
            let read = plan.carry_out(&self.shared.healing, inode).await;
            let is_same = match self.shared.state.lock().await.live.get(&inode) {
                Some(live) => live.version == plan.version,
                None => plan.places.is_empty(),
            };
            if is_same || lives(Mutant::PlacesNotLookedAt) {
                return read;
            }
        }
        let mut state = self.shared.state.lock().await;
        let plan = state.plan_read(inode, offset_bytes, len).await?;
        plan.carry_out(&self.shared.healing, inode).await
    }
}

impl State {
    pub(super) async fn plan_read(
        &mut self,
        inode: u64,
        offset_bytes: u64,
        len: usize,
    ) -> Result<Plan, FsError> {
        let attr = self.attr(inode).await?;
        match attr.file_type {
            FileType::File => {}
            FileType::Folder => return Err(FsError::IsFolder),
            _ => return Err(FsError::Invalid("only files are read")),
        }
        let size = attr.is.size_bytes;
        let end = offset_bytes.saturating_add(len as u64).min(size);
        let bytes = offset_bytes.min(end)..end;
        self.plan_bytes(inode, bytes).await
    }

    async fn plan_bytes(&mut self, inode: u64, bytes: Range<u64>) -> Result<Plan, FsError> {
        let blocks = blocks_of(&bytes);
        let version = self.live(inode).await?.version;
        let buffered = self.buffer.read(inode, blocks.clone());
        let is_all_buffered = covers(&buffered, &blocks);
        let (mut inline, mut places) = (None, Vec::new());
        if !is_all_buffered {
            if blocks.start == 0 {
                inline = self.inline(inode).await?;
            }
            let all = self.mapped(inode, blocks.clone()).await?;
            places.extend(all.iter().filter_map(|one| one.part(&blocks)));
        }
        Ok(Plan { bytes, version, inline, places, buffered })
    }

    /// The bytes of a small file, if it is one.
    pub(super) async fn inline(&self, inode: u64) -> Result<Option<Arc<[u8]>>, FsError> {
        Ok(self.store.tree().get(Key::new(inode, KeyKind::Inline, 0)).await?)
    }

    /// A block of a file as it is now, whatever the file's length.
    pub(super) async fn block(&mut self, inode: u64, block: u64) -> Result<IoBuf, FsError> {
        let start = block * BLOCK_BYTES as u64;
        self.bytes(inode, start..start + BLOCK_BYTES as u64).await
    }

    /// Bytes of a file as they are now, whatever the file's length.
    pub(super) async fn bytes(&mut self, inode: u64, bytes: Range<u64>) -> Result<IoBuf, FsError> {
        let plan = self.plan_bytes(inode, bytes).await?;
        plan.carry_out(self.store.healing(), inode).await
    }
}

impl Plan {
    /// Reads what lies on the volume, and puts all together.
    pub(super) async fn carry_out(&self, healing: &Healing, inode: u64) -> Result<IoBuf, FsError> {
        if self.bytes.is_empty() {
            return Ok(IoBuf::zeroed(0));
        }
        let blocks = blocks_of(&self.bytes);
        let mut all = IoBuf::zeroed((blocks.end - blocks.start) as usize * BLOCK_BYTES);
        let at = |block: u64| (block - blocks.start) as usize * BLOCK_BYTES;
        if let Some(inline) = &self.inline {
            all[..inline.len()].copy_from_slice(inline);
        }
        let hidden = |block: &u64| {
            self.buffered.iter().any(|part| (part.first..part.first + blocks_in(&part.data)).contains(block))
        };
        let wanted = self.places.iter().filter(|mapped| !mapped.blocks().all(|block| hidden(&block)));
        let reads: Vec<_> =
            wanted.map(|mapped| read_extent(healing, inode, mapped).map(|reads| (mapped, reads))).collect();
        for read in reads {
            let (mapped, pieces) = read?;
            let mut number = mapped.first;
            for piece in pieces {
                for bytes in piece.await? {
                    let into = &mut all[at(number)..at(number) + BLOCK_BYTES];
                    into.copy_from_slice(&bytes);
                    if !mapped.has(number, &bytes) && !hidden(&number) {
                        let damaged = FsError::Damaged { inode, block: number };
                        let is_right = |bytes: &[u8]| mapped.has(number, bytes);
                        let found = healing.find(mapped.place(number), is_right).await?;
                        into.copy_from_slice(&found.ok_or(damaged)?);
                    }
                    number += 1;
                }
            }
        }
        for part in &self.buffered {
            all[at(part.first)..at(part.first) + part.data.len()].copy_from_slice(&part.data);
        }
        let skipped = (self.bytes.start % BLOCK_BYTES as u64) as usize;
        all.truncate(skipped + (self.bytes.end - self.bytes.start) as usize);
        Ok(all.split_off(skipped))
    }
}

/// Blocks that are being read.
type Blocks = IoFuture<Result<Vec<IoBuf>, IoError>>;

/// Begins to read an extent's blocks, stripe by stripe.
fn read_extent(healing: &Healing, inode: u64, mapped: &Mapped) -> Result<Vec<Blocks>, FsError> {
    let (volume, order) = (healing.volume(), healing.order());
    let (geometry, mut reads) = (volume.geometry(), Vec::new());
    let (mut at, end) =
        (mapped.extent.place, mapped.extent.place.saturating_add(mapped.extent.blocks.into()));
    if end > geometry.blocks() {
        return Err(FsError::Damaged { inode, block: mapped.first });
    }
    while at < end {
        let (stripe, slot) = geometry.locate(BlockNo(at));
        let in_stripe = u64::from(geometry.stripe_blocks() - slot).min(end - at) as u32;
        reads.push(read_slots(volume, order, stripe, slot..slot + in_stripe));
        at += u64::from(in_stripe);
    }
    Ok(reads)
}

/// Begins to read slots of a stripe.
fn read_slots(volume: &dyn Volume, order: Order, stripe: StripeNo, slots: Range<u32>) -> Blocks {
    let (geometry, count) = (volume.geometry(), slots.len());
    if is_linear(&geometry, order, &slots) {
        let offset_bytes = geometry.offset_bytes(order, geometry.block(stripe, slots.start));
        let read = volume.read(offset_bytes, smallvec![IoBuf::with_len(count * BLOCK_BYTES)]);
        return IoFuture::boxed(async move {
            let mut read = read.await.into_one()?;
            Ok((0..count).map(|_| read.split_to(BLOCK_BYTES)).collect())
        });
    }
    let columns = geometry.data_columns();
    let rows = slots.start / columns..slots.end.div_ceil(columns);
    let skipped = (slots.start - rows.start * columns) as usize;
    let read = volume.read_rows(stripe, rows);
    IoFuture::boxed(async move { Ok(read.await?.into_iter().skip(skipped).take(count).collect()) })
}

/// Whether slots lie as the volume's bytes do.
fn is_linear(geometry: &Geometry, order: Order, slots: &Range<u32>) -> bool {
    order == Order::Columns || slots.len() == 1 || geometry.data_columns() == 1
}

/// Whether parts, in order, have all of these blocks.
fn covers(parts: &[Part], blocks: &Range<u64>) -> bool {
    let counted: u64 = parts.iter().map(|part| blocks_in(&part.data)).sum();
    counted == blocks.end - blocks.start
}

fn blocks_in(data: &SharedBuf) -> u64 {
    (data.len() / BLOCK_BYTES) as u64
}

/// The blocks that have these bytes.
pub(super) fn blocks_of(bytes: &Range<u64>) -> Range<u64> {
    if bytes.is_empty() {
        return 0..0;
    }
    bytes.start / BLOCK_BYTES as u64..bytes.end.div_ceil(BLOCK_BYTES as u64)
}
