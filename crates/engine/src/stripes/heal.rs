//! Healing: blocks that failed to be read are rewritten with what the others give, so that their member can
//! remap the sectors.

use std::ops::Range;

use smallvec::smallvec;

use super::{RowGuard, Stripes, healing::Chunk};
use crate::{
    error::ArrayError,
    members::topology::Topology,
    mutants::{Mutant, lives},
    plan::{
        Recipe,
        recipe::{Source, Write},
    },
    shape::{
        geometry::{MemberIndex, StripeIndex},
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// Chunks that are healed in one round of housekeeping.
const HEALED_PER_ROUND: usize = 256;

/// The most chunks of one extent of a member's log that are noted when an array is opened.
const LISTED_CHUNKS_MAX: usize = 4096;

impl Stripes {
    /// Lets chunks that could not be healed be tried again.
    pub(crate) fn retry_healing(&self) {
        self.healing.lock().retry();
    }

    /// Notes a chunk that has just been found to be beyond healing.
    pub(crate) fn put_off_healing(&self, chunk: Chunk) {
        self.healing.lock().put_off(chunk);
    }

    /// Heals noted chunks: recovers their blocks and writes them back, so that the member can remap the
    /// sectors.
    pub(crate) async fn heal_noted(&self) {
        let noted = self.healing.lock().take(HEALED_PER_ROUND);
        let (mut failures, mut first) = (0, None);
        for chunk in noted {
            if self.life.is_closing() {
                return;
            }
            // The chunk waits for the resync, which goes over it. Meanwhile it does not count again.
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

    /// Notes the chunks of blocks that members' logs list, so that these are rewritten from the others. It
    /// notes a limited number of each extent, since another program may have listed any number.
    pub(crate) fn heal_listed(&self) {
        let topology = self.members.load();
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
        let geometry = self.geometry();
        let chunk_bytes = geometry.chunk_bytes() as u64;
        let first = bytes.start.saturating_sub(data_offset_bytes) / chunk_bytes;
        let end = bytes.end.saturating_sub(data_offset_bytes).div_ceil(chunk_bytes).min(geometry.stripes());
        (first..end).map(move |stripe| (stripe, geometry.column_of(StripeIndex(stripe), slot)))
    }

    /// Whether a member that takes this column's writes lists some of these bytes in its log. An incoming
    /// member counts, too.
    fn is_listed(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        column: usize,
        bytes: &Range<usize>,
    ) -> bool {
        let at = topology.geometry.chunk_start(stripe) + bytes.start as u64;
        let mut writers = topology.writers(stripe, column);
        writers.any(|member| member.lists(at..at + bytes.len() as u64))
    }

    /// Mends a chunk whose member failed to read some of it.
    async fn heal(&self, stripe: StripeIndex, column: usize) -> Result<(), ArrayError> {
        let rows = self.geometry().rows_of(stripe);
        let held = self.locks.lock(stripe, rows).await;
        let topology = self.members.load();
        if topology.failed || !self.is_trusted(stripe) {
            return Ok(()); // a resync goes over it anyway
        }
        self.heal_rows(&held, stripe, &[column], rows).await
    }

    /// Rewrites unreadable blocks of some columns with what the others give, so that their members can remap
    /// the sectors. Blocks on a member's bad-block log that can be read are rewritten with their own content.
    ///
    /// # Errors
    /// [`ArrayError::Unreadable`] for the first block that cannot be recovered; the other blocks are healed
    /// all the same.
    pub(crate) async fn heal_rows(
        &self,
        held: &RowGuard<'_>,
        stripe: StripeIndex,
        columns: &[usize],
        rows: RowSet,
    ) -> Result<(), ArrayError> {
        let len = self.geometry().chunk_len(stripe);
        let mut lost = Ok(());
        for (column, row) in
            columns.iter().flat_map(|column| rows.runs().flatten().map(move |row| (*column, row)))
        {
            let bytes = row * BLOCK_BYTES..((row + 1) * BLOCK_BYTES).min(len);
            // The block before may have caused a member to be dropped.
            let topology = self.members.load();
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
            let write = Write::of(column, &bytes, Source::Old(column as u16), true);
            let (recipe, content) =
                (Recipe { writes: smallvec![write], ..Recipe::default() }, content.freeze());
            self.write_mended(held, &topology, stripe, &recipe, |_| content.clone()).await?;
            match self.own(&topology, stripe, column, &bytes).await {
                Some(Ok(_)) => self.stats.count_healed(),
                Some(Err(error)) => {
                    let member = topology.reader(stripe, column).expect("it was just read");
                    self.note_unhealed(member, stripe, error).await;
                }
                None => {}
            }
        }
        lost
    }
}
