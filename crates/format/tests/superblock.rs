//! The md superblock: what is written is read back, whatever the fields; arbitrary bytes give errors; flips
//! are seen.

#![allow(missing_docs, clippy::unwrap_used)]

use proptest::prelude::*;
use stripewise_format::md::{
    ArrayName, BadBlockArea, DeviceFlags, Features, IN_SYNC, Level, MAX_DEVICES, NewArray, NewMember,
    Reshape, Role, Roles, SUPERBLOCK_SECTOR, Superblock, SuperblockError, Timestamp, Unsupported,
    default_data_offset_sectors,
};
use stripewise_format::media::BLOCK_LEN;
use uuid::Uuid;

prop_compose! {
    fn reshape()(new_level: i32, position_sectors: u64, delta_disks: i32, rest: (u32, u32, i32)) -> Reshape {
        let (new_layout, new_chunk_sectors, new_offset_sectors) = rest;
        Reshape { new_level, position_sectors, delta_disks, new_layout, new_chunk_sectors, new_offset_sectors }
    }
}

prop_compose! {
    fn array()(
        bits: u32, uuid: u128, name: [u8; 32], created: u64, level: i32, layout: u32, size: u64, chunk: u32,
        disks: u32, bitmap: i32, reshape in reshape(),
    ) -> Superblock {
        Superblock {
            features: Features::from_bits(bits),
            array_uuid: Uuid::from_u128(uuid),
            name: ArrayName::from_bytes(name),
            created: Timestamp::from_raw(created),
            level: Level::from_number(level),
            layout,
            member_size_sectors: size,
            chunk_sectors: chunk,
            raid_disks: disks,
            bitmap_offset_sectors: bitmap,
            reshape,
            ..plain(Level::Raid5)
        }
    }
}

prop_compose! {
    /// Every field at random, also where they make no sense together.
    fn any_superblock()(
        array in array(), places: (u64, u64, u64, u64), numbers: (u32, u32, u32), uuid: u128, flags: u8,
        bad_blocks: (u8, u16, i32), state: (u64, u64, u64), padding: [u8; 32],
        roles in prop::collection::vec(any::<u16>(), 0..=MAX_DEVICES as usize),
    ) -> Superblock {
        let (data_offset_sectors, data_size_sectors, super_offset_sectors, recovery_offset_sectors) = places;
        Superblock {
            data_offset_sectors,
            data_size_sectors,
            super_offset_sectors,
            recovery_offset_sectors,
            dev_number: numbers.0,
            corrected_reads: numbers.1,
            logical_block_bytes: numbers.2,
            device_uuid: Uuid::from_u128(uuid),
            device_flags: DeviceFlags(flags),
            bad_blocks: BadBlockArea {
                shift: bad_blocks.0, size_sectors: bad_blocks.1, offset_sectors: bad_blocks.2,
            },
            updated: Timestamp::from_raw(state.0),
            events: state.1,
            resync_offset_sectors: state.2,
            roles: Roles::new(roles.into_iter().map(Role::from_number).collect()).unwrap(),
            padding,
            ..array
        }
    }
}

fn new_array(level: Level) -> NewArray {
    NewArray {
        array_uuid: Uuid::from_u128(7),
        name: ArrayName::new("host:array").unwrap(),
        created: Timestamp::new(1_700_000_000, 0),
        level,
        layout: NewArray::default_layout(level),
        chunk_sectors: if level == Level::Raid1 { 0 } else { 128 },
        member_size_sectors: if level == Level::Raid0 { 0 } else { 1 << 17 },
        in_sync: true,
        roles: (0..4).map(Role::Active).collect(),
        raid_disks: 4,
    }
}

fn new_member() -> NewMember {
    NewMember {
        dev_number: 1,
        device_uuid: Uuid::from_u128(8),
        member_sectors: 1 << 18,
        data_offset_sectors: default_data_offset_sectors(1 << 18, 128),
    }
}

fn plain(level: Level) -> Superblock {
    new_array(level).superblock(&new_member()).unwrap()
}

/// Uses everything a caller would call on a superblock from a disk.
fn exercise(superblock: &Superblock) {
    let _ = (superblock.check_supported(), superblock.role(), superblock.array_size_sectors());
    let _ = (superblock.ppl(), superblock.metadata_extents(None).count(), superblock.features.to_string());
    let _ = stripewise_format::extension::ExtensionLayout::for_superblock(superblock);
}

proptest! {
    #[test]
    fn what_is_written_is_read(superblock in any_superblock()) {
        let block = superblock.encode();
        let read = Superblock::decode(&block, superblock.super_offset_sectors).unwrap();
        prop_assert_eq!(&read, &superblock);
        prop_assert_eq!(read.encode(), block);
        exercise(&read);
    }

    #[test]
    fn a_flipped_bit_is_seen(superblock in any_superblock(), at: prop::sample::Index, bit in 0..8_u32) {
        let mut block = superblock.encode();
        let covered = 256 + 2 * superblock.roles.as_slice().len();
        block[at.index(covered)] ^= 1 << bit;
        prop_assert!(Superblock::decode(&block, superblock.super_offset_sectors).is_err());
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..5000), sector: u64) {
        let _ = Superblock::decode(&bytes, sector);
    }

    #[test]
    fn a_block_cut_short_is_an_error(superblock in any_superblock(), length in 0..BLOCK_LEN) {
        let block = superblock.encode();
        let covered = 256 + 2 * superblock.roles.as_slice().len();
        let read = Superblock::decode(&block[..length], superblock.super_offset_sectors);
        prop_assert_eq!(read.is_ok(), length >= covered);
    }
}

#[test]
fn what_is_wrong_is_named() {
    let block = plain(Level::Raid5).encode();
    let with = |at: usize, bytes: &[u8]| {
        let mut block = block;
        block[at..at + bytes.len()].copy_from_slice(bytes);
        Superblock::decode(&block, SUPERBLOCK_SECTOR).unwrap_err()
    };
    assert_eq!(with(0, &[0; 4]), SuperblockError::NoMagic { found: 0 });
    assert_eq!(with(4, &[2]), SuperblockError::MajorVersion { found: 2 });
    assert_eq!(with(220, &1921_u32.to_le_bytes()), SuperblockError::MaxDevices { found: 1921 });
    assert!(matches!(with(200, &[9]), SuperblockError::Checksum { .. }));
    let misplaced = Superblock::decode(&block, 16).unwrap_err();
    assert_eq!(misplaced, SuperblockError::Misplaced { recorded: 8, read_at: 16 });
}

#[test]
fn each_level_of_ours_is_supported() {
    for level in [Level::Raid0, Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6] {
        let superblock = plain(level);
        assert_eq!(superblock.resync_offset_sectors, IN_SYNC);
        assert_eq!(superblock.check_supported(), Ok(()));
    }
    assert_eq!(plain(Level::Raid6).array_size_sectors(), Some(2 << 17));
    assert_eq!(plain(Level::Raid1).array_size_sectors(), Some(1 << 17));
    assert_eq!(plain(Level::Raid0).array_size_sectors(), None);
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    let refused = |change: fn(&mut Superblock)| {
        let mut superblock = plain(Level::Raid5);
        change(&mut superblock);
        superblock.check_supported().unwrap_err()
    };
    for bit in [4, 32, 64, 256, 512, 1024, 2048] {
        let mut superblock = plain(Level::Raid5);
        superblock.features = Features::from_bits(bit);
        let error = superblock.check_supported().unwrap_err();
        assert_eq!(error, Unsupported::Feature(Features::from_bits(bit)));
        assert!(error.to_string().contains(&Features::from_bits(bit).to_string()));
    }
    let unknown = refused(|superblock| superblock.features = Features::from_bits(1 << 13));
    assert_eq!(unknown, Unsupported::UnknownFeatures { bits: 1 << 13 });
    assert_eq!(refused(|superblock| superblock.padding[31] = 1), Unsupported::Padding);
    let level = refused(|superblock| superblock.level = Level::Other(10));
    assert_eq!(level, Unsupported::Level(Level::Other(10)));
    assert!(matches!(refused(|superblock| superblock.layout = 0), Unsupported::Layout { layout: 0, .. }));
    // mdadm leaves 5 there when it grows a level 0.
    let mut of_level_4 = plain(Level::Raid4);
    of_level_4.layout = 5;
    assert_eq!(of_level_4.check_supported(), Ok(()));
    assert!(matches!(refused(|superblock| superblock.chunk_sectors = 24), Unsupported::Chunk { .. }));
    assert!(matches!(refused(|superblock| superblock.raid_disks = 1), Unsupported::Members { .. }));
    assert!(matches!(refused(|superblock| superblock.data_size_sectors = 5), Unsupported::Size { .. }));
    assert!(matches!(
        refused(|superblock| superblock.data_offset_sectors = 8),
        Unsupported::DataOffset { .. }
    ));
    for bytes in [3, 256, 5000] {
        let mut superblock = plain(Level::Raid5);
        superblock.logical_block_bytes = bytes;
        assert_eq!(superblock.check_supported(), Err(Unsupported::LogicalBlock { bytes }));
    }
    // Four roles, of which this member has number 1, in an array of four: slot 1 is the array's.
    let slot = refused(|superblock| superblock.roles.set(1, Role::Active(4)).unwrap());
    assert_eq!(slot, Unsupported::Slot { slot: 4, raid_disks: 4 });
}

#[test]
fn a_member_too_small_is_refused() {
    let small = NewMember { member_sectors: 1 << 17, ..new_member() };
    assert!(new_array(Level::Raid5).superblock(&small).is_err());
    let no_data = NewMember { member_sectors: 2048, ..new_member() };
    assert!(new_array(Level::Raid0).superblock(&no_data).is_err());
    let many = NewArray { roles: vec![Role::Spare; 1921], ..new_array(Level::Raid5) };
    assert!(many.superblock(&new_member()).is_err());
}
