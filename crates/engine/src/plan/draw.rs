//! The rxw-matrix as text, one row a line, in the mnemonics of msc-ct Table I.

use super::matrix::{ColumnOps, Plan};

impl Plan {
    /// Draws the first `rows` rows: columns separated by ` | `, operations by commas, `.` where there is
    /// none.
    pub fn matrix(&self, rows: usize) -> String {
        (0..rows)
            .map(|row| {
                let cells: Vec<_> = self.columns.iter().map(|ops| cell(ops, row)).collect();
                cells.join(" | ") + "\n"
            })
            .collect()
    }
}

fn cell(ops: &ColumnOps, row: usize) -> String {
    let sets = [(ops.r, "r"), (ops.t, "t"), (ops.x, "x"), (ops.xx, "xx"), (ops.dest, "_"), (ops.w, "w")];
    let names: Vec<_> = sets.iter().filter(|(set, _)| set.contains(row)).map(|(_, name)| *name).collect();
    if names.is_empty() { ".".to_owned() } else { names.join(",") }
}
