//! Asking members: for what a recipe reads and writes, and for what a job has mended.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use stripewise_device::{Completion, IoBuf, IoError, IoFuture, ReadDone, WriteBufs, WriteFlags, bufs_len};

use super::{
    RowGuard, Stripes,
    steps::{Guards, StripeWrite},
    wait::{Requested, failures, wait_all},
};
use crate::{
    compute::{Fetched, compute},
    error::ArrayError,
    intent::IntentGuard,
    members::{member::Member, meter::IoClass, stats::Cause, topology::Topology},
    mutants::{Mutant, lives},
    plan::recipe::{Recipe, Source, Write},
    shape::{geometry::StripeIndex, rows::BLOCK_BYTES},
};

/// One write to one column: consecutive bytes of its chunk.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) column: usize,
    /// Where in the chunk.
    pub(crate) start: usize,
    pub(crate) bufs: WriteBufs,
}

/// Some of them.
pub(crate) type Extents = SmallVec<[Extent; 8]>;

/// How a stripe's extents are written.
struct How<'a> {
    topology: &'a Topology,
    stripe: StripeIndex,
    flags: WriteFlags,
    /// What is executed, for the counters; none where a job writes what it has mended.
    recipe: Option<&'a Recipe>,
}

impl Stripes {
    /// Asks for what a recipe reads, all at once.
    pub(super) fn ask_reads(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        recipe: &Recipe,
        requested: &mut Requested<ReadDone>,
    ) {
        let start = topology.geometry.chunk_start(stripe);
        for cells in &recipe.reads {
            let member = topology.reader(stripe, cells.column.into());
            let member = member.expect("recipes read columns that are there");
            let bytes = cells.rows.bytes();
            requested.push(member.read(start + bytes.start as u64, smallvec![IoBuf::with_len(bytes.len())]));
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
        let StripeWrite { span, data, flags } = write;
        let (rows, region) = guards;
        assert!(
            region.as_ref().is_none_or(IntentGuard::is_durable),
            "a region is marked before it is written"
        );
        // Most recipes write the same rows of all their columns.
        let mut checked = (0, 0);
        for write in &recipe.writes {
            if checked != (write.start, write.len) {
                assert_is_held(rows, topology, span.stripe, &write.bytes());
                checked = (write.start, write.len);
            }
        }
        self.stats.count_recipe(recipe);
        let how = How { topology, stripe: span.stripe, flags, recipe: Some(recipe) };
        compute(recipe, &topology.geometry, (span, data), fetched, |write, bufs| {
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
        let passes_by = lives(Mutant::RepairPassesIncoming) && how.recipe.is_none();
        let incoming = incoming.filter(|_| !passes_by);
        // What was read was read from the first that is there.
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

    /// Writes what a job has mended, all extents at once, where it has just read; fails the members that could not take
    /// theirs, and waits until what the write relied on is recorded.
    pub(crate) async fn write_out(
        &self,
        rows: &RowGuard<'_>,
        topology: &Topology,
        stripe: StripeIndex,
        extents: Extents,
    ) -> Result<(), ArrayError> {
        let how = How { topology, stripe, flags: WriteFlags::default(), recipe: None };
        let columns: SmallVec<[usize; 8]> = extents.iter().map(|extent| extent.column).collect();
        let mut requested = Requested::new();
        for Extent { column, start, bufs } in extents {
            let bytes = start..start + bufs_len(&bufs);
            assert_is_held(rows, topology, stripe, &bytes);
            let write = Write::of(column, &bytes, Source::Joined, true);
            self.ask_write(&how, &write, bufs, &mut requested);
        }
        wait_all(&mut requested, self.members.is_metered()).await;
        let members = columns.iter().flat_map(|column| topology.writers(stripe, *column));
        let failed = failures(members, &mut requested);
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
        let cause = match self.recipe {
            Some(recipe) => {
                member.stats.count_recipe(recipe, write);
                Cause::Client
            }
            None => Cause::Job,
        };
        member.write_as(class, cause, offset_bytes, bufs, flags)
    }
}

/// Checks that bytes of a chunk may be written: they lie in the chunk, and their rows are locked.
#[inline]
fn assert_is_held(rows: &RowGuard<'_>, topology: &Topology, stripe: StripeIndex, bytes: &Range<usize>) {
    assert!(bytes.end <= topology.geometry.chunk_len(stripe), "a write ends in its chunk");
    rows.assert_holds(stripe, bytes.start / BLOCK_BYTES..=(bytes.end - 1) / BLOCK_BYTES);
}
