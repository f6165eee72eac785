//! RAFS: a file system that writes whole stripes, after *RAFS: A RAID-Aware File System to Reduce the Parity Update Overhead
//! for SSD RAID*. `docs/design/rafs.md` tells how it is built, and `docs/rafs-format.md` what it keeps on a volume.
//!
//! * [`shape`]: where a block lies. Pure.
//! * [`space`]: which blocks are free, and which stripe is filled next. Pure.

pub mod shape;
pub mod space;
