//! The recipes of the commonest writes, without a plan: a whole stripe, whole rows, whole blocks of one column,
//! and zeroes.
//!
//! Making a plan takes most of the engine's own work on such a write. These planners give the same recipes as
//! the [plan](super::build) once it is [lowered](super::lower). A property test checks that.

use super::{
    costs::ColumnCosts,
    counts::{Counts, unreadable_price},
    matrix::{Band, Cycle},
    recipe::{Cells, CycleRows, How, Parity, Recipe, Source, Span, Sum, Write},
    selection::{OneColumn, Stripe, WriteSelection},
};
use crate::{
    mutants::{Mutant, lives},
    shape::{
        geometry::{Geometry, StripeSpan},
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// The columns of a stripe that a write may use. Each is missing, or can be read and written.
pub(crate) struct Columns<'a> {
    pub(crate) geometry: &'a Geometry,
    /// The few that are missing.
    pub(crate) missing: &'a [usize],
}

impl Columns<'_> {
    /// Whether a column can be read and written.
    fn is_there(&self, column: usize) -> bool {
        self.missing.is_empty() || !self.missing.contains(&column)
    }

    /// The blocks of a row that RMW and RCW of one column would read, as
    /// [`StripeState::counts_of`](super::StripeState::counts_of) counts them.
    #[inline(always)]
    fn counts(&self, write: &OneColumn) -> Counts {
        let (data_columns, parity_columns) = (write.data_columns, write.parity_columns);
        let mut counts = Counts { rmw: 1 + parity_columns as u32, rcw: data_columns as u32 - 1 };
        if self.missing.is_empty() {
            return counts;
        }
        let price = unreadable_price(data_columns + parity_columns) - 1;
        for column in self.missing {
            match *column == write.column || *column >= data_columns {
                true => counts.rmw += price,
                false => counts.rcw += price,
            }
        }
        counts
    }

    /// The parity that is there.
    #[inline(always)]
    fn parity(&self) -> Option<Parity> {
        if self.missing.is_empty() {
            return Some(all_parity(self.geometry));
        }
        let (first, has_q) = (self.geometry.data_columns(), self.geometry.parity_columns() > 1);
        Parity::of(self.is_there(first), has_q && self.is_there(first + 1))
    }

    /// A cycle that can write rows of one column, and whether the other cycle can, too, so that a policy
    /// chooses. None if neither can alone.
    #[inline(always)]
    fn possible(&self, write: &OneColumn) -> Option<(Cycle, bool)> {
        if self.missing.is_empty() {
            return Some((Cycle::Rcw, true));
        }
        let is_other = |column: &usize| *column < write.data_columns && *column != write.column;
        match (self.is_there(write.column), !self.missing.iter().any(is_other)) {
            (true, true) => Some((Cycle::Rcw, true)),
            (true, false) => Some((Cycle::Rmw, false)),
            (false, true) => Some((Cycle::Rcw, false)),
            (false, false) => None,
        }
    }

    /// The cycle by which rows of one column are written, where parity is there. None if the write takes more
    /// than that.
    #[inline(always)]
    fn cycle_of(
        &self,
        write: OneColumn,
        rows: Span,
        (selection, costs): (&dyn WriteSelection, &dyn ColumnCosts),
        tell: impl FnOnce(&Band),
    ) -> Option<Cycle> {
        let Counts { rmw, rcw } = self.counts(&write);
        let (cycle, free) = self.possible(&write)?;
        let rows = RowSet::range(rows.range());
        let mut band = Band { rows, cycle, partial: false, rmw, rcw, free, estimate: None };
        if free {
            selection.choose(&Stripe::of_one_column(write), costs, std::slice::from_mut(&mut band));
        }
        tell(&band);
        Some(band.cycle)
    }
}

/// All parity of a level that has some.
#[inline(always)]
fn all_parity(geometry: &Geometry) -> Parity {
    if geometry.parity_columns() > 1 { Parity::PAndQ } else { Parity::P }
}

/// A whole stripe of a level with parity, if all of its columns are there: nothing is read, and parity is
/// computed from the new data. Fills an empty recipe, and tells its band. False if the plan does something
/// else.
#[inline(always)]
pub(crate) fn whole(
    columns: &Columns<'_>,
    span: &StripeSpan,
    recipe: &mut Recipe,
    tell: impl FnOnce(&Band),
) -> bool {
    let geometry = columns.geometry;
    if span.len as u64 != geometry.stripe_bytes() || !geometry.has_parity() || !columns.missing.is_empty() {
        return false;
    }
    let chunk = 0..geometry.chunk_bytes();
    let rows = Span::touching(&chunk);
    let parity = all_parity(geometry);
    for column in 0..geometry.data_columns() {
        recipe.writes.push(Write::of(column, &chunk, Source::New(column as u16), false));
    }
    for column in geometry.data_columns()..geometry.members() {
        recipe.writes.push(Write::of(column, &chunk, Source::Sum, false));
    }
    recipe.sums.push(Sum { rows, parity, how: How::Make });
    recipe.cycles.push(CycleRows { cycle: Cycle::Full, rows });
    let (rows, rmw) = (RowSet::range(rows.range()), geometry.members() as u32);
    tell(&Band { rows, cycle: Cycle::Full, partial: false, rmw, rcw: 0, free: false, estimate: None });
    true
}

/// Whole rows of a level with parity of which some is there: nothing is read, and parity is computed from the new
/// data. Fills an empty recipe, and tells its band. False if the plan does something else.
pub(crate) fn rows(columns: &Columns<'_>, rows: Span, recipe: &mut Recipe, tell: impl FnOnce(&Band)) -> bool {
    let geometry = columns.geometry;
    let Some(parity) = geometry.has_parity().then(|| columns.parity()).flatten() else { return false };
    let data_columns = geometry.data_columns();
    for column in (0..geometry.members()).filter(|column| columns.is_there(*column)) {
        let from = if column < data_columns { Source::New(column as u16) } else { Source::Sum };
        recipe.writes.push(Write::of(column, &rows.bytes(), from, false));
    }
    recipe.sums.push(Sum { rows, parity, how: How::Make });
    recipe.cycles.push(CycleRows { cycle: Cycle::Full, rows });
    let (members, missing) = (geometry.members(), columns.missing.len() as u32);
    let rmw = members as u32 - missing + missing * unreadable_price(members);
    let rows = RowSet::range(rows.range());
    tell(&Band { rows, cycle: Cycle::Full, partial: false, rmw, rcw: 0, free: false, estimate: None });
    true
}

/// A whole stripe of zeroes. Parity of zeroes is zeroes: nothing is read, and nothing is computed.
pub(crate) fn zeroes(geometry: &Geometry) -> Recipe {
    let skipped = if lives(Mutant::ZeroSkipsParity) { geometry.parity_columns() } else { 0 };
    let chunk = 0..geometry.chunk_bytes();
    let write = |column| Write::of(column, &chunk, Source::Zeroes, false);
    Recipe { writes: (0..geometry.members() - skipped).map(write).collect(), ..Recipe::default() }
}

/// Whole blocks of one column, of a level with parity that agrees with its data. A read-modify-write reads
/// the old blocks and their parity; a reconstruct-write reads the other columns. Both write the column and
/// parity, as far as they are there. Fills an empty recipe, and tells its band. False if the plan does
/// something else.
#[inline(always)]
pub(crate) fn one_column(
    columns: &Columns<'_>,
    span: &StripeSpan,
    policy: (&dyn WriteSelection, &dyn ColumnCosts),
    recipe: &mut Recipe,
    tell: impl FnOnce(&Band),
) -> bool {
    let geometry = columns.geometry;
    let (chunk_bytes, data_columns) = (geometry.chunk_bytes(), geometry.data_columns());
    let start = span.start % chunk_bytes;
    let is_of_blocks = (span.start | span.len).is_multiple_of(BLOCK_BYTES);
    if !geometry.has_parity() || !is_of_blocks || start + span.len > chunk_bytes || data_columns < 2 {
        return false;
    }
    let column = span.start / chunk_bytes;
    let rows = Span::from(start / BLOCK_BYTES..(start + span.len) / BLOCK_BYTES);
    let Some(parity) = columns.parity() else { return without_parity(columns, column, rows, recipe, tell) };
    let write = OneColumn { column, data_columns, parity_columns: geometry.parity_columns(), parity };
    let Some(cycle) = columns.cycle_of(write, rows, policy, tell) else { return false };
    by_cycle(&write, rows, cycle, columns.is_there(column), recipe);
    true
}

/// One column where no parity is there: the column is written, if it is there.
fn without_parity(
    columns: &Columns<'_>,
    column: usize,
    rows: Span,
    recipe: &mut Recipe,
    tell: impl FnOnce(&Band),
) -> bool {
    if !columns.is_there(column) {
        return false;
    }
    let geometry = columns.geometry;
    recipe.writes.push(Write::of(column, &rows.bytes(), Source::New(column as u16), false));
    recipe.cycles.push(CycleRows { cycle: Cycle::Direct, rows });
    let price = unreadable_price(geometry.members());
    let others = (0..geometry.data_columns()).filter(|other| *other != column);
    let rcw = others.map(|other| if columns.is_there(other) { 1 } else { price }).sum();
    let rmw = 1 + price * geometry.parity_columns() as u32;
    let rows = RowSet::range(rows.range());
    tell(&Band { rows, cycle: Cycle::Direct, partial: false, rmw, rcw, free: false, estimate: None });
    true
}

/// One column by a cycle; parity is there.
#[inline(always)]
fn by_cycle(write: &OneColumn, rows: Span, cycle: Cycle, is_there: bool, recipe: &mut Recipe) {
    let OneColumn { column, data_columns, parity, .. } = *write;
    let cells = |column: usize| Cells { column: column as u16, rows };
    let (bytes, is_rewrite) = (rows.bytes(), cycle == Cycle::Rmw);
    if is_rewrite {
        recipe.reads.push(cells(column));
    } else {
        (0..data_columns).filter(|other| *other != column).for_each(|other| recipe.reads.push(cells(other)));
    }
    if is_there {
        recipe.writes.push(Write::of(column, &bytes, Source::New(column as u16), is_rewrite));
    }
    for redundant in parity.columns().map(|parity| data_columns + parity) {
        if is_rewrite {
            recipe.reads.push(cells(redundant));
        }
        recipe.writes.push(Write::of(redundant, &bytes, Source::Sum, is_rewrite));
    }
    let column = column as u16;
    let how = if is_rewrite { How::Update(Span { start: column, end: column + 1 }) } else { How::Make };
    recipe.sums.push(Sum { rows, parity, how });
    recipe.cycles.push(CycleRows { cycle, rows });
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        plan::{
            Presence, StripeState, build,
            costs::{ColumnCosts, MemberCost},
            lower,
            selection::{POLICIES, Policy},
        },
        shape::geometry::{Level, StripeIndex},
    };

    /// Members of which no two cost the same.
    struct Uneven;

    impl ColumnCosts for Uneven {
        fn of(&self, column: usize) -> MemberCost {
            MemberCost { queue: (column * 5 % 7) as f32, ..MemberCost::HDD }
        }
    }

    #[derive(Debug, Clone)]
    struct Case {
        geometry: Geometry,
        span: StripeSpan,
        missing: Vec<usize>,
        policy: &'static Policy,
    }

    fn cases() -> impl Strategy<Value = Case> {
        let levels = prop_oneof![
            Just(Level::Raid0),
            Just(Level::Raid1),
            Just(Level::Raid4),
            Just(Level::Raid5),
            Just(Level::Raid6)
        ];
        (levels, 2usize..9, 0u32..4).prop_flat_map(|(level, members, chunk_shift)| {
            let members = members.max(level.members_min());
            let geometry = Geometry::new(level, members, 4096 << chunk_shift, 1 << 20, 512).unwrap();
            let (stripe_blocks, chunk) = (geometry.stripe_bytes() as usize / 4096, geometry.chunk_bytes());
            // Blocks of one chunk, whole stripes, and sectors anywhere.
            let blocks = (0..stripe_blocks, 1..=chunk / 4096).prop_map(move |(first, count)| {
                let start = first * 4096;
                (start, (count * 4096).min(chunk - start % chunk))
            });
            let stripe = Just((0, stripe_blocks * 4096));
            let sectors = (0..stripe_blocks * 8, 1usize..40)
                .prop_map(move |(first, count)| (first * 512, count.min(stripe_blocks * 8 - first) * 512));
            let losses = if geometry.has_parity() { geometry.parity_columns() } else { 0 };
            let missing = prop::collection::btree_set(0..members, 0..=losses)
                .prop_map(|missing| missing.into_iter().collect::<Vec<_>>());
            let policy = (0..POLICIES.len()).prop_map(|index| POLICIES[index]);
            (prop_oneof![6 => blocks, 1 => stripe, 2 => sectors], missing, policy).prop_map(
                move |((start, len), missing, policy)| {
                    let span = StripeSpan { stripe: StripeIndex(0), start, len, request_offset: 0 };
                    Case { geometry, span, missing, policy }
                },
            )
        })
    }

    /// Whether a write has a quick recipe. If so, it must be that of its plan.
    fn is_quick(case: &Case) -> bool {
        let Case { geometry, span, missing, policy } = case;
        let presence = |column: usize| match missing.contains(&column) {
            true => Presence::Missing,
            false => Presence::Present,
        };
        let selection = (policy.make)();
        let columns = Columns { geometry, missing };
        let mut quick = Recipe::default();
        let mut bands = Vec::new();
        if !whole(&columns, span, &mut quick, |band| bands.push(*band))
            && !one_column(&columns, span, (&*selection, &Uneven), &mut quick, |band| bands.push(*band))
        {
            assert_eq!((quick, bands), (Recipe::default(), vec![]), "they are left empty");
            return false;
        }
        let state = StripeState::for_write(geometry, span, true, presence);
        let plan = build(&state, &*(policy.make)(), &Uneven).unwrap();
        let planned = lower(&plan, &state, |column| [span.in_column(column, geometry.chunk_bytes()).0]);
        assert_eq!(quick, planned, "{case:?}");
        assert_eq!(plan.bands[..], bands, "{case:?}");
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_quick_recipe_is_that_of_the_plan(case in cases()) {
            is_quick(&case);
        }
    }

    /// Whole rows, with columns missing: the recipe is that of the plan, whatever the policy, unless no parity is there.
    fn check_rows(case: &Case, rows: Range<usize>) -> bool {
        let Case { geometry, missing, policy, .. } = case;
        let presence = |column: usize| match missing.contains(&column) {
            true => Presence::Missing,
            false => Presence::Present,
        };
        let (mut quick, mut bands, span) = (Recipe::default(), Vec::new(), Span::from(rows.clone()));
        if !super::rows(&Columns { geometry, missing }, span, &mut quick, |band| bands.push(*band)) {
            assert_eq!((quick, bands), (Recipe::default(), vec![]), "they are left empty");
            return false;
        }
        let mut state = StripeState::default();
        state.set_empty(geometry, false, presence);
        state.columns[..geometry.data_columns()]
            .iter_mut()
            .for_each(|column| column.dirty = RowSet::range(rows.clone()));
        let plan = build(&state, &*(policy.make)(), &Uneven).unwrap();
        assert_eq!(quick, lower(&plan, &state, |_| [span.bytes()]), "{case:?}, {rows:?}");
        assert_eq!(plan.bands[..], bands, "{case:?}, {rows:?}");
        true
    }

    proptest! {
        #[test]
        fn whole_rows_have_the_recipe_of_the_plan(case in cases(), first in 0..8_usize, count in 1..8_usize) {
            let all = case.geometry.chunk_bytes() / BLOCK_BYTES;
            let first = first.min(all - 1);
            let is_lost = |column: &usize| *column >= case.geometry.data_columns() && case.missing.contains(column);
            let lost = (0..case.geometry.members()).filter(is_lost).count();
            let has_parity = case.geometry.has_parity() && lost < case.geometry.parity_columns();
            prop_assert_eq!(check_rows(&case, first..(first + count).min(all)), has_parity);
        }
    }

    #[test]
    fn blocks_of_one_column_and_whole_stripes_are_quick_and_nothing_else_is() {
        let geometry = Geometry::new(Level::Raid5, 5, 16384, 1 << 20, 512).unwrap();
        let case = |start, len, missing: &[usize]| Case {
            geometry,
            span: StripeSpan { stripe: StripeIndex(0), start, len, request_offset: 0 },
            missing: missing.to_vec(),
            policy: POLICIES[0],
        };
        assert!(is_quick(&case(4096, 8192, &[])) && is_quick(&case(0, 65536, &[])));
        assert!(is_quick(&case(4096, 8192, &[0])) && is_quick(&case(4096, 8192, &[4])));
        assert!(!is_quick(&case(4096, 512, &[])), "a part of a block");
        assert!(!is_quick(&case(12288, 8192, &[])), "two columns");
        assert!(!is_quick(&case(0, 65536, &[1])), "a whole stripe of which a column is lost");
    }
}
