//! What a cache holds of a stripe, as letters: msc-ct's matrix Z.

use anyhow::{bail, ensure};
use stripewise::internals::{plan::StripeState, rows::RowSet};

/// The cells of a stripe's data columns, row by row.
pub(super) struct Cells(Vec<Vec<char>>);

impl Cells {
    /// Reads rows that are separated by slashes. What is not told of is empty; so is a dot.
    pub(super) fn parse(text: &str, columns: usize, rows: usize) -> anyhow::Result<Self> {
        let lines: Vec<Vec<char>> =
            text.split('/').map(|line| line.to_uppercase().chars().collect()).collect();
        ensure!(lines.len() <= rows, "--cells: {} rows are given, and a chunk has {rows}", lines.len());
        for line in &lines {
            let is_rest = line.iter().all(|cell| *cell == '.');
            ensure!(
                line.len() == columns || is_rest,
                "--cells: '{}' has {} cells, and there are {columns} data columns; give D, P, C or E for each, and \
                 slashes between rows",
                line.iter().collect::<String>(),
                line.len()
            );
            if let Some(other) = line.iter().find(|cell| !"DPCE.".contains(**cell)) {
                bail!(
                    "--cells: '{other}' is no cell; give D (dirty), P (dirty in part), C (clean) or E (empty)"
                );
            }
        }
        let is_dirty = lines.iter().flatten().any(|cell| "DP".contains(*cell));
        ensure!(is_dirty, "--cells: nothing is dirty, so that nothing is destaged");
        Ok(Self(lines))
    }

    /// Enters them into the state of a stripe of which nothing is in hand.
    pub(super) fn enter_into(&self, state: &mut StripeState) {
        for (row, line) in self.0.iter().enumerate() {
            let row = RowSet::range(row..row + 1);
            for (column, cell) in state.columns.iter_mut().zip(line) {
                match cell {
                    'D' => column.dirty |= row,
                    'P' => (column.dirty, column.partial) = (column.dirty | row, column.partial | row),
                    'C' => column.clean |= row,
                    _ => {}
                }
            }
        }
    }

    /// Blocks that are dirty.
    pub(super) fn dirty_blocks(&self) -> usize {
        self.0.iter().flatten().filter(|cell| "DP".contains(**cell)).count()
    }

    /// The rows as they are drawn.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.iter().map(|line| line.iter().map(char::to_string).collect::<Vec<_>>().join(" ")).collect()
    }
}
