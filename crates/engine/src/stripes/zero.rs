//! Write zeroes and discard: whole stripes as zeroed (or unmapped) ranges on every member, the rest as plain
//! writes.
//!
//! Zeroed data has zeroed P and Q, so a stripe of zeroes needs no computing. A discard must leave data and
//! parity in agreement. It is not certain what a bare TRIM leaves to read, so a discard unmaps with zeroes,
//! where it is certain. If a member does not unmap, that would write as much as was discarded: all of the
//! array when a file system is made. Then a discard, which is only a hint, does nothing.

use std::{ops::Range, sync::Arc};

use futures_util::{StreamExt, future::join_all, stream};
use smallvec::{SmallVec, smallvec};
use stripewise_device::{Completion, IoBuf, IoError, IoErrorKind, WriteFlags, ZeroFlags};

use super::{RowGuard, Stripes};
use crate::{
    compute::Data,
    error::ArrayError,
    intent::IntentGuard,
    members::member::Member,
    mutants::{Mutant, lives},
    plan::quick,
    shape::{
        geometry::{Geometry, StripeIndex},
        rows::BLOCK_BYTES,
    },
};

/// Zeroes written by one plain write.
const ZERO_WRITE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of each member that one request unmaps: more would take hardly longer, but clients wait for its
/// rows.
const UNMAPPED_RUN_BYTES: u64 = 64 << 20;
/// Bytes of each member that one request zeroes by writing: as much as other work does at once.
const WRITTEN_RUN_BYTES: u64 = 1 << 20;
/// Stripes whose rows one such request holds.
const RUN_STRIPES_MAX: u64 = 1024;
/// Such requests that run at the same time for one client's request.
const RUNS_IN_FLIGHT: usize = 4;

impl Stripes {
    /// Serves a request for zeroes.
    pub(crate) async fn write_zeroes_request(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        flags: ZeroFlags,
    ) -> Result<(), ArrayError> {
        let _request = self.requests.enter();
        self.check_change(&self.geometry(), offset_bytes, len_bytes)?;
        if flags.fast_only && !(flags.may_unmap && self.unmaps()) {
            let why = "zeroes cost as much as data: not all members unmap, or the request forbids it";
            return Err(ArrayError::Unsupported(why.into()));
        }
        let (head, whole, tail) = self.cut_at_stripes(&(offset_bytes..offset_bytes + len_bytes));
        self.write_zero_bytes(head).await?;
        self.zero_stripes(whole, flags).await?;
        self.write_zero_bytes(tail).await
    }

    /// Serves a discard. `always`: even if zeroes have to be written to members for it.
    pub(crate) async fn discard_request(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        always: bool,
    ) -> Result<(), ArrayError> {
        let _request = self.requests.enter();
        self.check_change(&self.geometry(), offset_bytes, len_bytes)?;
        if !always && !self.unmaps() {
            return Ok(());
        }
        let (_, whole, _) = self.cut_at_stripes(&(offset_bytes..offset_bytes + len_bytes));
        self.zero_stripes(whole, ZeroFlags { may_unmap: true, ..ZeroFlags::default() }).await
    }

    async fn write_zero_bytes(&self, range: Range<u64>) -> Result<(), ArrayError> {
        if range.is_empty() {
            return Ok(());
        }
        let zeroes = IoBuf::zeroed((range.end - range.start).min(ZERO_WRITE_BYTES_MAX) as usize).freeze();
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(ZERO_WRITE_BYTES_MAX);
            let place = if lives(Mutant::ZeroesStuck) { range.start } else { at };
            self.stats.count_zeroed(len);
            self.write_spans(place, &Data::One(zeroes.slice(0..len as usize)), WriteFlags::default()).await?;
            at += len;
        }
        Ok(())
    }

    /// A range as: bytes before the first whole stripe, whole stripes, bytes after the last.
    fn cut_at_stripes(&self, range: &Range<u64>) -> (Range<u64>, Range<u64>, Range<u64>) {
        let stripe_bytes = self.geometry().stripe_bytes();
        let first = range.start.div_ceil(stripe_bytes);
        let last = range.end / stripe_bytes;
        if first >= last {
            return (range.clone(), 0..0, range.end..range.end);
        }
        (range.start..first * stripe_bytes, first..last, last * stripe_bytes..range.end)
    }

    /// Whether all members free what is zeroed: only then does zeroing cost less than writing.
    pub(crate) fn unmaps(&self) -> bool {
        self.members.look(|topology| topology.members().all(|member| member.unmaps))
    }

    /// Zeroes stripes in runs, each with one request to each member.
    async fn zero_stripes(&self, stripes: Range<u64>, flags: ZeroFlags) -> Result<(), ArrayError> {
        let run_bytes = if flags.may_unmap && self.unmaps() { UNMAPPED_RUN_BYTES } else { WRITTEN_RUN_BYTES };
        let step = (run_bytes / self.geometry().chunk_bytes() as u64).clamp(1, RUN_STRIPES_MAX);
        let end = stripes.end;
        let runs = stripes.step_by(step as usize).map(|start| start..end.min(start + step));
        let zeroed = stream::iter(runs).map(|run| self.zero_all(run, flags)).buffer_unordered(RUNS_IN_FLIGHT);
        // To the end, whatever fails: a dropped run would release its rows while members still write.
        zeroed.fold(Ok(()), async |all: Result<(), ArrayError>, run| all.and(run)).await
    }

    /// Zeroes stripes, as many at a time as are free.
    async fn zero_all(&self, stripes: Range<u64>, flags: ZeroFlags) -> Result<(), ArrayError> {
        let mut rest = stripes;
        while !rest.is_empty() {
            rest.start += self.zero_run(rest.clone(), flags).await?;
        }
        Ok(())
    }

    /// Zeroes the first of these stripes, and the next ones for as long as they are free. Returns how many it
    /// zeroed.
    async fn zero_run(&self, stripes: Range<u64>, flags: ZeroFlags) -> Result<u64, ArrayError> {
        let rows = self.lock_run(stripes.clone()).await;
        let stripes = stripes.start..stripes.start + rows.len() as u64;
        // All at once: stripes of one page of the bitmap share its write.
        let announced = stripes.clone().map(StripeIndex).filter(|_| !lives(Mutant::ZeroIntentForgotten));
        let intents = join_all(announced.map(|stripe| self.begin_intent(stripe))).await;
        let intents = intents.into_iter().collect::<Result<Vec<_>, _>>()?;
        let topology = self.members.load();
        if topology.failed {
            return Err(ArrayError::Failed);
        }
        assert_may_be_zeroed(&topology.geometry, &stripes, &rows, &intents);
        // Dropped before the rows.
        let cache = self.cache();
        let passes = cache.iter().filter(|_| !lives(Mutant::ZeroLeavesCells));
        let mut passes: Vec<_> = passes
            .flat_map(|cache| stripes.clone().map(|stripe| cache.begin_pass(StripeIndex(stripe))))
            .collect();
        let (first, recipe) = (StripeIndex(stripes.start), quick::zeroes(&topology.geometry));
        let mut started: SmallVec<[Zeroing<'_>; 8]> = SmallVec::new();
        for write in &recipe.writes {
            // Whole chunks of all members: a member's chunks are one range, whichever columns they are.
            let slot = topology.geometry.member_of(first, write.column.into());
            for (member, written) in topology.writers_of_run(slot.0, &stripes) {
                let bytes = topology.geometry.member_range(&written);
                let zeroing = member.write_zeroes(bytes.start, bytes.end - bytes.start, flags);
                started.push(Zeroing { member, bytes, zeroing });
            }
        }
        let mut failed = Vec::new();
        for Zeroing { member, bytes, zeroing } in started {
            let zeroed = zeroing.await;
            if zeroed.is_ok() {
                member.count_zeroed(bytes.end - bytes.start, flags);
            }
            if let Err(error) = or_write_zeroes(member, bytes, zeroed).await {
                failed.push((member.clone(), error));
            }
        }
        self.settle(&topology, failed).await?;
        if !(flags.may_unmap && self.unmaps()) {
            self.stats.count_zeroed((stripes.end - stripes.start) * topology.geometry.stripe_bytes());
        }
        passes.iter_mut().for_each(|pass| pass.succeed());
        Ok(stripes.end - stripes.start)
    }
}

/// Checks that all rows of these stripes are locked, and that their regions are marked, where there is a
/// bitmap.
fn assert_may_be_zeroed(
    geometry: &Geometry,
    stripes: &Range<u64>,
    rows: &[RowGuard<'_>],
    intents: &[Option<IntentGuard<'_>>],
) {
    for (stripe, rows) in stripes.clone().map(StripeIndex).zip(rows) {
        rows.assert_holds(stripe, 0..=(geometry.chunk_len(stripe) - 1) / BLOCK_BYTES);
    }
    let are_marked = intents.iter().flatten().all(IntentGuard::is_durable);
    assert!(are_marked, "a region is marked before it is zeroed");
}

/// A member that zeroes some of its data.
struct Zeroing<'t> {
    member: &'t Arc<Member>,
    bytes: Range<u64>,
    zeroing: Completion,
}

/// A member that does not know zero-writes gets plain writes of zeroes.
async fn or_write_zeroes(
    member: &Member,
    bytes: Range<u64>,
    result: Result<(), IoError>,
) -> Result<(), IoError> {
    match result {
        Err(error) if error.kind == IoErrorKind::Refused => {}
        result => return result,
    }
    if lives(Mutant::RefusedZeroesLost) {
        return Ok(());
    }
    let zeroes = IoBuf::zeroed((bytes.end - bytes.start).min(ZERO_WRITE_BYTES_MAX) as usize).freeze();
    for at in bytes.clone().step_by(ZERO_WRITE_BYTES_MAX as usize) {
        let len = (bytes.end - at).min(ZERO_WRITE_BYTES_MAX) as usize;
        member.write(at, smallvec![zeroes.slice(0..len)], WriteFlags::default()).await?;
    }
    Ok(())
}
