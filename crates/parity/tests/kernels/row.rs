//! Rows of made-up bytes, and the shapes of them worth trying.

use proptest::prelude::*;

/// Around every boundary of every kernel: empty, one byte, a register, a group of registers, a block, and
/// odd.
pub(crate) const LENGTHS: [usize; 16] =
    [0, 1, 15, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 511, 4096, 4096 + 64 + 31];
pub(crate) const COLUMN_COUNTS: [usize; 8] = [1, 2, 3, 4, 8, 17, 32, 255];

/// Bytes that differ from run to run of `seed`, at an alignment that differs too.
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    skip: usize,
}

impl Bytes {
    pub(crate) fn new(length: usize, seed: u64) -> Bytes {
        let skip = (seed % 67) as usize;
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        };
        Bytes { bytes: (0..length + skip).map(|_| next()).collect(), skip }
    }

    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[self.skip..]
    }

    pub(crate) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.skip..]
    }
}

pub(crate) struct Row {
    pub(crate) data: Vec<Bytes>,
    pub(crate) length: usize,
}

impl Row {
    pub(crate) fn new(columns: usize, length: usize, seed: u64) -> Row {
        let data = (0..columns).map(|index| Bytes::new(length, seed + 1 + index as u64)).collect();
        Row { data, length }
    }

    pub(crate) fn slices(&self) -> Vec<&[u8]> {
        self.data.iter().map(Bytes::get).collect()
    }

    /// The columns, those for which `absent` holds left out.
    pub(crate) fn columns(&self, absent: impl Fn(usize) -> bool) -> Vec<Option<&[u8]>> {
        let columns = self.data.iter().enumerate();
        columns.map(|(index, bytes)| (!absent(index)).then(|| bytes.get())).collect()
    }
}

/// The boundaries, and anything else.
pub(crate) fn length() -> impl Strategy<Value = usize> {
    prop_oneof![proptest::sample::select(&LENGTHS[..]), 0..2000usize]
}
