//! Blocks of several members that cannot be read, in different rows of one stripe: together they are more
//! than the level tolerates, row by row they are not.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{
    DATA_OFFSET, Shape, check_parity,
    faulty::{Bench, bench, latent_error},
};
use stripewise_engine::{
    AssembleOptions, assemble,
    geometry::{Level, StripeIndex},
    plan::selection::POLICIES,
};

const CHUNK: usize = 16384;
const BLOCK: usize = 4096;
const ROWS: usize = CHUNK / BLOCK;

const SHAPES: [Shape; 3] = [
    Shape { level: Level::Raid4, members: 4, chunk_bytes: CHUNK as u32 },
    Shape { level: Level::Raid5, members: 4, chunk_bytes: CHUNK as u32 },
    Shape { level: Level::Raid6, members: 5, chunk_bytes: CHUNK as u32 },
];

/// One column more than there are parities, in any order: the first has a bad block in row 0, the next in row
/// 1.
fn bad_columns(shape: Shape) -> Vec<Vec<usize>> {
    let parities = if shape.level == Level::Raid6 { 2 } else { 1 };
    let longer = |columns: Vec<usize>| {
        let others = (0..shape.members).filter(|other| !columns.contains(other));
        others.map(|other| [&columns[..], &[other]].concat()).collect::<Vec<_>>()
    };
    (0..=parities).fold(vec![Vec::new()], |all, _| all.into_iter().flat_map(longer).collect())
}

/// An array whose first stripe has a bad block in each of these columns, the first in row 0, the second in
/// row 1, and so on.
fn with_bad_blocks(shape: Shape, columns: &[usize]) -> (Bench, Vec<u8>) {
    let bench = bench(1, shape);
    let capacity = bench.array.geometry().capacity_bytes() as usize;
    let mut content = vec![3; capacity];
    bench.fill(3);
    for column in 0..bench.array.geometry().data_columns() {
        let byte = 10 + column as u8;
        bench.write((column * CHUNK) as u64, byte, CHUNK).unwrap();
        content[column * CHUNK..][..CHUNK].fill(byte);
    }
    for (row, column) in columns.iter().enumerate() {
        let member = bench.array.geometry().member_of(StripeIndex(0), *column).0;
        let at = DATA_OFFSET + (row * BLOCK) as u64;
        bench.faults[member].add(latent_error(at..at + BLOCK as u64));
    }
    (bench, content)
}

fn check(bench: &Bench, content: &[u8], what: &str) {
    assert!(bench.read(0, content.len()).unwrap() == content, "{what}");
    bench.world.run_for(Duration::from_secs(3));
    assert!(bench.read(0, content.len()).unwrap() == content, "healed, {what}");
    assert!(bench.in_sync().iter().all(|in_sync| *in_sync), "no member was dropped, {what}");
    // What nobody read is mended by a repair, at the latest.
    bench.array.start_scrub(true).unwrap();
    let array = bench.array.clone();
    bench.world.run(async move { array.wait_for_jobs().await });
    check_parity(&bench.array.geometry(), &bench.sims);
    assert!(bench.faults.iter().all(|faults| faults.is_quiet()), "all are written, {what}");
}

#[test]
fn a_write_over_rows_with_bad_blocks_of_several_members_succeeds() {
    for (shape, policy) in SHAPES.into_iter().flat_map(|shape| POLICIES.iter().map(move |p| (shape, p))) {
        // Of the many of level 6 every fourth.
        let step = if shape.level == Level::Raid6 { 4 } else { 1 };
        for columns in bad_columns(shape).into_iter().step_by(step) {
            let (bench, mut content) = with_bad_blocks(shape, &columns);
            let (array, policy) = (bench.array.clone(), *policy);
            bench.world.run(async move { array.set_policy(policy).await }).unwrap();
            // Parts of blocks of all the rows, in the first column.
            let (start, end) = (1536, (columns.len() - 1) * BLOCK + 2048);
            let what = format!("{shape:?}, {}, bad are {columns:?}", policy.name);
            bench.write(start as u64, 99, end - start).unwrap_or_else(|error| panic!("{what}: {error}"));
            content[start..end].fill(99);
            check(&bench, &content, &what);
        }
    }
}

/// Beginning and ending within blocks: the steps from block to block are the members', not those of the
/// request.
#[test]
fn a_read_over_rows_with_bad_blocks_of_several_members_succeeds() {
    for shape in SHAPES {
        for columns in bad_columns(shape) {
            for (start, end) in [(0, CHUNK), (2560, ROWS * BLOCK - 1536)] {
                let (bench, content) = with_bad_blocks(shape, &columns);
                let what = format!("{shape:?}, {start}..{end}, bad are {columns:?}");
                for column in 0..bench.array.geometry().data_columns() {
                    let at = column * CHUNK;
                    let found = bench.read((at + start) as u64, end - start);
                    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert!(found == content[at + start..at + end], "{what}");
                }
            }
        }
    }
}

/// A resync is due: parity of the last row is of another time. A block of the first row cannot be read, and a
/// write comes that needs old content of both. Once the whole column was taken from the others then, and what
/// lay beside the write in the last row was lost.
#[test]
fn a_write_before_the_resync_keeps_what_can_be_read() {
    for shape in SHAPES {
        let mut bench = bench(2, shape);
        bench.fill(3);
        bench.write(CHUNK as u64 - 512, 4, 1024).unwrap();
        let array = bench.array.clone();
        bench.world.run(async move { array.flush().await }).unwrap();
        bench.world.crash();
        let (geometry, first) = (bench.array.geometry(), StripeIndex(0));
        let (own, parity) =
            (geometry.member_of(first, 0).0, geometry.member_of(first, geometry.data_columns()).0);
        bench.sims[parity].poke(DATA_OFFSET + ((ROWS - 1) * BLOCK) as u64, &[0x5a; BLOCK]);
        bench.faults[own].add(latent_error(DATA_OFFSET..DATA_OFFSET + 512));
        let (env, members) = (bench.world.env(), bench.members.clone());
        let opened = async move { assemble(env, members, &AssembleOptions::default()).await };
        bench.array = bench.world.run(opened).unwrap();
        bench.array.pause_jobs();
        bench.write(CHUNK as u64 - 512, 5, 1024).unwrap();
        assert_eq!(bench.read(0, CHUNK - 512).unwrap(), vec![3; CHUNK - 512], "{shape:?}");
        assert_eq!(bench.read(CHUNK as u64 - 512, 1024).unwrap(), vec![5; 1024], "{shape:?}");
        bench.array.resume_jobs();
        let array = bench.array.clone();
        bench.world.run(async move { array.wait_for_jobs().await });
        assert_eq!(bench.read(0, CHUNK - 512).unwrap(), vec![3; CHUNK - 512], "{shape:?}, resynced");
    }
}
