//! What the members' metadata says about the array: read from devices, kept in memory, written to all
//! members.

pub(crate) mod enroll;
pub(crate) mod examine;
pub(crate) mod ledger;
