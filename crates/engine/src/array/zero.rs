//! Write zeroes and discard: whole stripes as zeroed (or unmapped) ranges on every member, the rest as plain writes.
//!
//! Zeroed data has zeroed P and Q, so a stripe of zeroes needs no computing. A discard must leave data and parity
//! agreeing, and what a bare TRIM leaves to read is not certain; so it unmaps with zeroes, which is.

use std::{ops::Range, sync::Arc};

use futures_util::future::join_all;
use smallvec::SmallVec;
use stripewise_device::{Completion, IoBuf, IoError, IoErrorKind, SharedBuf, WriteFlags, ZeroFlags};

use super::{Array, Shared, detached::Detached, write::STRIPES_IN_FLIGHT};
use crate::{
    error::ArrayError,
    geometry::StripeIndex,
    mutants::{Mutant, lives},
    rows::RowSet,
    topology::Member,
};

/// Zeroes written by one plain write.
const ZERO_WRITE_BYTES_MAX: u64 = 1 << 20;

impl Array {
    /// Makes the range read as zeroes.
    ///
    /// # Errors
    /// [`ArrayError`].
    pub fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        flags: ZeroFlags,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        let shared = self.shared.clone();
        Detached::start(self.env(), async move {
            shared.write_zeroes_request(offset_bytes, len_bytes, flags).await
        })
    }

    /// Tells that the range's content is no longer needed. Whole stripes in it are unmapped and read as zeroes; the
    /// rest is left as it is.
    ///
    /// # Errors
    /// [`ArrayError`].
    pub fn discard(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        let shared = self.shared.clone();
        Detached::start(self.env(), async move { shared.discard_request(offset_bytes, len_bytes).await })
    }
}

impl Shared {
    /// Serves a request for zeroes.
    pub(crate) async fn write_zeroes_request(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        flags: ZeroFlags,
    ) -> Result<(), ArrayError> {
        let _request = self.requests.enter();
        self.check_change(offset_bytes, len_bytes)?;
        let (head, whole, tail) = self.cut_at_stripes(&(offset_bytes..offset_bytes + len_bytes));
        self.write_zero_bytes(head).await?;
        self.zero_stripes(whole, flags).await?;
        self.write_zero_bytes(tail).await
    }

    /// Serves a discard.
    pub(crate) async fn discard_request(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), ArrayError> {
        let _request = self.requests.enter();
        self.check_change(offset_bytes, len_bytes)?;
        let (_, whole, _) = self.cut_at_stripes(&(offset_bytes..offset_bytes + len_bytes));
        self.zero_stripes(whole, ZeroFlags { may_unmap: true }).await
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
            self.write_spans(place, &zeroes.slice(0..len as usize), WriteFlags::default()).await?;
            at += len;
        }
        Ok(())
    }

    /// A range as: bytes before the first whole stripe, whole stripes, bytes after the last.
    fn cut_at_stripes(&self, range: &Range<u64>) -> (Range<u64>, Range<u64>, Range<u64>) {
        let stripe_bytes = self.geometry.stripe_bytes();
        let first = range.start.div_ceil(stripe_bytes);
        let last = range.end / stripe_bytes;
        if first >= last {
            return (range.clone(), 0..0, range.end..range.end);
        }
        (range.start..first * stripe_bytes, first..last, last * stripe_bytes..range.end)
    }

    async fn zero_stripes(&self, stripes: Range<u64>, flags: ZeroFlags) -> Result<(), ArrayError> {
        let mut at = stripes.start;
        while at < stripes.end {
            let end = stripes.end.min(at + STRIPES_IN_FLIGHT as u64);
            let zeroed = (at..end).map(|stripe| self.zero_stripe(StripeIndex(stripe), flags));
            join_all(zeroed).await.into_iter().collect::<Result<(), _>>()?;
            at = end;
        }
        Ok(())
    }

    async fn zero_stripe(&self, stripe: StripeIndex, flags: ZeroFlags) -> Result<(), ArrayError> {
        let len = self.geometry.chunk_len(stripe);
        let _rows = self.locks.lock(stripe, RowSet::touching(0..len)).await;
        let _intent = match lives(Mutant::ZeroIntentForgotten) {
            true => None,
            false => self.begin_intent(stripe).await?,
        };
        let topology = self.topology.load();
        if topology.failed {
            return Err(ArrayError::Failed);
        }
        let start = self.geometry.chunk_start(stripe);
        let mut started: SmallVec<[(&Arc<Member>, Completion); 8]> = SmallVec::new();
        let skipped = if lives(Mutant::ZeroSkipsParity) { self.geometry.parity_columns() } else { 0 };
        for column in 0..self.geometry.members() - skipped {
            let writers = topology.writers(&self.geometry, stripe, column);
            for member in writers.take(if lives(Mutant::ZeroPassesIncoming) { 1 } else { usize::MAX }) {
                started.push((member, member.write_zeroes(start, len as u64, flags)));
            }
        }
        let mut failed = Vec::new();
        for (member, zeroing) in started {
            if let Err(error) = or_write_zeroes(member, start, len, zeroing.await).await {
                failed.push((member.clone(), error));
            }
        }
        self.settle(&topology, failed).await
    }
}

/// A member that knows no zero-write gets a plain one.
async fn or_write_zeroes(
    member: &Member,
    start: u64,
    len: usize,
    result: Result<(), IoError>,
) -> Result<(), IoError> {
    match result {
        Err(error) if error.kind == IoErrorKind::Refused => {
            if lives(Mutant::RefusedZeroesLost) {
                return Ok(());
            }
            let zeroes: SharedBuf = IoBuf::zeroed(len).freeze();
            member.write(start, smallvec::smallvec![zeroes], WriteFlags::default()).await
        }
        result => result,
    }
}
