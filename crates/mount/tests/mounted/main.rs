//! Real mounts, and programs at work on them. Each test ends with a look at everything that the file system keeps.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod calls;
mod common;
mod damage;
mod folders;
mod killed;
mod programs;
mod random;
mod space;
mod tree;
