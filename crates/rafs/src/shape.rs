//! Where a block lies: stripes of rows and columns, and how the slots of a stripe are numbered.

use std::ops::Range;

use stripewise_format::media::BLOCK_LEN;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = BLOCK_LEN;

/// A block of a volume, by its number: `stripe * stripe_blocks + slot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNo(pub u64);

/// A stripe of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeNo(pub u64);

/// How the slots of a stripe are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Row by row: neighbouring slots lie on different members.
    Rows,
    /// Column by column, as the volume's bytes lie: neighbouring slots lie on one member.
    Columns,
}

/// The shape of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    data_columns: u32,
    rows: u32,
    stripes: u64,
}

/// Where a block lies in its stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Its row.
    pub row: u32,
    /// Its data column.
    pub column: u32,
}

impl Geometry {
    /// Stripes of so many data columns, with chunks of so many blocks. None if one of these is 0, or blocks cannot be numbered.
    #[must_use]
    pub fn new(data_columns: u32, rows: u32, stripes: u64) -> Option<Self> {
        let blocks = u64::from(data_columns.checked_mul(rows)?).checked_mul(stripes)?;
        let bytes = blocks.checked_mul(BLOCK_BYTES as u64)?;
        (bytes > 0).then_some(Self { data_columns, rows, stripes })
    }

    /// The first ones of these stripes, so many at most. A file system leaves what a volume has grown by.
    #[must_use]
    pub fn up_to(self, stripes: u64) -> Self {
        Self { stripes: self.stripes.min(stripes.max(1)), ..self }
    }

    /// Data blocks of a row.
    #[must_use]
    pub fn data_columns(&self) -> u32 {
        self.data_columns
    }

    /// Rows of a stripe: blocks of a chunk.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Stripes.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Data blocks of a stripe.
    #[must_use]
    pub fn stripe_blocks(&self) -> u32 {
        self.data_columns * self.rows
    }

    /// Data bytes of a stripe.
    #[must_use]
    pub fn stripe_bytes(&self) -> u64 {
        u64::from(self.stripe_blocks()) * BLOCK_BYTES as u64
    }

    /// Where stripes begin on the volume, and how long they are, in bytes.
    #[must_use]
    pub fn bytes_of(&self, stripes: Range<StripeNo>) -> (u64, u64) {
        let bytes = self.stripe_bytes();
        (stripes.start.0 * bytes, (stripes.end.0 - stripes.start.0) * bytes)
    }

    /// All data blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.stripes * u64::from(self.stripe_blocks())
    }

    /// A block's stripe, and its slot there.
    #[must_use]
    pub fn locate(&self, block: BlockNo) -> (StripeNo, u32) {
        let of_stripe = u64::from(self.stripe_blocks());
        (StripeNo(block.0 / of_stripe), (block.0 % of_stripe) as u32)
    }

    /// The block in a slot of a stripe.
    #[must_use]
    pub fn block(&self, stripe: StripeNo, slot: u32) -> BlockNo {
        debug_assert!(slot < self.stripe_blocks());
        BlockNo(stripe.0 * u64::from(self.stripe_blocks()) + u64::from(slot))
    }

    /// The blocks of a stripe.
    #[must_use]
    pub fn blocks_of(&self, stripe: StripeNo) -> Range<BlockNo> {
        self.block(stripe, 0)..BlockNo((stripe.0 + 1) * u64::from(self.stripe_blocks()))
    }

    /// Where a slot lies.
    #[must_use]
    pub fn cell(&self, order: Order, slot: u32) -> Cell {
        match order {
            Order::Rows => Cell { row: slot / self.data_columns, column: slot % self.data_columns },
            Order::Columns => Cell { row: slot % self.rows, column: slot / self.rows },
        }
    }

    /// The slot that lies there.
    #[must_use]
    pub fn slot(&self, order: Order, cell: Cell) -> u32 {
        match order {
            Order::Rows => cell.row * self.data_columns + cell.column,
            Order::Columns => cell.column * self.rows + cell.row,
        }
    }

    /// Where a block begins on the volume, in bytes.
    #[must_use]
    pub fn offset_bytes(&self, order: Order, block: BlockNo) -> u64 {
        let (stripe, slot) = self.locate(block);
        let linear = self.slot(Order::Columns, self.cell(order, slot));
        self.block(stripe, linear).0 * BLOCK_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slots_are_numbered_by_rows_or_by_columns() {
        let geometry = Geometry::new(4, 16, 10).unwrap();
        assert_eq!((geometry.stripe_blocks(), geometry.blocks()), (64, 640));
        assert_eq!(geometry.cell(Order::Rows, 5), Cell { row: 1, column: 1 });
        assert_eq!(geometry.cell(Order::Columns, 5), Cell { row: 5, column: 0 });
        let block = geometry.block(StripeNo(2), 5);
        assert_eq!(geometry.offset_bytes(Order::Columns, block), (2 * 64 + 5) * 4096);
        assert_eq!(geometry.offset_bytes(Order::Rows, block), (2 * 64 + 16 + 1) * 4096);
    }

    #[test]
    fn what_cannot_be_numbered_is_no_shape() {
        assert!(Geometry::new(0, 16, 10).is_none() && Geometry::new(4, 0, 10).is_none());
        assert!(Geometry::new(4, 16, 0).is_none() && Geometry::new(4, 16, u64::MAX / 64).is_none());
        assert!(Geometry::new(1 << 20, 1 << 12, 1).is_none());
    }

    proptest! {
        #[test]
        fn every_slot_has_a_cell_of_its_own(columns in 1..20_u32, rows in 1..64_u32, by_rows in any::<bool>()) {
            let geometry = Geometry::new(columns, rows, 3).unwrap();
            let order = if by_rows { Order::Rows } else { Order::Columns };
            let mut seen = std::collections::BTreeSet::new();
            for slot in 0..geometry.stripe_blocks() {
                let cell = geometry.cell(order, slot);
                prop_assert!(cell.row < rows && cell.column < columns);
                prop_assert_eq!(geometry.slot(order, cell), slot);
                prop_assert!(seen.insert((cell.row, cell.column)));
            }
            let block = geometry.block(StripeNo(2), columns * rows - 1);
            prop_assert_eq!(geometry.locate(block), (StripeNo(2), columns * rows - 1));
        }
    }
}
