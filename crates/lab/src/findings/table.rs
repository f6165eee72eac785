//! A table of numbers.

use std::fmt;

use serde::Serialize;

/// A table; the first column is text, the others are numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Headings of the columns.
    pub headings: Vec<String>,
    /// Rows of cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, headings: &[&str]) -> Self {
        let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
        Self { title: title.into(), headings, rows: Vec::new() }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || std::iter::once(&self.headings).chain(&self.rows);
        let widths: Vec<_> = (0..self.headings.len())
            .map(|column| {
                all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        writeln!(f, "  {}", self.title)?;
        for row in all() {
            write!(f, "   ")?;
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if index == 0 { write!(f, " {cell:<width$}")? } else { write!(f, "  {cell:>width$}")? }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
