//! What the experiments of the RAID4S slides share: their arrays.

use crate::arrays::{Shape, shapes};

/// raid4s-slides, "Experimental Setup": 4+1 arrays.
pub(super) const ARRAYS: [&Shape; 5] =
    [&shapes::RAID4, &shapes::RAID4S, &shapes::RAID4STUPID, &shapes::RAID5, &shapes::RAID5S];

/// Writes up to this size change one data block of each row, mostly: read-modify-write for all policies.
pub(super) const SMALL_KIB_MAX: u64 = 64;
