//! From a plan, the new data and the blocks read: the bytes to write. A pure function; no I/O.
//!
//! Parity of whole rows is computed straight from the caller's buffer; the only copies made are of blocks that are
//! partly overwritten, where old and new content must be joined.

use std::ops::Range;

use smallvec::SmallVec;
use stripewise_device::{
    IoBuf, SharedBuf, WriteBufs,
    parts::{Part, within},
};
use stripewise_parity as parity;

use crate::{
    geometry::StripeSpan,
    mutants::{Mutant, lives},
    plan::{Band, Cycle, Plan, Redundancy, StripeState},
    recovery::recover_data,
    rows::{BLOCK_BYTES, ROWS_MAX, RowSet},
};

/// The new content of one write's part in one stripe.
pub(crate) struct NewData {
    span: StripeSpan,
    chunk_bytes: usize,
    /// The whole request's data, until all of it was taken.
    buf: Option<SharedBuf>,
}

impl NewData {
    pub(crate) fn new(span: StripeSpan, chunk_bytes: usize, buf: SharedBuf) -> Self {
        Self { span, chunk_bytes, buf: Some(buf) }
    }

    fn buf(&self) -> &SharedBuf {
        self.buf.as_ref().expect("bytes are taken once, when nobody looks at them any more")
    }

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
        &self.buf()[self.in_request(column, bytes)]
    }

    fn shared(&self, column: usize, bytes: &Range<usize>) -> SharedBuf {
        self.buf().slice(self.in_request(column, bytes))
    }

    /// As [`NewData::shared`], of bytes that nobody asks for again: if they are the whole request, its own reference to
    /// them is given away, which costs nothing.
    fn take(&mut self, column: usize, bytes: &Range<usize>) -> SharedBuf {
        let range = self.in_request(column, bytes);
        match self.buf.take_if(|buf| range.len() == buf.len()) {
            Some(whole) => whole,
            None => self.buf().slice(range),
        }
    }
}

/// Consecutive rows of one column, with their bytes.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) column: usize,
    pub(crate) rows: Range<usize>,
    pub(crate) buf: IoBuf,
}

impl Run {
    fn covers(&self, column: usize, rows: &Range<usize>) -> bool {
        self.column == column && self.rows.start <= rows.start && rows.end <= self.rows.end
    }

    fn part(&self, rows: &Range<usize>) -> Range<usize> {
        byte_range(&(rows.start - self.rows.start..rows.end - self.rows.start))
    }
}

/// The bytes of a chunk that rows cover.
pub(crate) fn byte_range(rows: &Range<usize>) -> Range<usize> {
    rows.start * BLOCK_BYTES..rows.end * BLOCK_BYTES
}

/// Blocks read for a plan, in no particular order, disjoint.
pub(crate) type Fetched = SmallVec<[Run; 4]>;

/// What is to be written.
pub(crate) type Extents = SmallVec<[WriteExtent; 8]>;

/// One write to one column: consecutive bytes of its chunk.
#[derive(Debug)]
pub(crate) struct WriteExtent {
    pub(crate) column: usize,
    /// Where in the chunk.
    pub(crate) start: usize,
    pub(crate) bufs: WriteBufs,
}

fn find<'a>(fetched: &'a [Run], column: usize, rows: &Range<usize>) -> Option<&'a [u8]> {
    let run = fetched.iter().find(|run| run.covers(column, rows))?;
    Some(&run.buf[run.part(rows)])
}

/// Computes everything a plan writes, into `extents`.
///
/// `fetched` holds the old content of every row that the plan reads (`r` and `t`).
pub(crate) fn compute(
    plan: &Plan,
    state: &StripeState,
    mut new: NewData,
    mut fetched: Fetched,
    extents: &mut Extents,
) {
    for band in plan.bands.iter().filter(|band| band.cycle == Cycle::Recover) {
        recover_band(band, state, &mut fetched);
    }
    if state.redundancy == Redundancy::Mirrors {
        // Mirrors are written as the one data column is; its own copy may be missing.
        for (column, _) in plan.columns.iter().enumerate().filter(|(_, ops)| !ops.w.is_empty()) {
            let dirty = new.dirty_bytes(0);
            extents.push(exact_extent(column, dirty.start, new.shared(0, &dirty)));
        }
        return;
    }
    let mut merged = merge_partial_blocks(plan, state, &new, &fetched);
    let parity = compute_parity(plan, state, &new, fetched, &merged);
    for (column, ops) in plan.columns[..state.data_columns].iter().enumerate() {
        if !ops.w.is_empty() {
            add_data_extents(extents, column, ops.w, plan, &mut new, &mut merged);
        }
    }
    add_merged_extents(extents, parity);
}

/// New content of some rows of a column.
struct Piece {
    column: usize,
    rows: Range<usize>,
    buf: SharedBuf,
}

/// Pieces of this stripe.
type Pieces = SmallVec<[Piece; 4]>;

/// Recovers the old content of a band's data columns that could not be read.
fn recover_band(band: &Band, state: &StripeState, fetched: &mut Fetched) {
    for rows in band.rows.runs() {
        let lost: SmallVec<[usize; 2]> =
            (0..state.data_columns).filter(|c| find(fetched, *c, &rows).is_none()).collect();
        let out = {
            let data: SmallVec<[Option<&[u8]>; 8]> =
                (0..state.data_columns).map(|c| find(fetched, c, &rows)).collect();
            let redundant = |i: usize| find(fetched, state.data_columns + i, &rows);
            recover_data(&data, redundant(0), redundant(1), &lost, byte_range(&rows).len())
                .expect("the plan recovers only what its parity allows")
        };
        let recovered = lost.into_iter().zip(out);
        fetched.extend(recovered.map(|(column, buf)| Run { column, rows: rows.clone(), buf }));
    }
}

/// Joins old and new content of partly overwritten blocks, where their row's parity is computed. They replace the
/// request's own bytes.
fn merge_partial_blocks(plan: &Plan, state: &StripeState, new: &NewData, fetched: &Fetched) -> Pieces {
    let mut merged = Pieces::new();
    for band in plan.bands.iter().filter(|band| band.partial && band.cycle != Cycle::Direct) {
        for column in 0..state.data_columns {
            for row in (band.rows & state.columns[column].partial).runs().flatten() {
                let rows = row..row + 1;
                let old = find(fetched, column, &rows).expect("a partial block's old content was read");
                let buf = merge_block(column, row, old, new);
                merged.push(Piece { column, rows, buf });
            }
        }
    }
    merged
}

fn merge_block(column: usize, row: usize, old: &[u8], new: &NewData) -> SharedBuf {
    let block = byte_range(&(row..row + 1));
    let dirty = new.dirty_bytes(column);
    let dirty = dirty.start.max(block.start)..dirty.end.min(block.end);
    let mut buf = IoBuf::copy_of(old);
    if lives(Mutant::PartialBlockZeroed) {
        buf.fill(0);
    }
    buf[dirty.start - block.start..dirty.end - block.start].copy_from_slice(new.bytes(column, &dirty));
    buf.freeze()
}

/// What one parity computation looks at: some rows of a stripe, with old, new and joined content.
struct Scope<'a> {
    state: &'a StripeState,
    new: &'a NewData,
    fetched: &'a [Run],
    merged: &'a [Piece],
    rows: Range<usize>,
}

impl<'a> Scope<'a> {
    /// The content a data column will have in these rows.
    fn content(&self, column: usize) -> &'a [u8] {
        let state = &self.state.columns[column];
        if state.partial.contains(self.rows.start) {
            let is_it = |piece: &&Piece| piece.column == column && piece.rows.start == self.rows.start;
            return &self.merged.iter().find(is_it).expect("partial blocks were joined").buf;
        }
        if state.dirty.contains(self.rows.start) {
            return self.new.bytes(column, &byte_range(&self.rows));
        }
        self.old(column)
    }

    fn old(&self, column: usize) -> &'a [u8] {
        find(self.fetched, column, &self.rows).expect("the plan reads the old content it needs")
    }
}

/// The rows of a band in ranges that can be computed at once: runs, or single rows where blocks were joined.
fn ranges(band: &Band) -> impl Iterator<Item = Range<usize>> {
    let height = if band.partial { 1 } else { ROWS_MAX };
    let cut = move |run: Range<usize>| {
        let end = run.end;
        run.step_by(height).map(move |start| start..(start + height).min(end))
    };
    band.rows.runs().flat_map(cut)
}

/// Computes all parity.
fn compute_parity(
    plan: &Plan,
    state: &StripeState,
    new: &NewData,
    mut fetched: Fetched,
    merged: &[Piece],
) -> Pieces {
    let k = state.data_columns;
    let columns: SmallVec<[usize; 2]> =
        (k..plan.columns.len()).filter(|c| !plan.columns[*c].dest.is_empty()).collect();
    let mut old: SmallVec<[Run; 2]> = SmallVec::new();
    while let Some(index) = fetched.iter().position(|run| run.column >= k) {
        old.push(fetched.swap_remove(index));
    }
    let mut made = Pieces::new();
    let mut updated = RowSet::EMPTY;
    for band in plan.bands.iter().filter(|band| band.cycle != Cycle::Direct) {
        for rows in ranges(band) {
            let scope = Scope { state, new, fetched: &fetched, merged, rows };
            if band.cycle == Cycle::Rmw {
                update_parity(&scope, &columns, &mut old);
            } else {
                generate_parity(&scope, &columns, &mut made);
            }
        }
        if band.cycle == Cycle::Rmw {
            updated |= band.rows;
        }
    }
    for Run { column, rows, buf } in old {
        let parts = updated & RowSet::range(rows.clone());
        let buf = buf.freeze();
        if parts == RowSet::range(rows.clone()) {
            made.push(Piece { column, rows, buf });
            continue;
        }
        for part in parts.runs() {
            let bytes = byte_range(&(part.start - rows.start..part.end - rows.start));
            made.push(Piece { column, rows: part, buf: buf.slice(bytes) });
        }
    }
    made.sort_unstable_by_key(|piece| (piece.column, piece.rows.start));
    made
}

/// Which parity a redundant column is, by its place behind the data columns.
fn is_q(scope: &Scope<'_>, column: usize) -> bool {
    column == scope.state.data_columns + 1
}

/// Read-modify-write: brings old parity up to date in place.
fn update_parity(scope: &Scope<'_>, columns: &[usize], old_parity: &mut [Run]) {
    let dirty =
        (0..scope.state.data_columns).filter(|c| scope.state.columns[*c].dirty.contains(scope.rows.start));
    let of = |column: usize| {
        let run = old_parity.iter().position(|run| run.covers(column, &scope.rows));
        run.expect("an RMW reads the old parity")
    };
    let runs: SmallVec<[usize; 2]> = columns.iter().map(|column| of(*column)).collect();
    for column in dirty {
        if lives(Mutant::ParityNotUpdated) {
            continue;
        }
        let (old, new) = (scope.old(column), scope.content(column));
        let _part = within(Part::Parity);
        let column = column + usize::from(lives(Mutant::WrongQCoefficient));
        match runs[..] {
            [p, q] => {
                let [p, q] = old_parity.get_disjoint_mut([p, q]).expect("P and Q are two columns");
                parity::pq_update(part_mut(p, &scope.rows), part_mut(q, &scope.rows), column, old, new);
            }
            [q] if is_q(scope, columns[0]) => {
                parity::q_update(part_mut(&mut old_parity[q], &scope.rows), column, old, new)
            }
            [p] => parity::p_update(part_mut(&mut old_parity[p], &scope.rows), old, new),
            _ => unreachable!("levels have one or two parity columns"),
        }
    }
}

fn part_mut<'a>(run: &'a mut Run, rows: &Range<usize>) -> &'a mut [u8] {
    let part = run.part(rows);
    &mut run.buf[part]
}

/// Computes parity anew from the content all data columns will have.
fn generate_parity(scope: &Scope<'_>, columns: &[usize], made: &mut Pieces) {
    let data: SmallVec<[Option<&[u8]>; 8]> =
        (0..scope.state.data_columns).map(|c| Some(scope.content(c))).collect();
    let mut out: SmallVec<[IoBuf; 2]> =
        columns.iter().map(|_| IoBuf::with_len(byte_range(&scope.rows).len())).collect();
    let _part = within(Part::Parity);
    match &mut out[..] {
        [] => {}
        [p, q] => parity::pq_gen(&data, p, q),
        [one] if is_q(scope, columns[0]) => parity::q_gen(&data, one),
        [one] => parity::p_gen(&data, one),
        _ => unreachable!("levels have one or two parity columns"),
    }
    let piece = |(column, buf): (&usize, IoBuf)| Piece {
        column: *column,
        rows: scope.rows.clone(),
        buf: buf.freeze(),
    };
    made.extend(columns.iter().zip(out).map(piece));
}

/// Adds pieces, ordered by column and row, as one extent per run of consecutive rows.
fn add_merged_extents(extents: &mut Extents, pieces: Pieces) {
    let mut end = None;
    for Piece { column, rows, buf } in pieces {
        match extents.last_mut() {
            Some(last) if end == Some((column, rows.start)) => last.bufs.push(buf),
            _ => extents.push(exact_extent(column, byte_range(&rows).start, buf)),
        }
        end = Some((column, rows.end));
    }
}

/// Adds a data column's writes: the request's own bytes, joined blocks in their places.
fn add_data_extents(
    extents: &mut Extents,
    column: usize,
    rows: RowSet,
    plan: &Plan,
    new: &mut NewData,
    merged: &mut Pieces,
) {
    let is_exact = |band: &Band| band.cycle == Cycle::Direct && band.rows.intersects(&rows);
    if plan.bands.iter().any(is_exact) {
        let dirty = new.dirty_bytes(column);
        extents.push(exact_extent(column, dirty.start, new.take(column, &dirty)));
        return;
    }
    let mut pieces = Pieces::new();
    let mut whole = rows;
    while let Some(index) = merged.iter().position(|piece| piece.column == column) {
        let joined = merged.swap_remove(index);
        if rows.contains(joined.rows.start) {
            whole = whole - RowSet::range(joined.rows.clone());
            pieces.push(joined);
        }
    }
    for run in whole.runs() {
        let buf = new.take(column, &byte_range(&run));
        pieces.push(Piece { column, rows: run, buf });
    }
    pieces.sort_unstable_by_key(|piece| piece.rows.start);
    add_merged_extents(extents, pieces);
}

/// Exactly the new bytes of a column.
fn exact_extent(column: usize, start: usize, bytes: SharedBuf) -> WriteExtent {
    WriteExtent { column, start, bufs: WriteBufs::from_iter([bytes]) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        geometry::{Geometry, Level, StripeIndex},
        plan::{
            Band, Presence, WriteSelection, build,
            costs::{ColumnCosts, MemberCost, ServiceTime},
            selection::{Classic, Cost, ModThresh, Modified, Policy, PreferRmw, by_counts},
        },
    };

    /// No policy of ours always reconstructs; with it both cycles are tried everywhere.
    #[derive(Debug)]
    struct AlwaysRcw;

    impl WriteSelection for AlwaysRcw {
        fn policy(&self) -> &'static Policy {
            unreachable!("nobody asks")
        }

        fn choose(&self, _: &StripeState, _: &dyn ColumnCosts, bands: &mut [Band]) {
            by_counts(bands, |_, _| false);
        }
    }

    /// Members of which no two cost the same.
    struct Uneven(u64);

    impl ColumnCosts for Uneven {
        fn of(&self, column: usize) -> MemberCost {
            let mut rng = fastrand::Rng::with_seed(self.0 ^ column as u64);
            let mut time = || ServiceTime { fixed_ns: rng.f32() * 1e7, block_ns: rng.f32() * 1e5 };
            MemberCost { read: time(), write: time(), rewrite: time(), queue: rng.f32() * 8.0 }
        }
    }

    /// Ours, and that one.
    const SELECTIONS: usize = 6;

    #[derive(Debug, Clone)]
    struct Case {
        geometry: Geometry,
        start: usize,
        len: usize,
        bad: Vec<(usize, Presence)>,
        trusted: bool,
        selection: usize,
        seed: u64,
    }

    fn cases() -> impl Strategy<Value = Case> {
        let shape = (
            prop_oneof![
                Just(Level::Raid0),
                Just(Level::Raid1),
                Just(Level::Raid4),
                Just(Level::Raid5),
                Just(Level::Raid6)
            ],
            4usize..8,
            0u32..4,
        );
        shape.prop_flat_map(|(level, members, chunk_shift)| {
            let geometry = Geometry::new(level, members, 4096 << chunk_shift, 1 << 20, 512).unwrap();
            let sectors = geometry.stripe_bytes() as usize / 512;
            let presence = prop_oneof![Just(Presence::Missing), Just(Presence::Unreadable)];
            let bad = prop::collection::vec((0..members, presence), 0..=geometry.parity_columns().min(2));
            (0..sectors, 1..=sectors, bad, any::<bool>(), 0..SELECTIONS, any::<u64>()).prop_map(
                move |(start, len, bad, trusted, selection, seed)| {
                    let trusted = trusted || !bad.is_empty();
                    let len = len.min(sectors - start) * 512;
                    Case { geometry, start: start * 512, len, bad, trusted, selection, seed }
                },
            )
        })
    }

    /// The chunks of one stripe by column, parity in agreement.
    fn contents(geometry: &Geometry, seed: u64) -> Vec<Vec<u8>> {
        let chunk = geometry.chunk_bytes();
        let mut state = seed | 1;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let mut columns: Vec<Vec<u8>> =
            (0..geometry.members()).map(|_| (0..chunk).map(|_| random()).collect()).collect();
        make_redundant(geometry, &mut columns);
        columns
    }

    fn make_redundant(geometry: &Geometry, columns: &mut [Vec<u8>]) {
        let k = geometry.data_columns();
        let (data, redundant) = columns.split_at_mut(k);
        let data: Vec<Option<&[u8]>> = data.iter().map(|c| Some(&c[..])).collect();
        match (geometry.has_parity(), redundant) {
            (true, [p, q]) => parity::pq_gen(&data, p, q),
            (true, [p]) => parity::p_gen(&data, p),
            (_, mirrors) => mirrors.iter_mut().for_each(|m| m.copy_from_slice(data[0].unwrap())),
        }
    }

    fn fetch(plan: &Plan, columns: &[Vec<u8>]) -> Fetched {
        let runs = |(column, (ops, chunk)): (usize, (&crate::plan::ColumnOps, &Vec<u8>))| {
            let run = move |rows: Range<usize>| {
                let buf = IoBuf::copy_of(&chunk[byte_range(&rows)]);
                Run { column, rows, buf }
            };
            ops.reads().runs().map(run).collect::<Vec<_>>()
        };
        plan.columns.iter().zip(columns).enumerate().flat_map(runs).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        /// Any plan on any contents leaves data and redundancy equal to the model's.
        #[test]
        fn any_plan_leaves_data_and_redundancy_right(case in cases()) {
            let Case { geometry, start, len, bad, trusted, selection, seed } = case;
            let presence = |column: usize| bad.iter().find(|(c, _)| *c == column).map_or(Presence::Present, |b| b.1);
            let span = StripeSpan { stripe: StripeIndex(0), start, len, request_offset: 0 };
            let state = StripeState::for_write(&geometry, &span, trusted, presence);
            let policies: [&dyn WriteSelection; SELECTIONS] = [&Classic, &ModThresh, &Modified, &Cost::default(), &PreferRmw, &AlwaysRcw];
            let Ok(plan) = build(&state, policies[selection], &Uneven(seed)) else {
                // Only level 0 cannot plan around a lost column; the others stay within their tolerance here.
                prop_assert!(geometry.parity_columns() < bad.len() || !geometry.has_parity());
                return Ok(());
            };
            let mut columns = contents(&geometry, seed);
            let request = IoBuf::copy_of(&(0..len).map(|i| (i as u64 ^ seed) as u8).collect::<Vec<_>>()).freeze();
            let new = NewData::new(span, geometry.chunk_bytes(), request);
            let dirty_mirror = new.dirty_bytes(0);
            let mut expected = columns.clone();
            for column in span.columns(geometry.chunk_bytes()) {
                let dirty = new.dirty_bytes(column);
                expected[column][dirty.clone()].copy_from_slice(new.bytes(column, &dirty));
            }
            make_redundant(&geometry, &mut expected);
            // What cannot be read must not matter.
            for (column, _) in &bad {
                columns[*column].fill(0xdd);
            }
            let fetched = fetch(&plan, &columns);
            let mut extents = Extents::new();
            compute(&plan, &state, new, fetched, &mut extents);
            for extent in extents {
                prop_assert!(presence(extent.column) != Presence::Missing);
                let mut at = extent.start;
                for buf in &extent.bufs {
                    columns[extent.column][at..at + buf.len()].copy_from_slice(buf);
                    at += buf.len();
                }
            }
            let touched = crate::array::touched_rows(&span, geometry.chunk_bytes());
            for (column, (found, expected)) in columns.iter().zip(&expected).enumerate() {
                if presence(column) == Presence::Present {
                    prop_assert!(found == expected, "column {}", column);
                } else if presence(column) == Presence::Unreadable {
                    // Written rows are healed; the others stay as they were.
                    for rows in (plan.columns[column].w & touched).runs() {
                        let bytes = byte_range(&rows);
                        let exact = if geometry.has_parity() { bytes } else { dirty_mirror.clone() };
                        prop_assert!(found[exact.clone()] == expected[exact]);
                    }
                }
            }
        }
    }
}
