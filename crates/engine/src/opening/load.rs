//! From the chosen members to the state of an open array: topology, ledger, bitmap.

use std::{collections::BTreeMap, sync::Arc};

use stripewise_device::{Device, IoError};
use stripewise_format::{
    bitmap::{Slot, newest, slot_offset_bytes},
    extension::{ArrayOptions, CopyState, ExtensionError, ExtensionLayout, Header, HeaderCopy, OtherCopy},
    md::{Features, Role, bitmap::BitmapSuperblock},
    media::{BLOCK_LEN, SECTOR_BYTES},
};

use super::{
    candidates::{Chosen, Part},
    damage::{self, DamagedPages},
    options::{AssembleError, AssembleOptions},
};
use crate::{
    intent::{Intent, Pages, locking::Locking},
    members::{
        bad_blocks::BadBlocks,
        measure::Measured,
        member::Member,
        topology::{Incoming, Recorded, SlotState, Topology},
    },
    metadata::{
        enroll::{self, Traits},
        examine::{Examination, UNREAD, read_block},
        ledger::{Common, Entry, Ledger, Standing, role_of},
    },
    mutants::{Mutant, lives},
    roster::spares::hold_back,
    shape::{
        geometry::{Geometry, Level, StripeIndex},
        regions::{RegionMap, RegionShape},
    },
};

/// The state of an array about to be opened.
pub(super) struct Loaded {
    pub(super) topology: Topology,
    pub(super) ledger: Ledger,
    pub(super) intent: Option<Intent>,
    pub(super) bitmap_offsets: BTreeMap<u32, u64>,
}

/// Refuses what writing could not keep intact: unknown features, a log.
pub(super) fn check_writable(
    examined: &[Examination],
    chosen: &Chosen,
    options: &AssembleOptions,
) -> Result<(), AssembleError> {
    if options.read_only {
        return Ok(());
    }
    for part in &chosen.parts {
        let member = &examined[part.index()];
        if let Some(reason) = unwritable(member) {
            let member = member.device.info().name.clone();
            return Err(AssembleError::Unsupported { member, reason });
        }
    }
    Ok(())
}

/// The options that were chosen for the array.
pub(super) fn kept_options(examined: &[Examination], chosen: &Chosen) -> ArrayOptions {
    speaking_header(examined, chosen).map(|header| header.options).unwrap_or_default()
}

/// The header that speaks for the array: that of the freshest member, else that of the first other member
/// whose extension area is intact.
pub(super) fn speaking_header<'a>(examined: &'a [Examination], chosen: &Chosen) -> Option<&'a Header> {
    let parts = chosen.parts.iter().map(Part::index);
    let mut headers =
        [chosen.freshest].into_iter().chain(parts).map(|index| examined[index].extension.as_ref());
    headers.find_map(|header| header.ok().map(|(header, _)| header))
}

fn unwritable(examination: &Examination) -> Option<String> {
    match &examination.extension {
        Err(error @ ExtensionError::Unusable(_)) => Some(error.to_string()),
        Ok((header, _)) if header.log.length_bytes != 0 => {
            Some("its extension area has a log of a kind that this version does not know".to_owned())
        }
        Ok((header, _)) => header.check_writable().err().map(|error| error.to_string()),
        Err(_) => None,
    }
}

pub(super) async fn load(
    examined: &[Examination],
    chosen: &Chosen,
    options: &AssembleOptions,
    locking: Locking,
) -> Result<Loaded, AssembleError> {
    damage::tell_damaged_headers(examined, chosen, options.read_only);
    let fresh = &examined[chosen.freshest].superblock;
    let regions = enroll::kept_regions(headers(examined, chosen).map(|(_, header)| header), &chosen.geometry);
    let mut slots = vec![SlotState::default(); chosen.geometry.members()];
    let mut entries = Vec::new();
    for part in &chosen.parts {
        let mut entry = entry(examined, chosen, *part, regions);
        entry.md_bitmap = load_md_bitmap(&entry).await;
        entry.has_md_bitmap = entry.md_bitmap.is_some();
        match entry.standing {
            Standing::Active(slot) => slots[slot.0].primary = Some(entry.member.clone()),
            Standing::Incoming { slot, done_sectors, .. } => {
                let done = chosen.geometry.stripes_in(done_sectors * SECTOR_BYTES)
                    + 2 * u64::from(lives(Mutant::ResumeRebuildAhead));
                slots[slot.0].incoming = Some(Incoming::new(entry.member.clone(), done));
            }
            Standing::Spare | Standing::Faulty => {}
        }
        entries.push(entry);
    }
    share_md_bitmap(&mut entries);
    let common = Common { options: kept_options(examined, chosen), regions };
    let mut ledger = Ledger { entries, events: fresh.events, clean: fresh.is_in_sync(), common };
    let mut topology =
        Topology { geometry: chosen.geometry, slots, failed: false, recorded: Recorded::already() };
    let offsets = |entry: &Entry| Some((entry.member.dev_number, enroll::bitmap_offset(&entry.header)?));
    let bitmap_offsets = ledger.entries.iter().filter_map(offsets).collect();
    let intent = load_intent(examined, chosen, options, regions, locking, &ledger).await?;
    let first_stale =
        intent.as_ref().and_then(|intent| Some(intent.map.first_stripe(intent.stale_regions().next()?).0));
    let stale = first_stale.is_some();
    if let Some(stripe) = first_stale.filter(|_| !lives(Mutant::HoldBackForgotten)) {
        hold_back(&mut topology, &mut ledger, StripeIndex(stripe));
    }
    let needs_parity = chosen.geometry.level() != Level::Raid1 && topology.degraded() > 0;
    let needs_parity = needs_parity || lives(Mutant::DirtyRefused);
    if stale && needs_parity && !options.force && !options.read_only {
        return Err(AssembleError::DirtyDegraded);
    }
    if stale && needs_parity && !options.force {
        tracing::warn!(
            "degraded, and not stopped cleanly: what would have to be reconstructed where a resync is due is not read"
        );
    }
    Ok(Loaded { topology, ledger, intent, bitmap_offsets })
}

/// The headers of the active members.
fn headers<'a>(
    examined: &'a [Examination],
    chosen: &'a Chosen,
) -> impl Iterator<Item = (&'a Examination, &'a Header)> {
    (0..chosen.geometry.members()).filter_map(|slot| {
        let examination = &examined[chosen.active(slot)?];
        Some((examination, &examination.extension.as_ref().ok()?.0))
    })
}

fn entry(examined: &[Examination], chosen: &Chosen, part: Part, regions: RegionShape) -> Entry {
    let (index, standing) = match part {
        Part::Active { slot, index } => (index, Standing::Active(slot)),
        Part::Spare { index } => (index, Standing::Spare),
        Part::Incoming { slot, index, done_sectors, .. } => {
            (index, Standing::Incoming { slot, done_sectors })
        }
    };
    let Examination { device, superblock, extension, bad_blocks: bad_block_log, .. } = &examined[index];
    let mut superblock = superblock.clone();
    // Until the event count is raised, members are written with the roles that the newest have.
    superblock.roles = examined[chosen.freshest].superblock.roles.clone();
    if matches!(part, Part::Spare { .. }) && bad_block_log.is_none() {
        // A spare holds none of the array's data yet. It must not claim bad blocks in a log that does not
        // exist.
        superblock.features = superblock.features.without(Features::BAD_BLOCKS);
    }
    if superblock.role() != Role::Faulty {
        // A member that the newest were just taking up is still a spare: it must not say that it has the
        // role.
        let _ = superblock.roles.set(superblock.dev_number, role_of(standing));
    }
    // A crash while options were being changed leaves members with different options. From the next write on,
    // all have the same.
    let options = kept_options(examined, chosen);
    let header = match extension {
        Ok((header, _)) => {
            let mut header = header.clone();
            if !lives(Mutant::OptionsApart) {
                header.options = options;
            }
            if !regions.describes(&header.bitmap, &chosen.geometry) && header.bitmap.page_count > 0 {
                // Its pages tell nothing. New pages are written where they fit.
                tracing::warn!(
                    member = device.info().name,
                    "its bitmap is not of this array's size: made anew"
                );
                let layout = ExtensionLayout::for_superblock(&superblock);
                let bitmap = layout.and_then(|layout| enroll::bitmap_for(layout, &chosen.geometry, regions));
                header.bitmap = bitmap.unwrap_or_default();
            }
            // The next write must name the superblock on disk as the previous one.
            header.expect_superblock(&examined[index].superblock.encode());
            Some(header)
        }
        // A plain md member, or one whose extension area is damaged: it gets a new header with the next
        // change of state.
        Err(_) => {
            let traits = Traits::of(device, Measured::default(), None);
            let header = enroll::header_for(&superblock, &chosen.geometry, regions, &traits);
            header.map(|header| Header { options, ..header })
        }
    };
    let of_whom =
        if lives(Mutant::OffsetOfAnother) { &examined[chosen.freshest].superblock } else { &superblock };
    let offset = of_whom.data_offset_sectors * SECTOR_BYTES;
    let bad_blocks = BadBlocks::of_log(bad_block_log.as_ref().filter(|_| !lives(Mutant::ListedRead)));
    let (number, uuid) = (superblock.dev_number, superblock.device_uuid);
    let member = Member::new(device.clone(), offset, number, uuid, header.as_ref(), bad_blocks);
    let bad_block_log = bad_block_log.clone();
    Entry {
        member,
        standing,
        superblock,
        header,
        first_copy: first_copy(extension),
        md_bitmap: None,
        has_md_bitmap: false,
        bad_block_log,
        last_slot: None,
    }
}

/// The copy of a header that may be overwritten first: not the only valid one. A torn write of that would leave none.
fn first_copy(extension: &Result<(Header, CopyState), ExtensionError>) -> HeaderCopy {
    match extension {
        Ok((_, CopyState { used, other: OtherCopy::Invalid(_) })) => used.other(),
        _ => HeaderCopy::A,
    }
}

/// Gives a member whose own md bitmap cannot be read the bitmap that the others have.
fn share_md_bitmap(entries: &mut [Entry]) {
    let Some(pattern) = entries.iter().find_map(|entry| entry.md_bitmap) else { return };
    entries.iter_mut().for_each(|entry| entry.md_bitmap = entry.md_bitmap.or(Some(pattern)));
}

/// The superblock of md's own bitmap, if the array was made with one.
async fn load_md_bitmap(entry: &Entry) -> Option<BitmapSuperblock> {
    let offset = entry.superblock.bitmap_sector()?.checked_mul(SECTOR_BYTES)?;
    let block = read_block(&entry.member.device, offset).await.ok()?;
    BitmapSuperblock::decode(&block).ok()
}

/// Enters the present members' roles into every member's table, and absent members as failed, since they may
/// come back.
pub(super) fn enter_roles(ledger: &mut Ledger, geometry: &Geometry) {
    let standings: Vec<_> =
        ledger.entries.iter().map(|entry| (entry.member.clone(), entry.standing)).collect();
    standings.iter().for_each(|(member, standing)| ledger.set_standing(member, *standing));
    let present: Vec<u32> = ledger.entries.iter().map(|entry| entry.member.dev_number).collect();
    let roles = ledger.roles();
    let absent = (0..roles.max_dev())
        .filter(|number| matches!(roles.of(*number), Some(Role::Active(slot)) if usize::from(slot) < geometry.members()))
        .filter(|number| !present.contains(number));
    absent.for_each(|number| ledger.set_role(number, Role::Faulty));
}

/// The bitmap as the members have it: what may disagree after a crash.
async fn load_intent(
    examined: &[Examination],
    chosen: &Chosen,
    options: &AssembleOptions,
    regions: RegionShape,
    locking: Locking,
    ledger: &Ledger,
) -> Result<Option<Intent>, AssembleError> {
    if chosen.geometry.level() == Level::Raid0 {
        return Ok(None);
    }
    let map =
        RegionMap::new(&chosen.geometry, regions).walked_in(&chosen.geometry, options.tuning.group_bytes);
    let uuid = examined[chosen.freshest].superblock.array_uuid;
    let mut pages = Pages::new(uuid, map.regions(), !ledger.clean);
    let missing = load_pages(examined, chosen, regions, &mut pages).await;
    outdo_old_pages(examined, chosen, regions, ledger, &mut pages).await;
    if ledger.clean {
        pages.clear_all();
        return Ok(Some(Intent::new(map, pages, locking.counter_locks)));
    }
    let untrusted = damage::why_untrusted(examined, chosen).filter(|_| !lives(Mutant::ForeignTrusted));
    if let Some(why) = untrusted {
        tracing::warn!("it was not stopped cleanly, and its bitmap cannot be trusted ({why}): full resync");
        pages.mark_all();
    } else {
        missing.into_iter().for_each(|page| pages.mark_page(page));
    }
    Ok(Some(Intent::new(map, pages, locking.counter_locks)))
}

/// Loads every page from all members that hold it. Returns the pages that no member holds, or of which a copy
/// could not be read.
async fn load_pages(
    examined: &[Examination],
    chosen: &Chosen,
    regions: RegionShape,
    pages: &mut Pages,
) -> Vec<usize> {
    let (mut missing, mut damaged) = (Vec::new(), DamagedPages::default());
    let events = examined[chosen.freshest].superblock.events;
    for index in 0..pages.count() {
        let (mut found, mut is_unread) = (false, false);
        for (examination, header) in headers(examined, chosen) {
            // Bits of other regions stand for other stripes.
            if !regions.describes(&header.bitmap, &chosen.geometry) {
                continue;
            }
            let [a, b] = read_slots(&examination.device, header, index).await;
            // A copy that cannot be read may have been the only current one, newer than all readable copies.
            let unread = match (&a, &b) {
                (Err(_), _) => Some(Slot::A),
                (_, Err(_)) => Some(Slot::B),
                _ => None,
            };
            if unread.is_some() && !lives(Mutant::OlderPageTrusted) {
                missing.push(index);
            }
            is_unread |= unread.is_some();
            let (a, b) = (a.unwrap_or(UNREAD), b.unwrap_or(UNREAD));
            match newest(&a, &b, header.array_uuid, index as u32) {
                Ok(page) => {
                    // Nor is the unread copy overwritten first: if that write were torn, the older copy would
                    // count.
                    pages.load(examination.superblock.dev_number, &page.page, unread.unwrap_or(page.slot));
                    found = true;
                }
                Err(none) => damaged.count(examination, none),
            }
        }
        if !found {
            missing.push(index);
        }
        if is_unread {
            pages.pass_over_unread(index, events);
        }
    }
    damaged.tell();
    missing
}

/// A member's bitmap of another shape is made anew, and old pages may lie where the new pages go. The new
/// pages must be newer, or the next opening would take the old pages for the bitmap. This also holds for
/// members that are not holders yet, spares included.
async fn outdo_old_pages(
    examined: &[Examination],
    chosen: &Chosen,
    regions: RegionShape,
    ledger: &Ledger,
    pages: &mut Pages,
) {
    let is_told = |entry: &Entry| {
        let same = |(found, header): (&Examination, &Header)| {
            found.superblock.dev_number == entry.member.dev_number
                && regions.describes(&header.bitmap, &chosen.geometry)
        };
        headers(examined, chosen).any(same)
    };
    for entry in ledger.entries.iter().filter(|entry| !is_told(entry)) {
        let Some(header) = &entry.header else { continue };
        for index in 0..pages.count().min(header.bitmap.page_count as usize) {
            let [a, b] = read_slots(&entry.member.device, header, index).await;
            let (a, b) = (a.unwrap_or(UNREAD), b.unwrap_or(UNREAD));
            if let Ok(old) = newest(&a, &b, header.array_uuid, index as u32) {
                pages.outdo(entry.member.dev_number, &old.page, old.slot);
            }
        }
    }
}

/// Both copies of a page of a member's bitmap.
async fn read_slots(
    device: &Arc<dyn Device>,
    header: &Header,
    index: usize,
) -> [Result<[u8; BLOCK_LEN], IoError>; 2] {
    let read = async |slot| {
        let offset = header.bitmap.offset_bytes + slot_offset_bytes(index as u32, slot);
        read_block(device, offset).await
    };
    [read(Slot::A).await, read(Slot::B).await]
}
