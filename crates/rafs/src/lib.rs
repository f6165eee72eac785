//! RAFS: a file system that writes whole stripes, after *RAFS: A RAID-Aware File System to Reduce the Parity Update Overhead
//! for SSD RAID*. `docs/design/rafs.md` tells how it is built, and `docs/rafs-format.md` what it keeps on a volume.
//!
//! * [`shape`]: where a block lies. Pure;
//! * [`tree`]: the copy-on-write B+ tree.

pub mod shape;
pub mod tree;
