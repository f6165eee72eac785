//! The commonest small write: whole blocks of one column.
//!
//! Its plan is known without being drawn up. A read-modify-write reads the old blocks and their parity, and brings the
//! parity up to date; a reconstruct-write reads the other columns, and makes parity anew. Both write the column and
//! parity. What of that is on a missing member is left out, as long as one way is left. That halves the engine's own part of
//! the work where members are done at once, as memory is. If something cannot be read, the write is planned as any other.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use stripewise_device::{
    IoBuf, IoError, IoFuture, ReadDone, WriteFlags,
    parts::{Part, within},
};
use stripewise_parity as parity;

use super::{
    Shared,
    selection::StripeCosts,
    settle::Writes,
    wait::{Few, Requested, failures, wait_all},
    write::{StripeWrite, Unreadable},
};
use crate::{
    error::ArrayError,
    geometry::StripeSpan,
    meter::IoClass,
    mutants::{Mutant, lives, one_of_plans_lives},
    plan::{
        Cycle, WriteSelection,
        selection::{OneColumn, cycle_by},
    },
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
    /// Nobody, if its member is missing.
    data: Option<&'t Arc<Member>>,
    /// P, or P and Q, as far as they are there.
    parity: SmallVec<[&'t Arc<Member>; 2]>,
    /// Whether what there is of parity is Q.
    is_q_alone: bool,
    /// Of a reconstruct-write, who has the other data columns, in their order.
    others: SmallVec<[&'t Arc<Member>; 8]>,
}

/// A write in closed form that is under way.
pub(super) struct Formed {
    span: StripeSpan,
    /// None once it was taken.
    write: Option<StripeWrite>,
    topology: Arc<Topology>,
    cycle: Cycle,
    reads: Few<ReadDone>,
    writes: Few<Result<(), IoError>>,
}

/// What was read, the old blocks and their parity, or the other columns; then the new parity that is made of it. Filled in its
/// place, as it is large to be moved.
pub(super) type Content = SmallVec<[IoBuf; 8]>;

impl Shared {
    /// The write in closed form, if it has one.
    pub(super) fn closed_form<'t>(
        &self,
        topology: &'t Topology,
        selection: &dyn WriteSelection,
        span: &StripeSpan,
    ) -> Option<ClosedForm<'t>> {
        let geometry = &self.geometry;
        let (chunk_bytes, data_columns) = (geometry.chunk_bytes(), geometry.data_columns());
        let start = span.start % chunk_bytes;
        let is_of_blocks = (span.start | span.len).is_multiple_of(BLOCK_BYTES);
        if !geometry.has_parity() || !is_of_blocks || start + span.len > chunk_bytes || data_columns < 2 {
            return None;
        }
        if !self.is_trusted(span.stripe) || self.tracer.is_on() || one_of_plans_lives() {
            return None;
        }
        let parity_columns = geometry.parity_columns();
        let one = OneColumn {
            column: span.start / chunk_bytes,
            data_columns,
            parity_columns,
            rows: start / BLOCK_BYTES..(start + span.len) / BLOCK_BYTES,
        };
        let holder = |column| topology.only_holder(geometry, span.stripe, column);
        let data = holder(one.column)?;
        let mut parity_lost = 0;
        for column in data_columns..geometry.members() {
            parity_lost += usize::from(holder(column)?.is_none());
        }
        let cycle = match (data, parity_columns - parity_lost) {
            (None, 0) => return None,
            (None, _) => Cycle::Rcw,
            (Some(_), 0) => Cycle::Direct,
            (Some(_), _) => match selection.rule() {
                Some(rule) => cycle_by(rule, one.counts_without(parity_lost)),
                None if !topology.is_whole() => return None,
                None => {
                    selection.of_one_column(&one, &StripeCosts { topology, geometry, stripe: span.stripe })?
                }
            },
        };
        self.formed_by(cycle, topology, span)
    }

    /// The write in closed form by a cycle, or by RMW if RCW cannot read all that it needs.
    fn formed_by<'t>(
        &self,
        cycle: Cycle,
        topology: &'t Topology,
        span: &StripeSpan,
    ) -> Option<ClosedForm<'t>> {
        let geometry = &self.geometry;
        let (chunk_bytes, data_columns) = (geometry.chunk_bytes(), geometry.data_columns());
        let (column, start) = (span.start / chunk_bytes, span.start % chunk_bytes);
        let holder = |column| topology.only_holder(geometry, span.stripe, column);
        let mut form = ClosedForm {
            cycle,
            column,
            data_columns,
            offset_bytes: geometry.chunk_start(span.stripe) + start as u64,
            len: span.len,
            data: holder(column)?,
            parity: SmallVec::new(),
            is_q_alone: false,
            others: SmallVec::new(),
        };
        for column in data_columns..geometry.members() {
            match holder(column)? {
                Some(member) => form.parity.push(member),
                None => form.is_q_alone = column == data_columns,
            }
        }
        if cycle == Cycle::Rcw {
            for other in (0..data_columns).filter(|other| *other != column) {
                form.others.extend(holder(other)?);
            }
            let can_read_others = form.others.len() == data_columns - 1;
            if !can_read_others && form.data.is_none() {
                return None;
            }
            if !can_read_others {
                form.cycle = Cycle::Rmw;
            }
        }
        Some(form)
    }

    /// The form of a write that is under way: kept, it would take room in the task.
    fn formed_again<'t>(&self, cycle: Cycle, topology: &'t Topology, span: &StripeSpan) -> ClosedForm<'t> {
        self.formed_by(cycle, topology, span).expect("it had this form when it began")
    }

    /// Goes on with a write whose reads are under way, to its end. The caller holds its rows and its region.
    pub(super) async fn finish_formed(&self, mut formed: Box<Formed>) -> Result<(), ArrayError> {
        wait_all(&mut formed.reads, self.is_metered()).await;
        if let Err((write, failed)) = self.write_formed(&mut formed) {
            // In a box: rarely wanted, and large.
            return Box::pin(self.plan_around(write, &formed.topology, failed)).await;
        }
        let Formed { span, topology, cycle, writes, .. } = &mut *formed;
        // Who wrote what is asked when it is done: until then it would take room in the task.
        wait_all(writes, self.is_metered()).await;
        let failed = failures(self.formed_again(*cycle, topology, span).writers(), writes);
        self.settle(topology, failed).await
    }

    /// Asks for what a write in closed form writes, once its reads are done; else gives the write back, with the columns that
    /// could not be read.
    fn write_formed(&self, formed: &mut Formed) -> Result<(), (StripeWrite, Vec<(usize, IoError)>)> {
        let Formed { span, write, topology, cycle, reads, writes } = formed;
        let form = self.formed_again(*cycle, topology, span);
        let write = write.take().expect("it is written once");
        let mut content = Content::new();
        if let Err(failed) = form.take(reads, &mut content) {
            return Err((write, failed));
        }
        let mut asked = Writes::default();
        self.request_closed_form(&form, write, &mut content, &mut asked);
        *writes = asked.requested.drain(..).collect();
        Ok(())
    }

    /// Plans a write some of whose reads failed.
    async fn plan_around(
        &self,
        write: StripeWrite,
        topology: &Topology,
        failed: Vec<(usize, IoError)>,
    ) -> Result<(), ArrayError> {
        let mut unreadable = Unreadable::new();
        self.note_unreadable(topology, write.span.stripe, failed, &mut unreadable).await;
        self.write_planned(write, None, unreadable).await
    }

    /// Computes parity, and asks for what is to be written.
    pub(super) fn request_closed_form<'t>(
        &self,
        form: &ClosedForm<'t>,
        write: StripeWrite,
        content: &mut Content,
        writes: &mut Writes<'t>,
    ) {
        let StripeWrite { data, flags, .. } = write;
        let flags = if lives(Mutant::FormedFuaForgotten) { WriteFlags::default() } else { flags };
        let class = match form.cycle {
            Cycle::Rmw => {
                form.update_parity(content, &data);
                IoClass::Rewrite
            }
            Cycle::Rcw => {
                form.make_parity_anew(content, &data);
                IoClass::Write
            }
            _ => IoClass::Write,
        };
        let rows = (form.len / BLOCK_BYTES) as u64;
        self.stats.count_rows(form.cycle, rows);
        let mut ask = |member: &'t Arc<Member>, buf| {
            member.stats.count_rows(form.cycle, rows);
            let at = form.offset_bytes;
            writes.requested.push(member.write_as(class, Cause::Client, at, smallvec![buf], flags));
            writes.members.push(member);
        };
        if let Some(member) = form.data {
            ask(member, data);
        }
        form.parity.iter().zip(content.drain(..)).for_each(|(member, parity)| ask(member, parity.into()));
    }
}

impl<'t> ClosedForm<'t> {
    fn writers(&self) -> impl Iterator<Item = &'t Arc<Member>> {
        self.data.into_iter().chain(self.parity.iter().copied())
    }

    /// The columns that it reads, in the order in which the plan does.
    fn columns_read(&self) -> impl Iterator<Item = usize> {
        let k = self.data_columns;
        let first_parity = k + usize::from(self.is_q_alone);
        let (data, parity) = match self.cycle {
            Cycle::Rmw => (self.column..self.column + 1, first_parity..first_parity + self.parity.len()),
            Cycle::Rcw => (0..k, 0..0),
            _ => (0..0, 0..0),
        };
        data.filter(|column| self.cycle == Cycle::Rmw || *column != self.column).chain(parity)
    }

    /// Asks for what it reads.
    pub(super) fn ask(&self, requested: &mut Requested<ReadDone>) {
        let mut ask = |member: &Member| {
            requested.push(member.read(self.offset_bytes, smallvec![IoBuf::with_len(self.len)]));
        };
        match self.cycle {
            Cycle::Rmw => self.writers().for_each(|member| ask(member)),
            // None, if no parity is left.
            _ => self.others.iter().for_each(|member| ask(member)),
        }
    }

    /// Takes what was read, once all is done; else gives the columns that could not be read.
    pub(super) fn take(
        &self,
        requested: &mut [IoFuture<ReadDone>],
        content: &mut Content,
    ) -> Result<(), Vec<(usize, IoError)>> {
        let mut failed = Vec::new();
        for (io, column) in requested.iter_mut().zip(self.columns_read()) {
            match io.take_ready().expect("all is done").into_one() {
                Ok(buf) => content.push(buf),
                Err(error) => failed.push((column, error)),
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// Its reads are under way: what is needed to go on with it.
    pub(super) fn pending(
        self,
        write: StripeWrite,
        topology: Arc<Topology>,
        requested: &mut Requested<ReadDone>,
    ) -> Box<Formed> {
        let (span, cycle, writes) = (write.span, self.cycle, Few::new());
        let reads = requested.drain(..).collect();
        Box::new(Formed { span, write: Some(write), topology, cycle, reads, writes })
    }

    fn is_q_alone(&self) -> bool {
        self.is_q_alone && !lives(Mutant::FormedQTakenForP)
    }

    /// Brings the old parity up to date, which alone stays.
    fn update_parity(&self, content: &mut Content, new: &[u8]) {
        let part = within(Part::Parity);
        let is_wrong =
            lives(Mutant::FormedWrongQCoefficient) || lives(Mutant::FarColumnInQ) && self.column > 4;
        let column = self.column + usize::from(is_wrong);
        match &mut content[..] {
            _ if lives(Mutant::FormedParityNotUpdated) => {}
            [old, q] if self.is_q_alone() => parity::q_update(q, column, old, new),
            [old, p] => parity::p_update(p, old, new),
            [old, p, q] => parity::pq_update(p, q, column, old, new),
            _ => unreachable!("what was read is old blocks, and one or two parity columns"),
        }
        drop(part);
        content.remove(0);
    }

    /// Makes parity of the other columns and the new blocks, and leaves it in their place.
    fn make_parity_anew(&self, content: &mut Content, new: &[u8]) {
        let mut made: SmallVec<[IoBuf; 2]> = self.parity.iter().map(|_| IoBuf::with_len(self.len)).collect();
        let mut data: SmallVec<[Option<&[u8]>; 8]> = content.iter().map(|other| Some(&other[..])).collect();
        if lives(Mutant::FormedColumnForgotten) {
            data.last_mut().into_iter().for_each(|last| *last = None);
        }
        data.insert(self.column, Some(new));
        match &mut made[..] {
            [q] if self.is_q_alone() => generate_q(&data, q),
            _ => generate_parity(&data, &mut made),
        }
        drop(data);
        content.clear();
        content.extend(made);
    }
}

fn generate_q(data: &[Option<&[u8]>], q: &mut [u8]) {
    let _part = within(Part::Parity);
    parity::q_gen(data, q);
}

/// Makes P, or P and Q, of all data columns.
pub(super) fn generate_parity(data: &[Option<&[u8]>], parity: &mut [IoBuf]) {
    let _part = within(Part::Parity);
    match parity {
        [p] => parity::p_gen(data, p),
        [p, q] => parity::pq_gen(data, p, q),
        _ => unreachable!("levels have one or two parity columns"),
    }
}
