//! Any plan on any contents leaves data and redundancy right: of a client's write, and of what a cache destages.

use proptest::prelude::*;
use stripewise_device::{Block, IoBuf, SharedBuf};
use stripewise_parity as parity;

use super::{
    cells::{ALL_SECTORS, CellState},
    general::compute_any,
    *,
};
use crate::{
    plan::{
        Band, Presence, StripeState, WriteSelection, build,
        costs::{ColumnCosts, MemberCost, ServiceTime},
        lower,
        passes::{ColumnStrides, Edges, Filled, MemberStrides, Strides, example, transform},
        recipe::{Cells, Span},
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

/// All members' strides, and which edges of a chunk of so many rows the gaps of a column reach beyond, by a seed.
struct Alike(MemberStrides, usize, u64);

impl ColumnStrides for Alike {
    fn of(&self, _: usize) -> MemberStrides {
        self.0
    }

    fn edges(&self, column: usize) -> Edges {
        let mut rng = fastrand::Rng::with_seed(self.2 ^ column as u64);
        let mut rows = || RowSet::range(rng.usize(..self.1)..self.1) & RowSet::range(0..rng.usize(..self.1));
        let [before, behind] = [(); 2].map(|()| rows());
        Edges::between(self.1, before, behind)
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
    let kinds: Vec<usize> = (0..4).flat_map(|kind| std::iter::repeat_n(kind, weights[kind].into())).collect();
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
        let (mut filled, rows) = (Filled::default(), geometry.chunk_bytes() / BLOCK_BYTES);
        if let Some((read, write)) = strides {
            let held = (0..64).filter(|row| held >> row & 1 == 1).fold(state.dirty_rows(), |all, row| all | RowSet::range(row..row + 1));
            let alike = Alike(MemberStrides { read: Strides::below(read), write: Strides::below(write) }, rows, seed);
            // The documented example of a pass adds what writes may need.
            let first = if seed % 2 == 0 { example(&mut plan, &state, held, &alike) } else { Filled::default() };
            filled = transform(&mut plan, &state, held, &alike);
            filled.blocks += first.blocks;
            filled.requests_saved += first.requests_saved;
            prop_assert!(plan.columns.iter().all(|ops| (ops.reads() - held).is_empty() && (ops.w - held).is_empty()));
        }
        let recipe = Recipe { filled, ..lower(&plan, &state, |column| cells.new_ranges(column)) };
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
        let content = Content::Cells(Arc::new(cells.clone()), CellsOf::Cache(RowSet::EMPTY));
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
