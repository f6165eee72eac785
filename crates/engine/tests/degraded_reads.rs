//! Reads of what no member has: recovered from the others, at once where these are, and with their rows
//! locked meanwhile.

#![allow(clippy::unwrap_used)]

mod common;

use std::pin::pin;

use common::{
    DATA_OFFSET, Shape,
    faulty::{latent_error, write_error},
    timed::{How, Timed, WHILE, timed},
};
use fastrand::Rng;
use futures_util::future::{join, select};
use stripewise_device::{IoBuf, WriteFlags};
use stripewise_engine::{
    ArrayError, StatsReport,
    geometry::{Level, MemberIndex, StripeIndex},
    locking::PRESETS,
};

const CHUNK: usize = 16384;
const BLOCK: usize = 4096;
/// Of the array, that are looked at.
const BYTES: usize = 20 * CHUNK;

/// An array with content, and that; the members named are lost.
fn degraded(how: How, lost: &[usize]) -> (Timed, Vec<u8>) {
    let timed = timed(how);
    let mut content = vec![0; BYTES];
    Rng::with_seed(5).fill(&mut content);
    let (array, data) = (timed.array.clone(), IoBuf::copy_of(&content).freeze());
    timed.world.run(async move { array.write(0, data, WriteFlags::default()).await }).unwrap();
    for member in lost {
        timed.faults[*member].set_gone(true);
        // Found by a write.
        assert_eq!(write(&timed, 0, &content), Ok(()));
    }
    (timed, content)
}

/// With every preset, members that are done at once, and such that are not.
fn ways(level: Level, members: usize) -> impl Iterator<Item = [How; 2]> {
    let shape = Shape { level, members, chunk_bytes: CHUNK as u32 };
    let of = move |preset| [None, Some(WHILE)].map(|delay| How { shape, preset, policy: None, delay });
    PRESETS.iter().map(of)
}

fn write(timed: &Timed, at: usize, data: &[u8]) -> Result<(), String> {
    let (array, data) = (timed.array.clone(), IoBuf::copy_of(data).freeze());
    let written = timed.world.run(async move { array.write(at as u64, data, WriteFlags::default()).await });
    written.map_err(|error| error.to_string())
}

fn read(timed: &Timed, at: usize, len: usize) -> Result<Vec<u8>, ArrayError> {
    let array = timed.array.clone();
    let read = timed.world.run(async move { array.read(at as u64, IoBuf::with_len(len)).await });
    read.map(|buf| buf.to_vec())
}

/// All of it in pieces of many sizes that lie in one chunk each; what was counted.
fn read_all(timed: &Timed, content: &[u8]) -> StatsReport {
    let mut rng = Rng::with_seed(9);
    for chunk in 0..BYTES / CHUNK {
        for _ in 0..8 {
            let (start, end) = (rng.usize(..CHUNK / 512), rng.usize(1..=CHUNK / 512));
            let (start, end) =
                (start.min(end - 1) * 512 + chunk * CHUNK, end.max(start + 1) * 512 + chunk * CHUNK);
            assert!(read(timed, start, end - start).unwrap() == content[start..end], "{start}..{end}");
        }
    }
    timed.array.stats().report()
}

#[test]
fn what_no_member_has_is_recovered_the_same_at_once_and_later() {
    let shapes: [(Level, usize, &[usize]); 5] = [
        (Level::Raid4, 5, &[1]),
        (Level::Raid5, 3, &[0]),
        (Level::Raid5, 5, &[2]),
        (Level::Raid6, 6, &[3]),
        (Level::Raid6, 6, &[1, 4]),
    ];
    for (level, members, lost) in shapes {
        for how in ways(level, members) {
            let counted = how.map(|how| {
                let (timed, content) = degraded(how, lost);
                read_all(&timed, &content)
            });
            assert_eq!(counted[0], counted[1], "{level:?}, {lost:?}");
            assert!(counted[0].recovered_reads > 10, "{level:?}, {lost:?}");
        }
    }
}

/// What cannot be recovered is named to the block, and what lies beside it is not lost with it.
#[test]
fn a_bad_block_of_another_member_costs_its_row_and_no_more() {
    for how in ways(Level::Raid4, 5).flatten() {
        // At level 4 the columns are the members.
        let (timed, content) = degraded(how, &[1]);
        let bad = DATA_OFFSET + BLOCK as u64;
        timed.faults[3].add(latent_error(bad..bad + 512));
        let lost = CHUNK + BLOCK;
        for (start, len) in [(lost, BLOCK), (CHUNK, CHUNK), (0, 4 * CHUNK)] {
            let Err(ArrayError::Unreadable { offset_bytes }) = read(&timed, start, len) else {
                panic!("{start}, {len}: there is nothing to recover it from");
            };
            assert_eq!(offset_bytes, lost as u64, "{start}, {len}");
        }
        for block in [0, 2, 3].map(|block| CHUNK + block * BLOCK) {
            assert!(read(&timed, block, BLOCK).unwrap() == content[block..block + BLOCK]);
        }
        // Written, it is there again.
        assert_eq!(write(&timed, 0, &content[..4 * CHUNK]), Ok(()));
        assert!(read(&timed, CHUNK, CHUNK).unwrap() == content[CHUNK..2 * CHUNK]);
    }
}

/// Two pieces of a read are lost for good, of which the later one has no member at all.
#[test]
fn the_first_byte_that_is_lost_is_named() {
    for how in ways(Level::Raid4, 5).flatten() {
        let (timed, _) = degraded(how, &[1]);
        let bad = DATA_OFFSET + BLOCK as u64;
        timed.faults[0].add(latent_error(bad..bad + 512));
        let Err(ArrayError::Unreadable { offset_bytes }) = read(&timed, 0, 4 * CHUNK) else {
            panic!("there is nothing to recover it from");
        };
        assert_eq!(offset_bytes, BLOCK as u64);
    }
}

/// What one read takes: the time, and what members are read for it.
fn costs(timed: &Timed, at: usize, len: usize) -> (u64, u64) {
    let read_bytes = || {
        let array = timed.array.clone();
        let report = timed.world.run(async move { array.report().await });
        report.members.iter().map(|member| member.stats.read_bytes).sum::<u64>()
    };
    let (began, before) = (timed.world.now().0, read_bytes());
    read(timed, at, len).unwrap();
    (timed.world.now().0 - began, read_bytes() - before)
}

/// Once the stripes of a large read were recovered one after the other, and each was read twice: 52 times as
/// long as a healthy read.
#[test]
fn a_large_read_around_missing_members_takes_hardly_longer_and_reads_nothing_twice() {
    let shapes: [(Level, usize, &[usize]); 4] = [
        (Level::Raid4, 5, &[1]),
        (Level::Raid5, 5, &[2]),
        (Level::Raid6, 6, &[3]),
        (Level::Raid6, 6, &[1, 4]),
    ];
    for (level, members, lost) in shapes {
        let [_, later] = ways(level, members).next().unwrap();
        for len in [16 * CHUNK, 400 * CHUNK] {
            let healthy = costs(&degraded(later, &[]).0, 0, len);
            let (timed, _) = degraded(later, lost);
            let (time, bytes) = costs(&timed, 0, len);
            assert!(time <= 2 * healthy.0, "{level:?} without {lost:?}: {time} ns, {} healthy", healthy.0);
            assert!(bytes * 10 <= len as u64 * 11, "{level:?} without {lost:?}: {bytes} bytes for {len}");
        }
    }
}

/// Any part of the array, with blocks in it that cannot be read and writes beside.
#[test]
fn a_large_read_around_missing_members_is_right() {
    let shapes: [(Level, usize, &[usize]); 5] = [
        (Level::Raid4, 4, &[0]),
        (Level::Raid5, 3, &[1]),
        (Level::Raid5, 5, &[2]),
        (Level::Raid6, 6, &[3]),
        (Level::Raid6, 6, &[1, 4]),
    ];
    for (level, members, lost) in shapes {
        for how in ways(level, members).flatten() {
            let (timed, mut content) = degraded(how, lost);
            let mut rng = Rng::with_seed(11);
            for round in 0..60 {
                let (a, b) = (rng.usize(..=BYTES / 512) * 512, rng.usize(..=BYTES / 512) * 512);
                let range = a.min(b)..a.max(b);
                assert!(
                    read(&timed, range.start, range.len()).unwrap() == content[range.clone()],
                    "{range:?}"
                );
                if round % 10 == 0 && lost.len() == 1 && level == Level::Raid6 {
                    let bad = DATA_OFFSET + rng.u64(..4) * CHUNK as u64;
                    timed.faults[0].add(latent_error(bad..bad + 512));
                }
                rng.fill(&mut content[range.clone()]);
                assert_eq!(write(&timed, range.start, &content[range]), Ok(()));
            }
        }
    }
}

/// A second member fails in a write while a read of the same stripe waits for its rows. The member still has
/// what it had before the write: nothing is recovered from that.
#[test]
fn a_read_that_waits_for_rows_reads_no_member_that_fails_meanwhile() {
    for [_, how] in ways(Level::Raid6, 6) {
        let (timed, content) = degraded(how, &[3]);
        let geometry = timed.array.geometry();
        let is_data = |stripe: u64, member| {
            geometry.column_of(StripeIndex(stripe), MemberIndex(member)) < geometry.data_columns()
        };
        let stripe = (0..5).find(|stripe| is_data(*stripe, 3)).unwrap();
        let failing = (0..6).find(|member| *member != 3 && is_data(stripe, *member)).unwrap();
        let column = geometry.column_of(StripeIndex(stripe), MemberIndex(failing));
        timed.faults[failing].add(write_error());
        let start = (stripe * geometry.stripe_bytes()) as usize;
        let (at, bytes) = (start + column * CHUNK, start..start + geometry.stripe_bytes() as usize);
        let (array, data, len) = (timed.array.clone(), IoBuf::copy_of(&[9; BLOCK]).freeze(), bytes.len());
        let (written, read) = timed.world.run(async move {
            let written = array.write(at as u64, data, WriteFlags::default());
            join(written, array.read(start as u64, IoBuf::with_len(len))).await
        });
        assert_eq!(written, Ok(()));
        let mut expected = content[bytes].to_vec();
        expected[at - start..at - start + BLOCK].fill(9);
        assert!(read.unwrap()[..] == expected[..], "the read comes after the write that had the rows");
    }
}

/// A read that is forgotten while the others are read leaves its rows to the next.
#[test]
fn a_read_that_is_forgotten_leaves_no_rows_locked() {
    let [_, later] = ways(Level::Raid5, 5).next().unwrap();
    let (timed, content) = degraded(later, &[2]);
    let (array, env) = (timed.array.clone(), timed.world.env());
    timed.world.run(async move {
        for chunk in 0..BYTES / CHUNK {
            let read = pin!(array.read((chunk * CHUNK) as u64, IoBuf::with_len(BLOCK)));
            let _ = select(read, env.sleep(WHILE / 2)).await;
        }
    });
    assert_eq!(write(&timed, 0, &content), Ok(()));
    let array = timed.array.clone();
    timed.world.run(async move { array.stop().await }).unwrap();
}
