//! Rebuild and replace: fills an incoming member, stripe by stripe, from the others or from the member it replaces.

use std::{ops::Range, sync::Arc};

use smallvec::smallvec;
use stripewise_device::{IoBuf, WriteFlags};

use crate::{
    array::Shared,
    error::ArrayError,
    geometry::{MemberIndex, StripeIndex},
    ledger::Standing,
    locks::RowGuard,
    recovery::{self, Sources},
    topology::{Incoming, Topology},
};

/// A batch that is on the incoming member, with its rows still locked until the next in order may follow.
pub(super) struct Filled<'a> {
    pub(super) stripes: Range<u64>,
    pub(super) _rows: Vec<RowGuard<'a>>,
}

impl Shared {
    /// Fills one batch of the incoming member of `slot`.
    pub(super) async fn fill(
        &self,
        slot: MemberIndex,
        incoming: &Arc<Incoming>,
        stripes: Range<u64>,
    ) -> Result<Filled<'_>, ArrayError> {
        let rows = self.lock_stripes(stripes.clone()).await;
        let topology = self.topology.load_full();
        let content = match self.fill_at_once(&topology, slot, &stripes).await {
            Some(content) => content,
            None => self.fill_by_stripe(&topology, slot, &stripes).await?,
        };
        let start = self.member_range(&stripes).start;
        let written = incoming.member.write(start, smallvec![content.freeze()], WriteFlags::default()).await;
        if let Err(error) = written {
            self.fail_all(vec![(incoming.member.clone(), error)]).await?;
            return Err(ArrayError::Io { member: incoming.member.name().to_owned(), error });
        }
        Ok(Filled { stripes, _rows: rows })
    }

    /// The batch's content from one large read of each member. None if one of them failed.
    async fn fill_at_once(
        &self,
        topology: &Topology,
        slot: MemberIndex,
        stripes: &Range<u64>,
    ) -> Option<IoBuf> {
        let range = self.member_range(stripes);
        let len = (range.end - range.start) as usize;
        if let Some(primary) = &topology.slots[slot.0].primary {
            return primary.read(range.start, smallvec![IoBuf::with_len(len)]).await.into_one().ok();
        }
        let (chunks, failed) = self.read_chunks(topology, stripes.clone(), |member| member != slot).await;
        if !failed.is_empty() {
            return None;
        }
        let mut content = IoBuf::with_len(len);
        let chunk_bytes = self.geometry.chunk_bytes();
        for (stripe, out) in stripes.clone().map(StripeIndex).zip(content.chunks_mut(chunk_bytes)) {
            let column = |c: usize| chunks.of_member(stripe, self.geometry.member_of(stripe, c));
            let wanted = self.geometry.column_of(stripe, slot);
            let sources = Sources::choose(&self.geometry, wanted, |c| column(c).is_some())?;
            let read: Vec<&[u8]> = sources.read.iter().filter_map(|c| column(*c)).collect();
            recovery::solve(&self.geometry, wanted, &sources, &read, out);
        }
        Some(content)
    }

    /// The batch's content stripe by stripe, around blocks that cannot be read.
    async fn fill_by_stripe(
        &self,
        topology: &Topology,
        slot: MemberIndex,
        stripes: &Range<u64>,
    ) -> Result<IoBuf, ArrayError> {
        let range = self.member_range(stripes);
        let mut content = IoBuf::with_len((range.end - range.start) as usize);
        let chunk_bytes = self.geometry.chunk_bytes();
        for (stripe, out) in stripes.clone().map(StripeIndex).zip(content.chunks_mut(chunk_bytes)) {
            self.fill_chunk(topology, stripe, slot, out).await?;
        }
        Ok(content)
    }

    async fn fill_chunk(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        slot: MemberIndex,
        out: &mut [u8],
    ) -> Result<(), ArrayError> {
        if let Some(primary) = &topology.slots[slot.0].primary {
            let done =
                primary.read(self.geometry.chunk_start(stripe), smallvec![IoBuf::with_len(out.len())]).await;
            if let Ok(chunk) = done.into_one() {
                out.copy_from_slice(&chunk);
                return Ok(());
            }
        }
        self.recover_finely(stripe, self.geometry.column_of(stripe, slot), 0..out.len(), out).await
    }

    /// Writes down how far the incoming member has come, after making that durable on it.
    pub(super) async fn checkpoint(
        &self,
        slot: MemberIndex,
        incoming: &Arc<Incoming>,
    ) -> Result<(), ArrayError> {
        let done_stripes = incoming.done_stripes();
        self.flush_incoming(incoming).await?;
        let replacing = self.topology.load().slots[slot.0].primary.is_some();
        let done_sectors = self.sectors_before(StripeIndex(done_stripes));
        self.record(|ledger| {
            ledger.set_standing(&incoming.member, Standing::Incoming { slot, done_sectors, replacing });
        })
        .await
    }

    async fn flush_incoming(&self, incoming: &Arc<Incoming>) -> Result<(), ArrayError> {
        match incoming.member.device.flush().await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.fail_all(vec![(incoming.member.clone(), error)]).await?;
                Err(ArrayError::Io { member: incoming.member.name().to_owned(), error })
            }
        }
    }

    /// The incoming member is complete: it becomes the slot's member, durably, and a replaced one leaves.
    pub(super) async fn promote(
        &self,
        slot: MemberIndex,
        incoming: &Arc<Incoming>,
    ) -> Result<(), ArrayError> {
        self.flush_incoming(incoming).await?;
        let failed = {
            let mut ledger = self.ledger.lock().await;
            let topology = self.topology.load_full();
            let still_there = topology.slots[slot.0]
                .incoming
                .as_ref()
                .is_some_and(|current| Arc::ptr_eq(current, incoming));
            if !still_there {
                return Err(ArrayError::Io {
                    member: incoming.member.name().to_owned(),
                    error: stripewise_device::IoError::new(stripewise_device::IoErrorKind::Gone),
                });
            }
            let mut next = (*topology).clone();
            let replaced = next.slots[slot.0].primary.replace(incoming.member.clone());
            next.slots[slot.0].incoming = None;
            if let Some(replaced) = replaced {
                ledger.set_standing(&replaced, Standing::Faulty);
            }
            ledger.set_standing(&incoming.member, Standing::Active(slot));
            self.topology.store(Arc::new(next));
            ledger.write_all(self.env.wall_clock_us()).await
        };
        if !failed.is_empty() {
            self.fail_all(failed).await?;
        }
        if let Some(intent) = &self.intent {
            intent.rewrite(self).await;
        }
        Ok(())
    }
}
