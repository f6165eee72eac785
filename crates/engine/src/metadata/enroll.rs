//! Giving a device the metadata of an array: superblock, extension header, empty bitmap.

use std::sync::Arc;

use stripewise_device::{Device, Env, IoError, ZeroFlags};
use stripewise_format::{
    bitmap::{Slot, pages_for_regions, slot_offset_bytes},
    extension::{
        AREA_START_BYTES, BitmapDescriptor, DATA_OFFSET_MIN_BYTES, Endurance, ExtensionLayout, Header,
        HeaderCopy, MapKind, MemberClass, Zeroing,
    },
    md::{BadBlockArea, DeviceFlags, Features, IN_SYNC, NewMember, Superblock, default_data_offset_sectors},
    media::{BLOCK_BYTES, BLOCK_LEN, SECTOR_BYTES},
};
use uuid::Uuid;

use super::{
    examine::{examine, read_block},
    ledger::{Common, Entry, Ledger, Standing, write_durably},
};
use crate::{
    error::{ArrayError, is_member_gone},
    members::{
        bad_blocks::{self, BadBlocks},
        measure::{Measured, ServiceTimes, class_of},
        member::Member,
        strides::StrideRecords,
    },
    shape::{
        geometry::{Geometry, Level},
        regions::RegionShape,
    },
};

/// Smallest region of the bitmap: one page flush should cover many writes.
const REGION_BYTES_MIN: u64 = 1 << 20;
/// Largest region, and md's default: a resync after a crash reads at least one region.
const REGION_BYTES_MAX: u64 = 64 << 20;
/// How many regions the members of a small array are cut into.
const REGIONS_AIM: u64 = 1024;
/// Bytes blanked by one write.
const BLANK_BYTES_MAX: u64 = 1 << 20;

/// A device with metadata in hand, not yet written.
pub(crate) struct Enrolled {
    pub(crate) entry: Entry,
    /// Where its bitmap will lie, if it has room for one.
    pub(crate) bitmap_offset_bytes: Option<u64>,
}

/// The regions of an array for which none were chosen.
pub(crate) fn regions_for(geometry: &Geometry) -> RegionShape {
    RegionShape { bytes: region_bytes_for(geometry), kind: MapKind::Linear }
}

/// The size of a region for members of this size.
pub(crate) fn region_bytes_for(geometry: &Geometry) -> u64 {
    let aim = (geometry.member_bytes() / REGIONS_AIM).next_power_of_two();
    aim.clamp(REGION_BYTES_MIN, REGION_BYTES_MAX).max(geometry.chunk_bytes() as u64)
}

/// The bitmap's place in an extension area. None if it does not fit, or the level needs none.
pub(crate) fn bitmap_for(
    layout: ExtensionLayout,
    geometry: &Geometry,
    regions: RegionShape,
) -> Option<BitmapDescriptor> {
    if geometry.level() == Level::Raid0 {
        return None;
    }
    let region_count = regions.count(geometry);
    let page_count = u32::try_from(pages_for_regions(region_count)).ok()?;
    let free = layout.free_bytes();
    let fits = free.start + slot_offset_bytes(page_count, Slot::A) <= free.end;
    fits.then_some(BitmapDescriptor {
        offset_bytes: free.start,
        region_bytes: regions.bytes,
        region_count,
        page_count,
        map_kind: regions.kind,
    })
}

/// The properties of a device itself: its kind, its speed and its wear.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    pub(crate) class: MemberClass,
    /// An operator gave the class.
    pub(crate) given: bool,
    pub(crate) times: ServiceTimes,
    pub(crate) strides: StrideRecords,
    pub(crate) endurance: Endurance,
    /// What trying it showed.
    pub(crate) zeroing: Zeroing,
}

impl Traits {
    /// Takes the class that an operator gave, else what the operating system and a measurement tell.
    pub(crate) fn of(device: &Arc<dyn Device>, measured: Measured, given: Option<MemberClass>) -> Self {
        let Measured { times, strides } = measured;
        let class = given.unwrap_or_else(|| class_of(device.info().media, &times));
        let (endurance, zeroing) = (Endurance::default(), Zeroing::NotTried);
        Self { class, given: given.is_some(), times, strides, endurance, zeroing }
    }

    /// Whether it was measured to rotate. What an operating system says of a device is not enough.
    pub(crate) fn is_known_to_rotate(&self) -> bool {
        self.class == MemberClass::Hdd && self.times.are_of_rotating()
    }

    /// With the endurance that an earlier array noted on the device: a device wears, whichever array it
    /// belongs to.
    pub(crate) async fn with_kept_endurance(self, device: &Arc<dyn Device>) -> Self {
        let found = examine(device.clone()).await.ok().and_then(|found| found.extension.ok());
        Self { endurance: found.map_or(self.endurance, |(header, _)| header.endurance), ..self }
    }
}

/// A header for a member with this superblock. None if there is no room for an extension area.
pub(crate) fn header_for(
    superblock: &Superblock,
    geometry: &Geometry,
    regions: RegionShape,
    traits: &Traits,
) -> Option<Header> {
    let layout = ExtensionLayout::for_superblock(superblock)?;
    let mut header = Header::new(superblock.array_uuid, superblock.device_uuid);
    header.bitmap = bitmap_for(layout, geometry, regions).unwrap_or_default();
    header.member_class = traits.class;
    header.member_class_given = traits.given;
    header.endurance = traits.endurance;
    header.zeroing = traits.zeroing;
    header.service_time_ns = traits.times.to_header();
    (header.stride_read, header.stride_write) = (traits.strides.read, traits.strides.write);
    Some(header)
}

/// The regions in use, from the first header that describes any.
pub(crate) fn kept_regions<'a>(
    headers: impl Iterator<Item = &'a Header>,
    geometry: &Geometry,
) -> RegionShape {
    let described = headers.map(|header| &header.bitmap).find(|bitmap| bitmap.region_bytes > 0);
    let shape = |bitmap: &BitmapDescriptor| RegionShape { bytes: bitmap.region_bytes, kind: bitmap.map_kind };
    described.map_or_else(|| regions_for(geometry), shape)
}

/// Where a header's bitmap lies.
pub(crate) fn bitmap_offset(header: &Option<Header>) -> Option<u64> {
    header.as_ref().filter(|h| h.bitmap.page_count > 0).map(|h| h.bitmap.offset_bytes)
}

/// A new identity, from the environment's randomness.
pub(crate) fn new_uuid(env: &dyn Env) -> Uuid {
    let random = (u128::from(env.random_u64()) << 64) | u128::from(env.random_u64());
    uuid::Builder::from_random_bytes(random.to_ne_bytes()).into_uuid()
}

/// How a device is laid out as a new member of an array.
pub(crate) fn new_member(
    device: &Arc<dyn Device>,
    chunk_sectors: u32,
    dev_number: u32,
    device_uuid: Uuid,
) -> NewMember {
    let member_sectors = device.info().size_bytes / SECTOR_BYTES;
    let data_offset_sectors = default_data_offset_sectors(member_sectors, chunk_sectors);
    NewMember { dev_number, device_uuid, member_sectors, data_offset_sectors }
}

/// Where the data begins on a device that must hold as much as the other members. The first choice is where
/// mdadm would put it today. On a device no larger than the other members, it is as far back as fits, at
/// whole MiB if possible, as with mdadm. None if even the least offset leaves too little room. The least
/// offset is 512 KiB, or what another member has.
fn data_offset_sectors(
    member_sectors: u64,
    data_sectors: u64,
    default_sectors: u64,
    least_of_others_sectors: u64,
) -> Option<u64> {
    let room = member_sectors.checked_sub(data_sectors)?;
    let least = (DATA_OFFSET_MIN_BYTES / SECTOR_BYTES).min(least_of_others_sectors);
    let whole = |unit_bytes: u64| room - room % (unit_bytes / SECTOR_BYTES);
    [default_sectors, whole(1 << 20), whole(BLOCK_BYTES)]
        .into_iter()
        .find(|offset| (least..=room).contains(offset))
}

/// A device as a spare of an open array.
pub(crate) fn spare(
    geometry: &Geometry,
    ledger: &Ledger,
    device: Arc<dyn Device>,
    traits: &Traits,
    env: &dyn Env,
) -> Result<Enrolled, ArrayError> {
    let pattern = ledger.entries.first().expect("an open array has members");
    let mut superblock = pattern.superblock.clone();
    let dev_number = ledger.free_dev_number();
    let mut new = new_member(&device, superblock.chunk_sectors, dev_number, new_uuid(env));
    let info = device.info();
    let need_bytes = geometry.member_bytes();
    let least = ledger.entries.iter().map(|entry| entry.superblock.data_offset_sectors).min();
    let offset = data_offset_sectors(
        new.member_sectors,
        need_bytes / SECTOR_BYTES,
        new.data_offset_sectors,
        least.unwrap_or(u64::MAX),
    );
    let Some(offset) = offset else {
        let have_bytes = new.member_sectors.saturating_sub(new.data_offset_sectors) * SECTOR_BYTES;
        return Err(ArrayError::TooSmall { member: info.name.clone(), have_bytes, need_bytes });
    };
    new.data_offset_sectors = offset;
    if info.logical_block_bytes > geometry.logical_block_bytes() {
        let problem = format!(
            "its logical block is {} bytes and the array's is {}; give a device with smaller blocks",
            info.logical_block_bytes,
            geometry.logical_block_bytes()
        );
        return Err(ArrayError::Member { member: info.name.clone(), problem });
    }
    superblock.features = superblock.features.without(Features::BAD_BLOCKS);
    // Write-mostly and failfast belong to a single device.
    superblock.device_flags = DeviceFlags::default();
    superblock.dev_number = new.dev_number;
    superblock.device_uuid = new.device_uuid;
    superblock.data_offset_sectors = new.data_offset_sectors;
    superblock.data_size_sectors = new.member_sectors - new.data_offset_sectors;
    superblock.super_offset_sectors = stripewise_format::md::SUPERBLOCK_SECTOR;
    superblock.resync_offset_sectors = IN_SYNC;
    superblock.corrected_reads = 0;
    if superblock.bad_block_place(info.logical_block_bytes).is_none() {
        superblock.bad_blocks = BadBlockArea::default();
    }
    let Common { options, regions } = ledger.common;
    let header =
        header_for(&superblock, geometry, regions, traits).map(|header| Header { options, ..header });
    let data_offset_bytes = new.data_offset_sectors * SECTOR_BYTES;
    let bitmap_offset_bytes = bitmap_offset(&header);
    let bad_block_log = bad_blocks::empty_log(&superblock, &device);
    let bad_blocks = BadBlocks::of_log(bad_block_log.as_ref());
    let uuid = new.device_uuid;
    let member = Member::new(device, data_offset_bytes, dev_number, uuid, header.as_ref(), bad_blocks);
    let entry = Entry {
        member,
        standing: Standing::Spare,
        superblock,
        header,
        first_copy: HeaderCopy::A,
        md_bitmap: pattern.md_bitmap,
        has_md_bitmap: false,
        bad_block_log,
        last_slot: None,
    };
    Ok(Enrolled { entry, bitmap_offset_bytes })
}

/// Blanks what an earlier use of the device may have left around the superblock: signatures of file systems
/// and partition tables, which other programs would still find, and bitmap pages, which must never be taken
/// for ours. A blank page counts as "everything may disagree".
///
/// Also tries what zeroing does, at the place where the extension header will lie.
pub(crate) async fn blank(entry: &Entry) -> Result<Zeroing, ArrayError> {
    let io = |error| ArrayError::Io { member: entry.member.name().to_owned(), error };
    let superblock_start = entry.superblock.super_offset_sectors * SECTOR_BYTES;
    let mut ranges = vec![0..superblock_start, superblock_start + BLOCK_BYTES..AREA_START_BYTES];
    if let Some(header) = entry.header.as_ref().filter(|h| h.bitmap.page_count > 0) {
        let start = header.bitmap.offset_bytes;
        ranges.push(start..start + slot_offset_bytes(header.bitmap.page_count, Slot::A));
    }
    let data_start = entry.member.data_offset_bytes;
    for range in ranges {
        let end = range.end.min(data_start);
        for start in (range.start..end).step_by(BLANK_BYTES_MAX as usize) {
            let zeroes = vec![0; (end - start).min(BLANK_BYTES_MAX) as usize];
            write_durably(&entry.member, start, &zeroes).await.map_err(io)?;
        }
    }
    if entry.header.is_none() {
        return Ok(Zeroing::NotTried);
    }
    try_zeroing(&entry.member).await.map_err(io)
}

/// Finds out what zeroing a range of a device does. Overwrites the place of the extension header's first
/// copy.
async fn try_zeroing(member: &Member) -> Result<Zeroing, IoError> {
    if member.device.info().unmaps == Some(false) {
        return Ok(Zeroing::Writes);
    }
    write_durably(member, AREA_START_BYTES, &[0xa5; BLOCK_LEN]).await?;
    let flags = ZeroFlags { may_unmap: true, fast_only: true };
    match member.device.write_zeroes(AREA_START_BYTES, BLOCK_BYTES, flags).await {
        Err(error) if is_member_gone(&error) => return Err(error),
        // Some bridges answer with an arbitrary error. The request serves only to find out.
        Err(_) => return Ok(Zeroing::Writes),
        Ok(()) => {}
    }
    let found = read_block(&member.device, AREA_START_BYTES).await?;
    Ok(if found == [0; BLOCK_LEN] { Zeroing::Unmaps } else { Zeroing::Writes })
}

#[cfg(test)]
mod tests {
    use stripewise_device::memory::MemoryDevice;
    use stripewise_sim::World;

    use super::*;
    use crate::{Array, CreateOptions, plan::selection::policy, shape::geometry::Level};

    const MIB: u64 = (1 << 20) / SECTOR_BYTES;

    #[test]
    fn data_begins_where_it_fits() {
        let begins = |room: u64, least| data_offset_sectors(1000 * MIB + room, 1000 * MIB, 16 * MIB, least);
        assert_eq!(begins(20 * MIB, MIB), Some(16 * MIB), "where mdadm puts it today");
        assert_eq!(begins(16 * MIB - 1, MIB), Some(15 * MIB), "the most that fits, in whole MiB");
        assert_eq!(begins(MIB, MIB), Some(MIB), "as far back as an equal disk has it");
        assert_eq!(begins(MIB - 1, MIB), Some(MIB - 8), "in whole blocks below that");
        assert_eq!((begins(MIB / 2, MIB), begins(MIB / 2 - 1, MIB)), (Some(MIB / 2), None));
        assert_eq!(begins(64, 64), Some(64), "an equal disk of members with still less");
        assert_eq!(data_offset_sectors(5, 6, 1, 1), None);
    }
    /// What the array's headers said stays known, even if no member has an extension header any more.
    #[test]
    fn a_member_gets_the_array_s_options_though_no_other_has_a_header() {
        let world = World::new(1);
        let memory = |name: &str| Arc::new(MemoryDevice::new(name, 3 << 20)) as Arc<dyn Device>;
        let mut options = CreateOptions::new("host:array", Level::Raid5, ["a", "b", "c"].map(memory).into());
        options.policy = Some(policy("cost").unwrap());
        options.region_bytes = Some(256 << 10);
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        let header = world.run(async move {
            let forget =
                |ledger: &mut Ledger| ledger.entries.iter_mut().for_each(|entry| entry.header = None);
            array.parts().roster.record(forget).await.unwrap();
            let device = memory("d");
            let traits = Traits::of(&device, Measured::default(), None);
            let (env, geometry) = (array.env().clone(), array.geometry());
            let spare = |ledger: &Ledger| spare(&geometry, ledger, device, &traits, &*env).unwrap();
            array.parts().roster.look(|ledger, _| spare(ledger)).await.entry.header.unwrap()
        });
        assert_eq!(header.options.selection_policy, policy("cost").unwrap().number);
        assert_eq!(header.bitmap.region_bytes, 256 << 10);
    }
}
