//! Asking members for what a recipe reads and writes.

use smallvec::smallvec;
use stripewise_device::{Completion, IoBuf, IoError, IoFuture, ReadDone, SharedBuf, WriteBufs, WriteFlags};

use super::{
    RowGuard, Stripes,
    steps::{Guards, StripeWrite},
    wait::{Requested, failures, wait_all},
};
use crate::{
    compute::{Content, Fetched, compute},
    error::ArrayError,
    intent::IntentGuard,
    members::{member::Member, meter::IoClass, stats::Cause, topology::Topology},
    mutants::{Mutant, lives},
    plan::recipe::{Cells, Recipe, Source, Write},
    shape::{geometry::StripeIndex, rows::BLOCK_BYTES},
};

/// How a recipe's writes are asked for.
struct How<'a> {
    topology: &'a Topology,
    stripe: StripeIndex,
    recipe: &'a Recipe,
    flags: WriteFlags,
    /// A job's writes are counted on their own, not by their cycles as a client's are.
    cause: Cause,
}

impl Stripes {
    /// Asks for what a recipe reads, all at once. `part` gives the start of the bytes that are read of some
    /// rows, and the buffer for them.
    #[inline]
    pub(super) fn ask_reads(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        (recipe, class, cause): (&Recipe, IoClass, Cause),
        mut part: impl FnMut(&Cells) -> (usize, IoBuf),
        requested: &mut Requested<ReadDone>,
    ) {
        let start = topology.geometry.chunk_start(stripe);
        for cells in &recipe.reads {
            let member = topology.reader(stripe, cells.column.into());
            let member = member.expect("recipes read columns that are there");
            let (at, buf) = part(cells);
            requested.push(member.read_as(class, cause, start + at as u64, smallvec![buf]));
        }
    }

    /// Computes what a recipe writes, and asks for that, all at once.
    pub(super) fn ask_writes(
        &self,
        topology: &Topology,
        recipe: &Recipe,
        write: StripeWrite,
        fetched: &mut Fetched,
        requested: &mut Requested<Result<(), IoError>>,
        guards: &Guards<'_>,
    ) {
        let cause = write.cause(guards);
        let StripeWrite { stripe, content, flags, .. } = write;
        let Guards { rows, region, .. } = guards;
        assert!(
            region.as_ref().is_none_or(IntentGuard::is_durable),
            "a region is marked before it is written"
        );
        let how = How { topology, stripe, recipe, flags, cause };
        how.assert_is_held(rows);
        self.stats.count_recipe(recipe);
        if let (Content::Cells(_, of), Some(ending)) = (&content, &guards.ending)
            && !of.held().is_empty()
        {
            ending.keep_read(fetched.iter());
        }
        compute(recipe, &topology.geometry, content, fetched, |write, bufs| {
            self.ask_write(&how, write, bufs, requested)
        });
    }

    /// Asks the members of a column for a write.
    #[inline]
    fn ask_write(
        &self,
        how: &How<'_>,
        write: &Write,
        bufs: WriteBufs,
        requested: &mut Requested<Result<(), IoError>>,
    ) {
        let offset_bytes = how.topology.geometry.chunk_start(how.stripe) + u64::from(write.start);
        let (primary, incoming) = how.topology.writers_by_place(how.stripe, write.column.into());
        let passes_by = lives(Mutant::RepairPassesIncoming) && how.cause == Cause::Job;
        let incoming = incoming.filter(|_| !passes_by);
        // The recipe's reads came from the first member that is there.
        let class = if write.is_rewrite { IoClass::Rewrite } else { IoClass::Write };
        match (primary, incoming) {
            (Some(member), None) | (None, Some(member)) => {
                requested.push(how.ask(member, write, class, (offset_bytes, bufs)));
            }
            (Some(first), Some(second)) => {
                requested.push(how.ask(first, write, class, (offset_bytes, bufs.clone())));
                requested.push(how.ask(second, write, IoClass::Write, (offset_bytes, bufs)));
            }
            (None, None) => {}
        }
    }

    /// Writes what a job has mended, where it has just read: all of the recipe's writes at once. `content`
    /// gives the bytes of each write. Members that could not take theirs fail. Waits until what the writes
    /// relied on is recorded.
    pub(crate) async fn write_mended(
        &self,
        rows: &RowGuard<'_>,
        topology: &Topology,
        stripe: StripeIndex,
        recipe: &Recipe,
        content: impl Fn(&Write) -> SharedBuf,
    ) -> Result<(), ArrayError> {
        let how = How { topology, stripe, recipe, flags: WriteFlags::default(), cause: Cause::Job };
        how.assert_is_held(rows);
        self.cache().iter().for_each(|cache| cache.forget_clean(stripe));
        let mut requested = Requested::new();
        for write in &recipe.writes {
            self.ask_write(&how, write, smallvec![content(write)], &mut requested);
        }
        self.end_writes(topology, stripe, recipe, &mut requested).await
    }

    /// Waits for a recipe's writes, and settles their outcome.
    pub(super) async fn end_writes(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        recipe: &Recipe,
        requested: &mut [IoFuture<Result<(), IoError>>],
    ) -> Result<(), ArrayError> {
        wait_all(requested, self.members.is_metered()).await;
        let columns = recipe.writes.iter().map(|write| write.column.into());
        let members = columns.flat_map(|column| topology.writers(stripe, column));
        let failed = failures(members, requested);
        self.settle(topology, failed).await
    }
}

impl How<'_> {
    #[inline(always)]
    fn ask(
        &self,
        member: &Member,
        write: &Write,
        class: IoClass,
        (offset_bytes, bufs): (u64, WriteBufs),
    ) -> Completion {
        if lives(Mutant::DropParityWrite) && write.from == Source::Sum {
            return IoFuture::ready(Ok(()));
        }
        let flags = if lives(Mutant::AcknowledgeBeforeFua) { WriteFlags::default() } else { self.flags };
        if self.cause != Cause::Job {
            member.stats.count_recipe(self.recipe, write);
        }
        member.write_as(class, self.cause, offset_bytes, bufs, flags)
    }

    /// Checks that all that is written lies in its chunk and that its rows are locked.
    #[inline]
    fn assert_is_held(&self, rows: &RowGuard<'_>) {
        let chunk_len = self.topology.geometry.chunk_len(self.stripe);
        // Most recipes write the same rows of all their columns.
        let mut checked = (0, 0);
        for write in &self.recipe.writes {
            let bytes = write.bytes();
            if checked == (write.start, write.len) {
                continue;
            }
            assert!(bytes.end <= chunk_len, "a write ends in its chunk");
            rows.assert_holds(self.stripe, bytes.start / BLOCK_BYTES..=(bytes.end - 1) / BLOCK_BYTES);
            checked = (write.start, write.len);
        }
    }
}
