//! The roster: which devices belong to the array, and the one way by which that changes.

pub(crate) mod failure;
pub(crate) mod kept;
