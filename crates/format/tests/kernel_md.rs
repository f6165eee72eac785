//! Our reading and writing of md's metadata, held against the real mdadm and the real kernel md, which run in
//! a guest (`tests/uml/run-guest`) over files. Skipped, loudly, where that is not installed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};

use common::*;
use stripewise_format::extension::{ExtensionLayout, Header, HeaderCopy};
use stripewise_format::md::bitmap::BitmapSuperblock;
use stripewise_format::md::{
    ArrayName, Features, IN_SYNC, Level, NewArray, NewMember, Role, SUPERBLOCK_SECTOR, Superblock, Timestamp,
    default_data_offset_sectors,
};
use stripewise_format::media::SECTOR_BYTES;
use uuid::Uuid;

const MEMBER_BYTES: u64 = 48 << 20;
const MEMBER_SECTORS: u64 = MEMBER_BYTES / SECTOR_BYTES;
const CHUNK_SECTORS: u32 = 128;
const CHUNK_LEN: usize = 64 << 10;
/// 41 chunks and a bit: several stripes of every array here, the last one not full.
const DATA_LEN: usize = 41 * CHUNK_LEN + 4096;

struct Array {
    level: Level,
    members: Vec<PathBuf>,
}

fn arrays(scratch: &Scratch) -> Vec<Array> {
    let sizes =
        [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid4, 3), (Level::Raid5, 4), (Level::Raid6, 4)];
    let member = |level: Level, index| scratch.member(&format!("{level}-{index}"), MEMBER_BYTES);
    let array =
        |(level, count)| Array { level, members: (0..count).map(|index| member(level, index)).collect() };
    sizes.into_iter().map(array).collect()
}

fn all_members(arrays: &[Array], data: PathBuf) -> Vec<PathBuf> {
    arrays.iter().flat_map(|array| array.members.clone()).chain([data]).collect()
}

/// "/dev/ubda /dev/ubdb ..." for each array in turn; the data's device comes after all of them.
fn devices(arrays: &[Array]) -> Vec<String> {
    let mut letters = 'a'..='p';
    let mut next = || format!("/dev/ubd{} ", letters.next().unwrap());
    arrays.iter().map(|array| array.members.iter().map(|_| next()).collect()).collect()
}

fn chunk_option(level: Level) -> &'static str {
    if level == Level::Raid1 { "--bitmap=internal" } else { "--chunk=64" }
}

/// Made by mdadm, run by the kernel, stopped: what lies there is what we say.
#[test]
fn arrays_of_mdadm_are_read_and_written_back() {
    if !guest_is_here() {
        return;
    }
    let scratch = Scratch::new("mdadm-made");
    let arrays = arrays(&scratch);
    let data = pattern(DATA_LEN);
    let members = all_members(&arrays, scratch.file("data", &data));
    let script: String = arrays.iter().zip(devices(&arrays)).map(|(array, devices)| {
        let (level, count) = (array.level.number(), array.members.len());
        let option = chunk_option(array.level);
        format!(
            "mdadm --create /dev/md0 --run --level={level} --raid-devices={count} {option} --metadata=1.2 {devices}\n\
             dd if=/dev/ubdp of=/dev/md0 bs=4096 2> /dev/null; sync\n\
             mdadm --wait /dev/md0 || true\n\
             blockdev --getsize64 /dev/md0 | sed 's/^/size {level} /'\n\
             mdadm --stop /dev/md0\n"
        )
    }).collect();
    assert_eq!(members.len(), 16, "the data is /dev/ubdp");
    let report = guest(&scratch, &members, &script);
    for array in &arrays {
        array.members.iter().enumerate().for_each(|(slot, member)| check_member(array, slot, member));
        check_array_size(array, &report);
        assert!(
            read_array(array, DATA_LEN) == data,
            "{}: data is not where the superblock says",
            array.level
        );
        check_bitmap(array);
        keep_fixture(array);
    }
}

fn check_member(array: &Array, slot: usize, member: &Path) {
    let (block, found, report) = (superblock_block(member), superblock(member), examine(member));
    println!("{report}");
    found.check_supported().unwrap();
    assert!(found.encode() == block, "{}: not the same bytes when written back", member.display());
    assert_eq!(found.level, array.level);
    assert_eq!(found.name.to_string(), "guest:0");
    assert_eq!(found.role(), Role::Active(slot as u16));
    assert_eq!(found.raid_disks as usize, array.members.len());
    assert_eq!(found.data_offset_sectors, default_data_offset_sectors(MEMBER_SECTORS, found.chunk_sectors));
    assert_eq!(found.data_size_sectors, MEMBER_SECTORS - found.data_offset_sectors);
    assert!(found.is_in_sync());
    assert!(ExtensionLayout::for_superblock(&found).is_some());
    check_examine(&found, &report);
}

/// Every line of mdadm's report that has a field of ours.
fn check_examine(found: &Superblock, report: &str) {
    let is =
        |name, value: String| assert!(field(report, name).starts_with(&value), "{name}: {value}\n{report}");
    let mdadm_uuid = |uuid: Uuid| {
        let hex = uuid.simple().to_string();
        [&hex[..8], &hex[8..16], &hex[16..24], &hex[24..]].join(":")
    };
    is("Array UUID", mdadm_uuid(found.array_uuid));
    is("Device UUID", mdadm_uuid(found.device_uuid));
    is("Feature Map", format!("{:#x}", found.features.bits()));
    is("Name", found.name.to_string());
    is("Raid Level", found.level.to_string());
    is("Raid Devices", found.raid_disks.to_string());
    is("Avail Dev Size", format!("{} sectors", found.data_size_sectors));
    is("Data Offset", format!("{} sectors", found.data_offset_sectors));
    is("Super Offset", format!("{} sectors", found.super_offset_sectors));
    is("Events", found.events.to_string());
    is("State", if found.is_in_sync() { "clean".to_owned() } else { "active".to_owned() });
    is(
        "Bad Block Log",
        format!("512 entries available at offset {} sectors", found.bad_blocks.offset_sectors),
    );
    assert!(field(report, "Checksum").ends_with("- correct"), "{report}");
    if let Role::Active(slot) = found.role() {
        is("Device Role", format!("Active device {slot}"));
    }
    is("Array State", "A".repeat(found.raid_disks as usize) + " ");
}

fn check_array_size(array: &Array, report: &str) {
    let prefix = format!("size {} ", array.level.number());
    let bytes: u64 = report.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap().parse().unwrap();
    let found = superblock(&array.members[0]);
    match array.level {
        // The sum of whole chunks of the members, which are alike here.
        Level::Raid0 => assert_eq!(bytes, 2 * found.data_size_sectors / 128 * 128 * SECTOR_BYTES),
        _ => assert_eq!(Some(bytes / SECTOR_BYTES), found.array_size_sectors()),
    }
}

/// md leaves its bitmap at a stop as an engine has to leave it.
fn check_bitmap(array: &Array) {
    for member in &array.members {
        let found = superblock(member);
        let Some(sector) = found.bitmap_sector() else {
            assert_ne!(array.level, Level::Raid1, "made with a bitmap");
            continue;
        };
        let bytes = read_at(member, sector * SECTOR_BYTES, 4096);
        let bitmap = BitmapSuperblock::decode(&bytes).unwrap();
        println!("{bitmap:?}");
        assert_eq!(bitmap.encode(), bytes[..256]);
        assert_eq!((bitmap.array_uuid, bitmap.events), (found.array_uuid, found.events));
        assert_eq!(bitmap.sync_size_sectors, found.member_size_sectors);
        assert!(bitmap.is_clean(&bytes[256..]), "bits left set: {:x?}", &bytes[256..260]);
        assert_eq!(found.metadata_extents(Some(&bitmap)).count(), 3);
    }
}

/// The array's first bytes, gathered chunk by chunk: the last role is level 4's parity, left-symmetric turns
/// it.
fn read_array(array: &Array, length: usize) -> Vec<u8> {
    let offset_bytes = superblock(&array.members[0]).data_offset_sectors * SECTOR_BYTES;
    let (members, parity) = (array.members.len(), array.level.parity_members() as usize);
    if array.level == Level::Raid1 {
        return read_at(&array.members[1], offset_bytes, length);
    }
    let chunk = |index: usize| {
        let (stripe, place) = (index / (members - parity), index % (members - parity));
        let turn = stripe % members;
        let member = match array.level {
            // P, then Q, then data, from the member where P is.
            Level::Raid5 => (members - 1 - turn + 1 + place) % members,
            Level::Raid6 => (members - 1 - turn + 2 + place) % members,
            _ => place,
        };
        read_at(&array.members[member], offset_bytes + (stripe * CHUNK_LEN) as u64, CHUNK_LEN)
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(CHUNK_LEN)).flat_map(chunk).collect();
    bytes.truncate(length);
    bytes
}

/// `STRIPEWISE_WRITE_FIXTURES=1` keeps the first and the last member's superblock for `fixtures.rs`.
fn keep_fixture(array: &Array) {
    if std::env::var_os("STRIPEWISE_WRITE_FIXTURES").is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (name, member) in [("first", array.members.first()), ("last", array.members.last())] {
        let block = superblock_block(member.unwrap());
        std::fs::write(folder.join(format!("{}-{name}.bin", array.level)), block).unwrap();
    }
}

fn new_array(array: &Array) -> NewArray {
    let count = array.members.len() as u16;
    let chunk_sectors = if array.level == Level::Raid1 { 0 } else { CHUNK_SECTORS };
    let data_sectors = MEMBER_SECTORS - default_data_offset_sectors(MEMBER_SECTORS, chunk_sectors);
    NewArray {
        array_uuid: Uuid::from_u128(0x1234_5678_9abc_def0_0123_4567_89ab_cdef + array.level.number() as u128),
        name: ArrayName::new("guest:ours").unwrap(),
        created: Timestamp::new(1_700_000_000, 0),
        level: array.level,
        layout: NewArray::default_layout(array.level),
        chunk_sectors,
        member_size_sectors: if array.level == Level::Raid0 { 0 } else { data_sectors },
        in_sync: true,
        roles: (0..count).map(Role::Active).collect(),
        raid_disks: count.into(),
    }
}

fn write_ours(array: &Array) {
    let new = new_array(array);
    for (index, path) in array.members.iter().enumerate() {
        let member = NewMember {
            dev_number: index as u32,
            device_uuid: Uuid::from_u128(index as u128 + 1),
            member_sectors: MEMBER_SECTORS,
            data_offset_sectors: default_data_offset_sectors(MEMBER_SECTORS, new.chunk_sectors),
        };
        let superblock = new.superblock(&member).unwrap();
        let layout = ExtensionLayout::for_superblock(&superblock).unwrap();
        let mut header = Header::new(new.array_uuid, member.device_uuid);
        header.expect_superblock(&superblock.encode());
        for copy in [HeaderCopy::A, HeaderCopy::B] {
            write_at(path, layout.header_offset_bytes(copy), &header.encode());
        }
        write_at(path, SUPERBLOCK_SECTOR * SECTOR_BYTES, &superblock.encode());
    }
}

/// Made by us: mdadm finds nothing wrong and the kernel runs the array as clean, without a resync.
#[test]
fn arrays_of_ours_run_under_the_kernel() {
    if !guest_is_here() {
        return;
    }
    let scratch = Scratch::new("ours");
    let arrays = arrays(&scratch);
    for array in &arrays {
        write_ours(array);
        array.members.iter().for_each(|member| check_examine(&superblock(member), &examine(member)));
    }
    let data = pattern(DATA_LEN);
    let members = all_members(&arrays, scratch.file("data", &data));
    let script: String = devices(&arrays)
        .iter()
        .map(|devices| {
            format!(
                "mdadm --assemble /dev/md0 {devices}\n\
         cat /proc/mdstat; cat /sys/block/md0/md/array_state\n\
         test \"$(cat /sys/block/md0/md/sync_action 2> /dev/null || echo idle)\" = idle\n\
         test \"$(cat /sys/block/md0/md/resync_start 2> /dev/null || echo none)\" = none\n\
         dd if=/dev/ubdp of=/dev/md0 bs=4096 2> /dev/null; sync\n\
         mdadm --stop /dev/md0\n"
            )
        })
        .collect();
    println!("{}", guest(&scratch, &members, &script));
    for array in &arrays {
        assert!(read_array(array, DATA_LEN) == data, "{}", array.level);
        for member in &array.members {
            let after = superblock(member);
            if array.level == Level::Raid0 {
                // Nothing to keep in agreement: the kernel never writes the superblock of level 0.
                assert_eq!(after.events, 0);
                continue;
            }
            assert!(after.is_in_sync() && after.events > 0, "{after:?}");
            let layout = ExtensionLayout::for_superblock(&after).unwrap();
            let header =
                Header::decode(&read_at(member, layout.header_offset_bytes(HeaderCopy::A), 4096)).unwrap();
            let origin = header.superblock_origin(&superblock_block(member));
            assert_eq!(
                origin,
                stripewise_format::extension::SuperblockOrigin::Foreign,
                "the kernel has written it"
            );
        }
    }
}

/// The data offset, the bad-block log's place and the used size, from small members to large ones.
#[test]
fn sizes_are_rounded_as_mdadm_does() {
    if !guest_is_here() {
        return;
    }
    const MIB: u64 = 1 << 20;
    let scratch = Scratch::new("sizes");
    let sizes: Vec<u64> =
        [40 * MIB + 12288, 1000 * MIB, 8193 * MIB, 8200 * MIB, 90 << 30, 201 << 30, 4 << 40].into();
    let members: Vec<PathBuf> =
        sizes.iter().map(|bytes| scratch.member(&format!("{bytes}"), *bytes)).collect();
    let script =
        |chunk_kib: u32| -> String {
            ('a'..).zip(&sizes).map(|(letter, _)| format!(
            "mdadm --create /dev/md0 --run --level=5 --raid-devices=2 --assume-clean --bitmap=none \
             --chunk={chunk_kib} /dev/ubd{letter} missing\n\
             mdadm --stop /dev/md0\n"
        )).collect()
        };
    for chunk_kib in [64, 4096] {
        println!("{}", guest(&scratch, &members, &script(chunk_kib)));
        for (bytes, member) in sizes.iter().zip(&members) {
            compare_geometry(*bytes, chunk_kib * 2, &superblock(member));
        }
    }
}

fn compare_geometry(bytes: u64, chunk_sectors: u32, theirs: &Superblock) {
    let member = NewMember {
        dev_number: theirs.dev_number,
        device_uuid: theirs.device_uuid,
        member_sectors: bytes / SECTOR_BYTES,
        data_offset_sectors: default_data_offset_sectors(bytes / SECTOR_BYTES, chunk_sectors),
    };
    let mut new = NewArray {
        array_uuid: theirs.array_uuid,
        name: theirs.name,
        created: theirs.created,
        level: Level::Raid5,
        layout: 2,
        chunk_sectors,
        member_size_sectors: 0,
        in_sync: true,
        roles: vec![Role::Active(0), Role::Faulty],
        raid_disks: 2,
    };
    new.member_size_sectors = new.usable_sectors(&member);
    let ours = new.superblock(&member).unwrap();
    let shape = |superblock: &Superblock| {
        let Superblock { data_offset_sectors, data_size_sectors, member_size_sectors, bad_blocks, .. } =
            superblock;
        (*data_offset_sectors, *data_size_sectors, *member_size_sectors, *bad_blocks)
    };
    assert_eq!(shape(&ours), shape(theirs), "{bytes} bytes, chunk of {chunk_sectors} sectors");
    assert_eq!(ours.roles.max_dev(), theirs.roles.max_dev());
    assert_eq!(theirs.features, Features::default());
    println!(
        "{bytes}: {:?}, roles {:?}, in sync {}",
        shape(theirs),
        &theirs.roles.as_slice()[..4],
        theirs.resync_offset_sectors == IN_SYNC
    );
}
