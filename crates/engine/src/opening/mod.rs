//! From devices to an open array: a new one is created, an existing one is assembled.

pub(crate) mod advice;
mod agree;
pub(crate) mod assemble;
pub(crate) mod candidates;
pub(crate) mod choose;
pub(crate) mod create;
mod damage;
mod force;
mod load;
pub(crate) mod options;
pub(crate) mod preview;
