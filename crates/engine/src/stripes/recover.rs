//! Content of one column from the others, and healing of blocks that failed to be read.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, IoError, ReadDone, sync::Reader};

use super::{
    execute::Extent,
    healing::Chunk,
    read::{Left, Piece, Progress},
    wait::{Requested, are_ready},
};
use crate::{
    array::Shared,
    compute::recovery::{self, Columns, Sources},
    error::ArrayError,
    locks::KeptRows,
    members::{meter::IoClass, topology::Topology},
    mutants::{Mutant, lives},
    shape::{
        geometry::{MemberIndex, StripeIndex},
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// Chunks that are healed in one round of housekeeping.
const HEALED_PER_ROUND: usize = 256;

/// Chunks of one extent of a member's log that are noted when an array is opened.
const LISTED_CHUNKS_MAX: usize = 4096;

/// What a member is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// A request, or a job: a failure counts against the member.
    Client,
    /// The healing of another member's block, which no client may ever read: a failure is noted, and does not count.
    Healing,
}

/// A recovery whose reads are under way, with its rows.
pub(super) struct Recovery {
    piece: Piece,
    into: IoBuf,
    rows: KeptRows,
    begun: SourceReads,
}

/// Reads under way of what a lost column is recovered from, and of whom.
struct SourceReads {
    topology: Arc<Topology>,
    sources: Sources,
    reads: Requested<ReadDone>,
}

impl Shared {
    /// Begins to recover a piece that no member has: to its end, if nobody has its rows, and the others can be read at once.
    pub(super) fn begin_recovery(&self, request: &Reader<'_>, piece: Piece, mut into: IoBuf) -> Progress {
        let Piece { stripe, column, bytes } = &piece;
        let Some(rows) = self.locks.try_lock(*stripe, RowSet::touching(bytes.clone())) else {
            return Progress::Waits(Left::All(into));
        };
        if !self.is_trusted(*stripe) {
            return Progress::Waits(Left::All(into));
        }
        // Only now that nobody writes these rows: a member that has left since then has not what others were written beside.
        let topology = self.topology.get(request);
        let mut reads = Requested::new();
        let Some(sources) = self.ask_others(&topology, &piece, &[*column], &mut reads) else {
            return Progress::Waits(Left::All(into));
        };
        if !are_ready(&reads, |done| done.result.is_ok()) {
            let (rows, begun) = (rows.keep(), SourceReads { topology: topology.to_arc(), sources, reads });
            return Progress::Waits(Left::Lost(Box::new(Recovery { piece, into, rows, begun })));
        }
        let mut read: SmallVec<[IoBuf; 8]> = SmallVec::new();
        let done = reads.iter_mut().map(|io| io.take_ready().expect("all is done").into_one());
        done.for_each(|buf| read.push(buf.expect("all could be read")));
        self.stats.count_recovered();
        self.solve(*column, &sources, &read, &mut into);
        Progress::Done(into)
    }

    /// Goes on with a recovery whose reads are under way.
    pub(super) async fn finish_recovery(&self, recovery: Recovery) -> Result<IoBuf, ArrayError> {
        let Recovery { piece, mut into, rows, begun } = recovery;
        let _rows = self.locks.resume(rows);
        self.recover_piece(&piece, Some(begun), &mut into).await?;
        Ok(into)
    }

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
        self.recover_piece(&Piece { stripe, column, bytes }, None, into).await
    }

    /// As [`Shared::recover_finely`], where the first reads may have been asked for.
    async fn recover_piece(
        &self,
        piece: &Piece,
        begun: Option<SourceReads>,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        let Piece { stripe, column, bytes } = piece;
        if self.is_trusted(*stripe) {
            match self.recover_from(piece, begun, Asks::Client, into).await {
                Err(ArrayError::Unreadable { .. }) => {}
                result => return result,
            }
        }
        let mut at = bytes.start;
        while at < bytes.end {
            let end = ((at / BLOCK_BYTES + 1) * BLOCK_BYTES).min(bytes.end);
            let block = &mut into[at - bytes.start..end - bytes.start];
            self.own_or_recovered(*stripe, *column, at..end, block).await?;
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
            Some(Ok(block)) => {
                into.copy_from_slice(&block);
                Ok(())
            }
            _ => self.recover(stripe, column, bytes, into).await,
        }
    }

    /// Content of a column from its own member, if that is there.
    async fn own(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        column: usize,
        bytes: &Range<usize>,
    ) -> Option<Result<IoBuf, IoError>> {
        let member = topology.reader(&self.geometry, stripe, column)?;
        let at = self.geometry.chunk_start(stripe) + bytes.start as u64;
        Some(member.read(at, smallvec![IoBuf::with_len(bytes.len())]).await.into_one())
    }

    /// Content of a column, from the others. The caller holds the rows.
    pub(crate) async fn recover(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: Range<usize>,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        self.recover_from(&Piece { stripe, column, bytes }, None, Asks::Client, into).await
    }

    /// As [`Shared::recover`], from reads that were asked for already, if there are such.
    async fn recover_from(
        &self,
        piece: &Piece,
        mut begun: Option<SourceReads>,
        asks: Asks,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        self.stats.count_recovered();
        let (stripe, column) = (&piece.stripe, &piece.column);
        let mut unreadable: Columns = smallvec![*column];
        loop {
            let SourceReads { topology, sources, reads } = match begun.take() {
                Some(begun) => begun,
                None => {
                    let (topology, mut reads) = (self.topology.load(), Requested::new());
                    let sources = self.ask_others(&topology, piece, &unreadable, &mut reads);
                    let sources = sources.ok_or_else(|| self.unreadable(piece))?;
                    SourceReads { topology, sources, reads }
                }
            };
            match self.take_columns(&topology, *stripe, &sources.read, reads, asks).await {
                Ok(read) => {
                    self.solve(*column, &sources, &read, into);
                    return Ok(());
                }
                Err(failed) => unreadable.extend(failed),
            }
        }
    }

    /// Asks the others for what a piece is recovered from, all at once. Returns who they are; None if too many are lost, or if
    /// the array has failed.
    fn ask_others(
        &self,
        topology: &Topology,
        piece: &Piece,
        unreadable: &[usize],
        reads: &mut Requested<ReadDone>,
    ) -> Option<Sources> {
        let Piece { stripe, column, bytes } = piece;
        // In a failed array rows may be half written: what a member has of them is old or new, but parity tells of neither.
        if topology.failed && self.geometry.has_parity() && !lives(Mutant::FailedRecovers) {
            return None;
        }
        // So may they be where a crash was, and an array that is read-only is not resynced.
        let is_in_doubt = self.doubts_stale && self.geometry.has_parity() && !self.is_trusted(*stripe);
        if is_in_doubt && !lives(Mutant::ReadOnlyRecovers) {
            return None;
        }
        let reader = |column| topology.reader(&self.geometry, *stripe, column);
        let is_readable = |column: usize| !unreadable.contains(&column) && reader(column).is_some();
        let sources = Sources::choose(&self.geometry, *column, is_readable)?;
        let start = self.geometry.chunk_start(*stripe) + bytes.start as u64;
        for column in &sources.read {
            let member = reader(*column).expect("sources are readable");
            reads.push(member.read_as(IoClass::Other, start, smallvec![IoBuf::with_len(bytes.len())]));
        }
        Some(sources)
    }

    fn unreadable(&self, piece: &Piece) -> ArrayError {
        ArrayError::Unreadable {
            offset_bytes: self.array_offset(piece.stripe, piece.column, piece.bytes.start),
        }
    }

    /// Where in the array a byte of a column lies; for parity, where its stripe does.
    pub(crate) fn array_offset(&self, stripe: StripeIndex, column: usize, in_chunk: usize) -> u64 {
        let geometry = &self.geometry;
        let in_stripe = match column {
            column if column < geometry.data_columns() => column * geometry.chunk_bytes() + in_chunk,
            _ if geometry.has_parity() => 0,
            _ => in_chunk,
        };
        stripe.0 * geometry.stripe_bytes() + in_stripe as u64
    }

    /// Waits for what was asked of several columns; else names those that failed.
    async fn take_columns(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        columns: &[usize],
        reads: Requested<ReadDone>,
        asks: Asks,
    ) -> Result<SmallVec<[IoBuf; 8]>, Columns> {
        let mut bufs = SmallVec::new();
        let mut failed = Columns::new();
        for (column, read) in columns.iter().zip(reads) {
            match read.await.into_one() {
                Ok(buf) => bufs.push(buf),
                Err(error) => {
                    let member =
                        topology.reader(&self.geometry, stripe, *column).expect("it was just read").clone();
                    self.note_read_error(&member, stripe, *column, error, asks).await;
                    failed.push(*column);
                }
            }
        }
        if failed.is_empty() { Ok(bufs) } else { Err(failed) }
    }

    /// Computes a column from what was read.
    fn solve(&self, column: usize, sources: &Sources, read: &[IoBuf], into: &mut [u8]) {
        let read: SmallVec<[&[u8]; 8]> = read.iter().map(|buf| &**buf).collect();
        recovery::solve(&self.geometry, column, sources, &read, into);
    }

    /// Heals chunks noted: recovers their blocks and writes them back, so that the member can remap the sectors.
    pub(crate) async fn heal_noted(&self) {
        let noted = self.healing.lock().take(HEALED_PER_ROUND);
        let (mut failures, mut first) = (0, None);
        for chunk in noted {
            if self.closing.load(Ordering::SeqCst) {
                return;
            }
            // It waits for the resync, which goes over it, and counts no more meanwhile.
            if !self.is_trusted(StripeIndex(chunk.0)) && !lives(Mutant::UnsyncedForgotten) {
                self.healing.lock().failed(chunk);
                continue;
            }
            match self.heal(StripeIndex(chunk.0), chunk.1).await {
                Ok(()) => self.healing.lock().healed(chunk),
                Err(error) => {
                    self.healing.lock().failed(chunk);
                    failures += 1;
                    first.get_or_insert((chunk, error));
                }
            }
        }
        if let Some(((stripe, column), error)) = first {
            tracing::warn!(failures, stripe, column, %error, "blocks that failed to be read could not be healed yet");
        }
    }

    /// Notes the chunks of blocks that members' logs list, so that they are written back from the others; so many of each
    /// extent at most, as what another program wrote there may be any number.
    pub(crate) fn heal_listed(&self) {
        let topology = self.topology.load();
        let mut healing = self.healing.lock();
        for (index, slot) in topology.slots.iter().enumerate() {
            let members = slot.primary.iter().chain(slot.incoming.as_ref().map(|incoming| &incoming.member));
            for (member, bytes) in
                members.flat_map(|m| m.bad_blocks.unreadable().into_iter().map(move |b| (m, b)))
            {
                let chunks = self.chunks_of(MemberIndex(index), member.data_offset_bytes, &bytes);
                chunks.take(LISTED_CHUNKS_MAX).for_each(|chunk| _ = healing.note(chunk));
            }
        }
    }

    /// The chunks of a role that lie in these bytes of its member, as (stripe, column).
    pub(crate) fn chunks_of(
        &self,
        slot: MemberIndex,
        data_offset_bytes: u64,
        bytes: &Range<u64>,
    ) -> impl Iterator<Item = Chunk> {
        let data_offset_bytes = if lives(Mutant::ListedElsewhere) { 0 } else { data_offset_bytes };
        let (geometry, chunk_bytes) = (self.geometry, self.geometry.chunk_bytes() as u64);
        let first = bytes.start.saturating_sub(data_offset_bytes) / chunk_bytes;
        let end = bytes.end.saturating_sub(data_offset_bytes).div_ceil(chunk_bytes).min(geometry.stripes());
        (first..end).map(move |stripe| (stripe, geometry.column_of(StripeIndex(stripe), slot)))
    }

    /// Whether the log of a member that writes of this column go to lists some of it: of one that is to take over, too.
    fn is_listed(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        column: usize,
        bytes: &Range<usize>,
    ) -> bool {
        let at = self.geometry.chunk_start(stripe) + bytes.start as u64;
        let mut writers = topology.writers(&self.geometry, stripe, column);
        writers.any(|member| member.lists(at..at + bytes.len() as u64))
    }

    /// A block that its own member cannot read, from the others.
    async fn recovered_for_healing(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: &Range<usize>,
    ) -> Result<IoBuf, ArrayError> {
        let mut content = IoBuf::with_len(bytes.len());
        let piece = Piece { stripe, column, bytes: bytes.clone() };
        self.recover_from(&piece, None, Asks::Healing, &mut content).await?;
        Ok(content)
    }

    /// Mends a chunk whose member failed to read some of it.
    async fn heal(&self, stripe: StripeIndex, column: usize) -> Result<(), ArrayError> {
        let rows = RowSet::touching(0..self.geometry.chunk_len(stripe));
        let _rows = self.locks.lock(stripe, rows).await;
        let topology = self.topology.load();
        if topology.failed || !self.is_trusted(stripe) {
            return Ok(()); // a resync goes over it anyway
        }
        self.heal_rows(stripe, &[column], rows).await
    }

    /// Rewrites the blocks of some columns that cannot be read with what the others say, so that their members can
    /// remap the sectors. The caller holds the rows.
    ///
    /// # Errors
    /// [`ArrayError::Unreadable`] for the first block that cannot be recovered; the others are healed all the same.
    pub(crate) async fn heal_rows(
        &self,
        stripe: StripeIndex,
        columns: &[usize],
        rows: RowSet,
    ) -> Result<(), ArrayError> {
        let len = self.geometry.chunk_len(stripe);
        let mut lost = Ok(());
        for (column, row) in
            columns.iter().flat_map(|column| rows.runs().flatten().map(move |row| (*column, row)))
        {
            let bytes = row * BLOCK_BYTES..((row + 1) * BLOCK_BYTES).min(len);
            // A member may have been dropped for the block before.
            let topology = self.topology.load();
            let content = match self.own(&topology, stripe, column, &bytes).await {
                Some(Ok(content)) if self.is_listed(&topology, stripe, column, &bytes) => Ok(content),
                Some(Ok(_)) | None => continue,
                Some(Err(_)) => self.recovered_for_healing(stripe, column, &bytes).await,
            };
            let mut content = match content {
                Err(error @ ArrayError::Unreadable { .. }) => {
                    lost = lost.and(Err(error));
                    continue;
                }
                content => content?,
            };
            if lives(Mutant::HealWithZeroes) {
                content.fill(0);
            }
            let extent = Extent { column, start: bytes.start, bufs: smallvec![content.freeze()] };
            let extents = smallvec![extent];
            self.write_out(&topology, stripe, extents).await?;
            match self.own(&topology, stripe, column, &bytes).await {
                Some(Ok(_)) => self.stats.count_healed(),
                Some(Err(error)) => {
                    let member = topology.reader(&self.geometry, stripe, column).expect("it was just read");
                    self.note_unhealed(member, stripe, error).await;
                }
                None => {}
            }
        }
        lost
    }
}
