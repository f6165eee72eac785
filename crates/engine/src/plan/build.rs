//! From a stripe's state to its basic rxw-matrix (msc-ct Fig. 5 and 7).

use super::{
    costs::ColumnCosts,
    counts::{Counts, counts},
    matrix::{Band, ColumnOps, Cycle, Plan, PlanError},
    selection::{Stripe, WriteSelection},
    state::{ColumnState, Redundancy, StripeState},
};
use crate::{
    mutants::{Mutant, lives},
    shape::rows::RowSet,
};

/// Makes the basic matrix: a cycle for every dirty row, and its operations. `costs` tells policies that ask
/// what the members cost.
///
/// # Errors
/// [`PlanError`] when a row's lost blocks are more than its parity can recover.
pub fn build(
    state: &StripeState,
    selection: &dyn WriteSelection,
    costs: &dyn ColumnCosts,
) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    build_into(&mut plan, state, selection, costs)?;
    Ok(plan)
}

/// As [`build`], but fills an empty plan in place: plans are large.
pub(crate) fn build_into(
    plan: &mut Plan,
    state: &StripeState,
    selection: &dyn WriteSelection,
    costs: &dyn ColumnCosts,
) -> Result<(), PlanError> {
    for _ in &state.columns {
        plan.columns.push(ColumnOps::default());
    }
    let mut left = state.dirty_rows();
    while let Some(row) = left.first() {
        let band = band_of(state, left, row)?;
        left = left - band.rows;
        plan.bands.push(band);
    }
    if plan.bands.iter().any(|band| band.free) {
        selection.choose(&Stripe::of(state), costs, &mut plan.bands);
    }
    let Plan { columns, bands } = plan;
    for band in bands {
        add_operations(columns, state, band);
    }
    Ok(())
}

/// The rows of `left` that are in the same state as `row` in every column, with their cycle if only one is
/// possible.
fn band_of(state: &StripeState, left: RowSet, row: usize) -> Result<Band, PlanError> {
    let mut rows = left;
    for column in &state.columns {
        for set in [&column.dirty, &column.partial, &column.clean] {
            if !set.is_empty() {
                rows &= if set.contains(row) { *set } else { !*set };
            }
        }
    }
    let Counts { rmw, rcw } = counts(state, row);
    let partial = state.data().iter().any(|c| c.partial.contains(row));
    let cycle = RowView { state, row }.cycle()?;
    let (free, cycle) = (cycle.is_none(), cycle.unwrap_or(Cycle::Rcw));
    Ok(Band { rows, cycle, partial, rmw, rcw, free, estimate: None })
}

/// One row of the state.
struct RowView<'a> {
    state: &'a StripeState,
    row: usize,
}

impl RowView<'_> {
    fn is_whole(&self, column: &ColumnState) -> bool {
        column.dirty.contains(self.row) && !column.partial.contains(self.row)
    }

    /// Whether the cell's old content is in hand or can be read.
    fn obtainable(&self, column: &ColumnState) -> bool {
        column.readable() || column.clean.contains(self.row)
    }

    /// The row's cycle; none if a policy may choose between RMW and RCW.
    fn cycle(&self) -> Result<Option<Cycle>, PlanError> {
        let Redundancy::Parity { trusted } = self.state.redundancy else { return Ok(Some(Cycle::Direct)) };
        let writable_parity = self.state.redundant().iter().filter(|c| c.writable()).count();
        if writable_parity == 0 {
            return self.without_parity().map(Some);
        }
        let data = self.state.data();
        if lives(Mutant::DegradedParityForgotten) && data.iter().any(|c| !c.writable()) {
            return Ok(Some(Cycle::Direct));
        }
        if data.iter().all(|c| self.is_whole(c)) {
            return Ok(Some(Cycle::Full));
        }
        let rcw = data.iter().all(|c| self.is_whole(c) || self.obtainable(c));
        let rmw = trusted
            && data.iter().all(|c| !c.dirty.contains(self.row) || c.readable())
            && self.state.redundant().iter().all(|c| !c.writable() || self.obtainable(c));
        match (rmw, rcw) {
            (true, true) => Ok(None),
            (true, false) => Ok(Some(Cycle::Rmw)),
            (false, true) => Ok(Some(Cycle::Rcw)),
            (false, false) => self.recoverable().map(|()| Some(Cycle::Recover)),
        }
    }

    /// Data alone can be written, if the member of every dirty cell is there.
    fn without_parity(&self) -> Result<Cycle, PlanError> {
        let lost = self.state.data().iter().filter(|c| c.dirty.contains(self.row) && !c.writable()).count();
        if lost == 0 { Ok(Cycle::Direct) } else { Err(PlanError::TooManyLost { lost, parity: 0 }) }
    }

    fn recoverable(&self) -> Result<(), PlanError> {
        let lost = self.state.data().iter().filter(|c| !self.obtainable(c)).count();
        let parity = self.state.redundant().iter().filter(|c| self.obtainable(c)).count();
        if lost <= parity { Ok(()) } else { Err(PlanError::TooManyLost { lost, parity }) }
    }
}

fn add_operations(columns: &mut [ColumnOps], state: &StripeState, band: &Band) {
    let rows = band.rows;
    let (data_ops, redundant_ops) = columns.split_at_mut(state.data_columns);
    for (ops, column) in data_ops.iter_mut().zip(state.data()) {
        add_data_operations(ops, column, band);
    }
    for (ops, column) in redundant_ops.iter_mut().zip(state.redundant()).filter(|(_, c)| c.writable()) {
        let read = if column.readable() { rows - column.clean } else { RowSet::EMPTY };
        match band.cycle {
            Cycle::Direct if state.redundancy == Redundancy::Mirrors => {}
            Cycle::Direct => continue,
            Cycle::Full | Cycle::Rcw => ops.dest |= rows,
            Cycle::Rmw => {
                ops.r |= read;
                ops.x |= rows;
                ops.dest |= rows;
            }
            Cycle::Recover => {
                ops.r |= read;
                ops.dest |= rows;
            }
        }
        ops.w |= rows;
    }
}

fn add_data_operations(ops: &mut ColumnOps, column: &ColumnState, band: &Band) {
    let rows = band.rows;
    if band.cycle == Cycle::Rmw && column.dirty.is_empty() {
        return;
    }
    let dirty = rows & column.dirty;
    let partial = rows & column.partial;
    let empty = rows - column.dirty - column.clean;
    let readable = |set: RowSet| if column.readable() { set } else { RowSet::EMPTY };
    match band.cycle {
        Cycle::Direct => {}
        Cycle::Full => ops.x |= rows,
        Cycle::Rmw => {
            ops.t |= dirty;
            ops.xx |= dirty;
        }
        Cycle::Rcw => {
            ops.t |= readable(partial);
            ops.r |= readable(empty);
            ops.x |= rows;
        }
        Cycle::Recover => {
            ops.t |= readable(dirty);
            ops.r |= readable(empty);
            ops.x |= rows;
        }
    }
    if column.writable() {
        ops.w |= dirty;
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::plan::{
        Presence,
        costs::NoCosts,
        selection::{Classic, Cost, ModThresh, Modified, PreferRmw},
    };

    /// A one-row stripe from letters: D dirty, P partial, C clean, E empty, X missing and empty, Y missing
    /// and dirty, U unreadable and empty; behind the bar the parity columns.
    fn state(letters: &str) -> StripeState {
        let (data, parity) = letters.split_once('|').unwrap();
        let row = RowSet::range(0..1);
        let column = |letter: char| {
            let presence = match letter {
                'X' | 'Y' => Presence::Missing,
                'U' => Presence::Unreadable,
                _ => Presence::Present,
            };
            let set = |letters: &str| if letters.contains(letter) { row } else { RowSet::EMPTY };
            ColumnState { presence, dirty: set("DPY"), partial: set("P"), clean: set("C") }
        };
        StripeState {
            columns: data.chars().chain(parity.chars()).map(column).collect(),
            data_columns: data.len(),
            redundancy: Redundancy::Parity { trusted: true },
        }
    }

    fn cycle(letters: &str) -> (Cycle, u32, u32) {
        let plan = build(&state(letters), &Classic, &NoCosts).unwrap();
        (plan.bands[0].cycle, plan.bands[0].rmw, plan.bands[0].rcw)
    }

    /// msc-ct Fig. 5 (N = 5) and raid4s-modthresh Figures 6, 7 and 9.
    #[test]
    fn the_papers_cases_choose_the_papers_cycles() {
        assert_eq!(cycle("DEEE|E"), (Cycle::Rmw, 2, 3), "one block dirty: 64 KiB of raid4s-modthresh");
        assert_eq!(cycle("DDEE|E"), (Cycle::Rcw, 3, 2), "two dirty: 128 KiB");
        assert_eq!(cycle("DDDE|E"), (Cycle::Rcw, 4, 1));
        assert_eq!(cycle("DDDD|E"), (Cycle::Full, 5, 0));
        assert_eq!(cycle("ECCD|E"), (Cycle::Rcw, 2, 1), "msc-ct Fig. 5 case 2");
        assert_eq!(cycle("DCDD|E"), (Cycle::Rcw, 4, 0));
        assert_eq!(cycle("DEEE|C"), (Cycle::Rmw, 1, 3), "parity in hand");
    }

    /// raid4s-modthresh 3.2.1 and 3.3: 64 and 128 KiB of 4+1, and what lies beyond.
    #[test]
    fn each_policy_draws_the_line_where_its_paper_does() {
        let cycles = |letters: &str| {
            let state = state(letters);
            let policies: [&dyn WriteSelection; 4] = [&Classic, &PreferRmw, &ModThresh, &Modified];
            policies.map(|policy| build(&state, policy, &NoCosts).unwrap().bands[0].cycle)
        };
        use Cycle::{Full, Rcw, Rmw};
        assert_eq!(cycles("DEEE|E"), [Rmw; 4]);
        assert_eq!(cycles("DDEE|E"), [Rcw, Rcw, Rmw, Rmw], "rmw 3, rcw 2");
        assert_eq!(cycles("DDDE|E"), [Rcw, Rcw, Rcw, Rmw], "rmw 4, rcw 1");
        assert_eq!(cycles("DDDD|E"), [Full; 4]);
        assert_eq!(cycles("DDEEEE|EE"), [Rcw, Rmw, Rmw, Rmw], "level 6: rmw 4, rcw 4");
        assert_eq!(cycles("DDDEEE|EE"), [Rcw, Rcw, Rcw, Rmw], "level 6: rmw 5, rcw 3");
        assert_eq!(cycles("DEEE|EE"), [Rcw, Rmw, Rmw, Rmw], "level 6: rmw 3, rcw 3");
    }

    #[test]
    fn degraded_rows_take_the_possible_cycle() {
        assert_eq!(cycle("YEEE|E").0, Cycle::Rcw, "a lost column wholly overwritten");
        assert_eq!(cycle("DDXE|E").0, Cycle::Rmw, "another column lost: RMW, though RCW would read less");
        assert_eq!(cycle("DEEE|X").0, Cycle::Direct, "parity lost");
        assert_eq!(cycle("DEUE|E").0, Cycle::Rmw);
        assert_eq!(cycle("YEXE|EE").0, Cycle::Recover, "two lost, one of them dirty");
        assert_eq!(
            cycle("DEEE|XE").0,
            Cycle::Rcw,
            "P is lost, and md counts it dear: only Q is kept up to date"
        );
        let lost = build(&state("YXEE|E"), &Classic, &NoCosts).unwrap_err();
        assert_eq!(lost, PlanError::TooManyLost { lost: 2, parity: 1 });
    }

    #[test]
    fn partial_cells_need_their_old_content() {
        assert_eq!(cycle("PEEE|E"), (Cycle::Rmw, 2, 4));
        assert_eq!(cycle("PDDD|E"), (Cycle::Rcw, 5, 1));
        let plan = build(&state("PDDD|E"), &Classic, &NoCosts).unwrap();
        assert_eq!((plan.columns[0].r.len(), plan.columns[0].t.len()), (0, 1), "beside what is new");
    }

    #[test]
    fn untrusted_parity_is_never_modified_in_place() {
        let mut state = state("DEEE|E");
        state.redundancy = Redundancy::Parity { trusted: false };
        assert_eq!(build(&state, &Classic, &NoCosts).unwrap().bands[0].cycle, Cycle::Rcw);
    }

    /// The matrix of msc-ct equation (3), from Z of equation (2): rows choose their cycles on their own.
    #[test]
    fn the_papers_matrix_comes_out() {
        let z = ["DEEE", "ECED", "EEEE", "DDDD", "DCDD", "EDEE", "DEEE"];
        let rows_of = |column: usize, letter: u8| {
            (0..7)
                .filter(|r| z[*r].as_bytes()[column] == letter)
                .fold(RowSet::EMPTY, |s, r| s | RowSet::range(r..r + 1))
        };
        let mut columns: smallvec::SmallVec<[ColumnState; 8]> = smallvec![];
        for column in 0..4 {
            let (dirty, clean) = (rows_of(column, b'D'), rows_of(column, b'C'));
            columns.push(ColumnState { dirty, clean, ..ColumnState::empty(Presence::Present) });
        }
        columns.push(ColumnState::empty(Presence::Present));
        let state =
            StripeState { columns, data_columns: 4, redundancy: Redundancy::Parity { trusted: true } };
        let plan = build(&state, &Classic, &NoCosts).unwrap();
        let expected = "\
            t,xx,w | . | . | . | r,x,_,w\n\
            r,x | x | r,x | x,w | _,w\n\
            . | . | . | . | .\n\
            x,w | x,w | x,w | x,w | _,w\n\
            x,w | x | x,w | x,w | _,w\n\
            . | t,xx,w | . | . | r,x,_,w\n\
            t,xx,w | . | . | . | r,x,_,w\n";
        assert_eq!(plan.matrix(7), expected);
    }

    /// With cached blocks scattered over the rows, there are more bands than `cost` weighs together.
    #[test]
    fn any_number_of_bands_has_a_cycle_for_each_row() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut rows =
                || (0..256).filter(|_| rng.bool()).fold(RowSet::EMPTY, |s, r| s | RowSet::range(r..r + 1));
            let mut columns: smallvec::SmallVec<[ColumnState; 8]> = smallvec![];
            for _ in 0..4 {
                let (dirty, clean) = (rows(), rows());
                columns.push(ColumnState {
                    dirty,
                    clean: clean - dirty,
                    ..ColumnState::empty(Presence::Present)
                });
            }
            columns.push(ColumnState::empty(Presence::Present));
            let redundancy = Redundancy::Parity { trusted: true };
            let state = StripeState { columns, data_columns: 4, redundancy };
            let plan = build(&state, &Cost::default(), &NoCosts).unwrap();
            assert!(plan.bands.len() > 32, "{}", plan.bands.len());
            assert!(plan.rows() == state.dirty_rows());
            let settled = |band: &Band| !band.free || matches!(band.cycle, Cycle::Rmw | Cycle::Rcw);
            assert!(plan.bands.iter().all(settled));
        }
    }
}
