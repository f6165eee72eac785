//! Small sequential writes in flight together become whole stripes, and nothing else is held up for it.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use common::{Lab, Shape, faulty::benches};
use futures_util::future::join_all;
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{Array, AssembleOptions, StatsReport, geometry::Level};

const BLOCK_BYTES: u64 = 4096;
const RAID5: Shape = Shape { level: Level::Raid5, members: 5, chunk_bytes: 16384 };

/// Writes a range of blocks, so many at a time: the next is sent as soon as one is done.
fn stream(lab: &Lab, depth: usize, blocks: Range<u64>) -> StatsReport {
    let next = Arc::new(AtomicU64::new(blocks.start));
    let jobs: Vec<_> =
        (0..depth).map(|_| keep_writing(lab.array.clone(), next.clone(), blocks.end)).collect();
    lab.world.run(async move {
        join_all(jobs).await;
    });
    lab.array.stats().report()
}

async fn keep_writing(array: Array, next: Arc<AtomicU64>, blocks: u64) {
    loop {
        let block = next.fetch_add(1, Ordering::Relaxed);
        if block >= blocks {
            return;
        }
        let data = IoBuf::copy_of(&content(block)).freeze();
        array.write(block * BLOCK_BYTES, data, WriteFlags::default()).await.unwrap();
    }
}

fn content(block: u64) -> Vec<u8> {
    (block + 1).to_le_bytes().repeat(BLOCK_BYTES as usize / 8)
}

#[test]
fn sequential_blocks_at_depth_32_become_whole_stripes() {
    let shapes = [
        RAID5,
        Shape { level: Level::Raid4, ..RAID5 },
        Shape { level: Level::Raid6, members: 6, ..RAID5 },
        Shape { level: Level::Raid5, members: 3, chunk_bytes: 4096 },
        // As many blocks to a stripe as are in flight.
        Shape { level: Level::Raid5, members: 3, chunk_bytes: 65536 },
    ];
    for shape in shapes {
        for seed in 0..4 {
            let lab = Lab::new(seed, shape);
            let blocks = lab.array.geometry().capacity_bytes() / BLOCK_BYTES;
            let stats = stream(&lab, 32, 0..blocks);
            let full = stats.stripe_writes_full * lab.array.geometry().stripe_bytes();
            let share = full as f64 / (blocks * BLOCK_BYTES) as f64;
            assert!(share > 0.9, "{shape:?}, seed {seed}: {share:.2} of the bytes in whole stripes");
            let found = lab.read_all();
            let mut found = found.chunks(BLOCK_BYTES as usize).enumerate();
            assert!(found.all(|(block, bytes)| *bytes == content(block as u64)), "{shape:?}, seed {seed}");
        }
    }
}

#[test]
fn a_few_writes_in_flight_wait_for_nobody() {
    for depth in 1..=4 {
        for lab in Lab::each(1, RAID5) {
            assert_eq!(stream(&lab, depth, 0..300).gathered_writes, 0, "depth {depth}");
        }
    }
}

/// A stream that thins out is let go.
#[test]
fn a_stream_that_goes_on_alone_waits_for_nobody_any_more() {
    for lab in Lab::each(1, RAID5) {
        let gathered = stream(&lab, 32, 0..300).gathered_writes;
        assert!(gathered > 250, "{gathered}");
        assert!(stream(&lab, 1, 300..600).gathered_writes <= gathered + 1);
    }
}

/// Streams over the same blocks wait for each other, and never in a circle; all write the same to a block.
#[test]
fn streams_that_overlap_come_to_their_end_and_leave_what_they_wrote() {
    const BLOCKS: u64 = 200;
    for seed in 0..40 {
        let lab = Lab::new(seed, Shape { members: 3, chunk_bytes: 4096, ..RAID5 });
        let starts: Vec<u64> = (0..3).map(|_| lab.world.random(8)).collect();
        let streams = starts.iter().flat_map(|start| {
            let next = Arc::new(AtomicU64::new(*start));
            let array = &lab.array;
            (0..6).map(move |_| keep_writing(array.clone(), next.clone(), BLOCKS)).collect::<Vec<_>>()
        });
        lab.world.run(join_all(streams.collect::<Vec<_>>()));
        let (first, found) = (*starts.iter().min().unwrap(), lab.read_all());
        for (block, found) in (0..).zip(found.chunks(BLOCK_BYTES as usize)) {
            let is_written = (first..BLOCKS).contains(&block);
            let expected = if is_written { content(block) } else { vec![0; BLOCK_BYTES as usize] };
            assert!(found == expected, "block {block}, seed {seed}");
        }
        lab.check_parity(&lab.members);
    }
}

#[test]
fn one_request_over_several_stripes_does_not_wait_for_itself() {
    for lab in Lab::each(1, RAID5) {
        let stripe_bytes = lab.array.geometry().stripe_bytes() as usize;
        let array = lab.array.clone();
        lab.world.run(async move {
            let data = IoBuf::zeroed(stripe_bytes * 3 + 4096).freeze();
            array.write(BLOCK_BYTES, data, WriteFlags::default()).await.unwrap();
        });
        assert_eq!(lab.array.stats().report().gathered_writes, 0);
    }
}

/// What is gathered is one write: durable if one of its parts must be.
#[test]
fn a_gathered_write_that_must_be_durable_is() {
    for mut lab in Lab::each(3, RAID5) {
        let array = lab.array.clone();
        lab.world.run(async move {
            let mut writes = VecDeque::new();
            for block in 0..16 {
                let flags = WriteFlags { fua: block == 9 };
                writes.push_back(array.write(
                    block * BLOCK_BYTES,
                    IoBuf::copy_of(&content(block)).freeze(),
                    flags,
                ));
            }
            writes.remove(9).unwrap().await.unwrap();
        });
        assert!(lab.array.stats().report().gathered_writes >= 8);
        lab.crash();
        lab.assemble_all(AssembleOptions::default()).unwrap();
        let at = 9 * BLOCK_BYTES as usize;
        assert_eq!(lab.read_all()[at..at + BLOCK_BYTES as usize], content(9));
    }
}

/// The error of a gathered write is everybody's, and stopping waits for it.
#[test]
fn gathered_writes_fail_together_and_stopping_waits_for_them() {
    let data = |block: u64| IoBuf::copy_of(&content(block)).freeze();
    for bench in benches(4, Shape { members: 3, ..RAID5 }) {
        let array = bench.array.clone();
        let writes: Vec<_> = bench.world.run(async move {
            (0..8).map(|block| array.write(block * BLOCK_BYTES, data(block), WriteFlags::default())).collect()
        });
        bench.faults[0].set_gone(true);
        bench.faults[1].set_gone(true);
        let results = bench.world.run(join_all(writes));
        assert!(results[5..].iter().all(Result::is_err), "{results:?}");
    }
    for lab in Lab::each(5, RAID5) {
        let array = lab.array.clone();
        let results = lab.world.run(async move {
            let writes: Vec<_> = (0..12)
                .map(|block| array.write(block * BLOCK_BYTES, data(block), WriteFlags::default()))
                .collect();
            array.stop().await.unwrap();
            join_all(writes).await
        });
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        lab.world.run_for(Duration::from_secs(1));
    }
}
