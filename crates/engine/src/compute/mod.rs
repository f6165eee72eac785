//! Computes the bytes to write from a recipe, the new data and the blocks read. Pure functions; no I/O.
//!
//! Parity of whole rows is computed straight from the caller's buffer. Only partly overwritten blocks are
//! copied, to join old and new content.

pub(crate) mod cells;
mod content;
mod operands;
pub(crate) mod recovery;
mod simple;
pub(crate) mod sums;

use std::sync::Arc;

use smallvec::SmallVec;
use stripewise_device::{IoBuf, SharedBuf, WriteBufs};

pub(crate) use self::{
    cells::CachedCells,
    content::Data,
    operands::{Fetched, Run},
};
use self::{
    content::OneBuf,
    operands::{New, NewData, Operands, Piece, Pieces, find, made, update},
    recovery::recover_data,
};
use crate::{
    mutants::{Mutant, lives},
    plan::recipe::{Cells, How, Recipe, Source, Span, Sum, Write},
    shape::{
        geometry::{Geometry, StripeSpan},
        rows::RowSet,
    },
};

/// What is new in a stripe: what a write in it is made of.
#[derive(Debug)]
pub(crate) enum Content {
    /// One contiguous part of the stripe, with its bytes: a client's write.
    Span(StripeSpan, Data),
    /// Cells that a cache lends, and all rows that are locked for them if gaps between them may be filled.
    Cells(Arc<CachedCells>, RowSet),
}

impl Content {
    /// The rows that it touches, in any column.
    #[inline]
    pub(crate) fn rows(&self, chunk_bytes: usize) -> RowSet {
        match self {
            Self::Span(span, _) => touched_rows(span, chunk_bytes),
            Self::Cells(cells, _) => cells.dirty_rows(),
        }
    }

    /// Leaves gaps as they are from now on. False if that was so before.
    pub(crate) fn leave_gaps(&mut self) -> bool {
        match self {
            Self::Span(..) => false,
            Self::Cells(_, held) => !std::mem::take(held).is_empty(),
        }
    }
}

/// The rows of a stripe that a span touches, in any column.
#[inline]
pub(crate) fn touched_rows(span: &StripeSpan, chunk_bytes: usize) -> RowSet {
    if span.start / chunk_bytes == (span.start + span.len - 1) / chunk_bytes {
        return near_rows(RowSet::touching(span.start % chunk_bytes..span.start % chunk_bytes + span.len));
    }
    let rows = span
        .columns(chunk_bytes)
        .map(|column| RowSet::touching(span.in_column(column, chunk_bytes).0))
        .fold(RowSet::EMPTY, |all, rows| all | rows);
    near_rows(rows)
}

/// All of these rows; a mutant sees the first word of them only.
fn near_rows(rows: RowSet) -> RowSet {
    if !lives(Mutant::WideRowsUnseen) {
        return rows;
    }
    let near = rows & RowSet::range(0..64);
    if near.is_empty() { rows } else { near }
}

/// Computes all that a recipe writes, and hands each write to `ask`. `fetched` holds what the recipe reads.
#[inline(always)]
pub(crate) fn compute(
    recipe: &Recipe,
    geometry: &Geometry,
    content: Content,
    fetched: &mut Fetched,
    ask: impl FnMut(&Write, WriteBufs),
) {
    let (chunk_bytes, data_columns) = (geometry.chunk_bytes(), geometry.data_columns());
    match content {
        Content::Span(span, Data::One(buf)) => {
            let new = NewData { span, chunk_bytes, content: OneBuf(Some(buf)) };
            compute_from(recipe, data_columns, new, fetched, ask);
        }
        Content::Span(span, Data::Blocks(bufs)) => {
            let new = NewData { span, chunk_bytes, content: &bufs[..] };
            compute_from(recipe, data_columns, new, fetched, ask);
        }
        Content::Cells(cells, _) => compute_from(recipe, data_columns, cells, fetched, ask),
    }
}

fn compute_from<N: New>(
    recipe: &Recipe,
    data_columns: usize,
    new: N,
    fetched: &mut Fetched,
    ask: impl FnMut(&Write, WriteBufs),
) {
    match simple::sum_of(recipe) {
        Some(sum) => simple::compute(recipe, sum, data_columns, new, fetched, ask),
        None => compute_any(recipe, data_columns, new, fetched, ask),
    }
}

/// As [`compute`], for any recipe.
fn compute_any<N: New>(
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

/// Computed parity. Each piece is written once and given away.
struct Sums {
    /// Made anew.
    made: Pieces,
    /// Old parity that was brought up to date. It counts where no rows were made anew.
    updated: Pieces,
}

impl Sums {
    fn of<N: New>(
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
                    let runs = self::made(sum, data_columns, &operands).into_iter();
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
    fn bufs(&mut self, write: &Write) -> WriteBufs {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stripewise_device::Block;
    use stripewise_parity as parity;

    use super::{
        cells::{ALL_SECTORS, CellState},
        *,
    };
    use crate::{
        plan::{
            Band, Presence, StripeState, WriteSelection, build,
            costs::{ColumnCosts, MemberCost, ServiceTime},
            lower,
            passes::{ColumnStrides, MemberStrides, Strides, transform},
            selection::{Classic, Cost, ModThresh, Modified, Policy, PreferRmw, Stripe, by_counts},
        },
        shape::{
            geometry::{Geometry, Level, StripeIndex},
            rows::BLOCK_BYTES,
        },
    };

    /// Always reconstructs, which no real policy does. So both cycles are tried everywhere.
    #[derive(Debug)]
    struct AlwaysRcw;

    impl WriteSelection for AlwaysRcw {
        fn policy(&self) -> &'static Policy {
            unreachable!("nobody asks")
        }

        fn choose(&self, _: &Stripe<'_>, _: &dyn ColumnCosts, bands: &mut [Band]) {
            by_counts(bands, |_, _| false);
        }
    }

    /// Members that all cost differently.
    struct Uneven(u64);

    impl ColumnCosts for Uneven {
        fn of(&self, column: usize) -> MemberCost {
            let mut rng = fastrand::Rng::with_seed(self.0 ^ column as u64);
            let mut time = || ServiceTime { fixed_ns: rng.f32() * 1e7, block_ns: rng.f32() * 1e5 };
            MemberCost { read: time(), write: time(), rewrite: time(), queue: rng.f32() * 8.0 }
        }
    }

    /// All members' strides.
    struct Alike(MemberStrides);

    impl ColumnStrides for Alike {
        fn of(&self, _: usize) -> MemberStrides {
            self.0
        }
    }

    /// The engine's policies, and [`AlwaysRcw`].
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

    /// The chunks of one stripe by column, with parity in agreement.
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

    /// A write's data: about half the time in one buffer, otherwise in several of a few blocks, if possible.
    fn in_bufs(request: &SharedBuf, start: usize, seed: u64) -> Data {
        let (mut rng, mut at, mut bufs) = (fastrand::Rng::with_seed(seed), 0, WriteBufs::new());
        while at < request.len() {
            let len = if rng.bool() { request.len() } else { rng.usize(1..4) * 4096 };
            let end = request.len().min(at + len);
            bufs.push(request.slice(at..end));
            at = end;
        }
        Data::of(bufs, start as u64)
    }

    /// Writes what was computed.
    fn apply(write: &Write, bufs: &[SharedBuf], columns: &mut [Vec<u8>]) {
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        columns[usize::from(write.column)][write.bytes()].copy_from_slice(&bytes);
    }

    fn fetch(recipe: &Recipe, columns: &[Vec<u8>]) -> Fetched {
        let run = |cells: &Cells| {
            let chunk = &columns[usize::from(cells.column)];
            Run { cells: *cells, buf: IoBuf::copy_of(&chunk[cells.rows.bytes()]) }
        };
        recipe.reads.iter().map(run).collect()
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
                // Only level 0 cannot plan around a lost column; the other levels stay within their tolerance
                // here.
                prop_assert!(geometry.parity_columns() < bad.len() || !geometry.has_parity());
                return Ok(());
            };
            let mut columns = contents(&geometry, seed);
            let request = IoBuf::copy_of(&(0..len).map(|i| (i as u64 ^ seed) as u8).collect::<Vec<_>>()).freeze();
            let new_bytes = |column: usize| span.in_column(column, geometry.chunk_bytes()).0;
            let dirty_mirror = new_bytes(0);
            let recipe = lower(&plan, &state, |column| [new_bytes(column)]);
            let mut expected = columns.clone();
            for column in span.columns(geometry.chunk_bytes()) {
                let (dirty, at) = span.in_column(column, geometry.chunk_bytes());
                expected[column][dirty.clone()].copy_from_slice(&request[at..at + dirty.len()]);
            }
            make_redundant(&geometry, &mut expected);
            // What cannot be read must not matter.
            for (column, _) in &bad {
                columns[*column].fill(0xdd);
            }
            let mut writes = Vec::new();
            let content = Content::Span(span, in_bufs(&request, start, seed));
            compute(&recipe, &geometry, content, &mut fetch(&recipe, &columns), |write, bufs| writes.push((*write, bufs)));
            let mut any = Vec::new();
            let new = NewData { span, chunk_bytes: geometry.chunk_bytes(), content: OneBuf(Some(request)) };
            compute_any(&recipe, state.data_columns, new, &mut fetch(&recipe, &columns), |write, bufs| any.push((*write, bufs)));
            let bytes = |bufs: &WriteBufs| bufs.iter().flat_map(|buf| buf.to_vec()).collect::<Vec<u8>>();
            prop_assert_eq!(writes.len(), any.len());
            for ((write, bufs), (of_any, bufs_of_any)) in writes.iter().zip(&any) {
                prop_assert!(write == of_any && bytes(bufs) == bytes(bufs_of_any), "{:?}", write);
            }
            prop_assert_eq!(writes.len(), recipe.writes.len());
            for (write, bufs) in writes {
                prop_assert!(presence(write.column.into()) != Presence::Missing);
                apply(&write, &bufs, &mut columns);
            }
            let touched = touched_rows(&span, geometry.chunk_bytes());
            for (column, (found, expected)) in columns.iter().zip(&expected).enumerate() {
                if presence(column) == Presence::Present {
                    prop_assert!(found == expected, "column {}", column);
                } else if presence(column) == Presence::Unreadable {
                    // Written rows are healed; the other rows stay as they were.
                    for rows in (plan.columns[column].w & touched).runs() {
                        let bytes = Span::from(rows).bytes();
                        let exact = if geometry.has_parity() { bytes } else { dirty_mirror.clone() };
                        prop_assert!(found[exact.clone()] == expected[exact]);
                    }
                }
            }
        }
    }

    /// Cells as a cache lends them. Clean ones equal what `columns` hold. Unless gaps are filled, something is dirty in
    /// every row that has any.
    fn any_cells(geometry: &Geometry, columns: &[Vec<u8>], fills_gaps: bool, seed: u64) -> CachedCells {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (rows, mut cells) = (geometry.chunk_bytes() / BLOCK_BYTES, CachedCells::default());
        let weights = [rng.u8(1..4), rng.u8(0..4), rng.u8(0..4), rng.u8(0..3)];
        let kinds: Vec<usize> =
            (0..4).flat_map(|kind| std::iter::repeat_n(kind, weights[kind].into())).collect();
        let block = |bytes: &[u8]| Block::of(IoBuf::copy_of(bytes));
        for row in 0..rows {
            let is_gap = rng.u8(..5) == 0;
            if is_gap && !fills_gaps {
                continue;
            }
            let sure = rng.usize(..geometry.data_columns());
            for (column, chunk) in columns.iter().enumerate().take(geometry.data_columns()) {
                let (kind, new) = (kinds[rng.usize(..kinds.len())], rng.u8(..));
                let kind = match kind {
                    _ if is_gap => 2 + kind % 2,
                    kind if column == sure => kind % 2,
                    kind => kind,
                };
                let (state, block) = match kind {
                    0 => (CellState::Dirty(ALL_SECTORS), block(&[new; BLOCK_BYTES])),
                    1 => (CellState::Dirty(rng.u8(1..)), block(&[new; BLOCK_BYTES])),
                    2 => (CellState::Clean, block(&chunk[Span::from(row..row + 1).bytes()])),
                    _ => continue,
                };
                cells.entry(column).put(row, state, block);
            }
        }
        cells
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// The same for what a cache destages.
        #[test]
        fn any_cells_leave_data_and_redundancy_right(
            case in cases(), seed in any::<u64>(), strides in prop::option::of((1_u16..20, 1_u16..20)), held in any::<u64>(),
        ) {
            let Case { geometry, bad, trusted, selection, .. } = case;
            let presence = |column: usize| bad.iter().find(|(c, _)| *c == column).map_or(Presence::Present, |b| b.1);
            let mut columns = contents(&geometry, seed);
            let cells = any_cells(&geometry, &columns, strides.is_some(), seed);
            let mut state = StripeState::default();
            state.set_empty(&geometry, trusted, presence);
            cells.enter_into(RowSet::ALL, &mut state);
            let policies: [&dyn WriteSelection; SELECTIONS] = [&Classic, &ModThresh, &Modified, &Cost::default(), &PreferRmw, &AlwaysRcw];
            let Ok(mut plan) = build(&state, policies[selection], &Uneven(seed)) else {
                prop_assert!(geometry.parity_columns() < bad.len() || !geometry.has_parity());
                return Ok(());
            };
            if let Some((read, write)) = strides {
                let held = (0..64).filter(|row| held >> row & 1 == 1).fold(state.dirty_rows(), |all, row| all | RowSet::range(row..row + 1));
                transform(&mut plan, &state, held, &Alike(MemberStrides { read: Strides::below(read), write: Strides::below(write) }));
                prop_assert!(plan.columns.iter().all(|ops| (ops.reads() - held).is_empty() && (ops.w - held).is_empty()));
            }
            let recipe = lower(&plan, &state, |column| cells.new_ranges(column));
            let mut expected = columns.clone();
            for (number, column) in cells.columns() {
                for row in column.dirty().runs().flatten() {
                    let into = &mut expected[number][Span::from(row..row + 1).bytes()];
                    cells.merge(number, &Span::from(row..row + 1).bytes(), into);
                    prop_assert!(column.get(row).is_some());
                }
            }
            make_redundant(&geometry, &mut expected);
            bad.iter().for_each(|(column, _)| columns[*column].fill(0xdd));
            let mut writes = Vec::new();
            let content = Content::Cells(Arc::new(cells.clone()), RowSet::EMPTY);
            compute(&recipe, &geometry, content, &mut fetch(&recipe, &columns), |write, bufs| writes.push((*write, bufs)));
            prop_assert_eq!(writes.len(), recipe.writes.len());
            for (write, bufs) in writes {
                prop_assert!(presence(write.column.into()) != Presence::Missing);
                apply(&write, &bufs, &mut columns);
            }
            for (column, (found, expected)) in columns.iter().zip(&expected).enumerate() {
                if presence(column) == Presence::Present {
                    prop_assert!(found == expected, "column {}", column);
                }
            }
        }
    }
}
