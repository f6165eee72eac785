//! A model of the file system ext3 as Linux 2.6.11 has it: it turns files into block numbers.
//!
//! * [`layout`]: where metadata lie. [`bitmap`], [`blocks`], [`inodes`]: what is free, and what is taken next.
//! * [`files`]: files and directories, and which blocks are dirty after a change.
//! * [`journal`], [`page_cache`]: what is written when.
//! * [`aging`]: cycles of deletion and creation.
//!
//! It has no contents, names or times, and one process that writes. docs/experiments.md says what else it leaves out, and
//! `tests/against_ext3.rs` holds it against the kernel's own.

mod aging;
mod bitmap;
mod blocks;
mod files;
mod inodes;
mod journal;
mod layout;
mod page_cache;

pub use aging::Aging;
