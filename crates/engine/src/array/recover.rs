//! Content of one column from the others, and healing of blocks that failed to be read.

use std::{ops::Range, sync::atomic::Ordering};

use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, IoFuture, ReadDone};

use super::Shared;
use crate::{
    compute::WriteExtent,
    error::ArrayError,
    geometry::StripeIndex,
    meter::IoClass,
    mutants::{Mutant, lives},
    recovery::{self, Columns, Sources},
    rows::{BLOCK_BYTES, RowSet},
    topology::Topology,
};

impl Shared {
    /// Content of a column that could not be read, with its rows locked meanwhile. Gives the buffer back filled.
    pub(crate) async fn recover_locked(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: Range<usize>,
        mut into: IoBuf,
    ) -> Result<IoBuf, ArrayError> {
        let _rows = self.locks.lock(stripe, RowSet::touching(bytes.clone())).await;
        self.recover_finely(stripe, column, bytes, &mut into).await?;
        Ok(into)
    }

    /// Content of a column, at once if that can be, else block by block: bad blocks of several members in different
    /// rows do not add up. Where a resync is due, a block is recovered only if it cannot be read itself: the others may
    /// tell of another time. The caller holds the rows.
    pub(crate) async fn recover_finely(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: Range<usize>,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        if self.is_trusted(stripe) {
            match self.recover(stripe, column, bytes.clone(), into).await {
                Err(ArrayError::Unreadable { .. }) => {}
                result => return result,
            }
        }
        let mut at = bytes.start;
        while at < bytes.end {
            let end = ((at / BLOCK_BYTES + 1) * BLOCK_BYTES).min(bytes.end);
            self.own_or_recovered(stripe, column, at..end, &mut into[at - bytes.start..end - bytes.start])
                .await?;
            at = end;
        }
        Ok(())
    }

    /// One block from its own member, else from the others.
    async fn own_or_recovered(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: Range<usize>,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        let topology = self.topology.load();
        match self.own(&topology, stripe, column, &bytes).await {
            Some(block) => {
                into.copy_from_slice(&block);
                Ok(())
            }
            None => self.recover(stripe, column, bytes, into).await,
        }
    }

    /// Content of a column from its own member, if that is there and can read it.
    async fn own(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        column: usize,
        bytes: &Range<usize>,
    ) -> Option<IoBuf> {
        let member = topology.reader(&self.geometry, stripe, column)?;
        let at = self.geometry.chunk_start(stripe) + bytes.start as u64;
        member.read(at, smallvec![IoBuf::with_len(bytes.len())]).await.into_one().ok()
    }

    /// Content of a column, from the others. The caller holds the rows.
    pub(crate) async fn recover(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: Range<usize>,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        self.stats.count_recovered();
        let mut unreadable: Columns = smallvec![column];
        loop {
            let topology = self.topology.load();
            let is_readable =
                |c: usize| !unreadable.contains(&c) && topology.reader(&self.geometry, stripe, c).is_some();
            let Some(sources) = Sources::choose(&self.geometry, column, is_readable) else {
                return Err(ArrayError::Unreadable { offset_bytes: stripe.0 * self.geometry.stripe_bytes() });
            };
            match self.read_columns(&topology, stripe, &sources.read, &bytes).await {
                Ok(read) => {
                    let read: SmallVec<[&[u8]; 8]> = read.iter().map(|buf| &**buf).collect();
                    recovery::solve(&self.geometry, column, &sources, &read, into);
                    return Ok(());
                }
                Err(failed) => unreadable.extend(failed),
            }
        }
    }

    /// Reads the same bytes of several columns at once; else names the columns that failed.
    async fn read_columns(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        columns: &[usize],
        bytes: &Range<usize>,
    ) -> Result<SmallVec<[IoBuf; 8]>, Columns> {
        let start = self.geometry.chunk_start(stripe) + bytes.start as u64;
        let reads: SmallVec<[(usize, IoFuture<ReadDone>); 8]> = columns
            .iter()
            .map(|column| {
                let member = topology.reader(&self.geometry, stripe, *column).expect("sources are readable");
                (*column, member.read_as(IoClass::Other, start, smallvec![IoBuf::with_len(bytes.len())]))
            })
            .collect();
        let mut bufs = SmallVec::new();
        let mut failed = Columns::new();
        for (column, read) in reads {
            match read.await.into_one() {
                Ok(buf) => bufs.push(buf),
                Err(error) => {
                    let member =
                        topology.reader(&self.geometry, stripe, column).expect("it was just read").clone();
                    self.note_read_error(&member, stripe, column, error).await;
                    failed.push(column);
                }
            }
        }
        if failed.is_empty() { Ok(bufs) } else { Err(failed) }
    }

    /// Heals every block noted: recovers its chunk and writes it back, so that the member can remap the sector.
    pub(crate) async fn heal_noted(&self) {
        let noted: Vec<(u64, usize)> = std::mem::take(&mut *self.healing.lock()).into_iter().collect();
        for (stripe, column) in noted {
            if let Err(error) = self.heal(StripeIndex(stripe), column).await {
                tracing::warn!(stripe, column, %error, "a block that failed to be read could not be healed");
            }
        }
    }

    /// Mends a chunk whose member failed to read some of it.
    async fn heal(&self, stripe: StripeIndex, column: usize) -> Result<(), ArrayError> {
        let rows = RowSet::touching(0..self.geometry.chunk_len(stripe));
        let _rows = self.locks.lock(stripe, rows).await;
        let topology = self.topology.load();
        if topology.failed || !self.is_trusted(stripe) {
            return Ok(()); // a resync goes over it anyway
        }
        self.heal_rows(&topology, stripe, &[column], rows).await
    }

    /// Rewrites the blocks of some columns that cannot be read with what the others say, so that their members can
    /// remap the sectors. The caller holds the rows.
    pub(crate) async fn heal_rows(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        columns: &[usize],
        rows: RowSet,
    ) -> Result<(), ArrayError> {
        let len = self.geometry.chunk_len(stripe);
        for (column, row) in
            columns.iter().flat_map(|column| rows.runs().flatten().map(move |row| (*column, row)))
        {
            let bytes = row * BLOCK_BYTES..((row + 1) * BLOCK_BYTES).min(len);
            let is_there = topology.reader(&self.geometry, stripe, column).is_some();
            if !is_there || self.own(topology, stripe, column, &bytes).await.is_some() {
                continue;
            }
            let mut content = IoBuf::with_len(bytes.len());
            self.recover(stripe, column, bytes.clone(), &mut content).await?;
            if lives(Mutant::HealWithZeroes) {
                content.fill(0);
            }
            let extent = WriteExtent { column, start: bytes.start, bufs: smallvec![content.freeze()] };
            let extents = smallvec![extent];
            self.write_out(topology, stripe, extents).await?;
            if self.own(topology, stripe, column, &bytes).await.is_some() {
                self.stats.count_healed();
            } else if let Some(member) = topology.reader(&self.geometry, stripe, column) {
                // It does not keep what it takes. Who reads of it next finds whether that was once too often.
                tracing::warn!(
                    member = member.name(),
                    stripe = stripe.0,
                    "a block was rewritten and cannot be read"
                );
                member.read_errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
