//! The commands of the file system, through the built binary: on files, on loop devices, and with wrong words.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod life;
mod mended;
mod refused;
mod world;
