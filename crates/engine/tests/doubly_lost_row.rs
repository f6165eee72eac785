//! A write over a bad block that can be healed, and over rows of which more is lost than redundancy makes up
//! for.

#![allow(clippy::unwrap_used)]

mod common;

use common::{DATA_OFFSET, Lab, Shape};
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{ArrayError, AssembleOptions, geometry::Level};
use stripewise_format::md::{BadBlockLog, Features, SectorExtent, Superblock};
use stripewise_sim::SimMember;

const ROW_BYTES: u64 = 4096;

/// Has a member's log list a row.
fn list(member: &SimMember, row: u64) {
    let mut superblock = Superblock::decode(&member.snapshot().bytes()[4096..8192], 8).unwrap();
    let place = superblock.bad_block_place(512).unwrap();
    let mut log = BadBlockLog::empty(&superblock.bad_blocks).unwrap();
    let extent = SectorExtent { start_sector: (DATA_OFFSET + row * ROW_BYTES) / 512, length_sectors: 8 };
    for image in log.change_to([extent].into_iter()).unwrap() {
        member.poke(place.start, &image);
    }
    superblock.features = superblock.features.with(Features::BAD_BLOCKS);
    member.poke(4096, &superblock.encode()[..]);
}

/// Row 0 of column 0 is listed, and row 2 of columns 1 and 2; rows 0 to 2 of column 0 are written in parts of
/// so many bytes.
fn write_in_parts(part_bytes: usize) -> Vec<Result<(), ArrayError>> {
    let mut lab = Lab::new(1, Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 });
    lab.run_clients(2, 40);
    lab.stop();
    [(0, 0), (1, 2), (2, 2)].into_iter().for_each(|(member, row)| list(&lab.members[member], row));
    lab.assemble_all(AssembleOptions::default()).unwrap();
    let write = |offset: usize| {
        let (array, data) = (lab.array.clone(), IoBuf::copy_of(&vec![7; part_bytes]).freeze());
        lab.world.run(async move { array.write(offset as u64, data, WriteFlags::default()).await })
    };
    let written = (0..3 * ROW_BYTES as usize).step_by(part_bytes).map(write).collect();
    // Rows 0 and 1 are whole: also without the member that has them.
    for lost in [None, Some("m0")] {
        let rows = if lost.is_some() { 2 } else { 3 } * ROW_BYTES as usize;
        let array = lab.array.clone();
        let read = lab.world.run(async move {
            if let Some(member) = lost {
                array.fail(member).await.unwrap();
            }
            array.read(0, IoBuf::with_len(rows)).await
        });
        assert!(read.unwrap().iter().all(|byte| *byte == 7), "without {lost:?}");
    }
    written
}

#[test]
fn a_write_is_served_each_of_whose_blocks_can_be_written() {
    for rows in [1, 3] {
        let written = write_in_parts(rows * ROW_BYTES as usize);
        assert!(written.iter().all(Result::is_ok), "{rows} rows at once: {written:?}");
    }
}
