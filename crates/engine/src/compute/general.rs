//! Computes any recipe: with blocks that are recovered, joined or filled, and with several sums. [`super::simple`] does
//! the commonest ones.

use smallvec::SmallVec;
use stripewise_device::{IoBuf, SharedBuf, WriteBufs};

use super::{
    operands::{Fetched, New, Piece, Pieces, Run, find},
    parity::Sums,
    recovery::recover_data,
};
use crate::{
    mutants::{Mutant, lives},
    plan::recipe::{Cells, Recipe, Source, Span, Write},
};

/// Computes all that a recipe writes, and hands each write to `ask`.
pub(super) fn compute_any<N: New>(
    recipe: &Recipe,
    data_columns: usize,
    mut new: N,
    fetched: &mut Fetched,
    mut ask: impl FnMut(&Write, WriteBufs),
) {
    for rows in &recipe.recovers {
        recover(*rows, data_columns, &new, fetched);
    }
    let joined = join_blocks(&recipe.joins, &new, fetched);
    let mut parity = Sums::of(recipe, data_columns, &new, fetched, &joined);
    let inserted = with_filled(joined, &recipe.fills, fetched);
    let is_of_new = |write: &Write| write.from != Source::Sum;
    let last_new = recipe.writes.iter().rposition(is_of_new);
    for (index, write) in recipe.writes.iter().enumerate() {
        let is_last = Some(index) == last_new;
        let bufs = match write.from {
            Source::New(column) => new.take(column.into(), &write.bytes(), is_last),
            Source::Joined => joined_bufs(write, &mut new, &inserted),
            Source::Sum => parity.bufs(write),
            Source::Old(_) | Source::Zeroes => unreachable!("a client's write is of new data and of parity"),
        };
        ask(write, bufs);
    }
}

/// Recovers the old content of some rows of the data columns that could not be read, and is not in hand.
fn recover<N: New>(rows: Span, data_columns: usize, new: &N, fetched: &mut Fetched) {
    for column in 0..data_columns {
        if let Some(buf) = new.old(column, rows) {
            // Before parity, which is last.
            fetched.insert(0, Run { cells: Cells { column: column as u16, rows }, buf });
        }
    }
    let lost: SmallVec<[usize; 2]> =
        (0..data_columns).filter(|c| find(fetched, *c, rows).is_none()).collect();
    let out = {
        let data: SmallVec<[Option<&[u8]>; 8]> = (0..data_columns).map(|c| find(fetched, c, rows)).collect();
        let redundant = |i: usize| find(fetched, data_columns + i, rows);
        recover_data(&data, redundant(0), redundant(1), &lost, rows.bytes().len())
            .expect("a recipe recovers only what its parity allows")
    };
    for (column, buf) in lost.into_iter().zip(out) {
        // Before parity, which is last.
        fetched.insert(0, Run { cells: Cells { column: column as u16, rows }, buf });
    }
}

/// Joins old and new content of blocks.
fn join_blocks<N: New>(joins: &[Cells], new: &N, fetched: &[Run]) -> Pieces {
    let join = |cells: &Cells| {
        let column = usize::from(cells.column);
        let old = find(fetched, column, cells.rows).expect("a joined block's old content was read");
        let mut buf = IoBuf::copy_of(old);
        if lives(Mutant::PartialBlockZeroed) {
            buf.fill(0);
        }
        new.merge(column, &cells.rows.bytes(), &mut buf);
        Piece { cells: *cells, buf: buf.freeze() }
    };
    joins.iter().map(join).collect()
}

/// Joined blocks, and filled ones, which are parts of what was read; in the order of columns and rows.
fn with_filled(mut joined: Pieces, fills: &[Cells], fetched: &mut Fetched) -> Pieces {
    if fills.is_empty() {
        return joined;
    }
    // All that computes has been computed: what is left is read only.
    let read: Pieces =
        fetched.drain(..).map(|run| Piece { cells: run.cells, buf: run.buf.freeze() }).collect();
    joined.extend(fills.iter().map(|cells| Piece { cells: *cells, buf: part_of(&read, cells) }));
    joined.sort_unstable_by_key(|piece| (piece.cells.column, piece.cells.rows.start));
    joined
}

/// Cells that were read.
fn part_of(read: &[Piece], cells: &Cells) -> SharedBuf {
    let covers = |piece: &&Piece| {
        let (own, rows) = (piece.cells, cells.rows);
        own.column == cells.column && own.rows.start <= rows.start && rows.end <= own.rows.end
    };
    let Some(piece) = read.iter().find(covers) else {
        assert!(lives(Mutant::EmptyGapFilled), "what is filled was read");
        return IoBuf::zeroed(cells.rows.bytes().len()).freeze();
    };
    let start = piece.cells.rows.bytes().start;
    piece.buf.slice(cells.rows.bytes().start - start..cells.rows.bytes().end - start)
}

/// A data column's bytes: joined and filled blocks, and new data, in order.
fn joined_bufs<N: New>(write: &Write, new: &mut N, inserted: &[Piece]) -> WriteBufs {
    let mut bufs = WriteBufs::new();
    let mut at = write.bytes().start;
    let here = inserted.iter().filter(|piece| piece.cells.column == write.column);
    for piece in here.filter(|piece| write.bytes().contains(&piece.cells.rows.bytes().start)) {
        let block = piece.cells.rows.bytes();
        if at < block.start {
            bufs.extend(new.take(write.column.into(), &(at..block.start), false));
        }
        bufs.push(piece.buf.clone());
        at = block.end;
    }
    if at < write.bytes().end {
        bufs.extend(new.take(write.column.into(), &(at..write.bytes().end), false));
    }
    bufs
}
