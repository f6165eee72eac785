//! The stripe counter (rafs IV-A): how stripes were written, by what lies there.

use std::collections::BTreeSet;

use super::{Store, StripeWrite};
use crate::shape::{Cell, Geometry};

/// Writes of stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Writes to a stripe, of however much of it.
    pub stripes: u64,
    /// Of these, those of all of it.
    pub full_stripes: u64,
    /// Rows that were written as a whole: no read comes before that.
    pub full_rows: u64,
    /// Rows in which blocks were written beside live ones: parity needs a read.
    pub partial_rows: u64,
    /// Those blocks.
    pub single_blocks: u64,
}

impl Written {
    /// Counts a write of a run of whole rows.
    pub(crate) fn count_rows(&mut self, rows: u32, geometry: &Geometry) {
        self.stripes += 1;
        self.full_stripes += u64::from(rows == geometry.rows());
        self.full_rows += u64::from(rows);
    }

    /// Counts a write of what was planned.
    fn count(&mut self, write: &StripeWrite, geometry: &Geometry) {
        self.count_rows(write.row_count(geometry), geometry);
        let rows: BTreeSet<u32> = write.cells.iter().map(|(Cell { row, .. }, _)| *row).collect();
        self.partial_rows += rows.len() as u64;
        self.single_blocks += write.cells.len() as u64;
    }
}

/// Writes of stripes since the store was opened, by what lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StripeCounts {
    /// Files.
    pub data: Written,
    /// The tree.
    pub metadata: Written,
    /// The journal.
    pub journal: Written,
}

/// What a write is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Data,
    Metadata,
}

impl Store {
    /// How stripes were written.
    #[must_use]
    pub fn stripe_counts(&self) -> StripeCounts {
        StripeCounts { journal: self.journal.written(), ..self.written }
    }

    /// Counts writes that were carried out.
    pub(crate) fn count_writes(&mut self, class: Class, writes: &[StripeWrite]) {
        let geometry = self.geometry();
        let written = match class {
            Class::Data => &mut self.written.data,
            Class::Metadata => &mut self.written.metadata,
        };
        writes.iter().for_each(|write| written.count(write, &geometry));
    }
}
