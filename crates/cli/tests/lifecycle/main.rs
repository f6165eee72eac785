//! The life of arrays, through the built binary: made, used, broken, mended, exported, stopped, found again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod arrays;
mod caches;
mod demo;
mod discards;
mod exports;
mod hanging;
mod interrupted;
mod jobs;
mod load;
mod members;
mod policies;
mod process;
mod releases;
mod unit;
mod wear;
mod wire;
