//! The contiguity transform (msc-ct III-B to III-E, Fig. 10): short gaps between a column's reads, and between its
//! writes, are filled.
//!
//! A disk that skips a few blocks may miss the next one, and wait for a revolution; to read or write what it skips takes
//! less time. Gaps between reads are filled first. What they read makes more gaps between writes fillable: a gap is
//! written with what the member holds there already.
//!
//! Beyond the paper: gaps that reach into the stripes beside this one are filled up to its end, and their destages fill the
//! rest, so that requests touch where the chunks of a member do. P and Q are filled alike, each by its own member's strides. A gap is filled only where its rows are
//! locked. One on a member that is missing, or cannot be read, is left, and so are the gaps of rows whose parity is lost.

use std::ops::Range;

use super::{
    super::{
        matrix::{Cycle, Plan},
        state::StripeState,
    },
    Pass,
    gaps::{Edges, Gap, between},
    strides::{ColumnStrides, Strides},
};
use crate::{
    mutants::{Mutant, lives},
    shape::rows::RowSet,
};

/// What was filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filled {
    /// Blocks that are read, and blocks that are written, only since they lie in gaps.
    pub blocks: u32,
    /// Each gap that does not reach beyond the stripe makes two requests one.
    pub requests_saved: u32,
}

impl Filled {
    fn add(&mut self, gap: &Gap) {
        self.blocks += gap.rows.len() as u32;
        self.requests_saved += u32::from(gap.joins);
    }
}

/// Fills gaps between reads: the first half of the transform.
pub(super) static READS: Pass = Pass { name: "gaps between reads filled", run: transform_reads };
/// Fills gaps between writes: the second half.
pub(super) static WRITES: Pass = Pass { name: "gaps between writes filled", run: transform_writes };

/// msc-ct Fig. 10, ReadContiguityTransform. Beside new content, old content is read into memory of its own (msc-ct (6)).
///
/// Where gaps are weighed, one is read, too, if that lets writes be joined that gain more than it costs: the paper leaves
/// such gaps open (msc-ct III-D). Each is weighed by itself: writes that two of them together would join are left.
fn transform_reads(
    plan: &mut Plan,
    state: &StripeState,
    held: RowSet,
    strides: &dyn ColumnStrides,
) -> Filled {
    let mut filled = Filled::default();
    if !has_parity(plan) {
        return filled;
    }
    for (number, (ops, column)) in plan.columns.iter_mut().zip(&state.columns).enumerate() {
        let (edges, strides) = (strides.edges(number), strides.of(number));
        let (reads, writes) = (ops.reads(), if column.writable() { ops.w } else { RowSet::EMPTY });
        let in_hand = if number < state.data_columns { ops.r | column.clean } else { ops.r };
        let is_worth = |gap: &Gap| {
            let joins = || writes_joined((writes, edges), in_hand, &gap.rows, &strides.write);
            strides.read.gain(gap.stride).is_some_and(|gain| gain > 0 || gain + joins() > 0)
        };
        for gap in lockable((reads, edges), held, is_worth).filter(|_| column.readable()) {
            let rows = RowSet::range(gap.rows.clone());
            ops.t |= rows & column.dirty;
            ops.r |= rows - column.dirty;
            filled.add(&gap);
        }
    }
    filled
}

/// What the gaps between writes gain that can be filled only if this gap between reads is.
fn writes_joined(
    (writes, edges): (RowSet, Edges),
    in_hand: RowSet,
    read: &Range<usize>,
    strides: &Strides,
) -> i32 {
    let read = RowSet::range(read.clone());
    let wants_it = |gap: &Gap| {
        let missing = RowSet::range(gap.rows.clone()) - in_hand;
        !missing.is_empty() && (missing - read).is_empty()
    };
    let gaps = between(writes).chain(edges.gaps(writes));
    let gains = gaps.filter(wants_it).filter_map(|gap| strides.gain(gap.stride));
    gains.filter(|gain| *gain > 0).sum()
}

/// msc-ct Fig. 10, WriteContiguityTransform: a gap is filled if the content of all its cells is in hand (msc-ct (7)). Of
/// redundant columns only what is read is. Dirty cells are written anyway, so a gap has none.
fn transform_writes(
    plan: &mut Plan,
    state: &StripeState,
    held: RowSet,
    strides: &dyn ColumnStrides,
) -> Filled {
    let mut filled = Filled::default();
    if !has_parity(plan) {
        return filled;
    }
    for (number, (ops, column)) in plan.columns.iter_mut().zip(&state.columns).enumerate() {
        let in_hand = if number < state.data_columns { ops.r | column.clean } else { ops.r };
        let (edges, strides) = (strides.edges(number), strides.of(number).write);
        let is_worth = |gap: &Gap| strides.gain(gap.stride).is_some_and(|gain| gain > 0);
        for gap in lockable((ops.w, edges), held, is_worth).filter(|_| column.writable()) {
            let rows = RowSet::range(gap.rows.clone());
            if (rows - in_hand).is_empty() || lives(Mutant::EmptyGapFilled) {
                ops.w |= rows;
                filled.add(&gap);
            } else if lives(Mutant::GapEndsWrite) && gap.joins && number < state.data_columns {
                ops.w &= RowSet::range(0..gap.rows.start);
            }
        }
    }
    filled
}

/// Whether parity is written in all rows: where it is lost, bytes are written as they are, and nothing is read.
fn has_parity(plan: &Plan) -> bool {
    plan.bands.iter().all(|band| band.cycle != Cycle::Direct)
}

/// The gaps of a column's operation that are worth filling, and of which all rows are locked.
fn lockable(
    (rows, edges): (RowSet, Edges),
    held: RowSet,
    is_worth: impl Fn(&Gap) -> bool,
) -> impl Iterator<Item = Gap> {
    let gaps = between(rows).chain(edges.gaps(rows)).filter(is_worth);
    gaps.filter(move |gap| (RowSet::range(gap.rows.clone()) - held).is_empty())
}

#[cfg(test)]
mod tests {
    use smallvec::{SmallVec, smallvec};

    use super::{super::MemberStrides, *};
    use crate::plan::{ColumnState, Presence, Redundancy, build, costs::NoCosts, selection::Classic};

    /// All members alike.
    struct Alike(MemberStrides);

    impl ColumnStrides for Alike {
        fn of(&self, _: usize) -> MemberStrides {
            self.0
        }
    }

    fn transform(plan: &mut Plan, state: &StripeState, held: RowSet, strides: &dyn ColumnStrides) -> Filled {
        let [reads, writes] =
            [transform_reads, transform_writes].map(|pass| pass(plan, state, held, strides));
        let requests_saved = reads.requests_saved + writes.requests_saved;
        Filled { blocks: reads.blocks + writes.blocks, requests_saved }
    }

    fn below(read: u16, write: u16) -> Alike {
        Alike(MemberStrides { read: Strides::below(read), write: Strides::below(write) })
    }

    /// Level 5's state from Z in msc-ct's letters, row by row, and X for a cell whose member is missing.
    fn state_of(z: &[&str]) -> StripeState {
        let rows_of = |column: usize, letter: u8| {
            let is_it = |row: &usize| z[*row].as_bytes()[column] == letter;
            (0..z.len()).filter(is_it).fold(RowSet::EMPTY, |all, row| all | RowSet::range(row..row + 1))
        };
        let data_columns = z[0].len();
        let mut columns: SmallVec<[ColumnState; 8]> = smallvec![];
        for column in 0..data_columns {
            let is_missing = !rows_of(column, b'X').is_empty();
            let presence = if is_missing { Presence::Missing } else { Presence::Present };
            let (dirty, clean) = (rows_of(column, b'D'), rows_of(column, b'C'));
            columns.push(ColumnState { dirty, clean, ..ColumnState::empty(presence) });
        }
        columns.push(ColumnState::empty(Presence::Present));
        StripeState { columns, data_columns, redundancy: Redundancy::Parity { trusted: true } }
    }

    fn transformed(z: &[&str], held: RowSet, strides: &Alike) -> Plan {
        let state = state_of(z);
        let mut plan = build(&state, &Classic, &NoCosts).unwrap();
        transform(&mut plan, &state, held, strides);
        plan
    }

    /// Requests for reads and for writes.
    fn requests(plan: &Plan) -> (usize, usize) {
        let count = |rows: fn(&crate::plan::ColumnOps) -> RowSet| {
            plan.columns.iter().map(|ops| rows(ops).runs().count()).sum()
        };
        (count(|ops| ops.reads()), count(|ops| ops.w))
    }

    /// msc-ct (2).
    const Z: [&str; 7] = ["DEEE", "ECED", "EEEE", "DDDD", "DCDD", "EDEE", "DEEE"];
    const ALL: RowSet = RowSet::ALL;

    #[test]
    fn the_papers_example_takes_fewer_requests() {
        assert_eq!(requests(&transformed(&Z, ALL, &below(1, 1))), (6, 10), "the basic matrix");
        assert_eq!(requests(&transformed(&Z, ALL, &below(64, 64))), (4, 6));
        assert_eq!(requests(&transformed(&Z, ALL, &below(5, 5))), (6, 9));
    }

    /// msc-ct Fig. 7 (d) and (e), by the rules: its text gives m63 and m73 reads, for which there is no cause.
    #[test]
    fn the_papers_matrix_is_filled() {
        let expected = "\
            t,xx,w | . | . | . | r,x,_,w\n\
            r,x,w | x | r,x | x,w | r,_,w\n\
            r,w | . | . | . | r,w\n\
            t,x,w | x,w | x,w | x,w | r,_,w\n\
            t,x,w | x,w | x,w | x,w | r,_,w\n\
            r,w | t,xx,w | . | . | r,x,_,w\n\
            t,xx,w | . | . | . | r,x,_,w\n";
        assert_eq!(transformed(&Z, ALL, &below(64, 64)).matrix(7), expected);
    }

    /// Without reads in between, a gap is written only if all of it is cached.
    #[test]
    fn reads_come_first_since_they_make_gaps_writable() {
        assert_eq!(requests(&transformed(&Z, ALL, &below(1, 64))), (6, 9));
        assert_eq!(requests(&transformed(&Z, ALL, &below(64, 1))), (4, 10));
    }

    #[test]
    fn a_stride_in_an_excepted_region_is_not_filled() {
        let z = ["DEEE", "EEEE", "EEEE", "DEEE"];
        let except = |region| Strides::Limit { max: 64, except: [region, [0; 2], [0; 2], [0; 2]] };
        let plan = |region| {
            let strides = Alike(MemberStrides { read: except(region), write: Strides::below(64) });
            requests(&transformed(&z, ALL, &strides))
        };
        assert_eq!((plan([3, 3]), plan([1, 2]), plan([4, 9])), ((4, 4), (2, 2), (2, 2)));
    }

    /// To read the gap costs a tenth of a block's time; to join the writes saves a half, or a twentieth.
    #[test]
    fn a_gap_is_read_if_the_writes_that_it_joins_gain_more() {
        let z = ["DEEE", "EEEE", "EEEE", "EEEE", "DEEE"];
        let curve = |time: u16| {
            let mut times = [0; 64];
            (times[0], times[3]) = (1000, time);
            Strides::weighed(&times)
        };
        let plan = |read, write| {
            let strides = MemberStrides { read: curve(read), write: curve(write) };
            requests(&transformed(&z, ALL, &Alike(strides)))
        };
        assert_eq!((plan(1000, 1120), plan(1000, 1030)), ((2, 2), (4, 4)));
        assert_eq!((plan(1030, 1000), plan(1100, 1100)), ((2, 4), (2, 2)));
        let never_read = MemberStrides { read: Strides::below(1), write: curve(1900) };
        assert_eq!(requests(&transformed(&z, ALL, &Alike(never_read))), (4, 4), "an operator's limit");
    }

    #[test]
    fn gaps_are_filled_only_where_rows_are_locked() {
        let z = ["DEEE", "EEEE", "DEEE", "EEEE", "DEEE"];
        let held = RowSet::range(0..3) | RowSet::range(4..5);
        let plan = transformed(&z, held, &below(64, 64));
        assert_eq!(requests(&plan), (4, 4));
        assert!(plan.columns.iter().all(|ops| !ops.reads().contains(3) && !ops.w.contains(3)));
    }

    /// The second column's member is missing: its gap is left. The other columns' are filled.
    #[test]
    fn what_is_missing_is_left() {
        let z = ["DXEE", "EXEE", "DXEE"];
        let plan = transformed(&z, ALL, &below(64, 64));
        assert_eq!(requests(&plan), (2, 2));
        assert!(plan.columns[1] == crate::plan::ColumnOps::default());
    }

    /// Parity of two rows is rewritten, and the row between has none.
    #[test]
    fn nothing_is_filled_where_parity_is_lost() {
        let mut state = state_of(&["DEEE", "CEEE", "DEEE"]);
        state.columns[4].presence = Presence::Missing;
        let basic = build(&state, &Classic, &NoCosts).unwrap();
        let mut plan = basic.clone();
        transform(&mut plan, &state, ALL, &below(64, 64));
        assert_eq!(plan, basic);
    }
}
