//! What the members say of the array: read from a device, kept in memory, written to all of them.

pub(crate) mod enroll;
pub(crate) mod examine;
pub(crate) mod ledger;
