//! Computed parity, and how writes take it.

use smallvec::SmallVec;
use stripewise_device::{SharedBuf, WriteBufs};

use super::operands::{self, Fetched, New, Operands, Piece, Pieces, Run, update};
use crate::plan::recipe::{How, Recipe, Sum, Write};

/// Computed parity. Each piece is written once and given away.
pub(super) struct Sums {
    /// Made anew.
    made: Pieces,
    /// Old parity that was brought up to date. It counts where no rows were made anew.
    updated: Pieces,
}

impl Sums {
    pub(super) fn of<N: New>(
        recipe: &Recipe,
        data_columns: usize,
        new: &N,
        fetched: &mut Fetched,
        joined: &[Piece],
    ) -> Self {
        let parity_start = fetched.iter().position(|run| usize::from(run.cells.column) >= data_columns);
        let parity_start = parity_start.unwrap_or(fetched.len());
        let mut made = Pieces::new();
        for sum in &recipe.sums {
            let (data, old) = fetched.split_at_mut(parity_start);
            let operands = Operands { new, fetched: data, joined, rows: sum.rows };
            match sum.how {
                How::Make => {
                    let runs = operands::made(sum, data_columns, &operands).into_iter();
                    made.extend(runs.map(|run| Piece { cells: run.cells, buf: run.buf.freeze() }));
                }
                How::Update(columns) => {
                    update(sum, columns, &operands, &mut parity_of(sum, data_columns, old));
                }
            }
        }
        let mut updated = Pieces::new();
        for run in fetched.drain(parity_start..) {
            updated.push(Piece { cells: run.cells, buf: run.buf.freeze() });
        }
        Self { made, updated }
    }

    /// The bytes of a parity write.
    pub(super) fn bufs(&mut self, write: &Write) -> WriteBufs {
        let mut bufs = WriteBufs::new();
        let mut at = write.bytes().start;
        while at < write.bytes().end {
            let starts_here =
                |piece: &Piece| piece.cells.column == write.column && piece.cells.rows.bytes().start == at;
            let buf = match self.made.iter().position(starts_here) {
                Some(index) => self.made.swap_remove(index).buf,
                None => self.updated_from(write, at),
            };
            at += buf.len();
            bufs.push(buf);
        }
        bufs
    }

    /// Updated parity from byte `at` on, up to where newly made parity begins, or the run or the write ends.
    fn updated_from(&mut self, write: &Write, at: usize) -> SharedBuf {
        let covers =
            |piece: &Piece| piece.cells.column == write.column && piece.cells.rows.bytes().contains(&at);
        let index = self.updated.iter().position(covers).expect("parity that is written was computed");
        let own = self.updated[index].cells.rows.bytes();
        let made = self.made.iter().filter(|piece| piece.cells.column == write.column);
        let next_made = made.map(|piece| piece.cells.rows.bytes().start).filter(|start| *start > at).min();
        let end = own.end.min(write.bytes().end).min(next_made.unwrap_or(usize::MAX));
        if own == (at..end) {
            return self.updated.swap_remove(index).buf;
        }
        self.updated[index].buf.slice(at - own.start..end - own.start)
    }
}

/// The old parity of a sum's rows, by column.
fn parity_of<'a>(sum: &Sum, data_columns: usize, old: &'a mut [Run]) -> SmallVec<[&'a mut [u8]; 2]> {
    let columns = sum.parity.columns().start + data_columns..sum.parity.columns().end + data_columns;
    let runs = old.iter_mut().filter(|run| columns.clone().any(|column| run.covers(column, sum.rows)));
    let runs: SmallVec<[&mut [u8]; 2]> = runs
        .map(|run| {
            let part = run.part(sum.rows);
            &mut run.buf[part]
        })
        .collect();
    assert_eq!(runs.len(), columns.len(), "a read-modify-write reads the old parity");
    runs
}
