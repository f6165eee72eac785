//! A model of the file system ext3 as Linux 2.6.11 has it: it turns files into block numbers.
//!
//! * `layout`: where metadata lie. `bitmap`, `blocks`, `inodes`: what is free, and what is taken next.
//! * `file`, `directory`: one of each. `files`: the file system of them, and which blocks are dirty after a change.
//! * `journal`, `page_cache`: what is written when.
//! * `made`: a file system as mke2fs makes it. `aging`: cycles of deletion and creation. `copying`: files that are copied.
//!   `one_file`: a large one. `clients`, `dbench`: many processes that work on small ones, as we think and as DBench's
//!   `loadfile` has it; their `turns`.
//!
//! It has no contents, names or times. docs/experiments.md says what else it leaves out, and
//! `against_ext3` holds it against the kernel's own.

#[cfg(test)]
mod against_ext3;
mod aging;
mod bitmap;
mod blocks;
mod clients;
mod copying;
mod dbench;
mod directory;
mod file;
mod files;
mod inodes;
mod journal;
mod layout;
pub(crate) mod loadfile;
mod made;
mod one_file;
mod page_cache;
mod turns;

pub use aging::Aging;
pub use clients::Clients;
pub use copying::{Copying, Files, Sizes};
pub use dbench::DBench;
pub use loadfile::{Loadfile, LoadfileError};
pub use made::Made;
pub use one_file::OneFile;
pub use turns::LeftOut;
