//! Bytes on disk, and nothing else: no I/O, no clock, no `unsafe`.
//!
//! * [`md`]: what Linux md keeps on a member: the v1.x superblock, the internal bitmap's header, the
//!   bad-block log;
//! * [`extension`]: the Stripewise extension area between superblock and data, with its two header copies;
//! * [`bitmap`]: the pages of the write-intent bitmap that live in that area;
//! * [`crc`]: CRC-32C, whole and with a hole for the stored value;
//! * [`rafs`]: what the file system keeps on a volume;
//! * [`media`]: what is assumed of a member's medium, in constants.
//!
//! Everything is parsed into a valid type at this edge. Arbitrary bytes give a typed error that says what is
//! wrong, why it matters and what to do; they never panic. `docs/on-disk-format.md` describes every byte, and
//! a test in this crate compares its tables with the raw structs.

pub mod bitmap;
pub mod crc;
pub mod extension;
pub mod md;
pub mod media;
pub mod rafs;

#[cfg(test)]
mod document;
