//! One stripe's part of a write: counts, the chosen cycles, the rxw-matrix, and the resulting I/O.

use std::ops::Range;

use serde::Serialize;
use stripewise::{
    geometry::{StripeIndex, StripeSpan},
    internals::{
        plan::{
            self, Band, Cycle, Plan, PlanError, Presence, StripeState,
            passes::{self, Edges, PASSES, Pass},
        },
        rows::{BLOCK_BYTES, RowSet},
    },
};

use super::{
    cells::Cells,
    target::{StripeCosts, Target},
};
use stripewise_wire::BandStatus;

use crate::reports::band_status;

/// A write, explained.
#[derive(Debug, Serialize)]
pub(super) struct Explained {
    pub(super) level: i32,
    pub(super) disks: usize,
    /// None for level 1, whose copies have no chunks.
    pub(super) chunk_bytes: Option<usize>,
    pub(super) policy: &'static str,
    /// Further things to know.
    pub(super) notes: Vec<String>,
    pub(super) stripes: Vec<ExplainedStripe>,
}

#[derive(Debug, Serialize)]
pub(super) struct ExplainedStripe {
    pub(super) stripe: u64,
    /// Whether redundancy is known to agree with data. If not, nothing is computed from it.
    pub(super) synced: bool,
    /// In the array.
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: u64,
    /// Of a destage: what the cache holds of its first rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cells: Vec<String>,
    /// By column: data, then P and Q.
    pub(super) columns: Vec<ExplainedColumn>,
    pub(super) bands: Vec<ExplainedBand>,
    /// The basic rxw-matrix, with rows that are alike in one.
    pub(super) matrix: Vec<MatrixRows>,
    /// What the contiguity transform makes of it, if gaps are filled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filled: Option<Filled>,
    pub(super) reads: Vec<MemberIo>,
    pub(super) writes: Vec<MemberIo>,
}

#[derive(Debug, Serialize)]
pub(super) struct ExplainedColumn {
    /// The role of its member.
    pub(super) disk: usize,
    pub(super) device: Option<String>,
    /// `data`, `P`, `Q` or `copy`.
    pub(super) holds: &'static str,
    pub(super) missing: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct ExplainedBand {
    #[serde(flatten)]
    pub(super) band: BandStatus,
    /// What each column adds to the counts.
    pub(super) votes: Vec<Vote>,
}

/// A column's part in md's counts for a row.
#[derive(Debug, Serialize)]
pub(super) struct Vote {
    pub(super) disk: usize,
    pub(super) rmw: u32,
    pub(super) rcw: u32,
}

/// Neighbouring rows of the matrix with the same cells.
#[derive(Debug, Serialize)]
pub(super) struct MatrixRows {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) cells: Vec<String>,
}

/// Gaps that are filled between a destage's requests.
#[derive(Debug, Serialize)]
pub(super) struct Filled {
    /// One pass after the other.
    pub(super) passes: Vec<AfterPass>,
    /// Requests for reads and for writes of the basic matrix.
    pub(super) requests_before: [usize; 2],
}

/// What a pass makes of a plan.
#[derive(Debug, Serialize)]
pub(super) struct AfterPass {
    /// What it does.
    pub(super) pass: &'static str,
    /// The matrix then. What is added has a plus before it.
    pub(super) matrix: Vec<MatrixRows>,
}

/// One request to a member.
#[derive(Debug, Serialize)]
pub(super) struct MemberIo {
    pub(super) disk: usize,
    pub(super) device: Option<String>,
    /// From the start of the member's data area.
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: u64,
}

/// A client's write of a part of a stripe.
pub(super) fn explain(target: &Target, span: &StripeSpan) -> Result<ExplainedStripe, PlanError> {
    let presence = |column| target.presence(span.stripe, column);
    let state = StripeState::for_write(&target.geometry, span, target.is_synced(span.stripe), presence);
    let stripe = explain_state(target, span.stripe, Some(span), &state)?;
    Ok(ExplainedStripe {
        offset_bytes: stripe.offset_bytes + span.start as u64,
        len_bytes: span.len as u64,
        ..stripe
    })
}

/// A destage of what a cache holds of a stripe.
pub(super) fn explain_cells(
    target: &Target,
    stripe: StripeIndex,
    cells: &Cells,
) -> Result<ExplainedStripe, PlanError> {
    let presence = |column| target.presence(stripe, column);
    let nothing = StripeSpan { stripe, start: 0, len: 0, request_offset: 0 };
    let mut state = StripeState::for_write(&target.geometry, &nothing, target.is_synced(stripe), presence);
    cells.enter_into(&mut state);
    let explained = explain_state(target, stripe, None, &state)?;
    let len_bytes = (cells.dirty_blocks() * BLOCK_BYTES) as u64;
    Ok(ExplainedStripe { len_bytes, cells: cells.lines(), ..explained })
}

fn explain_state(
    target: &Target,
    stripe: StripeIndex,
    span: Option<&StripeSpan>,
    state: &StripeState,
) -> Result<ExplainedStripe, PlanError> {
    let geometry = &target.geometry;
    let selection = (target.policy.make)();
    let mut plan = plan::build(state, &*selection, &StripeCosts { target, stripe })?;
    let matrix = matrix(target, stripe, &plan, None);
    let filled = span.is_none().then(|| fill(target, stripe, state, &mut plan)).flatten();
    let of = Of { target, stripe, span, state, plan: &plan };
    Ok(ExplainedStripe {
        stripe: stripe.0,
        synced: target.is_synced(stripe),
        offset_bytes: stripe.0 * geometry.stripe_bytes(),
        len_bytes: 0,
        cells: Vec::new(),
        columns: (0..geometry.members()).map(|column| of.column(column)).collect(),
        bands: plan.bands.iter().map(|band| of.band(band)).collect(),
        matrix,
        filled,
        reads: of.reads(),
        writes: of.writes(),
    })
}

/// Fills gaps of a destage's plan, if some would be.
fn fill(target: &Target, stripe: StripeIndex, state: &StripeState, plan: &mut Plan) -> Option<Filled> {
    let strides = target.strides(stripe)?;
    let held = passes::with_gaps(state.dirty_rows(), Edges::default(), strides.end());
    let requests_before = requests(plan);
    let mut after = |pass: &&Pass| {
        let before = plan.clone();
        (pass.run)(plan, state, held, &strides);
        AfterPass { pass: pass.name, matrix: matrix(target, stripe, plan, Some(&before)) }
    };
    Some(Filled { passes: PASSES.iter().map(&mut after).collect(), requests_before })
}

/// Requests for reads and for writes.
fn requests(plan: &Plan) -> [usize; 2] {
    let runs = |rows: RowSet| rows.runs().count();
    let of = |ops: &plan::ColumnOps| [runs(ops.reads()), runs(ops.w)];
    plan.columns.iter().map(of).fold([0; 2], |all, one| [all[0] + one[0], all[1] + one[1]])
}

/// A plan's matrix. What it has and the one before has not is marked.
fn matrix(target: &Target, stripe: StripeIndex, plan: &Plan, before: Option<&Plan>) -> Vec<MatrixRows> {
    let rows = target.geometry.chunk_len(stripe).div_ceil(BLOCK_BYTES);
    let (now, before) = (plan.matrix(rows), before.unwrap_or(plan).matrix(rows));
    let mut folded: Vec<MatrixRows> = Vec::new();
    for (row, (now, before)) in now.lines().zip(before.lines()).enumerate() {
        let cells: Vec<_> =
            now.split(" | ").zip(before.split(" | ")).map(|(now, before)| marked(now, before)).collect();
        match folded.last_mut() {
            Some(last) if last.cells == cells => last.last = row,
            _ => folded.push(MatrixRows { first: row, last: row, cells }),
        }
    }
    folded
}

/// The operations of a cell, with a plus before those that it did not have.
fn marked(now: &str, before: &str) -> String {
    let had = |operation: &str| before.split(',').any(|other| other == operation);
    let mark = |operation: &str| match had(operation) {
        true => operation.to_owned(),
        false => format!("+{operation}"),
    };
    now.split(',').map(mark).collect::<Vec<_>>().join(",")
}

/// A stripe with its plan.
struct Of<'a> {
    target: &'a Target,
    stripe: StripeIndex,
    /// A client's part; none if a cache is destaged.
    span: Option<&'a StripeSpan>,
    state: &'a StripeState,
    plan: &'a Plan,
}

impl Of<'_> {
    fn disk(&self, column: usize) -> usize {
        self.target.role(self.stripe, column).0
    }

    fn column(&self, column: usize) -> ExplainedColumn {
        let data = self.state.data_columns;
        let holds = match column.checked_sub(data) {
            None => "data",
            Some(_) if !self.target.geometry.has_parity() => "copy",
            Some(0) => "P",
            Some(_) => "Q",
        };
        ExplainedColumn {
            disk: self.disk(column),
            device: self.target.device(self.target.role(self.stripe, column)),
            holds,
            missing: self.state.columns[column].presence == Presence::Missing,
        }
    }

    fn band(&self, band: &Band) -> ExplainedBand {
        let row = band.rows.first().unwrap_or(0);
        let vote = |column: usize| {
            let plan::Counts { rmw, rcw } = self.state.counts_of(column, row);
            Vote { disk: self.disk(column), rmw, rcw }
        };
        ExplainedBand { band: band_status(band), votes: (0..self.state.columns.len()).map(vote).collect() }
    }

    fn io(&self, column: usize, bytes: &Range<usize>) -> MemberIo {
        let role = self.target.role(self.stripe, column);
        MemberIo {
            disk: role.0,
            device: self.target.device(role),
            offset_bytes: self.target.geometry.chunk_start(self.stripe) + bytes.start as u64,
            len_bytes: bytes.len() as u64,
        }
    }

    fn reads(&self) -> Vec<MemberIo> {
        let columns = self.plan.columns.iter().enumerate();
        let of_column = |(column, ops): (usize, &plan::ColumnOps)| {
            ops.reads().runs().map(move |rows| (column, byte_range(&rows))).collect::<Vec<_>>()
        };
        columns.flat_map(of_column).map(|(column, bytes)| self.io(column, &bytes)).collect()
    }

    /// Whole blocks if parity is computed, else exactly the bytes of the request.
    fn writes(&self) -> Vec<MemberIo> {
        let direct = self.plan.bands.iter().all(|band| band.cycle == Cycle::Direct);
        let chunk = self.target.geometry.chunk_bytes();
        let mut writes = Vec::new();
        for (column, ops) in self.plan.columns.iter().enumerate().filter(|(_, ops)| !ops.w.is_empty()) {
            if let Some(span) = self.span.filter(|_| direct) {
                let source = if column < self.state.data_columns { column } else { 0 };
                writes.push(self.io(column, &span.in_column(source, chunk).0));
            } else {
                writes.extend(ops.w.runs().map(|rows| self.io(column, &byte_range(&rows))));
            }
        }
        writes
    }
}

fn byte_range(rows: &Range<usize>) -> Range<usize> {
    rows.start * BLOCK_BYTES..rows.end * BLOCK_BYTES
}
