//! The commonest small write: whole blocks of one column, with all the members there that it needs.
//!
//! Its plan is known without being drawn up. A read-modify-write reads the old blocks and their parity, and brings the
//! parity up to date; a reconstruct-write reads the other columns, and makes parity anew. Both write the column and
//! parity. Where members are done at once, as memory is, that halves the engine's own part of the work. Where they are
//! not, the plan is drawn up while they read, and everything goes on as usual.

use std::{ops::Range, sync::Arc};

use smallvec::{SmallVec, smallvec};
use stripewise_device::{
    IoBuf, IoFuture, SharedBuf,
    parts::{Part, within},
};
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
    plan::{Cycle, WriteSelection},
    rows::BLOCK_BYTES,
    stats::Cause,
    topology::{Member, Topology},
};

/// A write whose plan is known: who takes part, and where.
pub(super) struct ClosedForm<'t> {
    cycle: Cycle,
    /// The one that is written.
    column: usize,
    data_columns: usize,
    /// In each member's data.
    offset_bytes: u64,
    len: usize,
    rows: Range<usize>,
    data: &'t Arc<Member>,
    /// P, or P and Q.
    parity: SmallVec<[&'t Arc<Member>; 2]>,
    /// Of a reconstruct-write, who has the other data columns, in their order.
    others: SmallVec<[&'t Arc<Member>; 8]>,
}

/// What was read: the old blocks and their parity, or the other columns.
pub(super) type Old = SmallVec<[IoBuf; 8]>;

/// New parity.
type NewParity = SmallVec<[IoBuf; 2]>;

impl Shared {
    /// The write in closed form, if it has one.
    pub(super) fn closed_form<'t>(
        &self,
        topology: &'t Topology,
        selection: &dyn WriteSelection,
        span: &StripeSpan,
    ) -> Option<ClosedForm<'t>> {
        let geometry = &self.geometry;
        let (chunk_bytes, k) = (geometry.chunk_bytes(), geometry.data_columns());
        let (column, start) = (span.start / chunk_bytes, span.start % chunk_bytes);
        let is_of_blocks = (span.start | span.len).is_multiple_of(BLOCK_BYTES);
        if !geometry.has_parity() || !is_of_blocks || start + span.len > chunk_bytes || k < 2 {
            return None;
        }
        let is_rmw = selection.rule()?(1 + geometry.parity_columns() as u32, k as u32 - 1);
        if !self.is_trusted(span.stripe) || self.tracer.is_on() || mutants::any_lives() {
            return None;
        }
        let only_writer = |column| topology.only_writer(geometry, span.stripe, column);
        let others = (0..k).filter(|other| !is_rmw && *other != column).map(only_writer);
        Some(ClosedForm {
            cycle: if is_rmw { Cycle::Rmw } else { Cycle::Rcw },
            column,
            data_columns: k,
            offset_bytes: geometry.chunk_start(span.stripe) + start as u64,
            len: span.len,
            rows: start / BLOCK_BYTES..(start + span.len) / BLOCK_BYTES,
            data: only_writer(column)?,
            parity: (k..geometry.members()).map(only_writer).collect::<Option<_>>()?,
            others: others.collect::<Option<_>>()?,
        })
    }

    /// Computes parity, and asks for what is to be written.
    pub(super) fn request_closed_form<'t>(
        &self,
        form: &ClosedForm<'t>,
        write: StripeWrite,
        old: Old,
        writes: &mut Writes<'t>,
    ) {
        let StripeWrite { data, flags, .. } = write;
        let (class, parity) = match form.cycle {
            Cycle::Rmw => (IoClass::Rewrite, form.updated_parity(old, &data)),
            _ => (IoClass::Write, form.parity_anew(&old, &data)),
        };
        let rows = form.rows.len() as u64;
        self.stats.count_rows(form.cycle, rows);
        let bufs = std::iter::once(data).chain(parity.into_iter().map(SharedBuf::from));
        for (member, buf) in form.writers().zip(bufs) {
            member.stats.count_rows(form.cycle, rows);
            writes.requested.push(member.write_as(
                class,
                Cause::Client,
                form.offset_bytes,
                smallvec![buf],
                flags,
            ));
            writes.members.push(member);
        }
    }
}

impl<'t> ClosedForm<'t> {
    fn writers(&self) -> impl Iterator<Item = &'t Arc<Member>> {
        std::iter::once(self.data).chain(self.parity.iter().copied())
    }

    /// The columns that it reads, in the order in which the plan does.
    fn columns_read(&self) -> impl Iterator<Item = usize> {
        let k = self.data_columns;
        let is_rmw = self.cycle == Cycle::Rmw;
        (0..k + self.parity.len()).filter(move |column| {
            if is_rmw {
                *column == self.column || *column >= k
            } else {
                *column < k && *column != self.column
            }
        })
    }

    /// Asks for what it reads. None if that is not there at once: then the plan's reads are under way.
    pub(super) fn read(&self, reads: &mut Reads) -> Option<Old> {
        let mut ask = |member: &Member| {
            reads.requested.push(member.read(self.offset_bytes, smallvec![IoBuf::with_len(self.len)]));
        };
        match self.cycle {
            Cycle::Rmw => self.writers().for_each(|member| ask(member)),
            _ => self.others.iter().for_each(|member| ask(member)),
        }
        if !are_ready(&reads.requested, |done| done.result.is_ok()) {
            let planned = |column| PlannedRead { column, rows: self.rows.clone() };
            reads.planned = self.columns_read().map(planned).collect();
            return None;
        }
        let done = reads.requested.iter_mut().filter_map(IoFuture::take_ready);
        Some(done.filter_map(|done| done.into_one().ok()).collect())
    }

    /// Brings the old parity up to date.
    fn updated_parity(&self, old: Old, new: &[u8]) -> NewParity {
        let mut old = old.into_iter();
        let before = old.next().expect("the old blocks were read first");
        let mut parity: NewParity = old.collect();
        let _part = within(Part::Parity);
        match &mut parity[..] {
            [p] => parity::p_update(p, &before, new),
            [p, q] => parity::pq_update(p, q, self.column, &before, new),
            _ => unreachable!("levels have one or two parity columns"),
        }
        parity
    }

    /// Makes parity of the other columns and the new blocks.
    fn parity_anew(&self, others: &[IoBuf], new: &[u8]) -> NewParity {
        let mut data: SmallVec<[Option<&[u8]>; 8]> = others.iter().map(|other| Some(&other[..])).collect();
        data.insert(self.column, Some(new));
        let mut parity: NewParity = self.parity.iter().map(|_| IoBuf::with_len(self.len)).collect();
        let _part = within(Part::Parity);
        match &mut parity[..] {
            [p] => parity::p_gen(&data, p),
            [p, q] => parity::pq_gen(&data, p, q),
            _ => unreachable!("levels have one or two parity columns"),
        }
        parity
    }
}
