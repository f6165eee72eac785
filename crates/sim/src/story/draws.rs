//! What a story draws before it begins: the sectors that clients use, and its sources of draws.

use std::ops::Range;

use fastrand::Rng;

use super::Shape;
use crate::check::SECTOR_BYTES;

/// Parts of a vast array that clients use.
const WINDOWS: usize = 6;
/// Sectors of such a part.
const WINDOW_SECTORS: usize = 128;

/// The sectors that clients use: all, or some separate windows anywhere.
pub(super) fn windows(rng: &mut Rng, shape: &Shape, capacity_bytes: u64) -> Vec<Range<usize>> {
    let sectors = capacity_bytes as usize / SECTOR_BYTES;
    if !shape.is_vast {
        return vec![Range { start: 0, end: sectors }];
    }
    let part = sectors / WINDOWS / 8 * 8;
    let start = |index: usize, rng: &mut Rng| index * part + rng.usize(..(part - WINDOW_SECTORS) / 8) * 8;
    let window = |start: usize| start..start + WINDOW_SECTORS;
    (0..WINDOWS).map(|index| window(start(index, rng))).collect()
}

/// The source of draws beside the story in one of the array's lives.
pub(super) fn side_rng(seed: u64, life: u32) -> Rng {
    Rng::with_seed(seed.rotate_left(40) ^ u64::from(life) ^ 0x5349_4445_0000_0000)
}

/// The source of draws about caches in one of the array's lives.
pub(super) fn cache_rng(seed: u64, life: u32) -> Rng {
    Rng::with_seed(seed.rotate_left(29) ^ u64::from(life) ^ 0xCAC4_E000_0000)
}

/// The source of draws about streams over full caches in one of the array's lives.
pub(super) fn stream_rng(seed: u64, life: u32) -> Rng {
    cache_rng(seed, life ^ 0x5eed)
}
