//! The extension area: what is written is read back; the right copy is chosen; parts lie where they may.

#![allow(missing_docs, clippy::unwrap_used)]

use proptest::prelude::*;
use stripewise_format::crc::crc32c_with_hole;
use stripewise_format::extension::*;
use stripewise_format::md::{ArrayName, Level, NewArray, NewMember, Role, Superblock, Timestamp};
use stripewise_format::media::Block;
use uuid::Uuid;

const BLANK: Block = [0; 4096];

prop_compose! {
    fn any_parts()(
        bitmap: (u64, u64, u64, u32), distributed: bool, log: (u64, u64), job in 0..JobKind::ALL.len(),
        paused: bool, progress: (u64, u64), policies: [u8; 4], speeds: (u32, u32),
        cache: (u64, u32, u32, u32), cache_choices: [u8; 8],
    ) -> (BitmapDescriptor, LogDescriptor, Job, ArrayOptions) {
        let (offset_bytes, region_bytes, region_count, page_count) = bitmap;
        let map_kind = if distributed { MapKind::Distributed } else { MapKind::Linear };
        let [selection_policy, cache_policy, locking_policy, consistency_policy] = policies;
        (
            BitmapDescriptor { offset_bytes, region_bytes, region_count, page_count, map_kind },
            LogDescriptor { offset_bytes: log.0, length_bytes: log.1 },
            Job { kind: JobKind::ALL[job], paused, position_bytes: progress.0, mismatches: progress.1 },
            ArrayOptions {
                cache: CacheOptions {
                    size_bytes: cache.0, age_ms: cache.1, idle_ms: cache.2, flush_ms: cache.3, when: cache_choices[0],
                    what: cache_choices[1], high_percent: cache_choices[2], low_percent: cache_choices[3],
                    read: cache_choices[4], alloc: cache_choices[5], past: cache_choices[6],
                    gaps: cache_choices[7], is_open: cache_choices[6] > 127,
                },
                selection_policy, cache_policy, locking_policy, consistency_policy,
                speed_min_kib_per_s: speeds.0, speed_max_kib_per_s: speeds.1,
            },
        )
    }
}

prop_compose! {
    fn any_strides()(
        s_max: u32, s_max_given: bool, except: [[u8; 2]; STRIDE_REGIONS], times in prop::collection::vec(any::<u16>(), STRIDES),
    ) -> StrideRecord {
        StrideRecord { s_max, s_max_given, except, times: times.try_into().unwrap() }
    }
}

prop_compose! {
    fn any_header()(
        uuids: (u128, u128), generation: u64, masks: (u32, u32), crcs: (u32, u32), parts in any_parts(),
        class in 0..MemberClass::ALL.len(), given: bool,
        service_time_ns: [u32; SERVICE_TIMES], strides in [any_strides(), any_strides()], endurance: (u64, u64, u64, u64, u32),
    ) -> Header {
        let (bitmap, log, job, options) = parts;
        Header {
            compat: CompatFeatures(masks.0),
            ro_compat: ReadOnlyCompatFeatures(masks.1),
            generation,
            superblock_crc_current: crcs.0,
            superblock_crc_previous: crcs.1,
            bitmap,
            log,
            member_class: MemberClass::ALL[class],
            member_class_given: given,
            zeroing: Zeroing::ALL[class % Zeroing::ALL.len()],
            service_time_ns,
            stride_read: strides[0],
            stride_write: strides[1],
            job,
            options,
            endurance: Endurance {
                rated_write_bytes: endurance.0,
                written_bytes: endurance.1,
                written_since_s: endurance.2,
                warranty_end_s: endurance.3,
                warranty_margin_days: endurance.4,
            },
            ..Header::new(Uuid::from_u128(uuids.0), Uuid::from_u128(uuids.1))
        }
    }
}

/// A header's block with one byte changed and the CRC made right again: what a later version could have
/// written.
fn with_byte(header: &Header, at: usize, byte: u8) -> Block {
    let mut block = header.encode();
    block[at] = byte;
    let crc = crc32c_with_hole(&block, 16);
    block[16..20].copy_from_slice(&crc.to_le_bytes());
    block
}

fn header() -> Header {
    Header { generation: 5, ..Header::new(Uuid::from_u128(1), Uuid::from_u128(2)) }
}

fn older() -> Header {
    Header { generation: 4, ..header() }
}

proptest! {
    #[test]
    fn what_is_written_is_read(header in any_header()) {
        let block = header.encode();
        let read = Header::decode(&block).unwrap();
        prop_assert_eq!(&read, &header);
        prop_assert_eq!(read.encode(), block);
        let _ = ExtensionLayout::for_data_offset(1 << 20).unwrap().check(&read);
    }

    #[test]
    fn a_flipped_bit_is_seen(header in any_header(), at in 0_usize..4096, bit in 0..8_u32) {
        let mut block = header.encode();
        block[at] ^= 1 << bit;
        prop_assert!(Header::decode(&block).is_err());
    }

    #[test]
    fn any_bytes_are_read(a in prop::collection::vec(any::<u8>(), 0..5000), b in prop::collection::vec(any::<u8>(), 4096)) {
        prop_assert!(choose(&a, &b).is_err());
    }

    #[test]
    fn any_fields_with_a_right_crc_are_read(header in any_header(), at in 0_usize..4096, byte: u8) {
        let block = with_byte(&header, at, byte);
        if let Ok((read, _)) = choose(&block, &BLANK) {
            let _ = ExtensionLayout::for_data_offset(1 << 20).unwrap().check(&read);
            prop_assert_eq!(Header::decode(&read.encode()).unwrap(), read);
        }
    }

    /// A torn write: any mix of old and new sectors leaves the other copy to be believed.
    #[test]
    fn a_torn_copy_loses_to_the_whole_one(new in any_header(), arrived in prop::collection::vec(any::<bool>(), 8)) {
        let old = header();
        let mut torn = old.encode();
        for (sector, bytes) in new.encode().chunks(512).enumerate().filter(|(sector, _)| arrived[*sector]) {
            torn[sector * 512..(sector + 1) * 512].copy_from_slice(bytes);
        }
        // Copy A is written first; until it is durable, B holds the old one.
        match choose(&torn, &old.encode()) {
            Ok((read, _)) => prop_assert!(read == old || read == new),
            Err(error) => {
                let same_generation = matches!(error, ExtensionError::Conflict { generation: 5 });
                prop_assert!(same_generation && new.generation == 5);
            }
        }
    }
}

#[test]
fn the_newest_whole_copy_counts() {
    let (new, old) = (header().encode(), older().encode());
    let mut torn = new;
    torn[4095] ^= 1;
    let used = |a: &Block, b: &Block| choose(a, b).map(|(header, state)| (header.generation, state));
    let (generation, state) = used(&new, &new).unwrap();
    assert_eq!((generation, state.other, state.to_rewrite()), (5, OtherCopy::Same, None));
    let (generation, state) = used(&new, &old).unwrap();
    assert_eq!((generation, state.used, state.to_rewrite()), (5, HeaderCopy::A, Some(HeaderCopy::B)));
    assert_eq!(state.other, OtherCopy::Older { generation: 4 });
    let (generation, state) = used(&old, &new).unwrap();
    assert_eq!((generation, state.used, state.to_rewrite()), (5, HeaderCopy::B, Some(HeaderCopy::A)));
    let (generation, state) = used(&torn, &old).unwrap();
    assert_eq!((generation, state.used), (4, HeaderCopy::B));
    assert!(matches!(state.other, OtherCopy::Invalid(HeaderError::Crc { .. })));
    let (_, state) = used(&new, &BLANK).unwrap();
    assert_eq!(
        (state.other, state.to_rewrite()),
        (OtherCopy::Invalid(HeaderError::Blank), Some(HeaderCopy::B))
    );
}

#[test]
fn absent_damaged_and_conflicting_are_told_apart() {
    assert_eq!(choose(&BLANK, &BLANK).unwrap_err(), ExtensionError::Absent);
    let damaged = choose(&[7; 4096], &BLANK).unwrap_err();
    assert_eq!(damaged, ExtensionError::BothDamaged { a: HeaderError::NoMagic, b: HeaderError::Blank });
    let other = Header { service_time_ns: [1; SERVICE_TIMES], ..header() };
    let conflict = choose(&header().encode(), &other.encode()).unwrap_err();
    assert_eq!(conflict, ExtensionError::Conflict { generation: 5 });
}

#[test]
fn later_versions_are_respected() {
    // An unknown incompatible feature in the newest copy is not undone by taking the older one.
    let incompatible = Header { incompat: IncompatFeatures(2), ..header() };
    let error = choose(&incompatible.encode(), &older().encode()).unwrap_err();
    assert_eq!(error, ExtensionError::Unusable(HeaderError::Incompatible(UnknownFeatures { bits: 2 })));
    assert!(Header { ro_compat: ReadOnlyCompatFeatures(1), ..header() }.check_writable().is_err());
    assert!(Header { compat: CompatFeatures(1), ..header() }.check_writable().is_ok());
    let newer = Header::decode(&with_byte(&header(), 8, 2));
    assert_eq!(newer.unwrap_err(), HeaderError::Version { found: 2 });
    // Bytes in the tail are carried.
    let block = with_byte(&header(), 4000, 9);
    assert_eq!(Header::decode(&block).unwrap().encode(), block);
}

#[test]
fn values_without_meaning_are_named() {
    for (at, field) in [
        (108, "bitmap_slots_per_page"),
        (110, "bitmap_map_kind"),
        (128, "member_class"),
        (129, "member_class_given"),
        (176, "job_kind"),
        (177, "job_paused"),
    ] {
        let error = Header::decode(&with_byte(&header(), at, 77)).unwrap_err();
        assert_eq!(error, HeaderError::Field(FieldError { field, value: 77 }));
    }
    let advice = Header::decode(&with_byte(&header(), 130, 77)).unwrap();
    assert_eq!(advice.zeroing, Zeroing::NotTried, "what is advice closes no array");
}

#[test]
fn the_area_needs_half_a_mebibyte_before_the_data() {
    assert_eq!(ExtensionLayout::for_data_offset((512 << 10) - 4096), None);
    assert_eq!(ExtensionLayout::for_data_offset((1 << 20) + 512), None);
    let layout = ExtensionLayout::for_data_offset(512 << 10).unwrap();
    assert_eq!(layout.header_offset_bytes(HeaderCopy::A), 256 << 10);
    assert_eq!(layout.header_offset_bytes(HeaderCopy::B), (512 << 10) - 4096);
    assert_eq!(layout.free_bytes(), (260 << 10)..(508 << 10));
}

#[test]
fn parts_lie_between_the_copies() {
    let layout = ExtensionLayout::for_data_offset(1 << 20).unwrap();
    let bitmap = BitmapDescriptor {
        offset_bytes: 260 << 10,
        region_bytes: 64 << 20,
        region_count: 40_000,
        page_count: 2,
        map_kind: MapKind::Linear,
    };
    let good =
        Header { bitmap, log: LogDescriptor { offset_bytes: 276 << 10, length_bytes: 4096 }, ..header() };
    assert_eq!(layout.check(&header()), Ok(()));
    assert_eq!(layout.check(&good), Ok(()));
    let with_bitmap = |bitmap| layout.check(&Header { bitmap, ..good.clone() }).unwrap_err();
    let count = with_bitmap(BitmapDescriptor { page_count: 1, ..bitmap });
    assert_eq!(count, LayoutError::PageCount { region_count: 40_000, page_count: 1, need: 2 });
    assert!(matches!(
        with_bitmap(BitmapDescriptor { offset_bytes: 256 << 10, ..bitmap }),
        LayoutError::Outside { .. }
    ));
    assert!(matches!(
        with_bitmap(BitmapDescriptor { region_bytes: 0, ..bitmap }),
        LayoutError::RegionBytes { .. }
    ));
    let log = LogDescriptor { offset_bytes: 272 << 10, length_bytes: 8192 };
    assert_eq!(layout.check(&Header { log, ..good.clone() }), Err(LayoutError::Overlap));
    // A part at the end of all addresses once counted as one of no length.
    for offset_bytes in [u64::MAX, u64::MAX - 4095] {
        assert!(matches!(
            with_bitmap(BitmapDescriptor { offset_bytes, ..bitmap }),
            LayoutError::Outside { part: "bitmap", end: u64::MAX, .. }
        ));
    }
    let log = LogDescriptor { offset_bytes: u64::MAX - 4095, length_bytes: u64::MAX };
    assert!(matches!(layout.check(&Header { log, ..good }), Err(LayoutError::Outside { part: "log", .. })));
}

fn superblock(data_offset_sectors: u64) -> Superblock {
    let array = NewArray {
        array_uuid: Uuid::from_u128(1),
        name: ArrayName::new("x").unwrap(),
        created: Timestamp::default(),
        level: Level::Raid1,
        layout: 0,
        chunk_sectors: 0,
        member_size_sectors: 8192,
        in_sync: true,
        roles: vec![Role::Active(0)],
        raid_disks: 1,
    };
    let member = NewMember {
        dev_number: 0,
        device_uuid: Uuid::from_u128(2),
        member_sectors: 1 << 20,
        data_offset_sectors,
    };
    array.superblock(&member).unwrap()
}

#[test]
fn no_area_where_md_keeps_something() {
    assert!(ExtensionLayout::for_superblock(&superblock(1024)).is_some());
    assert!(ExtensionLayout::for_superblock(&superblock(512)).is_none());
    let mut moved = superblock(2048);
    moved.bad_blocks.offset_sectors = 2048 - 16;
    assert!(ExtensionLayout::for_superblock(&moved).is_none());
}

#[test]
fn who_wrote_the_superblock_last() {
    let mut header = header();
    let (before, after) = (superblock(1024).encode(), superblock(2048).encode());
    header.expect_superblock(&before);
    header.expect_superblock(&after);
    assert_eq!(header.superblock_origin(&after), SuperblockOrigin::Current);
    assert_eq!(header.superblock_origin(&before), SuperblockOrigin::Previous);
    assert_eq!(header.superblock_origin(&BLANK), SuperblockOrigin::Foreign);
}
