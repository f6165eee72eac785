//! The one place that executes recipes: what a recipe reads, computes and writes, and what comes of it.
//!
//! The steps of a stripe's write are these: its rows are locked, its region is marked, what its [`Recipe`]
//! reads is read, parity is computed, what the recipe writes is written, and members that failed are dropped
//! before the write is acknowledged. A write goes through as many steps as it can without waiting. [`Work`]
//! keeps what it needs to continue.

use std::sync::Arc;

use stripewise_device::{
    IoBuf, IoError, IoFuture, ReadDone,
    sync::{Reader, Seen},
};

use super::{
    Asks, RowGuard, Stripes,
    steps::{Begun, Guards, Progress, StripeWrite, Unreadable, Work, waits},
    wait::{Few, Requested, are_ready, wait_all},
};
use crate::{
    compute::{Content, Fetched, Run},
    error::ArrayError,
    intent::IntentGuard,
    members::{meter::IoClass, topology::Topology},
    mutants::{Mutant, lives},
    plan::recipe::{Cells, Recipe},
    shape::geometry::StripeIndex,
};

/// What a recipe has read, and what it could not read.
struct Lost {
    fetched: Fetched,
    failed: Vec<(Cells, IoError)>,
}

impl Stripes {
    /// Writes a stripe whose rows and region are held, as far as possible without waiting.
    pub(super) fn begin_held(
        &self,
        request: &Reader<'_>,
        mut write: StripeWrite,
        (rows, region): (RowGuard<'_>, Option<IntentGuard<'_>>),
    ) -> Progress {
        let guards = Guards { ending: write.ending.take(), rows, region };
        let cause = write.cause(&guards);
        let topology = self.members.get(request);
        if topology.failed {
            return Progress::Done(Err(ArrayError::Failed));
        }
        let (stripe, selection) = (write.stripe, &**self.selection.get(request).value());
        let mut recipe = Recipe::default();
        if self.make_recipe(selection, &topology, (stripe, &write.content), &[], &mut recipe).is_err() {
            return waits(guards, Begun::Plan(write));
        }
        let mut reads = Requested::new();
        self.ask_reads(&topology, stripe, (&recipe, IoClass::Read, cause), whole_rows, &mut reads);
        if !are_ready(&reads, |done| done.result.is_ok()) {
            let work = Work::new(write, topology.to_arc(), recipe, reads);
            return waits(guards, Begun::Work(Box::new(work)));
        }
        let mut fetched = Fetched::new();
        let failed = take_fetched(&recipe, &mut reads, &mut fetched);
        debug_assert!(failed.is_empty(), "all could be read");
        let mut writes = Requested::new();
        self.ask_writes(&topology, &recipe, write, &mut fetched, &mut writes, &guards);
        self.end_at_once(request, topology, (stripe, &mut recipe), guards, &mut writes)
    }

    /// Ends a stripe's write whose member writes are asked for, if those are done.
    fn end_at_once(
        &self,
        request: &Reader<'_>,
        topology: Seen<'_, Topology>,
        (stripe, recipe): (StripeIndex, &mut Recipe),
        mut guards: Guards<'_>,
        writes: &mut Requested<Result<(), IoError>>,
    ) -> Progress {
        let acknowledgement = topology.recorded.acknowledgement(|| self.members.get(request).failed);
        let is_settled = matches!(acknowledgement, Some(Ok(()))) || lives(Mutant::UnrecordedAcknowledged);
        let is_well = |result: &Result<(), IoError>| result.is_ok() || lives(Mutant::FailedAtOnceUnseen);
        if is_settled && are_ready(writes, is_well) {
            guards.succeed();
            return Progress::Done(Ok(()));
        }
        let (topology, recipe) = (topology.to_arc(), std::mem::take(recipe));
        let writes = writes.drain(..).collect();
        let work = Work { write: None, stripe, topology, recipe, reads: Few::new(), writes };
        waits(guards, Begun::Work(Box::new(work)))
    }

    /// Continues a write that has its recipe, to its end.
    pub(super) async fn finish_work(
        &self,
        guards: &Guards<'_>,
        mut work: Box<Work>,
    ) -> Result<(), ArrayError> {
        match self.run(guards, &mut work).await {
            Ok(result) => result,
            // In a box: rarely needed, and large.
            Err((write, lost)) => {
                Box::pin(async {
                    let mut unreadable = Unreadable::new();
                    match self.go_on_without(guards, &mut work, write, lost, &mut unreadable).await? {
                        Some(write) => self.write_around(guards, write, unreadable).await,
                        None => Ok(()),
                    }
                })
                .await
            }
        }
    }

    /// Does the remaining steps of a write. If some of what it reads is lost, returns the write and what it
    /// has read.
    async fn run(
        &self,
        guards: &Guards<'_>,
        work: &mut Work,
    ) -> Result<Result<(), ArrayError>, (StripeWrite, Lost)> {
        wait_all(&mut work.reads, self.members.is_metered()).await;
        if let Some(write) = work.write.take() {
            let mut fetched = Fetched::new();
            let failed = take_fetched(&work.recipe, &mut work.reads, &mut fetched);
            if !failed.is_empty() {
                return Err((write, Lost { fetched, failed }));
            }
            self.write_computed(guards, work, write, fetched);
        }
        Ok(self.end_work(work).await)
    }

    /// Asks for what is written, once all is read.
    fn write_computed(&self, guards: &Guards<'_>, work: &mut Work, write: StripeWrite, mut fetched: Fetched) {
        let mut writes = Requested::new();
        self.ask_writes(&work.topology, &work.recipe, write, &mut fetched, &mut writes, guards);
        work.writes = writes.into_iter().collect();
    }

    async fn end_work(&self, work: &mut Work) -> Result<(), ArrayError> {
        let Work { topology, stripe, recipe, writes, .. } = work;
        self.end_writes(topology, *stripe, recipe, writes).await
    }

    /// Writes a stripe around columns that could not be read.
    pub(super) async fn write_around(
        &self,
        guards: &Guards<'_>,
        mut write: StripeWrite,
        mut unreadable: Unreadable,
    ) -> Result<(), ArrayError> {
        // The outcome of mending, once that was tried. An error names a block that could not be mended.
        let mut healed: Option<Result<(), ArrayError>> = None;
        loop {
            let stripe = write.stripe;
            if self.is_in_doubt(stripe) {
                unreadable.clear();
            }
            let topology = self.members.load();
            if topology.failed {
                return Err(ArrayError::Failed);
            }
            let (selection, mut recipe) = (self.selection.load(), Recipe::default());
            let content = (stripe, &write.content);
            match self.make_recipe(&**selection, &topology, content, &unreadable, &mut recipe) {
                Ok(()) => {}
                Err(_) if !unreadable.is_empty() && healed.is_none() && !lives(Mutant::BadRowsNotMended) => {
                    healed = Some(self.mend(&guards.rows, content, &unreadable).await?);
                    unreadable.clear();
                    continue;
                }
                Err(_) => return healed.unwrap_or(Ok(())).and(Err(self.lost(stripe))),
            }
            let mut reads = Requested::new();
            let asked = (&recipe, IoClass::Read, write.cause(guards));
            self.ask_reads(&topology, stripe, asked, whole_rows, &mut reads);
            let mut work = Work::new(write, topology, recipe, reads);
            let (again, lost) = match self.run(guards, &mut work).await {
                Ok(result) => return result,
                Err(lost) => lost,
            };
            match self.go_on_without(guards, &mut work, again, lost, &mut unreadable).await? {
                Some(again) => write = again,
                None => return Ok(()),
            }
        }
    }

    /// Mends bad blocks of several members in different rows, block by block, so that the write can be tried
    /// once more. The inner result names a block that could not be mended. Perhaps the write does not need
    /// that block.
    async fn mend(
        &self,
        held: &RowGuard<'_>,
        (stripe, content): (StripeIndex, &Content),
        unreadable: &Unreadable,
    ) -> Result<Result<(), ArrayError>, ArrayError> {
        let rows = content.rows(self.geometry().chunk_bytes());
        match self.heal_rows(held, stripe, unreadable, rows).await {
            mended @ (Ok(()) | Err(ArrayError::Unreadable { .. })) => Ok(mended),
            Err(error) => Err(error),
        }
    }

    /// Continues a write of which some reads failed. Returns the write if it must be planned anew, around
    /// columns that could not be read.
    async fn go_on_without(
        &self,
        guards: &Guards<'_>,
        work: &mut Work,
        write: StripeWrite,
        lost: Lost,
        unreadable: &mut Unreadable,
    ) -> Result<Option<StripeWrite>, ArrayError> {
        // A gap that cannot be read fails nothing.
        let mut write = write;
        if write.content.leave_gaps() {
            return Ok(Some(write));
        }
        let Lost { mut fetched, failed } = lost;
        self.note_unreadable(&work.topology, work.stripe, &failed, unreadable).await;
        if !self.is_in_doubt(work.stripe) || !Arc::ptr_eq(&work.topology, &self.members.load()) {
            return Ok(Some(write));
        }
        for (cells, _) in failed {
            self.fetch_finely(work.stripe, cells, &mut fetched).await?;
        }
        self.write_computed(guards, work, write, fetched);
        self.end_work(work).await.map(|()| None)
    }

    /// Whether parity may be of another time than the data.
    fn is_in_doubt(&self, stripe: StripeIndex) -> bool {
        !self.is_trusted(stripe) && !lives(Mutant::DoubtfulPlannedAround)
    }

    /// Fetches what could not be read in one piece from a stripe where a resync is due. Only blocks that
    /// their own members cannot read are recovered from the others, not whole columns.
    async fn fetch_finely(
        &self,
        stripe: StripeIndex,
        cells: Cells,
        fetched: &mut Fetched,
    ) -> Result<(), ArrayError> {
        let (column, bytes) = (usize::from(cells.column), cells.rows.bytes());
        let mut buf = IoBuf::with_len(bytes.len());
        self.recover_finely(stripe, column, bytes, &mut buf).await?;
        // Data before parity. The order of P and Q matters to updates only, and parity that may be of another time is made
        // anew.
        let at = if column < self.geometry().data_columns() { 0 } else { fetched.len() };
        fetched.insert(at, Run { cells, buf });
        Ok(())
    }

    fn lost(&self, stripe: StripeIndex) -> ArrayError {
        ArrayError::Unreadable { offset_bytes: stripe.0 * self.geometry().stripe_bytes() }
    }

    /// Notes columns that could not be read: the member fails if it is gone, else its blocks here count as
    /// lost.
    async fn note_unreadable(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        failed: &[(Cells, IoError)],
        unreadable: &mut Unreadable,
    ) {
        for (cells, error) in failed {
            let column = usize::from(cells.column);
            let member = topology.reader(stripe, column).expect("it was just read").clone();
            self.note_read_error(&member, stripe, column, *error, Asks::Client).await;
            if !unreadable.contains(&column) {
                unreadable.push(column);
            }
        }
    }
}

/// A write reads whole rows.
#[inline]
fn whole_rows(cells: &Cells) -> (usize, IoBuf) {
    let bytes = cells.rows.bytes();
    (bytes.start, IoBuf::with_len(bytes.len()))
}

/// Takes what a recipe has read, once all reads are done, and returns the reads that failed.
fn take_fetched(
    recipe: &Recipe,
    requested: &mut [IoFuture<ReadDone>],
    fetched: &mut Fetched,
) -> Vec<(Cells, IoError)> {
    let mut failed = Vec::new();
    for (cells, io) in recipe.reads.iter().zip(requested) {
        let done = io.peek_mut().expect("all is done");
        match done.take_read() {
            Some(buf) => fetched.push(Run { cells: *cells, buf }),
            None => failed.extend(done.result.err().map(|error| (*cells, error))),
        }
    }
    failed
}
