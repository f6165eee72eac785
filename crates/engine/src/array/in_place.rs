//! The commonest small write: whole blocks of one column, by read-modify-write, with all the members there that it needs.
//!
//! Its plan is known without being drawn up: read the old blocks and their parity, bring the parity up to date, write
//! both. Where members are done at once, as memory is, that halves the engine's own part of the work. Where they are not,
//! the plan is drawn up while they read, and everything goes on as usual.

use std::{ops::Range, sync::Arc};

use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, IoFuture, SharedBuf};
use stripewise_parity as parity;

use super::{
    Shared,
    wait::are_ready,
    write::{PlannedRead, Reads, StripeWrite, Writes},
};
use crate::{
    geometry::StripeSpan,
    meter::IoClass,
    mutants,
    plan::WriteSelection,
    rows::BLOCK_BYTES,
    stats::Cause,
    topology::{Member, Topology},
};

/// A write whose plan is known: who takes part, and where.
pub(super) struct InPlace<'t> {
    column: usize,
    data_columns: usize,
    /// In each member's data.
    offset_bytes: u64,
    len: usize,
    rows: Range<usize>,
    data: &'t Arc<Member>,
    /// P, or P and Q.
    parity: SmallVec<[&'t Arc<Member>; 2]>,
}

/// Old blocks, and their parity.
pub(super) struct Old {
    data: IoBuf,
    parity: SmallVec<[IoBuf; 2]>,
}

impl Shared {
    /// The write as one in place, if it is one.
    pub(super) fn in_place<'t>(
        &self,
        topology: &'t Topology,
        selection: &dyn WriteSelection,
        span: &StripeSpan,
    ) -> Option<InPlace<'t>> {
        let geometry = &self.geometry;
        let (chunk_bytes, k) = (geometry.chunk_bytes(), geometry.data_columns());
        let (column, start) = (span.start / chunk_bytes, span.start % chunk_bytes);
        let is_of_blocks = (span.start | span.len).is_multiple_of(BLOCK_BYTES);
        if !geometry.has_parity() || !is_of_blocks || start + span.len > chunk_bytes || k < 2 {
            return None;
        }
        let is_rmw = selection.rule()?(1 + geometry.parity_columns() as u32, k as u32 - 1);
        if !is_rmw || !self.is_trusted(span.stripe) || self.tracer.is_on() || mutants::any_lives() {
            return None;
        }
        let parity =
            (k..geometry.members()).map(|column| topology.only_writer(geometry, span.stripe, column));
        Some(InPlace {
            column,
            data_columns: k,
            offset_bytes: geometry.chunk_start(span.stripe) + start as u64,
            len: span.len,
            rows: start / BLOCK_BYTES..(start + span.len) / BLOCK_BYTES,
            data: topology.only_writer(geometry, span.stripe, column)?,
            parity: parity.collect::<Option<_>>()?,
        })
    }

    /// Counts it as its plan would be.
    fn count_in_place(&self, write: &InPlace<'_>) {
        let rows = write.rows.len() as u64;
        self.stats.count_rmw(rows);
        write.members().for_each(|member| member.stats.count_rmw(rows));
    }

    /// Brings parity up to date, and asks for what is to be written.
    pub(super) fn request_in_place<'t>(
        &self,
        in_place: &InPlace<'t>,
        write: StripeWrite,
        old: Old,
        writes: &mut Writes<'t>,
    ) {
        self.count_in_place(in_place);
        let StripeWrite { data, flags, .. } = write;
        let Old { data: old, mut parity } = old;
        match &mut parity[..] {
            [p] => parity::p_update(p, &old, &data),
            [p, q] => parity::pq_update(p, q, in_place.column, &old, &data),
            _ => unreachable!("levels have one or two parity columns"),
        }
        let bufs = std::iter::once(data).chain(parity.into_iter().map(SharedBuf::from));
        for (member, buf) in in_place.members().zip(bufs) {
            let (class, cause) = (IoClass::Rewrite, Cause::Client);
            let io = member.write_as(class, cause, in_place.offset_bytes, smallvec![buf], flags);
            writes.requested.push(io);
            writes.members.push(member);
        }
    }
}

impl<'t> InPlace<'t> {
    fn members(&self) -> impl Iterator<Item = &'t Arc<Member>> {
        std::iter::once(self.data).chain(self.parity.iter().copied())
    }

    /// Asks for the old blocks, and their parity. None if they are not there at once: then the plan's reads are under way.
    pub(super) fn read(&self, reads: &mut Reads) -> Option<Old> {
        for member in self.members() {
            reads.requested.push(member.read(self.offset_bytes, smallvec![IoBuf::with_len(self.len)]));
        }
        if !are_ready(&reads.requested, |done| done.result.is_ok()) {
            reads.planned = self.planned_reads();
            return None;
        }
        let done = reads.requested.iter_mut().filter_map(IoFuture::take_ready);
        let mut bufs = done.filter_map(|done| done.into_one().ok());
        let data = bufs.next().expect("all were read well");
        Some(Old { data, parity: bufs.collect() })
    }

    /// The reads as the plan has them.
    fn planned_reads(&self) -> SmallVec<[PlannedRead; 8]> {
        let parity = self.data_columns..self.data_columns + self.parity.len();
        let columns = std::iter::once(self.column).chain(parity);
        columns.map(|column| PlannedRead { column, rows: self.rows.clone() }).collect()
    }
}
