//! Resync, check and repair: computes what the redundant columns should hold and compares.

use std::ops::Range;

use smallvec::SmallVec;

use super::{Jobs, Mismatch, sweep::Chunks};
use crate::{
    compute::recovery,
    error::ArrayError,
    members::topology::Topology,
    mutants::{Mutant, lives},
    plan::{Recipe, recipe::Write, recover},
    shape::{
        geometry::{MemberIndex, StripeIndex},
        rows::{BLOCK_BYTES, RowSet},
    },
    stripes::{Asks, RowGuard},
};

/// The result of verifying a batch of stripes.
pub(super) struct Verdict {
    pub(super) mismatches: Vec<Mismatch>,
    /// [`ArrayError::Unreadable`] when blocks can be neither read nor recovered: only their rows were not
    /// verified. Any other error ended the verification.
    pub(super) result: Result<(), ArrayError>,
    /// Whether nothing is left that another walk could make agree: in each row that was not verified, more
    /// blocks are listed as lost than the other members make up for. False if a row merely cannot be read
    /// just now.
    pub(super) leaves_nothing: bool,
}

/// The rows in which found and expected bytes differ, as maximal runs of bytes. Rows in `passed_over` are
/// left out.
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

    /// Verifies one stripe from the chunks that were read, except for rows in `passed_over`.
    async fn verify_stripe(
        &self,
        held: &RowGuard<'_>,
        topology: &Topology,
        chunks: &Chunks,
        stripe: StripeIndex,
        passed_over: RowSet,
        mend: bool,
    ) -> Result<Option<Mismatch>, ArrayError> {
        let geometry = &topology.geometry;
        let found = |column: usize| chunks.of_member(stripe, geometry.member_of(stripe, column));
        let chunk_len = geometry.chunk_len(stripe);
        let recipe = recover::repair(geometry, chunk_len, |column| found(column).is_some());
        let columns = chunks.read_by(geometry, stripe, &recipe);
        let expected = recovery::repaired(&recipe, geometry, &columns, chunk_len);
        let (mut rows, mut differ) = (RowSet::EMPTY, Recipe::default());
        for (write, expected) in recipe.writes.iter().zip(&expected) {
            let found = found(write.column.into()).expect("only columns that were read are checked");
            for run in differing(found, expected, passed_over) {
                // A row counts once, whichever of its columns disagree.
                rows |= RowSet::touching(run.clone());
                differ.writes.push(Write::of(write.column.into(), &run, write.from, true));
            }
        }
        if mend && !differ.writes.is_empty() {
            let content = |write: &Write| {
                let of_column = recipe.writes.iter().position(|whole| whole.column == write.column);
                expected[of_column.expect("it is one of these")].slice(write.bytes())
            };
            self.stripes.write_mended(held, topology, stripe, &differ, content).await?;
        }
        if lives(Mutant::BlindCheck) && !mend {
            return Ok(None);
        }
        Ok((!rows.is_empty()).then(|| Mismatch { stripe: stripe.0, rows: rows.len() as u32 }))
    }

    /// Verifies one stripe of a batch that could not be read. Blocks that fail are first mended from the
    /// other members. Rows with more unreadable blocks than the other members make up for are passed over and
    /// reported.
    async fn verify_around_bad_blocks(
        &self,
        held: &RowGuard<'_>,
        stripe: StripeIndex,
        mend: bool,
        verdict: &mut Verdict,
    ) -> Result<Option<Mismatch>, ArrayError> {
        let rows = self.geometry().rows_of(stripe);
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
