//! Shared parts of the experiments of the RAID4S papers: their arrays.

use crate::arrays::{Shape, shapes};

/// All arrays that are compared: those of the slides, level 0 over as many disks as the others have for data,
/// and RAID5S as in raid4s-modthresh Fig. 10.
pub(super) const ARRAYS: [&Shape; 7] = [
    &shapes::RAID0,
    &shapes::RAID4,
    &shapes::RAID4S,
    &shapes::RAID4STUPID,
    &shapes::RAID5,
    &shapes::RAID5S,
    &shapes::RAID5S_ALL,
];

/// raid4s-slides, "Experimental Setup": 4+1 arrays.
pub(super) const OF_THE_SLIDES: [&Shape; 5] =
    [&shapes::RAID4, &shapes::RAID4S, &shapes::RAID4STUPID, &shapes::RAID5, &shapes::RAID5S];

/// Writes up to this size mostly change one data block of each row: read-modify-write for all policies.
pub(super) const SMALL_KIB_MAX: u64 = 64;

/// All arrays except the first, which they are compared with.
pub(super) fn after(first: &'static Shape) -> impl Iterator<Item = &'static Shape> {
    let others = ARRAYS.into_iter().filter(|shape| shape.id != first.id);
    std::iter::once(first).chain(others)
}

/// An array's hue, the same in all plots.
///
/// # Panics
/// If it is none of [`ARRAYS`].
pub(super) fn hue(shape: &Shape) -> usize {
    ARRAYS.iter().position(|array| array.id == shape.id).expect("arrays of the papers have hues")
}

/// The hue of an array that is none of them.
pub(super) const HUE_OF_ANOTHER: usize = ARRAYS.len();
