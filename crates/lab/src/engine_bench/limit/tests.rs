//! Bare loops do the work that they are a limit for: their writes can be read, and their parity is right.

use fastrand::Rng;
use stripewise_engine::geometry::{Geometry, Level};

use super::{super::client::source, BareArray};

const CHUNK_BYTES: usize = 16 << 10;
const BLOCK_BYTES: usize = 4 << 10;
const STRIPES: usize = 4;

fn bare(level: Level, members: usize) -> BareArray {
    let member_bytes = STRIPES * CHUNK_BYTES;
    let geometry = Geometry::new(level, members, CHUNK_BYTES as u32, member_bytes as u64, 512);
    BareArray::new(&geometry.expect("a possible shape"), member_bytes, source(CHUNK_BYTES))
}

fn block(rng: &mut Rng, len: usize) -> Vec<u8> {
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}

/// Writes blocks, whole chunks and whole stripes.
fn fill(bare: &mut BareArray, rng: &mut Rng) {
    for _ in 0..100 {
        let (stripe, column) = (rng.usize(..STRIPES) * CHUNK_BYTES, rng.usize(..bare.data_columns));
        match rng.u8(..3) {
            0 => {
                let row = rng.usize(..CHUNK_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
                bare.write(stripe + row, column, &block(rng, BLOCK_BYTES));
            }
            1 => bare.write(stripe, column, &block(rng, CHUNK_BYTES)),
            _ => bare.write(stripe, 0, &block(rng, bare.data_columns * CHUNK_BYTES)),
        }
    }
}

fn shapes() -> impl Iterator<Item = (BareArray, Rng)> {
    [(Level::Raid4, 3), (Level::Raid5, 5), (Level::Raid5, 7), (Level::Raid6, 4), (Level::Raid6, 6)]
        .into_iter()
        .map(|(level, members)| (bare(level, members), Rng::with_seed(members as u64)))
}

#[test]
fn writes_keep_parity_right_and_a_check_sees_when_it_is_not() {
    for (mut bare, mut rng) in shapes() {
        fill(&mut bare, &mut rng);
        assert!((0..STRIPES).all(|stripe| bare.check(stripe)));
        bare.members[0][CHUNK_BYTES + 5] ^= 1;
        assert!((0..STRIPES).map(|stripe| bare.check(stripe)).eq([true, false, true, true]));
    }
}

#[test]
fn a_rebuild_brings_every_column_back() {
    for (mut bare, mut rng) in shapes() {
        fill(&mut bare, &mut rng);
        for stripe in 0..STRIPES {
            let (lost, at) = (stripe % bare.members.len(), stripe * CHUNK_BYTES);
            let was = bare.members[lost][at..at + CHUNK_BYTES].to_vec();
            bare.members[lost][at..at + CHUNK_BYTES].fill(0xa5);
            bare.rebuild(stripe);
            assert!(bare.members[lost][at..at + CHUNK_BYTES] == was, "column {lost}");
        }
    }
}

#[test]
fn what_is_written_and_read_without_a_member_is_the_same() {
    for (mut bare, mut rng) in shapes() {
        fill(&mut bare, &mut rng);
        for lost in 0..bare.members.len() {
            for column in 0..bare.data_columns {
                let (data, mut found) = (block(&mut rng, BLOCK_BYTES), vec![0; BLOCK_BYTES]);
                bare.write_without(lost, BLOCK_BYTES, column, &data);
                bare.read_without(lost, BLOCK_BYTES, column, &mut found);
                assert!(found == data, "column {column} without {lost}");
            }
            // The lost member's content is recovered from the others.
            bare.recover(lost, 0);
            assert!(bare.check(0), "without {lost}");
        }
    }
}

#[test]
fn stripes_are_written_and_read_without_a_member() {
    for (mut bare, mut rng) in shapes() {
        fill(&mut bare, &mut rng);
        let stripe_bytes = bare.stripe_bytes();
        for lost in 0..bare.members.len() {
            let (data, mut found) = (block(&mut rng, stripe_bytes), vec![0; stripe_bytes]);
            bare.write_stripe(Some(lost), CHUNK_BYTES, &data);
            bare.read_stripe(lost, CHUNK_BYTES, &mut found);
            assert!(found == data, "without {lost}");
            bare.recover(lost, 1);
            assert!(bare.check(1), "without {lost}");
        }
        let data = block(&mut rng, 2 * stripe_bytes);
        let mut found = vec![0; 2 * stripe_bytes];
        bare.write_stripes(None, CHUNK_BYTES, &data);
        assert!((0..STRIPES).all(|stripe| bare.check(stripe)));
        bare.read_stripes(&mut rng, CHUNK_BYTES, &mut found);
        assert!(found == data);
    }
}

#[test]
fn parts_in_sequence_are_written_as_stripes() {
    for (mut bare, mut rng) in shapes() {
        let data = block(&mut rng, 2 * bare.stripe_bytes());
        for (index, part) in data.chunks(BLOCK_BYTES).enumerate() {
            bare.collect(index * BLOCK_BYTES, part);
        }
        assert!((0..STRIPES).all(|stripe| bare.check(stripe)));
        let mut found = vec![0; data.len()];
        bare.read_stripes(&mut rng, 0, &mut found);
        assert!(found == data);
    }
}
