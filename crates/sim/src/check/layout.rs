//! Where a byte of the array lies, and whether redundancy agrees: a second implementation of md(4)'s layouts,
//! with its own XOR and GF(2^8) (Anvin, "The mathematics of RAID-6": polynomial 0x11d, generator 2).

/// Bytes of a row on each member: the unit in which disagreement is reported.
pub const ROW_BYTES: usize = 4096;

/// The shape of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// 0, 1, 4, 5 or 6.
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
            0 => 0,
            1 => self.members - 1,
            6 => 2,
            _ => 1,
        }
    }

    fn data_columns(&self) -> usize {
        if self.level == 1 { 1 } else { self.members - self.tolerance() }
    }

    /// The role of a stripe's first parity.
    pub fn parity_role(&self, stripe: usize) -> usize {
        match self.level {
            4 => self.members - 1,
            _ => self.members - 1 - stripe % self.members,
        }
    }

    /// The role of a stripe's second parity, at level 6.
    pub fn q_role(&self, stripe: usize) -> usize {
        (self.parity_role(stripe) + 1) % self.members
    }

    /// The role of a stripe's data column.
    fn data_role(&self, stripe: usize, column: usize) -> usize {
        match self.level {
            1 => 0,
            0 | 4 => column,
            5 => (self.parity_role(stripe) + 1 + column) % self.members,
            _ => (self.parity_role(stripe) + 2 + column) % self.members,
        }
    }

    /// Where a byte of the array lies; at level 1 on the first of the members, all of which have it.
    pub fn place(&self, array_byte: usize) -> Place {
        if self.level == 1 {
            return Place { role: 0, offset_bytes: array_byte };
        }
        let (chunk, within) = (array_byte / self.chunk_bytes, array_byte % self.chunk_bytes);
        let (stripe, column) = (chunk / self.data_columns(), chunk % self.data_columns());
        Place { role: self.data_role(stripe, column), offset_bytes: stripe * self.chunk_bytes + within }
    }

    /// Bytes of the array that lie in one stripe.
    pub fn stripe_bytes(&self) -> usize {
        self.chunk_bytes * self.data_columns()
    }

    /// The stripe of a row.
    pub fn stripe_of_row(&self, row: usize) -> usize {
        row * ROW_BYTES / self.chunk_bytes
    }

    /// The rows in which redundancy disagrees, given the members' data areas by role. If some are absent, the
    /// others are compared as far as possible.
    pub fn disagreeing_rows(&self, data: &[Option<&[u8]>]) -> Vec<usize> {
        self.disagreeing_among(0..self.rows(), data)
    }

    /// As [`Layout::disagreeing_rows`], for some rows.
    pub fn disagreeing_among(&self, rows: impl Iterator<Item = usize>, data: &[Option<&[u8]>]) -> Vec<usize> {
        rows.filter(|row| !self.row_agrees(data, *row)).collect()
    }

    /// How many rows there are; the last of level 1 may be short.
    pub fn rows(&self) -> usize {
        self.member_bytes.div_ceil(ROW_BYTES)
    }

    /// Whether redundancy agrees in a row.
    pub(super) fn row_agrees(&self, data: &[Option<&[u8]>], row: usize) -> bool {
        let at = row * ROW_BYTES..((row + 1) * ROW_BYTES).min(self.member_bytes);
        let block = |role: usize| data[role].map(|bytes| &bytes[at.clone()]);
        match self.level {
            0 => true,
            1 => {
                let mut copies = (0..self.members).filter_map(block);
                let first = copies.next();
                copies.all(|copy| Some(copy) == first)
            }
            4 | 5 => sum((0..self.members).map(block)).is_none_or(|sum| is_zero(&sum)),
            _ => self.p_and_q_agree(block, self.stripe_of_row(row)),
        }
    }

    fn p_and_q_agree<'a>(&self, block: impl Fn(usize) -> Option<&'a [u8]>, stripe: usize) -> bool {
        let (p, q) = (block(self.parity_role(stripe)), block(self.q_role(stripe)));
        let columns: Vec<Option<&[u8]>> =
            (0..self.data_columns()).map(|column| block(self.data_role(stripe, column))).collect();
        let q_of = |absent: Block| horner(columns.iter().map(|column| column.map_or(absent, words)));
        let with_p = columns.iter().copied().chain([p]);
        match (columns.iter().filter(|column| column.is_none()).count(), p, q) {
            (0, _, _) => {
                let q_agrees = q.is_none_or(|q| q_of(ZERO) == words(q));
                q_agrees && sum(with_p).is_none_or(|sum| is_zero(&sum))
            }
            // The absent column is the sum of all others; then Q must agree.
            (1, Some(_), Some(q)) => {
                sum(with_p.filter(Option::is_some)).is_none_or(|absent| q_of(absent) == words(q))
            }
            _ => true,
        }
    }
}

type Block = [u64; ROW_BYTES / 8];

const ZERO: Block = [0; ROW_BYTES / 8];

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

/// The sum (XOR) of blocks. None if one is absent.
fn sum<'a>(blocks: impl Iterator<Item = Option<&'a [u8]>>) -> Option<Block> {
    let mut total = ZERO;
    for block in blocks {
        total.iter_mut().zip(words(block?)).for_each(|(total, word)| *total ^= word);
    }
    Some(total)
}

/// d0 + 2 d1 + 4 d2 + ..., from the last on: ((d2) 2 + d1) 2 + d0.
fn horner(columns: impl DoubleEndedIterator<Item = Block>) -> Block {
    let mut total = ZERO;
    for block in columns.rev() {
        total.iter_mut().zip(block).for_each(|(total, word)| *total = double(*total) ^ word);
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

    /// Rows that disagree in zeroes with one wrong bit in one role, with some roles absent.
    fn rows_found(layout: &Layout, wrong: Option<usize>, absent: &[usize]) -> Vec<usize> {
        let mut data = vec![vec![0u8; layout.member_bytes]; layout.members];
        wrong.into_iter().for_each(|role| data[role][5 * ROW_BYTES + 77] ^= 0x10);
        let left = data.iter().enumerate();
        let left = left.map(|(role, bytes)| (!absent.contains(&role)).then_some(&bytes[..]));
        layout.disagreeing_rows(&left.collect::<Vec<_>>())
    }

    fn layout(level: i32, members: usize) -> Layout {
        Layout { level, members, chunk_bytes: 4096, member_bytes: 8 * ROW_BYTES }
    }

    #[test]
    fn one_wrong_bit_anywhere_is_seen() {
        for (level, members) in [(1, 2), (4, 4), (5, 3), (6, 5)] {
            let layout = layout(level, members);
            assert!(rows_found(&layout, None, &[]).is_empty());
            (0..members)
                .for_each(|role| assert_eq!(rows_found(&layout, Some(role), &[]), [5], "{layout:?}, {role}"));
        }
    }

    #[test]
    fn what_is_left_of_a_degraded_array_is_held_against_itself() {
        for (level, members) in [(1, 3), (6, 5)] {
            let layout = layout(level, members);
            for absent in (0..members).filter(|role| *role != 1) {
                assert_eq!(rows_found(&layout, Some(1), &[absent]), [5], "{layout:?} without {absent}");
            }
            assert!(rows_found(&layout, Some(1), &[1]).is_empty());
        }
        assert!(rows_found(&layout(5, 3), Some(1), &[0]).is_empty(), "nothing is left to tell");
        assert!(rows_found(&layout(6, 5), Some(1), &[0, 2]).is_empty());
    }

    #[test]
    fn the_last_row_of_mirrors_may_be_short() {
        let layout = Layout { member_bytes: 5 * ROW_BYTES + 512, ..layout(1, 2) };
        assert_eq!(rows_found(&layout, Some(1), &[]), [5]);
    }

    #[test]
    fn every_byte_of_the_array_has_a_place_of_its_own_beside_the_parity() {
        for (level, members) in [(0, 2), (4, 4), (5, 2), (5, 3), (5, 5), (6, 4), (6, 6)] {
            let layout = Layout { level, members, chunk_bytes: 8192, member_bytes: 64 * 1024 };
            let capacity = layout.data_columns() * layout.member_bytes;
            let mut places: Vec<_> = (0..capacity)
                .step_by(512)
                .map(|at| layout.place(at))
                .map(|place| (place.role, place.offset_bytes))
                .collect();
            for (role, offset) in &places {
                assert!(level == 0 || *role != layout.parity_role(offset / layout.chunk_bytes));
            }
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), capacity / 512);
        }
    }
}
