//! What the formats assume of a member's medium. Everything else about it is unknown: unflushed writes may be
//! lost, torn and reordered (`docs/on-disk-format.md`, "The medium").

/// The unit of every address md keeps, and the largest write assumed to be all or nothing.
pub const SECTOR_BYTES: u64 = 512;

/// The unit of everything Stripewise itself writes: a multiple of any logical sector size in use (512 or
/// 4096).
pub const BLOCK_BYTES: u64 = 4096;

/// [`BLOCK_BYTES`] as a buffer length.
pub const BLOCK_LEN: usize = BLOCK_BYTES as usize;

/// One block: how headers, superblocks and bitmap pages travel to and from a member.
pub type Block = [u8; BLOCK_LEN];

const _: () = assert!(BLOCK_BYTES.is_multiple_of(SECTOR_BYTES));
