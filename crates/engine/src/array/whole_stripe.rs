//! A write of a whole stripe all of whose members are there: nothing is read, parity is made of what is new, and everybody is
//! written. As with small writes ([`closed_form`](super::closed_form)), that needs no plan.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, WriteFlags};

use super::{Shared, closed_form::generate_parity, settle::Writes, write::StripeWrite};
use crate::{
    geometry::StripeSpan,
    meter::IoClass,
    mutants::{Mutant, lives, one_of_plans_lives},
    plan::Cycle,
    rows::BLOCK_BYTES,
    stats::Cause,
    topology::{Member, Topology},
};

/// Who has the columns of a stripe, data and then parity.
pub(super) type ColumnMembers<'t> = SmallVec<[&'t Arc<Member>; 8]>;

impl Shared {
    /// Who is written, if it is a whole stripe and nobody is missing.
    #[inline]
    pub(super) fn whole_stripe<'t>(
        &self,
        topology: &'t Topology,
        span: &StripeSpan,
    ) -> Option<ColumnMembers<'t>> {
        let geometry = &self.geometry;
        let is_whole = span.len as u64 == geometry.stripe_bytes() && geometry.has_parity();
        if !is_whole || self.tracer.is_on() || one_of_plans_lives() {
            return None;
        }
        (0..geometry.members()).map(|column| topology.only_writer(geometry, span.stripe, column)).collect()
    }

    /// Makes parity, and asks for what is to be written.
    pub(super) fn request_whole_stripe<'t>(
        &self,
        columns: ColumnMembers<'t>,
        write: StripeWrite,
        writes: &mut Writes<'t>,
    ) {
        let StripeWrite { span, data, flags } = write;
        let flags = if lives(Mutant::WholeStripeFuaForgotten) { WriteFlags::default() } else { flags };
        let (chunk_bytes, data_columns) = (self.geometry.chunk_bytes(), self.geometry.data_columns());
        let (offset_bytes, rows) =
            (self.geometry.chunk_start(span.stripe), (chunk_bytes / BLOCK_BYTES) as u64);
        let mut parity: SmallVec<[IoBuf; 2]> =
            columns[data_columns..].iter().map(|_| IoBuf::with_len(chunk_bytes)).collect();
        let mut new: SmallVec<[Option<&[u8]>; 8]> = data.chunks_exact(chunk_bytes).map(Some).collect();
        if lives(Mutant::WholeStripeColumnForgotten) {
            new.last_mut().into_iter().for_each(|last| *last = None);
        }
        generate_parity(&new, &mut parity);
        self.stats.count_whole_stripe(rows);
        let chunks =
            (0..data_columns).map(|column| data.slice(column * chunk_bytes..(column + 1) * chunk_bytes));
        for (member, chunk) in columns.iter().zip(chunks.chain(parity.into_iter().map(IoBuf::freeze))) {
            member.stats.count_rows(Cycle::Full, rows);
            let request =
                member.write_as(IoClass::Write, Cause::Client, offset_bytes, smallvec![chunk], flags);
            writes.requested.push(request);
        }
        writes.members = columns;
    }
}
