//! What RAFS, the file system, keeps on a volume. `docs/rafs-format.md` describes every byte.
//!
//! * [`block`]: the head of every metadata block: magic, CRC, place, owner, generation;
//! * [`superblock`], [`anchor`]: what a file system is, and where its tree is;
//! * [`node`]: nodes of the tree; [`key`]: its keys; [`value`]: what its values have in common;
//! * [`inode`], [`names`], [`space`]: its values;
//! * [`journal`]: records of the journal.

pub mod anchor;
pub mod block;
pub mod inode;
pub mod journal;
pub mod key;
pub mod names;
pub mod node;
pub mod space;
pub mod superblock;
pub mod value;
