//! Write-out: what is buffered goes to places (rafs III-C).
//!
//! A write-out is planned with the lock, carried out without it, and settled with it. Its stripe is open meanwhile, so nobody else takes
//! its blocks. What was overwritten or lost meanwhile is not settled: its blocks are free still.

use std::{collections::BTreeMap, ops::Range};

use stripewise_device::{IoError, SharedBuf, Timestamp};
use stripewise_format::{
    crc::crc32c,
    rafs::{
        key::{Key, KeyKind},
        space::{Extent, GroupKind},
        value::INLINE_MAX,
    },
};

use super::{FsError, JournalMode, Technique, map::Mapped, state::State};
use crate::{
    buffer::{Buffer, Lent, Owner, Temperature, Whole},
    mutants::{Mutant, lives},
    shape::{BLOCK_BYTES, BlockNo, StripeNo},
    space::Opened,
    store::{Class, StripeWrite},
    volume::Volume,
};

/// What is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Whatever goes best together.
    All,
    /// One file.
    File(u64),
}

/// What a part needs to be written out.
enum Needs {
    /// It goes to the tree.
    Nothing,
    /// It is overwritten where it lies.
    OwnPlace,
    /// It gets a new place.
    Place,
}

/// Blocks that are to lie in a stripe.
pub(super) struct Planned {
    opened: Opened,
    is_large: bool,
    lent: Vec<Lent>,
    /// Where each of their blocks is to lie.
    places: Vec<BlockNo>,
    writes: Vec<StripeWrite>,
}

impl Planned {
    pub(super) async fn carry_out(&self, volume: &dyn Volume) -> Result<(), IoError> {
        for write in &self.writes {
            write.carry_out(volume).await?;
        }
        Ok(())
    }

    /// The stripe, if it is not one file's.
    pub(super) fn small_stripe(&self) -> Option<StripeNo> {
        (!self.is_large).then_some(self.opened.stripe)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.places.len() as u64
    }
}

impl State {
    /// Plans the next stripe. What needs no stripe is written at once: small files go to the tree, and blocks in large stripes are
    /// overwritten. None if nothing is left. Of one file only what has been in the buffer since `until` or longer is left. The number tells
    /// how many blocks were written at once.
    ///
    /// A file whose extents cannot be read now keeps no other one from being written out: its parts are [put aside](State::take_back).
    pub(super) async fn plan_stripe(
        &mut self,
        scope: Scope,
        until: Timestamp,
    ) -> Result<(u64, Option<Planned>), FsError> {
        loop {
            let before = self.count_aside();
            let (count, planned) = self.plan_next(scope, until).await?;
            let has_looked_in_vain = count == 0 && planned.is_none() && self.count_aside() > before;
            if !has_looked_in_vain {
                return Ok((count, planned));
            }
        }
    }

    async fn plan_next(&mut self, scope: Scope, until: Timestamp) -> Result<(u64, Option<Planned>), FsError> {
        self.check_writable()?;
        if let Some(whole) = self.whole_piece(scope, until).await {
            let are_overwritten = match self.why_aside(&whole.parts) {
                Some(error) => Err(error),
                None => self.are_overwritten(&whole.parts).await,
            };
            match are_overwritten {
                Ok(true) => return Ok((self.overwrite_all(&whole.parts).await?, None)),
                Ok(false) => {}
                Err(error) => {
                    self.put_aside(whole.parts, error);
                    return Ok((0, None));
                }
            }
            if let Some(opened) = self.store.open_stripe(GroupKind::Large, self.near) {
                return Ok((0, Some(self.plan_large(opened, whole.parts))));
            }
            whole.parts.iter().for_each(|part| self.buffer.failed(part));
        }
        let has_some = match scope {
            Scope::All => self.buffer.oldest().is_some(),
            Scope::File(inode) => self.buffer.has_due(inode, until),
        };
        if !has_some {
            return Ok((0, None));
        }
        let temperature = match scope {
            Scope::All if !self.buffer.has_waiting(Temperature::New) => Temperature::Moved,
            _ => Temperature::New,
        };
        let opened = self.store.fill_on(self.filling.get(&temperature).copied(), self.near);
        let opened = opened.ok_or(FsError::NoSpace)?;
        let slots = self.store.free_slots(opened.stripe);
        let room = slots.len() as u32;
        let lent = match scope {
            Scope::All if self.without.has(Technique::Flush) => self.buffer.fill_oldest(room),
            Scope::All => self.buffer.fill(room, temperature, Owner { folder: 0, inode: 0 }),
            Scope::File(inode) => self.buffer.fill_of(inode, room, until),
        };
        let written = self.write_here(lent).await;
        match written {
            Ok((done, rest)) if !rest.is_empty() => {
                self.filling.insert(temperature, opened.stripe);
                Ok((done, Some(self.plan_small(opened, rest, slots))))
            }
            other => {
                self.store.close_stripe(opened.stripe);
                other.map(|(done, _)| (done, None))
            }
        }
    }

    /// A piece of a file that is buffered as a whole, or is padded so that it is.
    async fn whole_piece(&mut self, scope: Scope, until: Timestamp) -> Option<Whole> {
        if self.without.has(Technique::Layout) || scope == Scope::All && self.without.has(Technique::Flush) {
            return None;
        }
        let lend = |buffer: &mut Buffer| match scope {
            Scope::All => buffer.lend_whole(),
            Scope::File(inode) => buffer.lend_whole_of(inode, until),
        };
        match lend(&mut self.buffer) {
            None if self.pad_piece(scope, until).await => lend(&mut self.buffer),
            whole => whole,
        }
    }

    /// Parts stay lent until the write-out ends, so that it does not look at them again.
    fn put_aside(&mut self, parts: impl IntoIterator<Item = Lent>, error: FsError) {
        for part in parts {
            if error.is_lasting() {
                // Others do not wait for it with their commits.
                self.replacing.remove(&part.owner.inode);
            }
            self.aside.entry(part.owner.inode).or_insert_with(|| (error, Vec::new())).1.push(part);
        }
    }

    /// Why the file of these parts is put aside. Then it is not tried again in this write-out.
    fn why_aside(&self, parts: &[Lent]) -> Option<FsError> {
        parts.iter().find_map(|part| self.aside.get(&part.owner.inode)).map(|(error, _)| *error)
    }

    fn count_aside(&self) -> usize {
        self.aside.values().map(|(_, parts)| parts.len()).sum()
    }

    /// A write-out ends: parts of files whose extents could not be read wait for the next one. That of a file leaves other files to the
    /// write-out that has given way to it.
    ///
    /// # Errors
    /// Why the first of them could not be written out.
    pub(super) fn take_back(&mut self, scope: Scope) -> Result<(), FsError> {
        let aside = match scope {
            Scope::All => std::mem::take(&mut self.aside),
            Scope::File(inode) => self.aside.remove_entry(&inode).into_iter().collect(),
        };
        aside.values().flat_map(|(_, parts)| parts).for_each(|part| self.buffer.failed(part));
        aside.into_values().next().map_or(Ok(()), |(error, _)| Err(error))
    }

    /// Whether all parts are overwritten where they lie.
    async fn are_overwritten(&mut self, parts: &[Lent]) -> Result<bool, FsError> {
        for part in parts {
            self.look_at_inode(part.owner.inode).await?;
            if !self.is_overwritten(part).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Overwrites parts where they lie. Returns how many blocks. What fails is no longer lent.
    async fn overwrite_all(&mut self, parts: &[Lent]) -> Result<u64, FsError> {
        for (at, part) in parts.iter().enumerate() {
            if let Err(error) = self.overwrite(part).await {
                parts[at..].iter().for_each(|part| self.buffer.failed(part));
                return Err(error);
            }
        }
        Ok(parts.iter().map(Lent::blocks).sum())
    }

    /// Whether blocks are overwritten where they lie.
    async fn is_overwritten(&mut self, lent: &Lent) -> Result<bool, FsError> {
        if !self.volume.may_overwrite() && !lives(Mutant::OverwriteDegraded) {
            return Ok(false);
        }
        if self.shrunk.contains(&lent.owner.inode) {
            return Ok(false);
        }
        let blocks = lent.first..lent.first + lent.blocks();
        if self.journal == JournalMode::Data && !lives(Mutant::OverwriteNotJournaled) {
            let is_journaled = |block| self.journaled.is_current(lent.owner.inode, block);
            if !blocks.clone().all(is_journaled) {
                return Ok(false);
            }
        }
        let all = self.mapped(lent.owner.inode, blocks.clone()).await?;
        let parts = all.iter().filter_map(|one| one.part(&blocks));
        let (mut count, mut is_plain) = (0, true);
        for part in parts {
            count += u64::from(part.extent.blocks);
            is_plain &= part.extent.crcs.is_none();
        }
        Ok(is_plain && count == lent.blocks())
    }

    /// Writes what needs no place of its own. Returns how many blocks that were, and the rest. What fails is no longer lent.
    async fn write_here(&mut self, lent: Vec<Lent>) -> Result<(u64, Vec<Lent>), FsError> {
        let mut left = lent.into_iter();
        let (mut done, mut rest) = (0, Vec::new());
        while let Some(part) = left.next() {
            let needs = match self.why_aside(std::slice::from_ref(&part)) {
                Some(error) => Err(error),
                None => self.needs(&part).await,
            };
            let needs = match needs {
                Ok(needs) => needs,
                Err(error) => {
                    self.put_aside([part], error);
                    continue;
                }
            };
            let written = match needs {
                Needs::Place => {
                    rest.push(part);
                    continue;
                }
                Needs::Nothing => self.write_inline(&part).await,
                Needs::OwnPlace => self.overwrite(&part).await,
            };
            if let Err(error) = written {
                let all = rest.iter().chain([&part]).chain(left.as_slice());
                all.for_each(|part| self.buffer.failed(part));
                return Err(error);
            }
            done += part.blocks();
        }
        Ok((done, rest))
    }

    async fn needs(&mut self, lent: &Lent) -> Result<Needs, FsError> {
        let inode = lent.owner.inode;
        self.look_at_inode(inode).await?;
        if lent.first == 0 && lent.blocks() == 1 && self.is_small(inode).await? {
            self.look_at(&[Key::new(inode, KeyKind::Inline, 0)]).await?;
            return Ok(Needs::Nothing);
        }
        Ok(if self.is_overwritten(lent).await? { Needs::OwnPlace } else { Needs::Place })
    }

    async fn write_inline(&mut self, lent: &Lent) -> Result<(), FsError> {
        self.begin()?;
        let put = self.put_inline(lent.owner.inode, &lent.data).await;
        self.end(put)
    }

    /// Whether all of a file fits the tree, and none of it lies elsewhere.
    pub(super) async fn is_small(&mut self, inode: u64) -> Result<bool, FsError> {
        let size_bytes = self.live(inode).await?.inode.size_bytes;
        Ok(size_bytes <= INLINE_MAX as u64 && self.mapped(inode, 0..1).await?.is_empty())
    }

    /// Puts a small file's block into the tree. It leaves the buffer.
    pub(super) async fn put_inline(&mut self, inode: u64, block: &SharedBuf) -> Result<(), FsError> {
        let len = self.live(inode).await?.inode.size_bytes as usize;
        let key = Key::new(inode, KeyKind::Inline, 0);
        self.store.put(key, block[..len.min(INLINE_MAX)].into()).await?;
        self.leave(inode, 0..1)?;
        self.buffer.drop_blocks(inode, 0..1);
        self.raise_kept(inode);
        self.counters.inlined_files += 1;
        Ok(())
    }

    /// Overwrites blocks where they lie. Nobody else may free these places meanwhile, so it holds the lock.
    async fn overwrite(&mut self, lent: &Lent) -> Result<(), FsError> {
        self.check_writable()?;
        let inode = lent.owner.inode;
        let blocks = lent.first..lent.first + lent.blocks();
        let mut places = Vec::new();
        for one in self.mapped(inode, blocks.clone()).await? {
            let Some(part) = one.part(&blocks) else { continue };
            places.extend((0..u64::from(part.extent.blocks)).map(|at| BlockNo(part.extent.place + at)));
        }
        if !places.iter().all(|place| self.store.is_taken(*place)) {
            return Err(FsError::Damaged { inode, block: lent.first });
        }
        let data: Vec<_> = places.into_iter().zip(blocks_of(lent)).collect();
        let writes = self.store.plan_writes(&data);
        let volume = self.volume.clone();
        for write in &writes {
            write.carry_out(&*volume).await?;
        }
        self.store.count_writes(Class::Data, &writes);
        if !lives(Mutant::OverwriteNotFlushed) {
            self.store.note_written();
            self.store.let_data_come_first();
        }
        self.counters.overwritten_blocks += lent.blocks();
        self.leave(inode, blocks)?;
        self.buffer.written(lent);
        self.raise_kept(inode);
        Ok(())
    }

    /// A whole piece of a file goes to a stripe of its own.
    fn plan_large(&mut self, opened: Opened, lent: Vec<Lent>) -> Planned {
        let geometry = self.volume.geometry();
        let slots: Vec<u32> = (0..geometry.stripe_blocks()).collect();
        self.plan(opened, true, lent, &slots)
    }

    /// Parts of files go to the free slots of a stripe: to as few rows as do, and there in their order.
    fn plan_small(&mut self, opened: Opened, mut lent: Vec<Lent>, mut slots: Vec<u32>) -> Planned {
        if !self.without.has(Technique::Flush) {
            lent.sort_by_key(|part| (part.owner, part.first));
        }
        let blocks: u64 = lent.iter().map(Lent::blocks).sum();
        let columns = self.volume.geometry().data_columns() as usize;
        slots.truncate((blocks as usize).next_multiple_of(columns));
        slots.sort_unstable();
        self.plan(opened, false, lent, &slots)
    }

    fn plan(&mut self, opened: Opened, is_large: bool, lent: Vec<Lent>, slots: &[u32]) -> Planned {
        self.near = opened.stripe;
        let geometry = self.volume.geometry();
        let blocks: Vec<SharedBuf> = lent.iter().flat_map(blocks_of).collect();
        let places: Vec<BlockNo> =
            slots.iter().take(blocks.len()).map(|slot| geometry.block(opened.stripe, *slot)).collect();
        let data: Vec<_> = places.iter().copied().zip(blocks).collect();
        let writes = self.store.plan_writes(&data);
        Planned { opened, is_large, lent, places, writes }
    }

    /// A planned write-out was carried out, or has failed.
    pub(super) async fn settle(
        &mut self,
        planned: &Planned,
        result: Result<(), IoError>,
    ) -> Result<(), FsError> {
        let settled = match result {
            Ok(()) => self.settle_written(planned).await,
            Err(error) => {
                planned.lent.iter().for_each(|part| self.buffer.failed(part));
                Err(error.into())
            }
        };
        self.store.close_stripe(planned.opened.stripe);
        settled
    }

    async fn settle_written(&mut self, planned: &Planned) -> Result<(), FsError> {
        self.store.note_written();
        self.store.count_writes(Class::Data, &planned.writes);
        let has_room = self.store.has_room_for(planned.blocks());
        let unread = self.look_at_extents(planned).await;
        let begun = if has_room { self.begin() } else { Err(FsError::NoSpace) };
        if let Err(error) = begun {
            planned.lent.iter().for_each(|part| self.buffer.failed(part));
            return Err(error);
        }
        let mapped = self.map_written(planned, &unread).await;
        self.end(mapped)?;
        if !planned.is_large && !self.without.has(Technique::Layout) {
            for part in &planned.lent {
                // A piece that cannot be read now does not move, and stays where it is.
                let _ = self.note_full(part.owner.inode, &(part.first..part.first + part.blocks())).await;
            }
        }
        Ok(())
    }

    /// Reads what is going to change of the tree, before anything does. Returns the files of which that fails: only the blocks of these stay
    /// in the buffer.
    async fn look_at_extents(&self, planned: &Planned) -> BTreeMap<u64, FsError> {
        let mut unread = BTreeMap::new();
        for part in &planned.lent {
            let inode = part.owner.inode;
            if !unread.contains_key(&inode)
                && let Err(error) = self.look_at_move(inode, part.first..part.first + part.blocks()).await
            {
                unread.insert(inode, error);
            }
        }
        unread
    }

    async fn map_written(
        &mut self,
        planned: &Planned,
        unread: &BTreeMap<u64, FsError>,
    ) -> Result<(), FsError> {
        let takes_parts = lives(Mutant::LargeInPart);
        let is_lost = |part| !takes_parts && !self.buffer.is_current(part);
        // A stripe of its own is taken as a whole, or not at all. What is left of the piece waits again.
        if planned.is_large
            && let Some(error) = unread.values().next()
        {
            self.put_aside(planned.lent.iter().cloned(), *error);
            return Ok(());
        }
        if planned.is_large && planned.lent.iter().any(is_lost) {
            planned.lent.iter().for_each(|part| self.buffer.failed(part));
            return Ok(());
        }
        if planned.is_large {
            self.store.let_data_come_first();
        }
        let mut places = planned.places.iter();
        let mut files: BTreeMap<u64, Vec<(u64, BlockNo, u32)>> = BTreeMap::new();
        for part in &planned.lent {
            let of_part = places.by_ref().take(part.blocks() as usize);
            let is_stale = !self.buffer.is_current(part) && !lives(Mutant::StaleSettled);
            if is_stale || unread.contains_key(&part.owner.inode) {
                of_part.for_each(drop);
                continue;
            }
            let blocks = (part.first..).zip(of_part).zip(blocks_of(part));
            let file = files.entry(part.owner.inode).or_default();
            file.extend(blocks.map(|((number, place), bytes)| {
                (number, *place, if planned.is_large { 0 } else { crc32c(&bytes) })
            }));
        }
        let files: Vec<(u64, Vec<Mapped>)> =
            files.into_iter().map(|(inode, blocks)| (inode, runs(&blocks, planned.is_large))).collect();
        // All are taken before the tree changes: it needs room for each node that becomes dirty, and there is enough for these now.
        for new in files.iter().flat_map(|(_, all)| all) {
            self.take(planned.opened.kind, new)?;
        }
        let mut removed = Vec::new();
        for (inode, all) in files {
            self.live(inode).await?;
            for new in all {
                let range = new.blocks();
                self.counters.written_blocks += range.end - range.start;
                removed.extend(self.map(inode, new).await?);
                let inline = Key::new(inode, KeyKind::Inline, 0);
                let is_first = range.start == 0 && !lives(Mutant::InlineStays);
                if is_first && self.store.tree().get(inline).await?.is_some() {
                    removed.push(inline);
                    self.store.let_data_come_first();
                }
                self.leave(inode, range)?;
            }
        }
        self.remove_all(removed).await?;
        for part in planned.lent.iter() {
            if let Some(error) = unread.get(&part.owner.inode) {
                self.put_aside([part.clone()], *error);
                continue;
            }
            self.buffer.written(part);
            self.raise_kept(part.owner.inode);
        }
        Ok(())
    }

    /// Blocks of a file no longer need the journal: they have places.
    fn leave(&mut self, inode: u64, blocks: Range<u64>) -> Result<(), FsError> {
        for run in self.journaled.remove(inode, blocks) {
            self.store.let_data_come_first();
            if !lives(Mutant::LeftNotTold) {
                self.store.forget_data(inode, run);
            }
        }
        self.touch(inode).map(|_| ())
    }

    /// A file's length in the tree follows what is written out: up to the first block that a crash would lose.
    pub(super) fn raise_kept(&mut self, inode: u64) {
        let Some(live) = self.live.get_mut(&inode) else { return };
        let size = live.inode.size_bytes;
        let mut pending = self.buffer.runs(inode, live.kept_bytes / BLOCK_BYTES as u64).flatten();
        let first = pending.find(|block| !self.journaled.is_current(inode, *block));
        let durable = first.map_or(size, |block| size.min(block.saturating_mul(BLOCK_BYTES as u64)));
        if durable > live.kept_bytes {
            live.kept_bytes = durable;
            if !lives(Mutant::LengthNotPut) {
                self.dirty.insert(inode);
            }
        }
    }
}

/// The blocks of a part.
fn blocks_of(lent: &Lent) -> impl Iterator<Item = SharedBuf> {
    let data = lent.data.clone();
    (0..lent.blocks() as usize).map(move |at| data.slice(at * BLOCK_BYTES..(at + 1) * BLOCK_BYTES))
}

/// Extents of blocks that follow one another in the file and on the volume.
fn runs(blocks: &[(u64, BlockNo, u32)], is_large: bool) -> Vec<Mapped> {
    let runs = blocks.chunk_by(|one, next| one.0 + 1 == next.0 && one.1.0 + 1 == next.1.0);
    let extent = |run: &[(u64, BlockNo, u32)]| {
        let crcs = (!is_large).then(|| run.iter().map(|(_, _, crc)| *crc).collect());
        Mapped { first: run[0].0, extent: Extent { place: run[0].1.0, blocks: run.len() as u32, crcs } }
    };
    runs.map(extent).collect()
}
