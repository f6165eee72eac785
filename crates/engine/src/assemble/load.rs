//! From the members chosen to the state of an open array: topology, ledger, bitmap.

use std::collections::BTreeMap;

use stripewise_format::{
    bitmap::{NoPage, Slot, newest, slot_offset_bytes},
    extension::{Header, SuperblockOrigin},
    md::{Role, bitmap::BitmapSuperblock},
    media::SECTOR_BYTES,
};

use super::{
    AssembleError, AssembleOptions,
    choose::{Chosen, Part},
};
use crate::{
    enroll,
    error::ArrayError,
    examine::{Examination, read_block},
    geometry::Level,
    intent::{Intent, Pages, RegionMap},
    ledger::{Entry, Ledger, Standing},
    topology::{Incoming, Member, Recorded, SlotState, Topology},
};

/// The state of an array about to be opened.
pub(super) struct Loaded {
    pub(super) topology: Topology,
    pub(super) ledger: Ledger,
    pub(super) intent: Option<Intent>,
    pub(super) bitmap_offsets: BTreeMap<u32, u64>,
}

pub(super) async fn load(
    examined: &[Examination],
    chosen: &Chosen,
    options: &AssembleOptions,
) -> Result<Loaded, AssembleError> {
    let fresh = &examined[chosen.freshest].superblock;
    let region_bytes = region_bytes(examined, chosen);
    let mut slots = vec![SlotState::default(); chosen.geometry.members()];
    let mut entries = Vec::new();
    for part in &chosen.parts {
        let mut entry = entry(examined, chosen, *part, region_bytes);
        entry.md_bitmap = load_md_bitmap(&entry).await;
        match entry.standing {
            Standing::Active(slot) => slots[slot.0].primary = Some(entry.member.clone()),
            Standing::Incoming { slot, done_sectors, .. } => {
                let done = done_sectors * SECTOR_BYTES / chosen.geometry.chunk_bytes() as u64;
                slots[slot.0].incoming = Some(Incoming::new(entry.member.clone(), done));
            }
            Standing::Spare | Standing::Faulty => {}
        }
        entries.push(entry);
    }
    let mut ledger = Ledger { entries, events: fresh.events, clean: fresh.is_in_sync() };
    forget_absent(&mut ledger, chosen);
    let topology = Topology { slots, failed: false, recorded: Recorded::already() };
    let offsets = |entry: &Entry| Some((entry.member.dev_number, enroll::bitmap_offset(&entry.header)?));
    let bitmap_offsets = ledger.entries.iter().filter_map(offsets).collect();
    let intent = load_intent(examined, chosen, region_bytes, ledger.clean).await?;
    let stale = intent.as_ref().is_some_and(|intent| intent.stale_regions().next().is_some());
    let needs_parity = chosen.geometry.level() != Level::Raid1 && topology.degraded() > 0;
    if stale && needs_parity && !options.force && !options.read_only {
        return Err(AssembleError::DirtyDegraded);
    }
    Ok(Loaded { topology, ledger, intent, bitmap_offsets })
}

/// The region size in use, from whatever header has one.
fn region_bytes(examined: &[Examination], chosen: &Chosen) -> u64 {
    headers(examined, chosen)
        .map(|(_, header)| header.bitmap.region_bytes)
        .find(|bytes| *bytes > 0)
        .unwrap_or_else(|| enroll::region_bytes_for(&chosen.geometry))
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

fn entry(examined: &[Examination], chosen: &Chosen, part: Part, region_bytes: u64) -> Entry {
    let (index, standing) = match part {
        Part::Active { slot, index } => (index, Standing::Active(slot)),
        Part::Spare { index } => (index, Standing::Spare),
        Part::Incoming { slot, index, done_sectors, replacing } => {
            (index, Standing::Incoming { slot, done_sectors, replacing })
        }
    };
    let Examination { device, superblock, extension, .. } = &examined[index];
    let mut superblock = superblock.clone();
    superblock.roles = examined[chosen.freshest].superblock.roles.clone();
    let header = match extension {
        Ok((header, _)) => Some(header.clone()),
        // A plain md member, or one whose area is damaged: it gets a new one with the next change of state.
        Err(_) => enroll::header_for(&superblock, &chosen.geometry, region_bytes, device.info().media),
    };
    let offset = superblock.data_offset_sectors * SECTOR_BYTES;
    let member = Member::new(device.clone(), offset, superblock.dev_number, superblock.device_uuid);
    Entry { member, standing, superblock, header, md_bitmap: None, last_slot: None }
}

/// md's own bitmap's superblock, if the array was made with one.
async fn load_md_bitmap(entry: &Entry) -> Option<BitmapSuperblock> {
    let offset = entry.superblock.bitmap_sector()?.checked_mul(SECTOR_BYTES)?;
    let block = read_block(&entry.member.device, offset).await.ok()?;
    BitmapSuperblock::decode(&block).ok()
}

/// Members that the table calls active and that are not here have failed: were they to come back after we wrote,
/// they must not be taken for current.
fn forget_absent(ledger: &mut Ledger, chosen: &Chosen) {
    let present: Vec<u32> = ledger.entries.iter().map(|entry| entry.member.dev_number).collect();
    let Some(first) = ledger.entries.first() else { return };
    let absent: Vec<u32> = (0..first.superblock.roles.max_dev())
        .filter(|number| matches!(first.superblock.roles.of(*number), Some(Role::Active(slot)) if usize::from(slot) < chosen.geometry.members()))
        .filter(|number| !present.contains(number))
        .collect();
    absent.into_iter().for_each(|number| ledger.set_role(number, Role::Faulty));
}

/// The bitmap as the members have it: what may disagree after a crash.
async fn load_intent(
    examined: &[Examination],
    chosen: &Chosen,
    region_bytes: u64,
    clean: bool,
) -> Result<Option<Intent>, AssembleError> {
    if chosen.geometry.level() == Level::Raid0 {
        return Ok(None);
    }
    let map = RegionMap::new(&chosen.geometry, region_bytes);
    let uuid = examined[chosen.freshest].superblock.array_uuid;
    let mut pages = Pages::new(uuid, map.regions(), !clean);
    let missing = load_pages(examined, chosen, &mut pages).await?;
    if clean {
        pages.clear_all();
        return Ok(Some(Intent::new(map, pages)));
    }
    let foreign = (0..chosen.geometry.members())
        .filter_map(|slot| chosen.active(slot))
        .any(|index| examined[index].origin == SuperblockOrigin::Foreign);
    if foreign {
        tracing::warn!(
            "another md implementation wrote this array last and did not stop it cleanly: full resync"
        );
        pages.mark_all();
    } else {
        missing.into_iter().for_each(|page| pages.mark_page(page));
    }
    Ok(Some(Intent::new(map, pages)))
}

/// Loads every page from all members that hold it, and names the pages that none does.
async fn load_pages(
    examined: &[Examination],
    chosen: &Chosen,
    pages: &mut Pages,
) -> Result<Vec<usize>, AssembleError> {
    let mut missing = Vec::new();
    for index in 0..pages.count() {
        let mut found = false;
        for (examination, header) in headers(examined, chosen) {
            if index >= header.bitmap.page_count as usize {
                continue;
            }
            let read = async |slot| {
                let offset = header.bitmap.offset_bytes + slot_offset_bytes(index as u32, slot);
                read_block(&examination.device, offset).await.map_err(|error| {
                    AssembleError::Array(ArrayError::Io {
                        member: examination.device.info().name.clone(),
                        error,
                    })
                })
            };
            let (a, b) = (read(Slot::A).await?, read(Slot::B).await?);
            let page: Result<_, NoPage> = newest(&a, &b, header.array_uuid, index as u32);
            if let Ok(page) = page {
                pages.load(examination.superblock.dev_number, &page.page, page.slot);
                found = true;
            }
        }
        if !found {
            missing.push(index);
        }
    }
    Ok(missing)
}
