//! The array's shape, by pure functions: where a byte lies, which rows and regions that is.

pub mod geometry;
mod level;
pub(crate) mod regions;
pub mod rows;
