//! The commands of the file system, through the built binary: on files, on loop devices, on arrays, and with wrong words.
//!
//! `STRIPEWISE_RAFS_KILL_ROUNDS` says how often an array's daemon is killed under clients that sync; 6 times if it is not set.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod array;
mod array_killed;
mod buffer;
mod canceled;
mod foreground;
mod helper;
mod life;
mod lost;
mod mended;
mod policies;
mod refused;
mod world;
