//! From a plan, the new data and the blocks read: the bytes to write. A pure function; no I/O.
//!
//! Parity of whole rows is computed straight from the caller's buffer; the only copies made are of blocks that are
//! partly overwritten, where old and new content must be joined.

use std::ops::Range;

use smallvec::SmallVec;
use stripewise_device::{IoBuf, SharedBuf, WriteBufs};
use stripewise_parity as parity;

use crate::{
    geometry::StripeSpan,
    plan::{Band, Cycle, Plan, StripeState},
    recovery::recover_data,
    rows::{BLOCK_BYTES, RowSet},
};

/// The new content of one write's part in one stripe.
pub(crate) struct NewData<'a> {
    pub(crate) span: StripeSpan,
    pub(crate) chunk_bytes: usize,
    /// The whole request's data.
    pub(crate) buf: &'a SharedBuf,
}

impl NewData<'_> {
    /// The part of a column's chunk that is new.
    fn dirty_bytes(&self, column: usize) -> Range<usize> {
        self.span.in_column(column, self.chunk_bytes).0
    }

    /// Where bytes of a column's chunk, all of them new, lie in the request.
    fn in_request(&self, column: usize, bytes: &Range<usize>) -> Range<usize> {
        let (dirty, at) = self.span.in_column(column, self.chunk_bytes);
        debug_assert!(dirty.start <= bytes.start && bytes.end <= dirty.end);
        at + bytes.start - dirty.start..at + bytes.end - dirty.start
    }

    fn bytes(&self, column: usize, bytes: &Range<usize>) -> &[u8] {
        &self.buf[self.in_request(column, bytes)]
    }

    fn shared(&self, column: usize, bytes: &Range<usize>) -> SharedBuf {
        self.buf.slice(self.in_request(column, bytes))
    }
}

/// Consecutive rows of one column, with their bytes.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) rows: Range<usize>,
    pub(crate) buf: IoBuf,
}

impl Run {
    fn part(&self, rows: &Range<usize>) -> Range<usize> {
        byte_range(&(rows.start - self.rows.start..rows.end - self.rows.start))
    }
}

/// The bytes of a chunk that rows cover.
pub(crate) fn byte_range(rows: &Range<usize>) -> Range<usize> {
    rows.start * BLOCK_BYTES..rows.end * BLOCK_BYTES
}

/// Runs of one column, in no particular order, disjoint.
pub(crate) type Runs = SmallVec<[Run; 2]>;

/// The blocks read for a plan, by column.
pub(crate) type Fetched = SmallVec<[Runs; 8]>;

/// One write to one column: consecutive bytes of its chunk.
#[derive(Debug)]
pub(crate) struct WriteExtent {
    pub(crate) column: usize,
    /// Where in the chunk.
    pub(crate) start: usize,
    pub(crate) bufs: WriteBufs,
}

fn find<'a>(runs: &'a Runs, rows: &Range<usize>) -> Option<&'a [u8]> {
    let run = runs.iter().find(|run| run.rows.start <= rows.start && rows.end <= run.rows.end)?;
    Some(&run.buf[run.part(rows)])
}

/// Computes everything a plan writes.
///
/// `fetched` holds the old content of every row that the plan reads (`r` and `t`).
pub(crate) fn compute(
    plan: &Plan,
    state: &StripeState,
    new: &NewData<'_>,
    mut fetched: Fetched,
) -> SmallVec<[WriteExtent; 8]> {
    for band in plan.bands.iter().filter(|band| band.cycle == Cycle::Recover) {
        recover_band(band, state, &mut fetched);
    }
    let mut merged = merge_partial_blocks(plan, state, new, &fetched);
    let parity = compute_parity(plan, state, new, &mut fetched, &merged);
    let mut extents = SmallVec::new();
    for (column, ops) in plan.columns.iter().enumerate() {
        if column < state.data_columns {
            add_data_extents(&mut extents, column, ops.w, plan, new, &mut merged[column]);
        } else if parity.is_empty() {
            // Mirrors are written as the one data column is; its own copy may be missing.
            add_exact_extent(&mut extents, column, 0, ops.w, new);
        }
    }
    extents.extend(parity);
    extents
}

/// Pieces of one column that replace the request's own bytes, by row.
type Merged = SmallVec<[(usize, SharedBuf); 2]>;

/// Recovers the old content of a band's data columns that could not be read.
fn recover_band(band: &Band, state: &StripeState, fetched: &mut Fetched) {
    for rows in band.rows.runs() {
        let lost: SmallVec<[usize; 2]> =
            (0..state.data_columns).filter(|c| find(&fetched[*c], &rows).is_none()).collect();
        let out = {
            let data: SmallVec<[Option<&[u8]>; 8]> =
                (0..state.data_columns).map(|c| find(&fetched[c], &rows)).collect();
            let redundant = |i: usize| fetched.get(state.data_columns + i).and_then(|runs| find(runs, &rows));
            recover_data(&data, redundant(0), redundant(1), &lost, byte_range(&rows).len())
                .expect("the plan recovers only what its parity allows")
        };
        for (column, buf) in lost.into_iter().zip(out) {
            fetched[column].push(Run { rows: rows.clone(), buf });
        }
    }
}

/// Joins old and new content of partly overwritten blocks, where their row's parity is computed.
fn merge_partial_blocks(
    plan: &Plan,
    state: &StripeState,
    new: &NewData<'_>,
    fetched: &Fetched,
) -> SmallVec<[Merged; 8]> {
    let mut all: SmallVec<[Merged; 8]> = (0..state.data_columns).map(|_| Merged::new()).collect();
    for band in plan.bands.iter().filter(|band| band.partial && band.cycle != Cycle::Direct) {
        for (column, merged) in all.iter_mut().enumerate() {
            for row in (band.rows & state.columns[column].partial).runs().flatten() {
                let old =
                    find(&fetched[column], &(row..row + 1)).expect("a partial block's old content was read");
                merged.push((row, merge_block(column, row, old, new)));
            }
        }
    }
    all
}

fn merge_block(column: usize, row: usize, old: &[u8], new: &NewData<'_>) -> SharedBuf {
    let block = byte_range(&(row..row + 1));
    let dirty = new.dirty_bytes(column);
    let dirty = dirty.start.max(block.start)..dirty.end.min(block.end);
    let mut buf = IoBuf::copy_of(old);
    buf[dirty.start - block.start..dirty.end - block.start].copy_from_slice(new.bytes(column, &dirty));
    buf.freeze()
}

/// What one parity computation looks at: some rows of a stripe, with old, new and joined content.
struct Scope<'a> {
    state: &'a StripeState,
    new: &'a NewData<'a>,
    fetched: &'a Fetched,
    merged: &'a [Merged],
    rows: Range<usize>,
}

impl<'a> Scope<'a> {
    /// The content a data column will have in these rows.
    fn content(&self, column: usize) -> &'a [u8] {
        let state = &self.state.columns[column];
        if state.partial.contains(self.rows.start) {
            let merged = self.merged[column].iter().find(|(row, _)| *row == self.rows.start);
            return &merged.expect("partial blocks were joined").1;
        }
        if state.dirty.contains(self.rows.start) {
            return self.new.bytes(column, &byte_range(&self.rows));
        }
        self.old(column)
    }

    fn old(&self, column: usize) -> &'a [u8] {
        find(&self.fetched[column], &self.rows).expect("the plan reads the old content it needs")
    }
}

/// The rows of a band in pieces that can be computed at once: runs, or single rows where blocks were joined.
fn pieces(band: &Band) -> SmallVec<[Range<usize>; 8]> {
    if band.partial {
        return band.rows.runs().flatten().map(|row| row..row + 1).collect();
    }
    band.rows.runs().collect()
}

/// Computes all parity and returns it as write extents.
fn compute_parity(
    plan: &Plan,
    state: &StripeState,
    new: &NewData<'_>,
    fetched: &mut Fetched,
    merged: &[Merged],
) -> SmallVec<[WriteExtent; 8]> {
    let k = state.data_columns;
    let columns: SmallVec<[usize; 2]> =
        (k..plan.columns.len()).filter(|c| !plan.columns[*c].dest.is_empty()).collect();
    let mut old_parity: SmallVec<[Runs; 2]> =
        columns.iter().map(|c| std::mem::take(&mut fetched[*c])).collect();
    let mut made: SmallVec<[Vec<(Range<usize>, SharedBuf)>; 2]> =
        columns.iter().map(|_| Vec::new()).collect();
    for band in plan.bands.iter().filter(|band| band.cycle != Cycle::Direct) {
        for rows in pieces(band) {
            let scope = Scope { state, new, fetched, merged, rows: rows.clone() };
            if band.cycle == Cycle::Rmw {
                update_parity(&scope, &columns, &mut old_parity);
                continue;
            }
            let mut out: SmallVec<[IoBuf; 2]> =
                columns.iter().map(|_| IoBuf::with_len(byte_range(&rows).len())).collect();
            generate_parity(&scope, &columns, &mut out);
            made.iter_mut().zip(out).for_each(|(made, buf)| made.push((rows.clone(), buf.freeze())));
        }
    }
    let updated =
        plan.bands.iter().filter(|b| b.cycle == Cycle::Rmw).fold(RowSet::EMPTY, |all, b| all | b.rows);
    let mut extents = SmallVec::new();
    for ((column, runs), made) in columns.into_iter().zip(old_parity).zip(&mut made) {
        for run in runs {
            let Run { rows, buf } = run;
            let buf = buf.freeze();
            for part in (updated & RowSet::range(rows.clone())).runs() {
                let bytes = byte_range(&(part.start - rows.start..part.end - rows.start));
                made.push((part, buf.slice(bytes)));
            }
        }
        made.sort_unstable_by_key(|(rows, _)| rows.start);
        add_merged_extents(&mut extents, column, made.drain(..));
    }
    extents
}

/// Which parity a redundant column is, by its place behind the data columns.
fn is_q(scope: &Scope<'_>, column: usize) -> bool {
    column == scope.state.data_columns + 1
}

/// Read-modify-write: brings old parity up to date in place.
fn update_parity(scope: &Scope<'_>, columns: &[usize], old_parity: &mut [Runs]) {
    let dirty =
        (0..scope.state.data_columns).filter(|c| scope.state.columns[*c].dirty.contains(scope.rows.start));
    for column in dirty {
        let (old, new) = (scope.old(column), scope.content(column));
        match old_parity {
            [p, q] => parity::pq_update(part_mut(p, &scope.rows), part_mut(q, &scope.rows), column, old, new),
            [one] if is_q(scope, columns[0]) => {
                parity::q_update(part_mut(one, &scope.rows), column, old, new)
            }
            [one] => parity::p_update(part_mut(one, &scope.rows), old, new),
            _ => unreachable!("levels have one or two parity columns"),
        }
    }
}

fn part_mut<'a>(runs: &'a mut Runs, rows: &Range<usize>) -> &'a mut [u8] {
    let run = runs
        .iter_mut()
        .find(|run| run.rows.start <= rows.start && rows.end <= run.rows.end)
        .expect("an RMW reads the old parity");
    let part = run.part(rows);
    &mut run.buf[part]
}

/// Computes parity anew from the content all data columns will have.
fn generate_parity(scope: &Scope<'_>, columns: &[usize], out: &mut [IoBuf]) {
    let data: SmallVec<[Option<&[u8]>; 8]> =
        (0..scope.state.data_columns).map(|c| Some(scope.content(c))).collect();
    match out {
        [p, q] => parity::pq_gen(&data, p, q),
        [one] if is_q(scope, columns[0]) => parity::q_gen(&data, one),
        [one] => parity::p_gen(&data, one),
        _ => unreachable!("levels have one or two parity columns"),
    }
}

/// Adds pieces of a column, ordered by row, as one extent per run of consecutive rows.
fn add_merged_extents(
    extents: &mut SmallVec<[WriteExtent; 8]>,
    column: usize,
    pieces: impl Iterator<Item = (Range<usize>, SharedBuf)>,
) {
    let mut end = None;
    for (rows, buf) in pieces {
        match extents.last_mut() {
            Some(last) if end == Some(rows.start) => last.bufs.push(buf),
            _ => extents.push(WriteExtent {
                column,
                start: byte_range(&rows).start,
                bufs: WriteBufs::from_iter([buf]),
            }),
        }
        end = Some(rows.end);
    }
}

/// Adds a data column's writes: the request's own bytes, joined blocks in their places.
fn add_data_extents(
    extents: &mut SmallVec<[WriteExtent; 8]>,
    column: usize,
    rows: RowSet,
    plan: &Plan,
    new: &NewData<'_>,
    merged: &mut Merged,
) {
    let exact =
        plan.bands.iter().filter(|b| b.cycle == Cycle::Direct).fold(RowSet::EMPTY, |all, b| all | b.rows);
    if !rows.intersects(&exact) {
        let whole =
            rows - merged.iter().fold(RowSet::EMPTY, |all, (row, _)| all | RowSet::range(*row..*row + 1));
        let mut pieces: SmallVec<[(Range<usize>, SharedBuf); 4]> =
            whole.runs().map(|run| (run.clone(), new.shared(column, &byte_range(&run)))).collect();
        let joined = merged.drain(..).filter(|(row, _)| rows.contains(*row));
        pieces.extend(joined.map(|(row, buf)| (row..row + 1, buf)));
        pieces.sort_unstable_by_key(|(rows, _)| rows.start);
        return add_merged_extents(extents, column, pieces.into_iter());
    }
    add_exact_extent(extents, column, column, rows, new);
}

/// Adds exactly the new bytes of `source`, a data column, as one write to `column`.
fn add_exact_extent(
    extents: &mut SmallVec<[WriteExtent; 8]>,
    column: usize,
    source: usize,
    rows: RowSet,
    new: &NewData<'_>,
) {
    if rows.is_empty() {
        return;
    }
    let dirty = new.dirty_bytes(source);
    extents.push(WriteExtent {
        column,
        start: dirty.start,
        bufs: WriteBufs::from_iter([new.shared(source, &dirty)]),
    });
}
