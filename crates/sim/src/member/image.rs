//! The bytes of a member, in memory that the thread's members reuse.
//!
//! A story has some ten members of a megabyte or two, and thousands of stories run one after the other. With
//! fresh memory for each, pages would come from the kernel and go back all the time, and threads would wait
//! for one another there: that took a fifth of the time.

use std::{cell::RefCell, ops::Deref};

use fixedbitset::FixedBitSet;

/// Images kept for later members: more than a story has members.
const KEPT_MAX: usize = 32;
/// Larger ones are not kept.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Memory is taken in multiples of this, so that one member's memory fits another.
const GRAIN_BYTES: usize = 1 << 20;

/// The unit in which writes are noted, in bytes.
pub(super) const BLOCK_BYTES: usize = 4096;

thread_local! {
    static KEPT: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    /// Blocks that may hold other bytes than zeroes.
    written: FixedBitSet,
}

impl Memory {
    fn new(len: usize) -> Self {
        let len = len.next_multiple_of(GRAIN_BYTES);
        Self { bytes: vec![0; len], written: FixedBitSet::with_capacity(len / BLOCK_BYTES) }
    }

    /// Zeroes the written blocks.
    fn clear(&mut self) {
        for block in self.written.ones() {
            self.bytes[block * BLOCK_BYTES..][..BLOCK_BYTES].fill(0);
        }
        self.written.clear();
    }
}

/// Bytes, zeroes at first.
pub(super) struct Image {
    memory: Memory,
    len: usize,
}

impl Image {
    /// Zeroes.
    pub(super) fn zeroed(len: usize) -> Self {
        let kept = KEPT.with_borrow_mut(|kept| {
            let at = kept.iter().rposition(|memory| memory.bytes.len() >= len)?;
            Some(kept.swap_remove(at))
        });
        Self { memory: kept.unwrap_or_else(|| Memory::new(len)), len }
    }

    /// Blocks that may hold other bytes than zeroes.
    pub(super) fn written(&self) -> &FixedBitSet {
        &self.memory.written
    }

    /// A copy of the bytes.
    pub(super) fn copy(&self) -> Self {
        let mut copy = Self::zeroed(self.len);
        for block in self.memory.written.ones() {
            let (start, end) = (block * BLOCK_BYTES, ((block + 1) * BLOCK_BYTES).min(self.len));
            copy.put(start, &self[start..end]);
        }
        copy
    }

    /// As [`Image::copy`], and treats blocks of zeroes as never written.
    pub(super) fn compact_copy(&self) -> Self {
        let mut copy = Self::zeroed(self.len);
        self.blocks().for_each(|(block, bytes)| copy.put(block * BLOCK_BYTES, bytes));
        copy
    }

    /// The blocks that are not zeroes, each with its number.
    fn blocks(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let block =
            |block: usize| (block, &self[block * BLOCK_BYTES..((block + 1) * BLOCK_BYTES).min(self.len)]);
        self.memory.written.ones().map(block).filter(|(_, bytes)| !is_zero(bytes))
    }

    /// A number for the bytes: equal for equal bytes.
    pub(super) fn digest(&self) -> u64 {
        self.blocks().map(|(block, bytes)| digest(block as u64, bytes)).fold(0, u64::wrapping_add)
    }

    /// Zeroes a block, which then counts as never written.
    pub(super) fn punch(&mut self, block: usize) {
        self.put(block * BLOCK_BYTES, &[0; BLOCK_BYTES]);
        self.memory.written.remove(block);
    }

    /// Puts bytes at a place.
    pub(super) fn put(&mut self, offset: usize, bytes: &[u8]) {
        let Memory { bytes: all, written } = &mut self.memory;
        all[..self.len][offset..offset + bytes.len()].copy_from_slice(bytes);
        written.insert_range(offset / BLOCK_BYTES..(offset + bytes.len()).div_ceil(BLOCK_BYTES));
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

/// A number for the bytes of a block. Its multipliers are odd, so that no word is lost.
pub(super) fn digest(block: u64, bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(block.wrapping_mul(0x9e37_79b9_7f4a_7c15), |sum: u64, word| {
        (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(27)
    })
}

impl Drop for Image {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.memory);
        if memory.bytes.len() > KEPT_BYTES_MAX {
            return;
        }
        memory.clear();
        // A thread that is ending keeps nothing.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() == KEPT_MAX {
                kept.swap_remove(0);
            }
            kept.push(memory);
        });
    }
}

impl Deref for Image {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_before_is_zeroes_again() {
        let mut first = Image::zeroed(10_000);
        for (offset, len) in [(0, 1), (4095, 2), (9_000, 1_000), (5_000, 10)] {
            first.put(offset, &vec![7; len]);
        }
        let place = first.as_ptr();
        drop(first);
        let second = Image::zeroed(9_999);
        assert_eq!((second.as_ptr(), &second[..]), (place, &[0; 9_999][..]));
    }

    #[test]
    fn a_copy_has_the_same_bytes() {
        let mut image = Image::zeroed(10_000);
        image.put(4000, &[7; 200]);
        image.put(9_990, &[8; 10]);
        assert_eq!(image.copy()[..], image[..]);
    }

    #[test]
    fn equal_bytes_have_equal_digests_whatever_was_written() {
        let mut image = Image::zeroed(10_000);
        image.put(4000, &[7; 200]);
        let digest = image.digest();
        image.put(8192, &[0; 512]);
        assert_eq!((image.digest(), image.compact_copy().digest()), (digest, digest));
        assert_eq!(image.compact_copy()[..], image[..]);
        image.put(4100, &[8]);
        assert_ne!(image.digest(), digest);
        let mut elsewhere = Image::zeroed(10_000);
        elsewhere.put(4008, &[7; 200]);
        assert_ne!(elsewhere.digest(), digest);
    }

    #[test]
    fn no_more_are_kept_than_a_story_has() {
        drop((0..2 * KEPT_MAX).map(|_| Image::zeroed(512)).collect::<Vec<_>>());
        assert_eq!(KEPT.with_borrow(Vec::len), KEPT_MAX);
    }
}
