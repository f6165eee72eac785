//! Walks the stripes in batches. The rows of a batch are locked, and its chunks are read with one large read
//! per member.

use std::{collections::BTreeMap, ops::Range};

use smallvec::smallvec;
use stripewise_device::{IoBuf, IoError, IoErrorKind};
use stripewise_format::extension::MemberClass;

use super::{Jobs, Tuning};
use crate::{
    compute::recovery::Columns,
    members::{meter::IoClass, stats::Cause, topology::Topology},
    plan::Recipe,
    shape::{
        geometry::{Geometry, MemberIndex, StripeIndex},
        rows::{BLOCK_BYTES, RowSet},
    },
};

/// How stripes are cut into batches. At least three are in flight: one is read while another is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batching {
    /// Bytes of each member read at once.
    member_bytes: u64,
    pub(super) in_flight: usize,
}

impl Batching {
    /// The batching that suits these members.
    pub(super) fn of(tuning: &Tuning, topology: &Topology, chunk_bytes: usize) -> Self {
        let bytes = if is_flash(topology) { tuning.flash_batch_bytes } else { tuning.disk_batch_bytes };
        Self::new(tuning, bytes, chunk_bytes as u64)
    }

    /// Batches of this many bytes of each member, or of one stripe if that is more.
    fn new(tuning: &Tuning, bytes: u64, chunk_bytes: u64) -> Self {
        let member_bytes = bytes.max(chunk_bytes);
        Self { member_bytes, in_flight: (tuning.in_flight_bytes / member_bytes).max(3) as usize }
    }

    /// Cuts stripes into batches.
    pub(super) fn cut(self, stripes: Range<u64>, chunk_bytes: usize) -> impl Iterator<Item = Range<u64>> {
        let step = self.member_bytes / chunk_bytes as u64;
        let end = stripes.end;
        stripes.step_by(step as usize).map(move |start| start..(start + step).min(end))
    }
}

/// Whether all members, including those being filled, are known to be flash.
pub(super) fn is_flash(topology: &Topology) -> bool {
    topology.members().all(|member| member.class() == MemberClass::Ssd)
}

/// Chunks of consecutive stripes, by member. Members that are missing, not wanted or unreadable have none.
pub(super) struct Chunks {
    chunk_bytes: usize,
    members: Vec<Option<Run>>,
}

/// Consecutive chunks of one member.
struct Run {
    stripes: Range<u64>,
    content: IoBuf,
}

impl Chunks {
    /// A member's chunk of a stripe.
    pub(super) fn of_member(&self, stripe: StripeIndex, member: MemberIndex) -> Option<&[u8]> {
        let run = self.members[member.0].as_ref().filter(|run| run.stripes.contains(&stripe.0))?;
        let start = (stripe.0 - run.stripes.start) as usize * self.chunk_bytes;
        Some(&run.content[start..run.content.len().min(start + self.chunk_bytes)])
    }

    /// What a recipe reads of a stripe, by column.
    pub(super) fn read_by(&self, geometry: &Geometry, stripe: StripeIndex, recipe: &Recipe) -> Columns<'_> {
        let mut columns: Columns<'_> = smallvec![None; geometry.members()];
        for column in recipe.reads.iter().map(|cells| usize::from(cells.column)) {
            columns[column] = self.of_member(stripe, geometry.member_of(stripe, column));
        }
        columns
    }
}

/// Blocks of one stripe that cannot be read, by row.
#[derive(Debug, Default)]
pub(super) struct UnreadRows {
    /// For each row with such blocks: how many of them a bad-block log lists as lost.
    listed: BTreeMap<usize, usize>,
}

impl UnreadRows {
    fn add(&mut self, row: usize, error: IoError) {
        *self.listed.entry(row).or_default() += usize::from(error.kind == IoErrorKind::BadBlock);
    }

    /// The rows in which some block cannot be read.
    pub(super) fn rows(&self) -> RowSet {
        self.rows_in_which(|_| true)
    }

    /// The rows in which more blocks are listed than may be lost. They cannot be made to agree, whatever can
    /// be read later.
    pub(super) fn lost_for_good(&self, may_be_lost: usize) -> RowSet {
        self.rows_in_which(|listed| listed > may_be_lost)
    }

    fn rows_in_which(&self, is_meant: impl Fn(usize) -> bool) -> RowSet {
        let rows = self.listed.iter().filter(|(_, listed)| is_meant(**listed));
        rows.fold(RowSet::EMPTY, |all, (row, _)| all | RowSet::range(*row..row + 1))
    }
}

impl Jobs {
    /// Reads chunks of consecutive stripes, all at once. Each member gets one read, from its first wanted
    /// chunk to its last, with the unwanted chunks between. Also returns the errors of members that failed,
    /// by role.
    pub(super) async fn read_chunks(
        &self,
        topology: &Topology,
        stripes: Range<u64>,
        is_wanted: impl Fn(StripeIndex, MemberIndex) -> bool,
    ) -> (Chunks, Vec<(MemberIndex, IoError)>) {
        let reads: Vec<_> = (0..topology.geometry.members())
            .map(|member| {
                let primary = topology.slots[member].primary.as_ref()?;
                let mut wanted =
                    stripes.clone().filter(|stripe| is_wanted(StripeIndex(*stripe), MemberIndex(member)));
                let first = wanted.next()?;
                let run = first..wanted.last().unwrap_or(first) + 1;
                let range = topology.geometry.member_range(&run);
                let into = smallvec![IoBuf::with_len((range.end - range.start) as usize)];
                Some((run, primary.read_as(IoClass::Other, Cause::Job, range.start, into)))
            })
            .collect();
        let mut members = Vec::with_capacity(reads.len());
        let mut failed = Vec::new();
        for (member, read) in reads.into_iter().enumerate() {
            let Some((stripes, read)) = read else {
                members.push(None);
                continue;
            };
            let content = read.await.into_one();
            failed.extend(content.as_ref().err().map(|error| (MemberIndex(member), *error)));
            members.push(content.ok().map(|content| Run { stripes, content }));
        }
        (Chunks { chunk_bytes: topology.geometry.chunk_bytes(), members }, failed)
    }

    /// Reads the chunks of some members in a stripe block by block into `chunks`. An unreadable block is
    /// reported; what is there then is arbitrary.
    pub(super) async fn read_blocks(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        of_members: &[MemberIndex],
        chunks: &mut Chunks,
    ) -> UnreadRows {
        let (start, len) = (topology.geometry.chunk_start(stripe), topology.geometry.chunk_len(stripe));
        let mut unread = UnreadRows::default();
        for member in of_members {
            let Some(primary) = &topology.slots[member.0].primary else { continue };
            let mut content = IoBuf::with_len(len);
            for (row, block) in content.chunks_mut(BLOCK_BYTES).enumerate() {
                let at = start + (row * BLOCK_BYTES) as u64;
                let into = smallvec![IoBuf::with_len(block.len())];
                match primary.read_as(IoClass::Other, Cause::Job, at, into).await.into_one() {
                    Ok(read) => block.copy_from_slice(&read),
                    Err(error) => unread.add(row, error),
                }
            }
            chunks.members[member.0] = Some(Run { stripes: stripe.0..stripe.0 + 1, content });
        }
        unread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_chunks_of_its_stripes_and_no_others() {
        let content = IoBuf::copy_of(&[[1; 8], [2; 8]].concat()[..13]);
        let chunks = Chunks { chunk_bytes: 8, members: vec![None, Some(Run { stripes: 5..7, content })] };
        let of = |member, stripe| chunks.of_member(StripeIndex(stripe), MemberIndex(member));
        assert_eq!([4, 7, 8].map(|stripe| of(1, stripe)), [None; 3]);
        assert_eq!((of(1, 5), of(1, 6), of(0, 5)), (Some(&[1; 8][..]), Some(&[2; 5][..]), None));
    }

    #[test]
    fn as_much_is_on_its_way_whatever_the_chunk() {
        const TUNING: Tuning = Tuning::PRODUCTION;
        let batching = |bytes: u64, chunk_kib: u64| Batching::new(&TUNING, bytes, chunk_kib << 10);
        let in_flight = |bytes: u64, chunk_kib: u64| batching(bytes, chunk_kib).in_flight;
        assert_eq!(
            [4, 64, 128, 256, 512, 1024, 4096].map(|kib| in_flight(TUNING.flash_batch_bytes, kib)),
            [24, 24, 24, 12, 6, 3, 3]
        );
        assert_eq!([4, 64, 1024, 4096].map(|kib| in_flight(TUNING.disk_batch_bytes, kib)), [3, 3, 3, 3]);
        let cut: Vec<_> = batching(TUNING.flash_batch_bytes, 64).cut(3..8, 64 << 10).collect();
        assert_eq!(cut, [3..5, 5..7, 7..8]);
        let long: Vec<_> = batching(TUNING.flash_batch_bytes, 1 << 10).cut(0..2, 1 << 20).collect();
        assert_eq!(long, [0..1, 1..2]);
    }
}
