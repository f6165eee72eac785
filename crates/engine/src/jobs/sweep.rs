//! Walking the stripes in batches: the rows of a batch are locked, its chunks read with one large read a member.

use std::{ops::Range, sync::Arc};

use smallvec::smallvec;
use stripewise_device::{IoBuf, IoError};
use stripewise_format::extension::MemberClass;

use crate::{
    array::Shared,
    geometry::{MemberIndex, StripeIndex},
    locks::RowGuard,
    meter::IoClass,
    rows::RowSet,
    topology::{Member, Topology},
};

/// How stripes are cut into batches. What is on its way is the same, 3 MiB of each member: one batch being read while
/// another is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batching {
    /// Bytes of each member read at once.
    member_bytes: u64,
    pub(super) in_flight: usize,
}

impl Batching {
    /// Large enough that a disk streams, small enough that clients who want these rows do not wait long (1 MiB at
    /// 150 MB/s: 7 ms).
    const ROTATING: Self = Self { member_bytes: 1 << 20, in_flight: 3 };
    /// Where nothing rotates small requests are as good, and what is read is still in the processor's cache when parity is
    /// computed.
    const FLASH: Self = Self { member_bytes: 128 << 10, in_flight: 24 };

    /// What suits these members.
    pub(super) fn of(topology: &Topology) -> Self {
        let is_flash = |member: &Arc<Member>| member.class() == MemberClass::Ssd;
        if topology.members().all(is_flash) { Self::FLASH } else { Self::ROTATING }
    }

    /// Cuts stripes into batches.
    pub(super) fn cut(self, stripes: Range<u64>, chunk_bytes: usize) -> impl Iterator<Item = Range<u64>> {
        let step = (self.member_bytes / chunk_bytes as u64).max(1);
        let end = stripes.end;
        stripes.step_by(step as usize).map(move |start| start..(start + step).min(end))
    }
}

/// The chunks of some consecutive stripes, by member; members that are missing or could not be read have none.
pub(super) struct Chunks {
    pub(super) stripes: Range<u64>,
    chunk_bytes: usize,
    bufs: Vec<Option<IoBuf>>,
}

impl Chunks {
    /// A member's chunk of a stripe.
    pub(super) fn of_member(&self, stripe: StripeIndex, member: MemberIndex) -> Option<&[u8]> {
        let start = (stripe.0 - self.stripes.start) as usize * self.chunk_bytes;
        let buf = self.bufs[member.0].as_ref()?;
        Some(&buf[start..buf.len().min(start + self.chunk_bytes)])
    }
}

impl Shared {
    /// Locks all rows of some stripes.
    pub(super) async fn lock_stripes(&self, stripes: Range<u64>) -> Vec<RowGuard<'_>> {
        let mut guards = Vec::with_capacity((stripes.end - stripes.start) as usize);
        for stripe in stripes.map(StripeIndex) {
            let rows = RowSet::touching(0..self.geometry.chunk_len(stripe));
            guards.push(self.locks.lock(stripe, rows).await);
        }
        guards
    }

    /// Where the chunks of some consecutive stripes lie on each member.
    pub(crate) fn member_range(&self, stripes: &Range<u64>) -> Range<u64> {
        let start = self.geometry.chunk_start(StripeIndex(stripes.start));
        let last = StripeIndex(stripes.end - 1);
        start..self.geometry.chunk_start(last) + self.geometry.chunk_len(last) as u64
    }

    /// Reads the chunks of some consecutive stripes from every member for which `wanted`, all at once. Members that
    /// fail come back as errors, by role.
    pub(super) async fn read_chunks(
        &self,
        topology: &Topology,
        stripes: Range<u64>,
        wanted: impl Fn(MemberIndex) -> bool,
    ) -> (Chunks, Vec<(MemberIndex, IoError)>) {
        let range = self.member_range(&stripes);
        let len = (range.end - range.start) as usize;
        let reads: Vec<_> = (0..self.geometry.members())
            .map(|member| {
                let primary =
                    topology.slots[member].primary.as_ref().filter(|_| wanted(MemberIndex(member)))?;
                Some(primary.read_as(IoClass::Other, range.start, smallvec![IoBuf::with_len(len)]))
            })
            .collect();
        let mut bufs = Vec::with_capacity(reads.len());
        let mut failed = Vec::new();
        for (member, read) in reads.into_iter().enumerate() {
            let result = match read {
                None => None,
                Some(read) => Some(read.await.into_one()),
            };
            bufs.push(match result {
                Some(Err(error)) => {
                    failed.push((MemberIndex(member), error));
                    None
                }
                Some(Ok(buf)) => Some(buf),
                None => None,
            });
        }
        (Chunks { stripes, chunk_bytes: self.geometry.chunk_bytes(), bufs }, failed)
    }
}
