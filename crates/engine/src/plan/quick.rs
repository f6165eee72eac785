//! The recipes of the commonest writes, without a plan: a whole stripe, whole blocks of one column, and zeroes.
//!
//! Drawing up a plan takes most of the engine's own work on such a write. What these planners give is what the
//! [plan](super::build) would give once it is [lowered](super::lower): a property holds them to that.

use super::{
    Cycle, Presence, Recipe, WriteSelection,
    costs::ColumnCosts,
    recipe::{Cells, CycleRows, How, Parity, Source, Span, Sum, Write},
    selection::{OneColumn, cycle_by},
};
use crate::{
    mutants::{Mutant, lives},
    shape::{
        geometry::{Geometry, StripeSpan},
        rows::BLOCK_BYTES,
    },
};

/// The columns of a stripe that a write may use. Each is missing, or can be read and written.
pub(crate) struct Columns<'a, P> {
    pub(crate) geometry: &'a Geometry,
    /// Whether all of them can be read and written.
    pub(crate) are_whole: bool,
    /// How each can be used, where not all can.
    pub(crate) presence: P,
}

impl<P: Fn(usize) -> Presence> Columns<'_, P> {
    /// Whether a column can be read and written.
    fn is_there(&self, column: usize) -> bool {
        self.are_whole || (self.presence)(column) == Presence::Present
    }

    /// How one column is written; none if the plan is to say.
    fn how_alone(
        &self,
        write: &OneColumn,
        selection: &dyn WriteSelection,
        costs: &dyn ColumnCosts,
    ) -> Option<HowAlone> {
        let k = write.data_columns;
        let (p, q) = (self.is_there(k), write.parity_columns > 1 && self.is_there(k + 1));
        let lost = write.parity_columns - usize::from(p) - usize::from(q);
        let (parity, is_there) = (Parity::of(p, q), self.is_there(write.column));
        let cycle = match (is_there, parity) {
            (false, None) => return None,
            (false, _) => Cycle::Rcw,
            (true, None) => Cycle::Direct,
            (true, _) => match selection.rule() {
                Some(rule) => cycle_by(rule, write.counts_without(lost)),
                None if !self.are_whole => return None,
                None => selection.of_one_column(write, costs)?,
            },
        };
        Some(HowAlone { cycle, parity, is_there })
    }
}

/// A whole stripe of a level with parity all of whose columns are there: nothing is read, parity is made of what is new. Fills an
/// empty recipe; false, where the plan does something else.
pub(crate) fn whole<P: Fn(usize) -> Presence>(
    columns: &Columns<'_, P>,
    span: &StripeSpan,
    recipe: &mut Recipe,
) -> bool {
    let geometry = columns.geometry;
    if span.len as u64 != geometry.stripe_bytes() || !geometry.has_parity() || !columns.are_whole {
        return false;
    }
    let chunk = 0..geometry.chunk_bytes();
    let rows = Span::touching(&chunk);
    let parity = if geometry.parity_columns() > 1 { Parity::PAndQ } else { Parity::P };
    for column in 0..geometry.data_columns() {
        recipe.writes.push(Write::of(column, &chunk, Source::New(column as u16), false));
    }
    for column in geometry.data_columns()..geometry.members() {
        recipe.writes.push(Write::of(column, &chunk, Source::Sum, false));
    }
    recipe.sums.push(Sum { rows, parity, how: How::Make });
    recipe.cycles.push(CycleRows { cycle: Cycle::Full, rows });
    true
}

/// A whole stripe of zeroes. Parity of zeroes is zeroes: nothing is read, and nothing is computed.
pub(crate) fn zeroes(geometry: &Geometry) -> Recipe {
    let skipped = if lives(Mutant::ZeroSkipsParity) { geometry.parity_columns() } else { 0 };
    let chunk = 0..geometry.chunk_bytes();
    let write = |column| Write::of(column, &chunk, Source::Zeroes, false);
    Recipe { writes: (0..geometry.members() - skipped).map(write).collect(), ..Recipe::default() }
}

/// Whole blocks of one column, of a level with parity that agrees with its data. A read-modify-write reads the old blocks and
/// their parity; a reconstruct-write reads the other columns. Both write the column and parity, as far as they are there. Fills an
/// empty recipe; false, where the plan does something else.
pub(crate) fn one_column<P: Fn(usize) -> Presence>(
    columns: &Columns<'_, P>,
    span: &StripeSpan,
    selection: &dyn WriteSelection,
    costs: &dyn ColumnCosts,
    recipe: &mut Recipe,
) -> bool {
    let geometry = columns.geometry;
    let (chunk_bytes, data_columns) = (geometry.chunk_bytes(), geometry.data_columns());
    let start = span.start % chunk_bytes;
    let is_of_blocks = (span.start | span.len).is_multiple_of(BLOCK_BYTES);
    if !geometry.has_parity() || !is_of_blocks || start + span.len > chunk_bytes || data_columns < 2 {
        return false;
    }
    let write = OneColumn {
        column: span.start / chunk_bytes,
        data_columns,
        parity_columns: geometry.parity_columns(),
        rows: start / BLOCK_BYTES..(start + span.len) / BLOCK_BYTES,
    };
    match columns.how_alone(&write, selection, costs) {
        Some(how) => by_cycle(columns, &write, how, recipe),
        None => false,
    }
}

/// How one column is written.
struct HowAlone {
    cycle: Cycle,
    /// The parity that is there.
    parity: Option<Parity>,
    /// Whether the column is.
    is_there: bool,
}

/// By a cycle; by RMW if RCW cannot read all that it needs.
fn by_cycle<P: Fn(usize) -> Presence>(
    columns: &Columns<'_, P>,
    write: &OneColumn,
    how: HowAlone,
    recipe: &mut Recipe,
) -> bool {
    let HowAlone { mut cycle, parity, is_there } = how;
    let (k, rows) = (write.data_columns, Span::from(write.rows.clone()));
    let cells = |column: usize| Cells { column: column as u16, rows };
    if cycle == Cycle::Rcw {
        let mut others = (0..k).filter(|other| *other != write.column);
        if others.clone().all(|other| columns.is_there(other)) {
            others.by_ref().for_each(|other| recipe.reads.push(cells(other)));
        } else if is_there {
            cycle = Cycle::Rmw;
        } else {
            return false;
        }
    }
    let is_rewrite = cycle == Cycle::Rmw;
    let (bytes, parity_columns) = (rows.bytes(), parity.map_or(0..0, Parity::columns));
    if is_rewrite {
        recipe.reads.push(cells(write.column));
    }
    if is_there {
        recipe.writes.push(Write::of(write.column, &bytes, Source::New(write.column as u16), is_rewrite));
    }
    for column in k + parity_columns.start..k + parity_columns.end {
        if is_rewrite {
            recipe.reads.push(cells(column));
        }
        recipe.writes.push(Write::of(column, &bytes, Source::Sum, is_rewrite));
    }
    if let Some(parity) = parity {
        let column = write.column as u16;
        let how = if is_rewrite { How::Update(Span { start: column, end: column + 1 }) } else { How::Make };
        recipe.sums.push(Sum { rows, parity, how });
    }
    recipe.cycles.push(CycleRows { cycle, rows });
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        plan::{
            StripeState, build,
            costs::NoCosts,
            lower,
            selection::{POLICIES, Policy},
        },
        shape::geometry::{Level, StripeIndex},
    };

    #[derive(Debug, Clone)]
    struct Case {
        geometry: Geometry,
        span: StripeSpan,
        missing: Vec<usize>,
        policy: &'static Policy,
        /// Where no column is missing: whether that is known beforehand.
        is_known_whole: bool,
    }

    fn cases() -> impl Strategy<Value = Case> {
        let levels = prop_oneof![
            Just(Level::Raid0),
            Just(Level::Raid1),
            Just(Level::Raid4),
            Just(Level::Raid5),
            Just(Level::Raid6)
        ];
        (levels, 2usize..9, 0u32..4, any::<bool>()).prop_flat_map(
            |(level, members, chunk_shift, is_known_whole)| {
                let members = members.max(level.members_min());
                let geometry = Geometry::new(level, members, 4096 << chunk_shift, 1 << 20, 512).unwrap();
                let (stripe_blocks, chunk) =
                    (geometry.stripe_bytes() as usize / 4096, geometry.chunk_bytes());
                // Blocks of one chunk, whole stripes, and sectors anywhere.
                let blocks = (0..stripe_blocks, 1..=chunk / 4096).prop_map(move |(first, count)| {
                    let start = first * 4096;
                    (start, (count * 4096).min(chunk - start % chunk))
                });
                let stripe = Just((0, stripe_blocks * 4096));
                let sectors = (0..stripe_blocks * 8, 1usize..40).prop_map(move |(first, count)| {
                    (first * 512, count.min(stripe_blocks * 8 - first) * 512)
                });
                let losses = if geometry.has_parity() { geometry.parity_columns() } else { 0 };
                let missing = prop::collection::vec(0..members, 0..=losses);
                let policy = (0..POLICIES.len()).prop_map(|index| POLICIES[index]);
                (prop_oneof![6 => blocks, 1 => stripe, 2 => sectors], missing, policy).prop_map(
                    move |((start, len), missing, policy)| {
                        let span = StripeSpan { stripe: StripeIndex(0), start, len, request_offset: 0 };
                        Case { geometry, span, missing, policy, is_known_whole }
                    },
                )
            },
        )
    }

    /// Whether a write has a quick recipe, which then must be that of its plan.
    fn is_quick(case: &Case) -> bool {
        let Case { geometry, span, missing, policy, is_known_whole } = case;
        let presence = |column: usize| match missing.contains(&column) {
            true => Presence::Missing,
            false => Presence::Present,
        };
        let selection = (policy.make)();
        let columns = Columns { geometry, are_whole: missing.is_empty() && *is_known_whole, presence };
        let mut quick = Recipe::default();
        if !whole(&columns, span, &mut quick)
            && !one_column(&columns, span, &*selection, &NoCosts, &mut quick)
        {
            assert_eq!(quick, Recipe::default(), "it is left empty");
            return false;
        }
        let state = StripeState::for_write(geometry, span, true, presence);
        let plan = build(&state, &*selection, &NoCosts).unwrap();
        let planned = lower(&plan, &state, |column| span.in_column(column, geometry.chunk_bytes()).0);
        assert_eq!(quick, planned, "{case:?}");
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_quick_recipe_is_that_of_the_plan(case in cases()) {
            is_quick(&case);
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
            is_known_whole: true,
        };
        assert!(is_quick(&case(4096, 8192, &[])) && is_quick(&case(0, 65536, &[])));
        assert!(is_quick(&case(4096, 8192, &[0])) && is_quick(&case(4096, 8192, &[4])));
        assert!(!is_quick(&case(4096, 512, &[])), "a part of a block");
        assert!(!is_quick(&case(12288, 8192, &[])), "two columns");
        assert!(!is_quick(&case(0, 65536, &[1])), "a whole stripe of which a column is lost");
    }
}
