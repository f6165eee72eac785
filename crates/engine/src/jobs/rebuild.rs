//! Rebuild and replace: fills an incoming member, stripe by stripe, from the other members or from the member
//! it replaces.

use std::{ops::Range, sync::Arc};

use smallvec::smallvec;
use stripewise_device::{IoBuf, WriteFlags};

use super::{Jobs, events::ArrayEvent, sweep::is_flash};
use crate::{
    compute::recovery,
    error::ArrayError,
    members::{
        member::Member,
        meter::IoClass,
        stats::Cause,
        topology::{Incoming, Topology},
    },
    metadata::ledger::Standing,
    mutants::{Mutant, lives},
    plan::{Recipe, recipe::Span, recover},
    shape::{
        geometry::{MemberIndex, StripeIndex},
        rows::BLOCK_BYTES,
    },
    stripes::RowGuard,
};

/// A batch that the incoming member holds. Its rows stay locked until the rebuild has moved past it.
pub(super) struct Filled<'a> {
    pub(super) stripes: Range<u64>,
    pub(super) _rows: Vec<RowGuard<'a>>,
}

impl Jobs {
    /// Fills one batch of the incoming member of `slot`.
    pub(super) async fn fill(
        &self,
        slot: MemberIndex,
        incoming: &Arc<Incoming>,
        stripes: Range<u64>,
    ) -> Result<Filled<'_>, ArrayError> {
        let locked = if lives(Mutant::RebuildUnlocked) { 0..0 } else { stripes.clone() };
        let rows = self.stripes.lock_stripes(locked).await;
        let topology = self.roster.unfailed()?;
        if !topology.is_incoming(slot, incoming) {
            return Err(gone(incoming));
        }
        let (content, lost) = match self.fill_at_once(&topology, slot, &stripes).await {
            Some(content) => (content, Vec::new()),
            None => self.fill_by_stripe(&topology, slot, &stripes).await?,
        };
        let start = self.geometry().member_range(&stripes).start;
        let written = incoming
            .member
            .write_as(IoClass::Other, Cause::Job, start, smallvec![content.freeze()], WriteFlags::default())
            .await;
        if let Err(error) = written {
            self.roster.fail_all(vec![(incoming.member.clone(), error)]).await?;
            return Err(gone(incoming));
        }
        self.list_lost(&incoming.member, slot, lost)?;
        let rows = if lives(Mutant::FilledRowsFreed) { Vec::new() } else { rows };
        Ok(Filled { stripes, _rows: rows })
    }

    /// Lists blocks that could not be recovered as bad blocks of the member being filled, as md does: they
    /// are lost, and the rest of the member is not. The list is durable before more of the member counts as
    /// filled.
    ///
    /// # Errors
    /// [`ArrayError::Unreadable`] if the member's log has no room for them; [`ArrayError::Failed`].
    fn list_lost(&self, member: &Member, slot: MemberIndex, lost: Vec<Range<u64>>) -> Result<(), ArrayError> {
        let Some(first) = lost.first().filter(|_| !lives(Mutant::LostNotListed)) else { return Ok(()) };
        if self.roster.topology().failed {
            return Err(ArrayError::Failed); // a failed array recovers nothing: the blocks may be fine
        }
        let stripe = StripeIndex(first.start / self.geometry().chunk_bytes() as u64);
        let column = self.geometry().column_of(stripe, slot);
        let offset_bytes = self.geometry().array_offset(
            stripe,
            column,
            (first.start - self.geometry().chunk_start(stripe)) as usize,
        );
        let on_member =
            |bytes: &Range<u64>| member.data_offset_bytes + bytes.start..member.data_offset_bytes + bytes.end;
        let len_bytes: u64 = lost.iter().map(|bytes| bytes.end - bytes.start).sum();
        if !member.bad_blocks.add(&lost.iter().map(on_member).collect::<Vec<_>>()) {
            return Err(ArrayError::Unreadable { offset_bytes });
        }
        self.board.update(|job| job.unreadable = job.unreadable.or(Some(offset_bytes)));
        for bytes in &lost {
            // Blocks that were unreadable only for a while are written back once they can be read.
            let bytes = on_member(bytes);
            let chunks = self.stripes.chunks_of(slot, member.data_offset_bytes, &bytes);
            chunks.for_each(|chunk| self.stripes.put_off_healing(chunk));
        }
        tracing::warn!(
            member = member.name(),
            len_bytes,
            offset_bytes,
            "blocks could not be recovered: they are listed as bad"
        );
        Ok(())
    }

    /// The batch's content from one large read of each member needed. None if a read failed or too many
    /// members are missing.
    async fn fill_at_once(
        &self,
        topology: &Topology,
        slot: MemberIndex,
        stripes: &Range<u64>,
    ) -> Option<IoBuf> {
        let range = topology.geometry.member_range(stripes);
        let len = (range.end - range.start) as usize;
        if let Some(primary) = &topology.slots[slot.0].primary {
            return primary
                .read_as(IoClass::Other, Cause::Job, range.start, smallvec![IoBuf::with_len(len)])
                .await
                .into_one()
                .ok();
        }
        // How to recover the column that is filled, for each stripe.
        let plan = |stripe: StripeIndex| {
            let is_there = |c| topology.slots[topology.geometry.member_of(stripe, c).0].primary.is_some();
            let column = topology.geometry.column_of(stripe, slot);
            let rows = Span::touching(&(0..topology.geometry.chunk_len(stripe)));
            let mut recipe = Recipe::default();
            let from = recover::recover(&topology.geometry, column, rows, is_there, &mut recipe)?;
            Some((recipe, from))
        };
        let recipes = stripes.clone().map(StripeIndex).map(plan).collect::<Option<Vec<_>>>()?;
        // The member that a recipe leaves out is a different one in each stripe, and disks stream better than
        // they skip.
        let reads_on = topology.geometry.has_parity() && !is_flash(topology);
        let is_wanted = |stripe: StripeIndex, member| {
            let (recipe, _) = &recipes[(stripe.0 - stripes.start) as usize];
            let column = topology.geometry.column_of(stripe, member);
            reads_on || recipe.reads.iter().any(|cells| usize::from(cells.column) == column)
        };
        let (chunks, failed) = self.read_chunks(topology, stripes.clone(), is_wanted).await;
        if !failed.is_empty() {
            return None;
        }
        let mut content = IoBuf::with_len(len);
        let chunks_out = content.chunks_mut(topology.geometry.chunk_bytes());
        for ((stripe, (recipe, from)), out) in stripes.clone().map(StripeIndex).zip(&recipes).zip(chunks_out)
        {
            let columns = chunks.read_by(&topology.geometry, stripe, recipe);
            recovery::content(recipe, *from, &topology.geometry, &columns, out);
        }
        Some(content)
    }

    /// The batch's content stripe by stripe, around blocks that cannot be read. Also the bytes of the
    /// member's data that are lost; the content has zeroes there.
    async fn fill_by_stripe(
        &self,
        topology: &Topology,
        slot: MemberIndex,
        stripes: &Range<u64>,
    ) -> Result<(IoBuf, Vec<Range<u64>>), ArrayError> {
        let range = topology.geometry.member_range(stripes);
        let mut content = IoBuf::with_len((range.end - range.start) as usize);
        let mut lost = Vec::new();
        let chunk_bytes = topology.geometry.chunk_bytes();
        for (stripe, out) in stripes.clone().map(StripeIndex).zip(content.chunks_mut(chunk_bytes)) {
            match self.fill_chunk(topology, stripe, slot, out).await {
                Err(ArrayError::Unreadable { .. }) => lost.extend(self.fill_blocks(stripe, slot, out).await?),
                result => result?,
            }
        }
        Ok((content, lost))
    }

    /// Fills a chunk block by block, with zeroes for lost blocks. Returns where in the member's data the lost
    /// blocks lie.
    async fn fill_blocks(
        &self,
        stripe: StripeIndex,
        slot: MemberIndex,
        out: &mut [u8],
    ) -> Result<Vec<Range<u64>>, ArrayError> {
        let (column, start) = (self.geometry().column_of(stripe, slot), self.geometry().chunk_start(stripe));
        let mut lost = Vec::new();
        for (at, block) in (0..).step_by(BLOCK_BYTES).zip(out.chunks_mut(BLOCK_BYTES)) {
            match self.stripes.recover_finely(stripe, column, at..at + block.len(), block).await {
                Err(ArrayError::Unreadable { .. }) => {
                    block.fill(0);
                    lost.push(start + at as u64..start + (at + block.len()) as u64);
                }
                result => result?,
            }
        }
        Ok(lost)
    }

    async fn fill_chunk(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        slot: MemberIndex,
        out: &mut [u8],
    ) -> Result<(), ArrayError> {
        if let Some(primary) = &topology.slots[slot.0].primary {
            let done = primary
                .read_as(
                    IoClass::Other,
                    Cause::Job,
                    topology.geometry.chunk_start(stripe),
                    smallvec![IoBuf::with_len(out.len())],
                )
                .await;
            if let Ok(chunk) = done.into_one() {
                out.copy_from_slice(&chunk);
                return Ok(());
            }
        }
        self.stripes
            .recover_finely(stripe, topology.geometry.column_of(stripe, slot), 0..out.len(), out)
            .await
    }

    /// Records how far the incoming member is filled, after making that much durable on it.
    pub(super) async fn checkpoint(
        &self,
        slot: MemberIndex,
        incoming: &Arc<Incoming>,
    ) -> Result<(), ArrayError> {
        let done_sectors = self.geometry().sectors_before(StripeIndex(incoming.done_stripes()));
        if !lives(Mutant::OffsetBeforeFlush) {
            self.flush_incoming(incoming).await?;
        }
        self.roster
            .change_state(|ledger, topology| {
                if !topology.is_incoming(slot, incoming) {
                    return Err(gone(incoming));
                }
                ledger.set_standing(&incoming.member, Standing::Incoming { slot, done_sectors });
                Ok(None)
            })
            .await?;
        if lives(Mutant::OffsetBeforeFlush) { self.flush_incoming(incoming).await } else { Ok(()) }
    }

    async fn flush_incoming(&self, incoming: &Arc<Incoming>) -> Result<(), ArrayError> {
        if lives(Mutant::PromoteWithoutFlush) {
            return Ok(());
        }
        match incoming.member.device.flush().await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.roster.fail_all(vec![(incoming.member.clone(), error)]).await?;
                Err(gone(incoming))
            }
        }
    }

    /// The incoming member is complete: it becomes the slot's member, durably, and a replaced member leaves.
    ///
    /// First a separate change records that it is complete. So a crash in the middle of the second change
    /// finds a whole member, whichever superblock counts.
    ///
    /// A vacant slot counts as filled from the first superblock on: another member may fail to take its
    /// superblock, and that may be all that the level tolerates. With a living member in the slot, writes go
    /// to both members until all superblocks are written. If the new member fails meanwhile, the old one is
    /// current and stays.
    pub(super) async fn promote(
        &self,
        slot: MemberIndex,
        incoming: &Arc<Incoming>,
    ) -> Result<(), ArrayError> {
        self.checkpoint(slot, incoming).await?;
        // The leaving member may be the last that has the bitmap. So all members that hold it afterwards must
        // hold it before. The incoming member may be an exception: it is not in its own place in the order
        // yet, and what it lacks counts as marked until all is written.
        let replaced = self.roster.topology().slots[slot.0].primary.clone();
        let _handing_over = match (self.stripes.intent(), replaced.clone()) {
            (Some(intent), Some(replaced)) => {
                let handing_over = self.roster.hand_over(replaced, &incoming.member);
                if !intent.rewrite(&*self.stripes).await {
                    return Err(ArrayError::Failed);
                }
                Some(handing_over)
            }
            _ => None,
        };
        let taken_over = |topology: &Topology| topology.with_primary(slot, &incoming.member);
        self.roster
            .change_state_then(
                |ledger, topology| {
                    if !topology.is_incoming(slot, incoming) {
                        return Err(gone(incoming));
                    }
                    ledger.set_standing(&incoming.member, Standing::Active(slot));
                    let Some(replaced) = &topology.slots[slot.0].primary else {
                        return Ok(Some(taken_over(topology)));
                    };
                    ledger.set_standing(replaced, Standing::Faulty);
                    Ok(None)
                },
                |topology| topology.is_incoming(slot, incoming).then(|| taken_over(topology)),
            )
            .await?;
        let primary = self.roster.topology().slots[slot.0].primary.clone();
        if primary.is_none_or(|primary| !Arc::ptr_eq(&primary, &incoming.member)) {
            return Err(gone(incoming));
        }
        let member = incoming.member.name().to_owned();
        self.roster.tell(&ArrayEvent::MemberActive { member, role: slot });
        if let Some(intent) = self.stripes.intent() {
            intent.rewrite(&*self.stripes).await;
        }
        if let Some(replaced) = replaced {
            self.roster.note_written_to(&replaced).await;
        }
        Ok(())
    }
}

/// The incoming member failed, or was taken out, while it was being filled.
fn gone(incoming: &Incoming) -> ArrayError {
    let member = incoming.member.name().to_owned();
    ArrayError::Member { member, problem: "it failed or was taken out while it was being filled".to_owned() }
}
