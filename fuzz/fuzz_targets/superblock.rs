//! md's metadata from arbitrary bytes, and any superblock through its block and back.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use stripewise_format::extension::ExtensionLayout;
use stripewise_format::md::bitmap::BitmapSuperblock;
use stripewise_format::md::{
    ArrayName, BadBlockArea, DeviceFlags, Features, Level, Reshape, Role, Roles, Superblock, Timestamp,
    badblocks,
};
use uuid::Uuid;

#[derive(Arbitrary, Debug)]
enum Input {
    /// A block as it might be read, at some sector.
    Bytes(Vec<u8>, u64),
    /// A block with its checksum made right, so that the fuzzer gets past it.
    Summed(Vec<u8>),
    /// Fields.
    Fields(Box<Fields>),
}

#[derive(Arbitrary, Debug)]
struct Fields {
    features: u32,
    uuids: (u128, u128),
    name: [u8; 32],
    times: (u64, u64),
    level: i32,
    layout: u32,
    sizes: (u64, u32, u32),
    bitmap_offset_sectors: i32,
    reshape: (i32, u64, i32, u32, u32, i32),
    places: (u64, u64, u64, u64),
    numbers: (u32, u32, u32),
    flags: u8,
    bad_blocks: (u8, u16, i32),
    state: (u64, u64),
    padding: [u8; 32],
    roles: Vec<u16>,
}

fn superblock(fields: &Fields) -> Superblock {
    let (new_level, position_sectors, delta_disks, new_layout, new_chunk_sectors, new_offset_sectors) =
        fields.reshape;
    let roles = fields.roles.iter().take(1920).map(|role| Role::from_number(*role)).collect();
    Superblock {
        features: Features::from_bits(fields.features),
        array_uuid: Uuid::from_u128(fields.uuids.0),
        name: ArrayName::from_bytes(fields.name),
        created: Timestamp::from_raw(fields.times.0),
        level: Level::from_number(fields.level),
        layout: fields.layout,
        member_size_sectors: fields.sizes.0,
        chunk_sectors: fields.sizes.1,
        raid_disks: fields.sizes.2,
        bitmap_offset_sectors: fields.bitmap_offset_sectors,
        reshape: Reshape {
            new_level,
            position_sectors,
            delta_disks,
            new_layout,
            new_chunk_sectors,
            new_offset_sectors,
        },
        data_offset_sectors: fields.places.0,
        data_size_sectors: fields.places.1,
        super_offset_sectors: fields.places.2,
        recovery_offset_sectors: fields.places.3,
        dev_number: fields.numbers.0,
        corrected_reads: fields.numbers.1,
        device_uuid: Uuid::from_u128(fields.uuids.1),
        device_flags: DeviceFlags(fields.flags),
        bad_blocks: BadBlockArea {
            shift: fields.bad_blocks.0,
            size_sectors: fields.bad_blocks.1,
            offset_sectors: fields.bad_blocks.2,
        },
        updated: Timestamp::from_raw(fields.times.1),
        events: fields.state.0,
        resync_offset_sectors: fields.state.1,
        logical_block_bytes: fields.numbers.2,
        roles: Roles::new(roles).expect("at most 1920"),
        padding: fields.padding,
    }
}

/// Everything that is asked of a superblock from a disk.
fn exercise(superblock: &Superblock, bytes: &[u8]) {
    let bitmap = BitmapSuperblock::decode(bytes).ok();
    let _ = superblock.check_supported().map_err(|error| error.to_string());
    let _ =
        (superblock.role(), superblock.array_size_sectors(), superblock.ppl(), superblock.bitmap_sector());
    let _ = superblock.metadata_extents(bitmap.as_ref()).count();
    let _ = (superblock.features.to_string(), superblock.name.to_string(), superblock.level.to_string());
    if let Some(layout) = ExtensionLayout::for_superblock(superblock) {
        let _ = layout.free_bytes();
    }
    let _ = badblocks::decode(bytes, superblock.bad_blocks.shift).count();
}

fn read(bytes: &[u8], sector: u64) {
    if let Ok(bitmap) = BitmapSuperblock::decode(bytes) {
        assert_eq!(bitmap.encode(), bytes[..256]);
        let _ = (bitmap.total_bytes(), bitmap.is_clean(&bytes[256..]), bitmap.settle(sector));
    }
    let _ = badblocks::decode(bytes, sector as u8).count();
    match Superblock::decode(bytes, sector) {
        Ok(superblock) => {
            exercise(&superblock, bytes);
            let covered = 256 + 2 * superblock.roles.max_dev() as usize;
            assert_eq!(superblock.encode()[..covered], bytes[..covered]);
        }
        Err(error) => drop(error.to_string()),
    }
}

/// The kernel's sum, written apart from the crate's.
fn summed(mut bytes: Vec<u8>) -> (Vec<u8>, u64) {
    bytes.resize(4096, 0);
    bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    let max_dev = u32::from_le_bytes(bytes[220..224].try_into().expect("4 bytes")) % 1921;
    bytes[220..224].copy_from_slice(&max_dev.to_le_bytes());
    bytes[216..220].fill(0);
    let mut sum = 0_u64;
    for (index, byte) in bytes[..256 + 2 * max_dev as usize].iter().enumerate() {
        sum += u64::from(*byte) << (8 * (index % 4));
    }
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    bytes[216..220].copy_from_slice(&sum.to_le_bytes());
    let sector = u64::from_le_bytes(bytes[144..152].try_into().expect("8 bytes"));
    (bytes, sector)
}

fuzz_target!(|input: Input| match input {
    Input::Bytes(bytes, sector) => read(&bytes, sector),
    Input::Summed(bytes) => {
        let (bytes, sector) = summed(bytes);
        assert!(Superblock::decode(&bytes, sector).is_ok());
        read(&bytes, sector);
    }
    Input::Fields(fields) => {
        let superblock = superblock(&fields);
        let block = superblock.encode();
        assert_eq!(Superblock::decode(&block, superblock.super_offset_sectors), Ok(superblock));
        read(&block, fields.places.2);
    }
});
