//! Where a byte of the array lies, and whether redundancy agrees: md(4)'s layouts written down once more, with XOR
//! and GF(2^8) of their own (Anvin, "The mathematics of RAID-6": polynomial 0x11d, generator 2).

/// Bytes of a row on each member: the grain in which disagreement is told.
pub const ROW_BYTES: usize = 4096;

/// The shape of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// 1, 4, 5 or 6.
    pub level: i32,
    /// Roles.
    pub members: usize,
    /// Bytes of a chunk. Any number of bytes at level 1, which has none.
    pub chunk_bytes: usize,
    /// Bytes of data that each member holds.
    pub member_bytes: usize,
}

/// A place on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The role.
    pub role: usize,
    /// From the start of the member's data.
    pub offset_bytes: usize,
}

impl Layout {
    /// Members whose loss the level survives.
    pub fn tolerance(&self) -> usize {
        match self.level {
            1 => self.members - 1,
            6 => 2,
            _ => 1,
        }
    }

    fn data_columns(&self) -> usize {
        if self.level == 1 { 1 } else { self.members - self.tolerance() }
    }

    /// The role of a stripe's first parity.
    fn parity_role(&self, stripe: usize) -> usize {
        match self.level {
            4 => self.members - 1,
            _ => self.members - 1 - stripe % self.members,
        }
    }

    /// The role of a stripe's data column.
    fn data_role(&self, stripe: usize, column: usize) -> usize {
        match self.level {
            1 => 0,
            4 => column,
            5 => (self.parity_role(stripe) + 1 + column) % self.members,
            _ => (self.parity_role(stripe) + 2 + column) % self.members,
        }
    }

    /// Where a byte of the array lies; at level 1 on the first of the members that all have it.
    pub fn place(&self, array_byte: usize) -> Place {
        if self.level == 1 {
            return Place { role: 0, offset_bytes: array_byte };
        }
        let (chunk, within) = (array_byte / self.chunk_bytes, array_byte % self.chunk_bytes);
        let (stripe, column) = (chunk / self.data_columns(), chunk % self.data_columns());
        Place { role: self.data_role(stripe, column), offset_bytes: stripe * self.chunk_bytes + within }
    }

    /// The stripe of a row.
    pub fn stripe_of_row(&self, row: usize) -> usize {
        row * ROW_BYTES / self.chunk_bytes
    }

    /// The rows in which redundancy disagrees, of the data areas of all members by role.
    pub fn disagreeing_rows(&self, data: &[&[u8]]) -> Vec<usize> {
        let rows = self.member_bytes / ROW_BYTES;
        (0..rows).filter(|row| !self.row_agrees(data, *row)).collect()
    }

    fn row_agrees(&self, data: &[&[u8]], row: usize) -> bool {
        let at = row * ROW_BYTES..(row + 1) * ROW_BYTES;
        let block = |role: usize| &data[role][at.clone()];
        match self.level {
            1 => (1..self.members).all(|role| block(role) == block(0)),
            4 | 5 => is_zero(&sum((0..self.members).map(block))),
            _ => {
                let stripe = self.stripe_of_row(row);
                let p = self.parity_role(stripe);
                let q = (p + 1) % self.members;
                let columns = || (0..self.data_columns()).map(|c| block(self.data_role(stripe, c)));
                let p_agrees = is_zero(&sum(columns().chain([block(p)])));
                p_agrees && horner(columns()) == words(block(q))
            }
        }
    }
}

type Block = [u64; ROW_BYTES / 8];

fn words(bytes: &[u8]) -> Block {
    let mut block = [0; ROW_BYTES / 8];
    for (word, bytes) in block.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    block
}

fn is_zero(block: &Block) -> bool {
    block.iter().fold(0, |all, word| all | word) == 0
}

/// The sum (XOR) of blocks.
fn sum<'a>(blocks: impl Iterator<Item = &'a [u8]>) -> Block {
    let mut total = [0; ROW_BYTES / 8];
    for block in blocks {
        total.iter_mut().zip(words(block)).for_each(|(total, word)| *total ^= word);
    }
    total
}

/// d0 + 2 d1 + 4 d2 + ..., from the last on: ((d2) 2 + d1) 2 + d0.
fn horner<'a>(columns: impl DoubleEndedIterator<Item = &'a [u8]>) -> Block {
    let mut total = [0; ROW_BYTES / 8];
    for block in columns.rev() {
        total.iter_mut().zip(words(block)).for_each(|(total, word)| *total = double(*total) ^ word);
    }
    total
}

/// Eight products with 2 at once: shifted left, and reduced by 0x1d where a bit fell out.
fn double(word: u64) -> u64 {
    let high = word & 0x8080_8080_8080_8080;
    ((word ^ high) << 1) ^ ((high >> 7) * 0x1d)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GF(2^8) multiplication by shifting.
    fn mul(mut a: u8, mut b: u8) -> u8 {
        let mut product = 0;
        while b != 0 {
            if b & 1 == 1 {
                product ^= a;
            }
            a = (a << 1) ^ if a & 0x80 != 0 { 0x1d } else { 0 };
            b >>= 1;
        }
        product
    }

    #[test]
    fn eight_products_at_once_are_eight_products() {
        for start in (0..=255u8).step_by(8) {
            let bytes: [u8; 8] = std::array::from_fn(|i| start + i as u8);
            assert_eq!(double(u64::from_le_bytes(bytes)).to_le_bytes(), bytes.map(|b| mul(b, 2)));
        }
    }

    #[test]
    fn one_wrong_bit_anywhere_is_seen() {
        for (level, members) in [(1, 2), (4, 4), (5, 3), (6, 5)] {
            let layout = Layout { level, members, chunk_bytes: 4096, member_bytes: 8 * ROW_BYTES };
            let mut data = vec![vec![0u8; layout.member_bytes]; members];
            let views = |data: &[Vec<u8>]| {
                layout.disagreeing_rows(&data.iter().map(Vec::as_slice).collect::<Vec<_>>())
            };
            assert!(views(&data).is_empty());
            for role in 0..members {
                data[role][5 * ROW_BYTES + 77] ^= 0x10;
                assert_eq!(views(&data), [5], "level {level}, role {role}");
                data[role][5 * ROW_BYTES + 77] ^= 0x10;
            }
        }
    }

    #[test]
    fn every_byte_of_the_array_has_a_place_of_its_own_beside_the_parity() {
        for (level, members) in [(4, 4), (5, 3), (5, 5), (6, 4), (6, 6)] {
            let layout = Layout { level, members, chunk_bytes: 8192, member_bytes: 64 * 1024 };
            let capacity = layout.data_columns() * layout.member_bytes;
            let mut places: Vec<_> = (0..capacity)
                .step_by(512)
                .map(|at| layout.place(at))
                .map(|place| (place.role, place.offset_bytes))
                .collect();
            for (role, offset) in &places {
                assert_ne!(*role, layout.parity_role(offset / layout.chunk_bytes));
            }
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), capacity / 512);
        }
    }
}
