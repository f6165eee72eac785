//! Resync, check and repair: computes what the redundant columns should hold and compares.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, SharedBuf};

use super::{Jobs, Mismatch, sweep::Chunks};
use crate::{
    compute::{recovery::recover_data, sums},
    error::ArrayError,
    members::topology::Topology,
    mutants::{Mutant, lives},
    plan::recipe::Parity,
    shape::{
        geometry::{Geometry, MemberIndex, StripeIndex},
        rows::{BLOCK_BYTES, RowSet},
    },
    stripes::{Asks, Extent, RowGuard},
};

/// A redundant column and what it should hold.
struct Expected {
    column: usize,
    content: SharedBuf,
}

/// Computes the redundant columns that can be told from the others. Columns that are lost are recovered from the
/// first parities; what is left of the parities can be checked.
fn expected(geometry: &Geometry, chunks: &Chunks, stripe: StripeIndex) -> SmallVec<[Expected; 2]> {
    let column = |c: usize| chunks.of_member(stripe, geometry.member_of(stripe, c));
    let redundant = geometry.data_columns()..geometry.members();
    if !geometry.has_parity() {
        return expected_mirrors(geometry, column);
    }
    let k = geometry.data_columns();
    let data: SmallVec<[Option<&[u8]>; 8]> = (0..k).map(column).collect();
    let lost: SmallVec<[usize; 2]> = (0..k).filter(|c| data[*c].is_none()).collect();
    let present: SmallVec<[usize; 2]> = redundant.filter(|c| column(*c).is_some()).collect();
    if lost.len() >= present.len() {
        return SmallVec::new();
    }
    let (used, checked) = present.split_at(lost.len());
    let len = geometry.chunk_len(stripe);
    let source = |c: usize| used.contains(&c).then(|| column(c)).flatten();
    let Some(recovered) = recover_data(&data, source(k), source(k + 1), &lost, len) else {
        return SmallVec::new();
    };
    let mut data: SmallVec<[Option<&[u8]>; 8]> = data.iter().copied().collect();
    lost.iter().zip(&recovered).for_each(|(c, buf)| data[*c] = Some(buf));
    generate(&data, checked, k, len)
}

fn generate(data: &[Option<&[u8]>], columns: &[usize], k: usize, len: usize) -> SmallVec<[Expected; 2]> {
    let Some(parity) = Parity::of(columns.contains(&k), columns.contains(&(k + 1))) else {
        return SmallVec::new();
    };
    let expected = |(column, buf): (usize, IoBuf)| Expected { column: k + column, content: buf.freeze() };
    parity.columns().zip(sums::made(parity, data, len)).map(expected).collect()
}

/// Mirrors should hold what the first readable one holds.
fn expected_mirrors<'a>(
    geometry: &Geometry,
    column: impl Fn(usize) -> Option<&'a [u8]>,
) -> SmallVec<[Expected; 2]> {
    let Some(first) = (0..geometry.members()).find(|c| column(*c).is_some()) else { return SmallVec::new() };
    let content = IoBuf::copy_of(column(first).expect("it was just found")).freeze();
    (first + 1..geometry.members())
        .filter(|c| column(*c).is_some())
        .map(|column| Expected { column, content: content.clone() })
        .collect()
}

/// What came of verifying a batch of stripes.
pub(super) struct Verdict {
    pub(super) mismatches: Vec<Mismatch>,
    /// [`ArrayError::Unreadable`] when blocks can be neither read nor recovered: their rows alone were not verified. Any other error
    /// ended it.
    pub(super) result: Result<(), ArrayError>,
    /// There is nothing left that another walk could make agree: of each row that was not verified, more is listed as lost than the
    /// others make up for. A row that merely cannot be read just now is not such.
    pub(super) leaves_nothing: bool,
}

/// The rows in which found and expected bytes differ, as maximal runs of bytes, but for some that are passed over.
fn differing(found: &[u8], expected: &[u8], passed_over: RowSet) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    if found == expected {
        return runs;
    }
    for start in (0..found.len()).step_by(BLOCK_BYTES) {
        let end = (start + BLOCK_BYTES).min(found.len());
        if found[start..end] == expected[start..end] || passed_over.contains(start / BLOCK_BYTES) {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

impl Jobs {
    /// Verifies a batch of stripes, and with `mend` rewrites redundancy that disagrees.
    pub(super) async fn verify(&self, stripes: Range<u64>, mend: bool) -> Verdict {
        let mut verdict = Verdict { mismatches: Vec::new(), result: Ok(()), leaves_nothing: true };
        let held = self.stripes.lock_stripes(stripes.clone()).await;
        let topology = match self.roster.unfailed() {
            Ok(topology) => topology,
            Err(error) => return Verdict { result: Err(error), ..verdict },
        };
        let (chunks, failed) = self.read_chunks(&topology, stripes.clone(), |_, _| true).await;
        for (stripe, held) in stripes.map(StripeIndex).zip(&held) {
            let found = match failed.is_empty() {
                true => self.verify_stripe(held, &topology, &chunks, stripe, RowSet::EMPTY, mend).await,
                false => self.verify_around_bad_blocks(held, stripe, mend, &mut verdict).await,
            };
            match found {
                Ok(found) => verdict.mismatches.extend(found),
                Err(error) => return Verdict { result: Err(error), ..verdict },
            }
        }
        verdict
    }

    /// Verifies one stripe of what was read, but for some rows.
    async fn verify_stripe(
        &self,
        held: &RowGuard<'_>,
        topology: &Topology,
        chunks: &Chunks,
        stripe: StripeIndex,
        passed_over: RowSet,
        mend: bool,
    ) -> Result<Option<Mismatch>, ArrayError> {
        let mut rows = RowSet::EMPTY;
        let mut extents = SmallVec::new();
        for Expected { column, content } in expected(&topology.geometry, chunks, stripe) {
            let found = chunks.of_member(stripe, topology.geometry.member_of(stripe, column));
            let found = found.expect("only present columns are checked");
            let runs = differing(found, &content, passed_over);
            // A row counts once, whichever of its columns disagree.
            rows = runs.iter().fold(rows, |rows, run| rows | RowSet::touching(run.clone()));
            extents.extend(runs.into_iter().map(|run| Extent {
                column,
                start: run.start,
                bufs: smallvec![content.slice(run)],
            }));
        }
        if mend && !extents.is_empty() {
            self.stripes.write_out(held, topology, stripe, extents).await?;
        }
        if lives(Mutant::BlindCheck) && !mend {
            return Ok(None);
        }
        Ok((!rows.is_empty()).then(|| Mismatch { stripe: stripe.0, rows: rows.len() as u32 }))
    }

    /// A batch could not be read: its stripes one by one, blocks that fail mended from the others first. Rows of which more cannot
    /// be read than the others make up for are passed over, and told.
    async fn verify_around_bad_blocks(
        &self,
        held: &RowGuard<'_>,
        stripe: StripeIndex,
        mend: bool,
        verdict: &mut Verdict,
    ) -> Result<Option<Mismatch>, ArrayError> {
        let rows = RowSet::touching(0..self.geometry().chunk_len(stripe));
        let columns: SmallVec<[usize; 8]> = (0..self.geometry().members()).collect();
        let topology = self.roster.topology();
        let (_, failed) = self.read_chunks(&topology, stripe.0..stripe.0 + 1, |_, _| true).await;
        for (member, error) in &failed {
            if let Some(reader) = topology.slots[member.0].primary.clone() {
                let column = self.geometry().column_of(stripe, *member);
                self.stripes.note_read_error(&reader, stripe, column, *error, Asks::Client).await;
            }
        }
        let mut lost = stripe.0 * self.geometry().stripe_bytes();
        if !failed.is_empty() && !self.life.is_read_only() {
            match self.stripes.heal_rows(held, stripe, &columns, rows).await {
                Err(ArrayError::Unreadable { offset_bytes }) => lost = offset_bytes,
                result => result?,
            }
        }
        // Members may have been dropped for what they could not read or did not keep.
        let topology = self.roster.unfailed()?;
        let (mut chunks, failed) = self.read_chunks(&topology, stripe.0..stripe.0 + 1, |_, _| true).await;
        let failed: SmallVec<[MemberIndex; 8]> = failed.into_iter().map(|(member, _)| member).collect();
        let unread = self.read_blocks(&topology, stripe, &failed, &mut chunks).await;
        if !unread.rows().is_empty() {
            verdict.result = verdict.result.clone().and(Err(ArrayError::Unreadable { offset_bytes: lost }));
            verdict.leaves_nothing &= unread.rows() == unread.lost_for_good(topology.spare());
        }
        self.verify_stripe(held, &topology, &chunks, stripe, unread.rows(), mend).await
    }
}
