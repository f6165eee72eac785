//! Content of one column from the others, also for the healing of blocks that failed to be read.

use std::{ops::Range, sync::Arc};

use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, IoError, ReadDone, sync::Reader};

use super::{
    Asks, Stripes,
    piece::Piece,
    steps::Unreadable,
    wait::{Requested, are_ready},
};
use crate::{
    compute::recovery::{self, Columns},
    error::ArrayError,
    locks::KeptRows,
    members::{
        member::Member,
        meter::IoClass,
        stats::Cause,
        topology::{Place, Topology},
    },
    mutants::{Mutant, lives},
    plan::{
        Recipe,
        recipe::{Cells, Source, Span},
        recover,
    },
    shape::{
        geometry::StripeIndex,
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// How far a recovery came without waiting.
pub(super) enum Begun {
    Done(IoBuf),
    /// Other members were asked for what the piece is recovered from.
    Waits(Box<Recovery>),
    /// It has to wait for rows, or must be done block by block.
    Nothing(IoBuf),
}

/// A recovery whose reads are under way, with its rows.
pub(super) struct Recovery {
    piece: Piece,
    into: IoBuf,
    rows: KeptRows,
    begun: SourceReads,
}

/// Reads under way of what a lost column is recovered from, and the members that they go to.
struct SourceReads {
    topology: Arc<Topology>,
    sources: Sources,
    reads: Requested<ReadDone>,
}

/// What is read to recover a piece, and where the piece is then.
struct Sources {
    recipe: Recipe,
    from: Source,
}

impl Stripes {
    /// Begins to recover a piece that no member has. Finishes it if its rows are free and the others can be
    /// read at once. Not inlined: its reads take much of the stack, which every healthy read would have to
    /// touch.
    #[inline(never)]
    pub(super) fn begin_recovery(&self, request: &Reader<'_>, piece: Piece, mut into: IoBuf) -> Begun {
        let Piece { stripe, column, bytes, .. } = &piece;
        let Some(rows) = self.locks.try_lock(*stripe, RowSet::touching(bytes.clone())) else {
            return Begun::Nothing(into);
        };
        if !self.is_trusted(*stripe) {
            return Begun::Nothing(into);
        }
        // Taken only now that no task writes these rows: a member that has left since lacks their latest
        // writes.
        let topology = self.members.get(request);
        let mut reads = Requested::new();
        let Some(sources) = self.ask_others(&topology, &piece, &[*column], &mut reads) else {
            return Begun::Nothing(into);
        };
        if !are_ready(&reads, |done| done.result.is_ok()) {
            let (rows, begun) = (rows.keep(), SourceReads { topology: topology.to_arc(), sources, reads });
            return Begun::Waits(Box::new(Recovery { piece, into, rows, begun }));
        }
        let mut read: SmallVec<[IoBuf; 8]> = SmallVec::new();
        let done = reads.iter_mut().map(|io| io.take_ready().expect("all is done").into_one());
        done.for_each(|buf| read.push(buf.expect("all could be read")));
        self.stats.count_recovered();
        sources.give_back(&topology, &read, &mut into);
        Begun::Done(into)
    }

    /// Continues a recovery whose reads are under way.
    pub(super) async fn finish_recovery(&self, recovery: Recovery) -> Result<IoBuf, ArrayError> {
        let Recovery { piece, mut into, rows, begun } = recovery;
        let _rows = self.locks.resume(rows);
        self.recover_piece(&piece, Some(begun), &mut into).await?;
        Ok(into)
    }

    /// Takes the outcome of a member's read of a piece. If the read failed, recovers the piece.
    pub(super) async fn take_read(
        &self,
        member: &Arc<Member>,
        piece: &Piece,
        done: ReadDone,
    ) -> Result<IoBuf, ArrayError> {
        let (result, buf) = done.with_buf(piece.bytes.len());
        let Err(error) = result else { return Ok(buf) };
        let column = self.column_read(member, piece);
        self.note_read_error(member, piece.stripe, column, error, Asks::Client).await;
        self.recover_locked(piece.stripe, column, piece.bytes.clone(), buf).await
    }

    /// The column that a piece was read from. With mirrors, it may be any column.
    pub(super) fn column_read(&self, member: &Arc<Member>, piece: &Piece) -> usize {
        let topology = self.members.load();
        if topology.geometry.copies_of(piece.column).len() == 1 {
            return piece.column;
        }
        match topology.place_of(member) {
            Some(Place::Primary(index) | Place::Incoming(index)) => {
                topology.geometry.column_of(piece.stripe, index)
            }
            None => piece.column,
        }
    }

    /// Recovers content of a column that could not be read, with its rows locked meanwhile. Returns the
    /// buffer filled.
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

    /// Recovers content of a column, as a whole if possible, else block by block: bad blocks of several
    /// members in different rows do not add up. Where a resync is due, a block is recovered only if it cannot
    /// be read itself: the others may be of another time. The caller holds the rows.
    pub(crate) async fn recover_finely(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: Range<usize>,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        self.recover_piece(&Piece::of(stripe, column, bytes), None, into).await
    }

    /// As [`Stripes::recover_finely`], where the first reads may already be under way.
    async fn recover_piece(
        &self,
        piece: &Piece,
        begun: Option<SourceReads>,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        let Piece { stripe, column, bytes, .. } = piece;
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
        let topology = self.members.load();
        match self.own(&topology, stripe, column, &bytes).await {
            Some(Ok(block)) => {
                into.copy_from_slice(&block);
                Ok(())
            }
            _ => self.recover(stripe, column, bytes, into).await,
        }
    }

    /// Content of a column from its own member, if that member is there.
    pub(super) async fn own(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        column: usize,
        bytes: &Range<usize>,
    ) -> Option<Result<IoBuf, IoError>> {
        let member = topology.reader(stripe, column)?;
        let at = topology.geometry.chunk_start(stripe) + bytes.start as u64;
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
        self.recover_from(&Piece::of(stripe, column, bytes), None, Asks::Client, into).await
    }

    /// As [`Stripes::recover`], from reads that are already under way, if `begun` has any.
    async fn recover_from(
        &self,
        piece: &Piece,
        mut begun: Option<SourceReads>,
        asks: Asks,
        into: &mut [u8],
    ) -> Result<(), ArrayError> {
        self.stats.count_recovered();
        let mut unreadable: Unreadable = smallvec![piece.column];
        loop {
            let SourceReads { topology, sources, reads } = match begun.take() {
                Some(begun) => begun,
                None => {
                    let (topology, mut reads) = (self.members.load(), Requested::new());
                    let sources = self.ask_others(&topology, piece, &unreadable, &mut reads);
                    let sources = sources.ok_or_else(|| self.unreadable(piece))?;
                    SourceReads { topology, sources, reads }
                }
            };
            match self.take_columns(&topology, piece.stripe, &sources.recipe, reads, asks).await {
                Ok(read) => {
                    sources.give_back(&topology, &read, into);
                    return Ok(());
                }
                Err(failed) => unreadable.extend(failed),
            }
        }
    }

    /// A block that its own member cannot read, from the others.
    pub(super) async fn recovered_for_healing(
        &self,
        stripe: StripeIndex,
        column: usize,
        bytes: &Range<usize>,
    ) -> Result<IoBuf, ArrayError> {
        let mut content = IoBuf::with_len(bytes.len());
        let piece = Piece::of(stripe, column, bytes.clone());
        self.recover_from(&piece, None, Asks::Healing, &mut content).await?;
        Ok(content)
    }

    /// Asks the other members for what a piece is recovered from, all at once. None if too many are lost, or
    /// if the array has failed.
    fn ask_others(
        &self,
        topology: &Topology,
        piece: &Piece,
        unreadable: &[usize],
        reads: &mut Requested<ReadDone>,
    ) -> Option<Sources> {
        let Piece { stripe, column, bytes, .. } = piece;
        // In a failed array, rows may be half written: what a member has of them is old or new, but what
        // parity gives is neither.
        if topology.failed && topology.geometry.has_parity() && !lives(Mutant::FailedRecovers) {
            return None;
        }
        // Rows may also be half written after a crash, and a read-only array is not resynced.
        let is_in_doubt = self.doubts_stale && topology.geometry.has_parity() && !self.is_trusted(*stripe);
        if is_in_doubt && !lives(Mutant::ReadOnlyRecovers) {
            return None;
        }
        let is_readable =
            |column: usize| !unreadable.contains(&column) && topology.reader(*stripe, column).is_some();
        let mut recipe = Recipe::default();
        let rows = Span::touching(bytes);
        let from = recover::recover(&topology.geometry, *column, rows, is_readable, &mut recipe)?;
        let part = |_: &Cells| (bytes.start, IoBuf::with_len(bytes.len()));
        self.ask_reads(topology, *stripe, (&recipe, IoClass::Other, Cause::Job), part, reads);
        Some(Sources { recipe, from })
    }

    fn unreadable(&self, piece: &Piece) -> ArrayError {
        let offset_bytes = self.geometry().array_offset(piece.stripe, piece.column, piece.bytes.start);
        ArrayError::Unreadable { offset_bytes }
    }

    /// Waits for what a recipe reads. If reads fail, returns their columns.
    async fn take_columns(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        recipe: &Recipe,
        reads: Requested<ReadDone>,
        asks: Asks,
    ) -> Result<SmallVec<[IoBuf; 8]>, Unreadable> {
        let mut bufs = SmallVec::new();
        let mut failed = Unreadable::new();
        for (column, read) in recipe.reads.iter().map(|cells| cells.column.into()).zip(reads) {
            match read.await.into_one() {
                Ok(buf) => bufs.push(buf),
                Err(error) => {
                    let member = topology.reader(stripe, column).expect("it was just read").clone();
                    self.note_read_error(&member, stripe, column, error, asks).await;
                    failed.push(column);
                }
            }
        }
        if failed.is_empty() { Ok(bufs) } else { Err(failed) }
    }
}

impl Sources {
    /// Computes the piece from what was read.
    fn give_back(&self, topology: &Topology, read: &[IoBuf], into: &mut [u8]) {
        let mut columns: Columns<'_> = smallvec![None; topology.geometry.members()];
        for (cells, buf) in self.recipe.reads.iter().zip(read) {
            columns[usize::from(cells.column)] = Some(buf);
        }
        recovery::content(&self.recipe, self.from, &topology.geometry, &columns, into);
    }
}
