//! The contents of the exports. Every block begins with its own offset, so that a reader can tell whether it
//! got the right block.

use stripewise::{IoBuf, SharedBuf};

/// The size of the blocks that begin with their offset.
const BLOCK_BYTES: usize = 4096;

/// A buffer of contents to write.
pub(super) fn new(len: usize) -> IoBuf {
    let mut buf = IoBuf::with_len(len);
    fastrand::Rng::with_seed(1).fill(&mut buf);
    buf
}

/// The buffer, stamped for writing at an offset.
pub(super) fn stamped(mut buf: IoBuf, offset_bytes: u64) -> SharedBuf {
    for (block, at) in buf.chunks_mut(BLOCK_BYTES).zip((offset_bytes..).step_by(BLOCK_BYTES)) {
        block[..8].copy_from_slice(&at.to_ne_bytes());
    }
    buf.freeze()
}

/// The buffer back, once it is written, or a copy if it is still in use.
pub(super) fn reused(data: SharedBuf) -> IoBuf {
    data.try_into_owned().unwrap_or_else(|data| IoBuf::copy_of(&data))
}

/// The offset of the first block that is not what was written there.
pub(super) fn first_wrong(data: &[u8], offset_bytes: u64) -> Option<u64> {
    let mut blocks = data.chunks(BLOCK_BYTES).zip((offset_bytes..).step_by(BLOCK_BYTES));
    blocks.find(|(block, at)| block.first_chunk() != Some(&at.to_ne_bytes())).map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_in_the_wrong_place_is_found() {
        let data = stamped(new(3 * BLOCK_BYTES), 8192);
        assert_eq!(first_wrong(&data, 8192), None);
        assert_eq!(first_wrong(&data, 4096), Some(4096));
        let mut data = reused(data);
        data[BLOCK_BYTES] ^= 1;
        assert_eq!(first_wrong(&data, 8192), Some(8192 + BLOCK_BYTES as u64));
    }
}
