//! What people use to see whether an NBD export can be trusted: fio with verification, nbdcopy and qemu-img
//! with checksums; on whole, degraded and rebuilding arrays.
//!
//! `STRIPEWISE_FIO_SIZE` says how many bytes each of the four jobs covers, such as `256m`; 6m if it is not
//! set.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod copies;
mod verify;
