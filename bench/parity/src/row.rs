//! A row of columns in one aligned allocation.

use std::alloc::{Layout, alloc, handle_alloc_error};

/// Data columns, P and Q, borrowed apart.
pub type Parts<'a, const N: usize> = ([Option<&'a [u8]>; N], &'a mut [u8], &'a mut [u8]);

/// `data` data columns, then P, then Q.
pub struct Row {
    pub columns: Vec<&'static mut [u8]>,
    pub data: usize,
    pub length: usize,
}

impl Row {
    /// Rows over one page-aligned region, filled with noise. Never freed: the process is short.
    pub fn many(rows: usize, data: usize, length: usize) -> Vec<Row> {
        let columns = data + 2;
        let layout = Layout::from_size_align(rows * columns * length, 1 << 21).expect("a valid layout");
        // SAFETY: the size is not zero; every byte is written before the slice is made.
        let memory = unsafe {
            let start = alloc(layout);
            if start.is_null() {
                handle_alloc_error(layout);
            }
            start.write_bytes(1, layout.size());
            std::slice::from_raw_parts_mut(start, layout.size())
        };
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for word in memory.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let mut chunks = memory.chunks_exact_mut(length);
        (0..rows).map(|_| Row { columns: chunks.by_ref().take(columns).collect(), data, length }).collect()
    }

    /// The first `N` data columns, P and Q; without an allocation, which would show at 4 KiB.
    pub fn parts<const N: usize>(&mut self) -> Parts<'_, N> {
        let (data, parity) = self.columns.split_at_mut(self.data);
        let [p, q] = parity else { unreachable!("a row has two parities") };
        (std::array::from_fn(|index| Some(&*data[index])), p, q)
    }
}
