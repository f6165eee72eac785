//! The superblocks and extension headers of all attached members: what the array is on disk, and how it
//! changes.
//!
//! Every change of state raises the event count and is written to all members that belong, at once. Each
//! member gets the extension header first. The header names the superblock that follows, so after any crash
//! it tells whether Stripewise wrote the superblock last (`docs/on-disk-format.md`, "The order of updates").

use std::sync::Arc;

use futures_util::future::join_all;
use smallvec::smallvec;
use stripewise_device::{IoBuf, IoError, WriteFlags};
use stripewise_format::{
    extension::{ArrayOptions, ExtensionLayout, Header, HeaderCopy},
    md::{BadBlockLog, Features, IN_SYNC, Role, Roles, Superblock, Timestamp, bitmap::BitmapSuperblock},
    media::{BLOCK_LEN, Block, SECTOR_BYTES},
};

use crate::{
    cache::CacheSettings,
    intent::locking::Preset,
    members::member::Member,
    mutants::{Mutant, lives},
    plan::selection::Policy,
    shape::{geometry::MemberIndex, regions::RegionShape},
};

/// The largest bitmap that mdadm makes. The extension area begins after it.
const MD_BITMAP_BYTES_MAX: usize = 128 << 10;

/// What an attached member is to the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// In sync.
    Active(MemberIndex),
    /// Being filled, up to `done_sectors`.
    Incoming { slot: MemberIndex, done_sectors: u64 },
    /// Waiting to be used.
    Spare,
    /// Failed; its superblock is never written again.
    Faulty,
}

pub(crate) struct Entry {
    pub(crate) member: Arc<Member>,
    pub(crate) standing: Standing,
    pub(crate) superblock: Superblock,
    pub(crate) header: Option<Header>,
    /// The copy of the header that the next write writes first: the damaged one, if one is.
    pub(crate) first_copy: HeaderCopy,
    /// md's own bitmap, if the array was made with one. We do not use it, but must not let it mislead the
    /// kernel.
    pub(crate) md_bitmap: Option<BitmapSuperblock>,
    /// Whether that bitmap is on the member. If not, it is written with the next superblock.
    pub(crate) has_md_bitmap: bool,
    /// md's bad-block log as it lies on the member. None where there is no room for one.
    pub(crate) bad_block_log: Option<BadBlockLog>,
    /// The slot that the member had when it failed, for display.
    pub(crate) last_slot: Option<MemberIndex>,
}

impl Entry {
    pub(crate) fn layout(&self) -> Option<ExtensionLayout> {
        self.header.as_ref().and_then(|_| ExtensionLayout::for_superblock(&self.superblock))
    }
}

/// What the next write of all superblocks says.
pub(crate) struct Ledger {
    pub(crate) entries: Vec<Entry>,
    pub(crate) events: u64,
    /// Whether members agree everywhere and nothing is being written.
    pub(crate) clean: bool,
    /// What the array's headers have in common. A new member takes it from here, because perhaps no remaining
    /// member has a header.
    pub(crate) common: Common,
}

/// What all extension headers of an array say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    /// What an operator chose.
    pub(crate) options: ArrayOptions,
    /// The regions of the bitmap.
    pub(crate) regions: RegionShape,
}

/// A member whose metadata could not be written.
pub(crate) type FailedMember = (Arc<Member>, IoError);

impl Ledger {
    pub(crate) fn entry_mut(&mut self, member: &Arc<Member>) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.member, member))
    }

    /// Gives a member another standing, in its own entry and in the table of roles of every member.
    pub(crate) fn set_standing(&mut self, member: &Arc<Member>, standing: Standing) {
        let dev_number = member.dev_number;
        if let Some(entry) = self.entry_mut(member) {
            if let Standing::Active(slot) | Standing::Incoming { slot, .. } = entry.standing {
                entry.last_slot = Some(slot);
            }
            entry.standing = standing;
        }
        self.set_role(dev_number, role_of(standing));
    }

    /// Every member's table of roles.
    pub(crate) fn roles(&self) -> Roles {
        self.entries.first().map(|entry| entry.superblock.roles.clone()).unwrap_or_default()
    }

    /// Drops a member.
    pub(crate) fn forget(&mut self, member: &Arc<Member>) {
        self.entries.retain(|entry| !Arc::ptr_eq(&entry.member, member));
        // Its number stays marked: the device may come back with the superblock it has now.
        self.set_role(member.dev_number, Role::Faulty);
    }

    /// Sets the role of a device number in every member's table.
    pub(crate) fn set_role(&mut self, dev_number: u32, role: Role) {
        for entry in &mut self.entries {
            // Device numbers come from this same table, which fits in a block by construction.
            let _ = entry.superblock.roles.set(dev_number, role);
        }
    }

    /// Records on every member how partly written rows are written. False if no member has room for it.
    pub(crate) fn set_policy(&mut self, policy: &Policy) -> bool {
        if !self.keeps_options() {
            return false;
        }
        self.common.options.selection_policy = policy.number;
        self.spread_options();
        true
    }

    /// Whether a member has room to keep options.
    pub(crate) fn keeps_options(&self) -> bool {
        self.entries.iter().any(|entry| entry.header.is_some())
    }

    /// Records what was chosen for the cache.
    pub(crate) fn set_cache(&mut self, settings: &CacheSettings) {
        settings.keep(&mut self.common.options);
        self.spread_options();
    }

    /// Records whether something may be in a cache alone from now on.
    pub(crate) fn set_cache_open(&mut self, is_open: bool) {
        if self.common.options.cache.is_open != is_open {
            self.common.options.cache.is_open = is_open;
            self.spread_options();
        }
    }

    fn spread_options(&mut self) {
        let options = self.common.options;
        let headers = self.entries.iter_mut().filter_map(|entry| entry.header.as_mut());
        headers.for_each(|header| header.options = options);
    }

    /// Records the locking preset that the array was made with.
    pub(crate) fn set_preset(&mut self, preset: &Preset) {
        self.common.options.locking_policy = preset.number;
        self.spread_options();
    }

    /// A device number for a new member. The first choice is a number that no member has, present or absent.
    /// If the table has none left, a lost member's number is taken: should that member come back, its event
    /// count keeps it out.
    pub(crate) fn free_dev_number(&self) -> u32 {
        let roles = self.roles();
        let attached = |number: u32| self.entries.iter().any(|entry| entry.member.dev_number == number);
        let free = |lost_too: bool| {
            (0..roles.max_dev()).find(|number| match roles.of(*number) {
                Some(Role::Spare) => !attached(*number),
                Some(Role::Faulty) => lost_too && !attached(*number),
                _ => false,
            })
        };
        free(false).or_else(|| free(true)).unwrap_or_else(|| roles.max_dev())
    }

    /// Writes the metadata of all members with the next event count. Returns the members that could not take
    /// it.
    pub(crate) async fn write_all(&mut self, wall_clock_us: u64) -> Vec<FailedMember> {
        self.events += u64::from(!lives(Mutant::EventsNotRaised));
        let events = self.events;
        // Members that missed an earlier round and are back go first, apart from the others. If power failed
        // after the others were written, they would be two events behind.
        let lags = |entry: &Entry| {
            matches!(entry.standing, Standing::Active(_) | Standing::Incoming { .. })
                && entry.superblock.events.saturating_add(1) < events
        };
        let lagging: Vec<u32> =
            self.entries.iter().filter(|entry| lags(entry)).map(|entry| entry.member.dev_number).collect();
        let is_lagging = |entry: &Entry| lagging.contains(&entry.member.dev_number);
        let mut failed = Vec::new();
        if !lagging.is_empty() {
            failed = self.write_where(is_lagging, wall_clock_us).await;
        }
        failed.extend(self.write_where(|entry| !is_lagging(entry), wall_clock_us).await);
        failed
    }

    /// Writes the newest metadata to members that a crash left one event behind, and returns the members that
    /// could not take it. Members that are further behind, or that were taken although the newest say that
    /// they failed, are written with the next event. Leaves out members that are known to have failed.
    pub(crate) async fn write_behind(
        &mut self,
        failed: &[FailedMember],
        wall_clock_us: u64,
    ) -> Vec<FailedMember> {
        let events = self.events;
        let has_failed = |entry: &Entry| failed.iter().any(|(member, _)| Arc::ptr_eq(member, &entry.member));
        let belongs = |entry: &Entry| entry.superblock.role() != Role::Faulty && !has_failed(entry);
        self.write_where(
            |entry| entry.superblock.events.saturating_add(1) == events && belongs(entry),
            wall_clock_us,
        )
        .await
    }

    /// Notes on the wanted members how much was written to them. Only their headers are written, so no event
    /// is spent. Returns the members that could not take it.
    pub(crate) async fn note_written(
        &mut self,
        wanted: impl Fn(&Entry) -> bool,
        wall_clock_us: u64,
    ) -> Vec<FailedMember> {
        let entries = self.entries.iter_mut().filter(|entry| wanted(entry));
        let notes: Vec<_> = entries.map(|entry| entry.note_written(wall_clock_us)).collect();
        join_all(notes).await.into_iter().flatten().collect()
    }

    async fn write_where(
        &mut self,
        wanted: impl Fn(&Entry) -> bool,
        wall_clock_us: u64,
    ) -> Vec<FailedMember> {
        let (events, clean) = (self.events, self.clean);
        let writes: Vec<_> = self
            .entries
            .iter_mut()
            .filter(|entry| entry.standing != Standing::Faulty && wanted(entry))
            .map(|entry| entry.write(events, clean, wall_clock_us))
            .collect();
        join_all(writes).await.into_iter().flatten().collect()
    }
}

pub(crate) fn role_of(standing: Standing) -> Role {
    match standing {
        Standing::Active(slot) | Standing::Incoming { slot, .. } => Role::Active(slot.0 as u16),
        Standing::Spare => Role::Spare,
        Standing::Faulty => Role::Faulty,
    }
}

impl Entry {
    /// Brings the superblock up to date and writes header and superblock. The future borrows nothing.
    fn write(
        &mut self,
        events: u64,
        clean: bool,
        wall_clock_us: u64,
    ) -> impl Future<Output = Option<FailedMember>> + use<> {
        let bad_block_logs = self.bring_bad_blocks_up_to_date();
        self.update(events, clean, wall_clock_us);
        let block = self.superblock.encode();
        let header = self.renew_header(wall_clock_us).map(|header| {
            header.expect_superblock(&block);
            header.encode()
        });
        let headers = self.header_writes(header);
        let member = self.member.clone();
        let superblock_bytes = written_len(&self.superblock, member.device.info().logical_block_bytes);
        let superblock_offset = self.superblock.super_offset_sectors * SECTOR_BYTES;
        let first_md_bitmap = self.first_md_bitmap();
        // Only after a clean superblock: if the events are equal, the kernel believes its bitmap, regardless
        // of anything else.
        let md_bitmap = if clean { self.settled_md_bitmap(events) } else { None };
        async move {
            if lives(Mutant::SuperblockBeforeHeader)
                && let Err(error) =
                    write_durably(&member, superblock_offset, &block[..superblock_bytes]).await
            {
                return Some((member, error));
            }
            let mut result = write_headers(&member, &headers).await;
            // Before the superblock that says that there is a bitmap: without the bitmap, the kernel does not
            // start the array.
            if let (Ok(()), Some((offset, bitmap))) = (result, first_md_bitmap) {
                result = write_durably(&member, offset, &bitmap).await;
            }
            // Before the superblock that relies on the log: it may say that there are bad blocks, or that
            // more of the member is filled.
            for (offset, log) in bad_block_logs {
                if result.is_ok() {
                    result = write_durably(&member, offset, &log).await;
                }
            }
            if result.is_ok() {
                result = write_durably(&member, superblock_offset, &block[..superblock_bytes]).await;
            }
            if let (Ok(()), Some((offset, bitmap))) = (result, md_bitmap) {
                result = write_durably(&member, offset, &bitmap).await;
            }
            result.err().map(|error| (member, error))
        }
    }

    /// Writes the header alone, with the amount written to the member so far. It still names the same
    /// superblock.
    fn note_written(&mut self, wall_clock_us: u64) -> impl Future<Output = Option<FailedMember>> + use<> {
        let header = self.renew_header(wall_clock_us).map(|header| header.encode());
        let headers = self.header_writes(header);
        let member = self.member.clone();
        async move { write_headers(&member, &headers).await.err().map(|error| (member, error)) }
    }

    /// The writes that bring the member's bad-block log up to date. Each must be durable before the next.
    /// Also sets in the superblock whether the log lists anything.
    fn bring_bad_blocks_up_to_date(&mut self) -> Vec<(u64, Vec<u8>)> {
        let superblock = &mut self.superblock;
        let place = superblock.bad_block_place(self.member.device.info().logical_block_bytes);
        let (Some(log), Some(place)) = (&mut self.bad_block_log, place) else { return Vec::new() };
        let listed = self.member.bad_blocks.logged();
        superblock.features = match listed.is_empty() {
            true => superblock.features.without(Features::BAD_BLOCKS),
            false => superblock.features.with(Features::BAD_BLOCKS),
        };
        // Another md may have written longer entries than ours. A log without room for our entries stays as
        // it is: nothing can have been added to it.
        let images = log.change_to(listed.into_iter()).unwrap_or_default();
        images.into_iter().map(|image| (place.start, image)).collect()
    }

    /// The header for the next write, with the amount written to the member so far.
    fn renew_header(&mut self, wall_clock_us: u64) -> Option<&mut Header> {
        let header = self.header.as_mut()?;
        header.generation += 1;
        header.endurance.written_bytes = self.member.written_bytes();
        if header.endurance.written_since_s == 0 {
            header.endurance.written_since_s = wall_clock_us / 1_000_000;
        }
        Some(header)
    }

    /// The writes of both copies of a header, in their order: offset and bytes. None without an extension area.
    fn header_writes(&mut self, header: Option<Block>) -> Vec<(u64, Block)> {
        let Some((layout, header)) = self.layout().zip(header) else { return Vec::new() };
        let first = std::mem::replace(&mut self.first_copy, HeaderCopy::A);
        [first, first.other()].map(|copy| (layout.header_offset_bytes(copy), header)).into()
    }

    /// md's bitmap for a member that has none yet: offset and bytes. Its events are behind any superblock's,
    /// so the kernel takes it for stale.
    fn first_md_bitmap(&mut self) -> Option<(u64, Vec<u8>)> {
        let has_one = std::mem::replace(&mut self.has_md_bitmap, true) || lives(Mutant::KernelBitmapMissing);
        if has_one { None } else { self.settled_md_bitmap(0) }
    }

    /// md's bitmap as a clean stop leaves it, with these events and no bit set: offset and bytes.
    fn settled_md_bitmap(&self, events: u64) -> Option<(u64, Vec<u8>)> {
        let offset = self.superblock.bitmap_sector()?.checked_mul(SECTOR_BYTES)?;
        let bitmap = self.md_bitmap?.settle(events);
        let mut bytes = bitmap.encode().to_vec();
        let len = usize::try_from(bitmap.total_bytes()).ok().filter(|len| *len <= MD_BITMAP_BYTES_MAX)?;
        bytes.resize(len.next_multiple_of(BLOCK_LEN), 0);
        Some((offset, bytes))
    }

    fn update(&mut self, events: u64, clean: bool, wall_clock_us: u64) {
        let is_replacing = self.is_replacing();
        let superblock = &mut self.superblock;
        superblock.events = events;
        superblock.updated = Timestamp::new(wall_clock_us / 1_000_000, (wall_clock_us % 1_000_000) as u32);
        superblock.resync_offset_sectors = if clean { IN_SYNC } else { 0 };
        superblock.features = superblock.features.without(Features::RECOVERY_OFFSET);
        superblock.recovery_offset_sectors = 0;
        if let Standing::Incoming { done_sectors, .. } = self.standing {
            superblock.features = superblock.features.with(Features::RECOVERY_OFFSET);
            superblock.recovery_offset_sectors = done_sectors;
        }
        superblock.features = match is_replacing {
            true => superblock.features.with(Features::REPLACEMENT),
            false if lives(Mutant::ReplacementFlagKept) => superblock.features,
            false => superblock.features.without(Features::REPLACEMENT),
        };
    }

    /// Whether the member is being filled for a role that another member has. The table of roles in its
    /// superblock decides: the other member may be absent while the table still names it.
    pub(crate) fn is_replacing(&self) -> bool {
        let Standing::Incoming { slot, .. } = self.standing else { return false };
        let roles = &self.superblock.roles;
        let mut others = (0..roles.max_dev()).filter(|number| *number != self.superblock.dev_number);
        others.any(|number| roles.of(number) == Some(Role::Active(slot.0 as u16)))
    }
}

/// Only the sectors that the superblock fills are written. A sector of 512 bytes is written entirely or not
/// at all, and a superblock with up to 128 roles fits in one.
fn written_len(superblock: &Superblock, logical_block_bytes: u32) -> usize {
    let used = 256 + 2 * superblock.roles.max_dev() as usize;
    let block_bytes = if lives(Mutant::ShortSuperblockWrite) { 512 } else { logical_block_bytes as usize };
    used.next_multiple_of(block_bytes)
}

/// Writes the copies of a header, one after the other.
async fn write_headers(member: &Member, headers: &[(u64, Block)]) -> Result<(), IoError> {
    for (offset_bytes, header) in headers {
        write_durably(member, *offset_bytes, header).await?;
    }
    Ok(())
}

/// Writes metadata so that it is on stable media when the future is done.
pub(crate) async fn write_durably(member: &Member, offset_bytes: u64, bytes: &[u8]) -> Result<(), IoError> {
    member.stats.count_metadata(bytes.len() as u64);
    let buf = IoBuf::copy_of(bytes).freeze();
    member.device.write(offset_bytes, smallvec![buf], WriteFlags { fua: true }).await
}

/// A block of metadata that was read from disk, as a [`Block`].
pub(crate) fn as_block(bytes: &[u8]) -> &Block {
    bytes.try_into().expect("metadata is read in blocks")
}
