//! The array's shape, by pure functions: where a byte lies, and in which rows and regions.

pub mod geometry;
mod level;
pub(crate) mod regions;
pub mod rows;
