//! Superblocks that mdadm 4.2 made and Linux 6.1 last wrote (members of 48 MiB, 64 KiB chunks; `kernel_md.rs`
//! keeps them with `STRIPEWISE_WRITE_FIXTURES=1`). What they hold, and that ours come out the same.

#![allow(missing_docs, clippy::unwrap_used)]

use stripewise_format::md::{Features, Level, NewArray, NewMember, Role, SUPERBLOCK_SECTOR, Superblock};
use stripewise_format::media::Block;

const MEMBER_SECTORS: u64 = 98304;
const DATA_OFFSET_SECTORS: u64 = 2048;

struct Fixture {
    level: Level,
    raid_disks: u32,
    slot: u16,
    block: &'static Block,
}

macro_rules! fixtures {
    ($($level:ident $name:literal $count:literal),+ $(,)?) => {
        [$(
            Fixture {
                level: Level::$level, raid_disks: $count, slot: 0,
                block: include_bytes!(concat!("fixtures/", $name, "-first.bin")),
            },
            Fixture {
                level: Level::$level, raid_disks: $count, slot: $count - 1,
                block: include_bytes!(concat!("fixtures/", $name, "-last.bin")),
            },
        )+]
    };
}

const FIXTURES: [Fixture; 10] =
    fixtures![Raid0 "raid0" 2, Raid1 "raid1" 2, Raid4 "raid4" 3, Raid5 "raid5" 4, Raid6 "raid6" 4];

fn decode(fixture: &Fixture) -> Superblock {
    Superblock::decode(fixture.block, SUPERBLOCK_SECTOR).unwrap()
}

#[test]
fn every_field_is_read() {
    for fixture in &FIXTURES {
        let found = decode(fixture);
        found.check_supported().unwrap();
        assert_eq!((found.level, found.raid_disks), (fixture.level, fixture.raid_disks));
        assert_eq!(found.name.to_string(), "guest:0");
        assert_eq!(found.role(), Role::Active(fixture.slot));
        assert_eq!(found.roles.max_dev(), 128);
        assert_eq!(found.layout, NewArray::default_layout(fixture.level));
        assert_eq!(found.data_offset_sectors, DATA_OFFSET_SECTORS);
        assert_eq!(found.data_size_sectors, MEMBER_SECTORS - DATA_OFFSET_SECTORS);
        assert_eq!(found.member_size_sectors, if fixture.level == Level::Raid0 { 0 } else { 96256 });
        assert_eq!(found.chunk_sectors, if fixture.level == Level::Raid1 { 0 } else { 128 });
        assert!(found.is_in_sync());
        assert_eq!(found.bitmap_sector(), (fixture.level == Level::Raid1).then_some(16));
    }
}

#[test]
fn the_same_bytes_are_written_back() {
    for fixture in &FIXTURES {
        assert!(decode(fixture).encode() == *fixture.block, "{} slot {}", fixture.level, fixture.slot);
    }
}

/// With identities, times and what the kernel has done since carried over, nothing else differs from our own.
#[test]
fn ours_are_filled_as_mdadm_fills_them() {
    for fixture in &FIXTURES {
        let found = decode(fixture);
        let new = NewArray {
            array_uuid: found.array_uuid,
            name: found.name,
            created: found.created,
            level: fixture.level,
            layout: NewArray::default_layout(fixture.level),
            chunk_sectors: found.chunk_sectors,
            member_size_sectors: found.member_size_sectors,
            in_sync: true,
            roles: (0..fixture.raid_disks as u16).map(Role::Active).collect(),
            raid_disks: fixture.raid_disks,
        };
        let mut ours = new.superblock(&member_of(&found, fixture)).unwrap();
        (ours.updated, ours.events) = (found.updated, found.events);
        if fixture.level == Level::Raid1 {
            // Made with a bitmap, which takes one block here.
            ours.features = ours.features.with(Features::BITMAP_OFFSET);
            ours.bitmap_offset_sectors = 8;
        }
        if matches!(fixture.level, Level::Raid4 | Level::Raid5) {
            // mdadm makes the last member of levels 4 and 5 a spare, numbered past the others, to be rebuilt.
            let last = fixture.raid_disks - 1;
            ours.roles.set(last + 1, Role::Active(last as u16)).unwrap();
            ours.roles.set(last, Role::Spare).unwrap();
            ours.dev_number = found.dev_number;
        }
        assert_eq!(ours, found);
    }
}

fn member_of(found: &Superblock, fixture: &Fixture) -> NewMember {
    NewMember {
        dev_number: u32::from(fixture.slot),
        device_uuid: found.device_uuid,
        member_sectors: MEMBER_SECTORS,
        data_offset_sectors: DATA_OFFSET_SECTORS,
    }
}
