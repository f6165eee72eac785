//! What RAFS, the file system, keeps on a volume. `docs/rafs-format.md` describes every byte.
//!
//! * [`block`]: the head of every metadata block: magic, CRC, place, owner, generation;
//! * [`key`]: the keys of the tree;
//! * [`node`]: nodes of the tree: leaves with items, inner nodes with children.

pub mod block;
pub mod key;
pub mod node;
