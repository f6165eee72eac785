//! RAFS: a file system that writes whole stripes, after *RAFS: A RAID-Aware File System to Reduce the Parity Update Overhead
//! for SSD RAID*. `docs/design/rafs.md` tells how it is built, and `docs/rafs-format.md` what it keeps on a volume.
//!
//! * [`shape`]: where a block lies. Pure;
//! * [`volume`]: what the file system lies on;
//! * [`tree`]: the copy-on-write B+ tree;
//! * [`space`]: which blocks are free, and which stripe is filled next. Pure;
//! * [`journal`]: commits, and their replay;
//! * [`store`]: tree, space and journal as one, through power failures;
//! * [`buffer`]: what is not written out yet, and what goes next. Pure;
//! * `healing`: blocks that redundancy has still;
//! * [`fs`]: the file system itself: operations on inodes;
//! * [`check`](mod@check): what fsck looks at; [`repair`](mod@repair): what it mends; [`inspect`]: what lies on a volume;
//! * [`mutants`]: deliberate bugs, for tests.

pub mod buffer;
pub mod check;
pub mod fs;
mod healing;
pub mod inspect;
pub mod journal;
pub mod mutants;
pub mod repair;
pub mod shape;
pub mod space;
pub mod store;
#[cfg(test)]
mod test_env;
#[cfg(test)]
mod test_volume;
pub mod tree;
pub mod volume;
