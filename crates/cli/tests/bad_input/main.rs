//! What people get wrong, and what goes wrong under them: a clear error that names the thing and the remedy,
//! exit code 1 (2 for usage), and nothing lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod assembling;
mod creating;
mod damage;
mod holding;
mod talking;
mod trouble;
mod usage;
