//! Members: what each one is and does, and which ones the array has right now.

pub(crate) mod bad_blocks;
pub(crate) mod benches;
pub mod endurance;
pub(crate) mod measure;
pub(crate) mod member;
pub(crate) mod meter;
pub(crate) mod stats;
pub(crate) mod strides;
pub(crate) mod topology;
