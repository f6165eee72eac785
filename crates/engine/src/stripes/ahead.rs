//! Reads ahead of sequential readers, into the cache.

use std::sync::Arc;

use stripewise_device::ReadBufs;

use super::{Stripes, piece::Piece};
use crate::{
    cache::Cache,
    error::ArrayError,
    life::detached::Detached,
    members::{meter::IoClass, stats::Cause, topology::Topology},
    mutants::{Mutant, lives},
    shape::{
        geometry::{Geometry, StripeIndex},
        rows::BLOCK_BYTES,
    },
};

impl Stripes {
    /// Looks whether a read that begins a chunk is one of a sequential reader. If it is, begins to read the next stripe.
    #[cold]
    #[inline(never)]
    pub(super) fn look_ahead(&self, cache: &Arc<Cache>, geometry: &Geometry, piece: &Piece) {
        let (read, now) = (|| self.stats.read(), self.life.env().now());
        // Without a member, a stripe takes longer to read than its readers would gain.
        let next = self.members.look(|topology| topology.has_all());
        let next = next.then(|| cache.next_stripe(piece.stripe, piece.column, read, now)).flatten();
        let Some(stripe) = next.filter(|next| next.0 < geometry.stripes()) else { return };
        let (stripes, kept, cache) = (self.handle(), self.requests.enter().keep(), cache.clone());
        drop(Detached::go_on(self.life.env(), async move {
            let _request = stripes.requests.resume(kept);
            stripes.fetch(&cache, stripe).await;
            Ok::<(), ArrayError>(())
        }));
    }

    /// Reads a stripe into the cache, unless something is in the way: then its readers do without.
    async fn fetch(&self, cache: &Cache, stripe: StripeIndex) {
        let rows = self.geometry().rows_of(stripe);
        let Some(_fetch) = cache.begin_fetch(rows.len()) else { return };
        let held = self.locks.try_lock(stripe, rows);
        if held.is_none() && !lives(Mutant::AheadWithoutRows) {
            return;
        }
        // As the members are now that the rows are locked: one that failed meanwhile lacks the last write.
        let topology = self.members.load();
        let Some(rows) = rows.runs().next().filter(|_| topology.has_all()) else { return };
        let Some(frames) = cache.frames_for(&rows) else { return };
        if let Some(columns) = self.read_columns(&topology, stripe, rows.start, frames).await {
            cache.take_in(stripe, &rows, columns);
        }
        drop(held);
    }

    /// Reads blocks of every data column from a row on. None if a member is missing, or cannot read.
    async fn read_columns(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        row: usize,
        frames: Vec<ReadBufs>,
    ) -> Option<Vec<ReadBufs>> {
        let at = topology.geometry.chunk_start(stripe) + (row * BLOCK_BYTES) as u64;
        let reads = frames.into_iter().enumerate().map(|(column, frames)| {
            let member = topology.reader(stripe, column)?;
            Some(member.read_as(IoClass::Other, Cause::Reader, at, frames))
        });
        let reads: Vec<_> = reads.collect::<Option<_>>()?;
        let mut columns = Vec::new();
        for read in reads {
            let done = read.await;
            columns.extend(done.result.is_ok().then_some(done.bufs));
        }
        (columns.len() == topology.geometry.data_columns()).then_some(columns)
    }
}
