//! A solid-state drive: dies behind channels, a translation layer that collects garbage, a write buffer.
//!
//! What is modelled: firmware and interface time, queue depth, dies and channels with the times of reading,
//! programming and erasing, a page-mapped translation layer with over-provisioning, greedy collection in each
//! die, separate write points for the host and for collection, wear, a write buffer that acknowledges early,
//! FUA, flush and discard, reads from the buffer, read-modify-write of parts of a unit. Planes are folded
//! into the page (see [`SsdParams`]).
//!
//! What is not: compression, cells used for fewer bits as a cache, programs suspended for reads, the map's
//! own writes and lookups, read disturb, bad blocks and retries, moving cold data for the sake of wear,
//! collection while idle. The wire carries one direction at a time, as SATA does; PCIe carries both. Data
//! written over a unit that is still in the buffer takes part in that unit's program even if it is not over
//! the wire when that begins. Discarding takes the firmware's time only.
//!
//! Data stays in the buffer until there is enough for a program, unless a flush or FUA write waits for some
//! of it: then that goes out with what waits beside it, and with padding.

mod accept;
mod blocks;
mod buffer;
mod counters;
mod flash;
mod ftl;
mod params;
mod presets;
#[cfg(test)]
mod tests;
mod work;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

pub use params::{SsdParams, UNIT_BYTES};
use slab::Slab;
use stripewise_device::{MediaKind, Timestamp};

use self::{
    accept::{Incoming, Underway},
    buffer::Buffer,
    counters::Counters,
    flash::Flash,
    ftl::Ftl,
};
use super::{
    DiskModel, ModelCounters, ModelRequest, SECTOR_BYTES,
    drive::{self, Commands, Drive},
    epochs::Flush,
    host::Host,
};

/// A solid-state drive.
pub struct Ssd {
    params: SsdParams,
    host: Host,
    ftl: Ftl,
    flash: Flash,
    buffer: Buffer,
    commands: Commands,
    /// Accepted writes for all or part of which the buffer has no room yet.
    without_room: VecDeque<Incoming>,
    /// Accepted requests that wait for dies.
    underway: Slab<Underway>,
    /// In the order they came.
    flushes: VecDeque<Flush>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    next_order: u64,
    counters: Counters,
}

/// Something that happens in the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A die's job is over.
    DieDone(u32),
    /// The firmware has understood a read.
    ReadReady(u32),
    /// So many units have come into the buffer.
    Arrived(u32),
}

impl Ssd {
    /// A drive that is idle and has never been written.
    ///
    /// # Panics
    /// If the parameters contradict one another.
    pub fn new(params: SsdParams) -> Self {
        params.check();
        Self {
            host: Host::new(params.command_ns, params.status_ns, params.interface_bytes_per_s),
            ftl: Ftl::new(&params),
            flash: Flash::new(&params),
            buffer: Buffer::new(params.buffer_units),
            commands: Commands::new(params.queue_depth),
            without_room: VecDeque::new(),
            underway: Slab::new(),
            flushes: VecDeque::new(),
            events: BinaryHeap::new(),
            next_order: 0,
            counters: Counters::default(),
            params,
        }
    }

    /// What it is made of.
    pub fn params(&self) -> &SsdParams {
        &self.params
    }

    /// The drive as if its first `units` units of 4 KiB had been written once in sequence, in no time: a
    /// shortcut to the state that drives are measured in. Counters do not count it.
    ///
    /// # Panics
    /// If the drive was written before, or is smaller.
    pub fn fill(&mut self, units: u32) {
        assert_eq!(self.counters.host_sectors, 0, "only a fresh drive is filled");
        let (program_units, dies) = (self.params.program_units(), self.params.dies());
        let mut batch = Vec::new();
        for (index, first) in (0..units).step_by(program_units as usize).enumerate() {
            batch.clear();
            batch.extend(first..units.min(first + program_units));
            self.ftl.program(index as u32 % dies, ftl::Point::Host, &batch);
        }
    }

    fn add_event(&mut self, time: u64, event: Event) {
        self.next_order += 1;
        self.events.push(Reverse((time, self.next_order, event)));
    }
}

impl DiskModel for Ssd {
    fn capacity_bytes(&self) -> u64 {
        self.params.sectors * SECTOR_BYTES
    }

    fn media(&self) -> MediaKind {
        MediaKind::Ssd
    }

    fn submit(&mut self, now: Timestamp, request: ModelRequest) {
        drive::submit(self, now, request);
    }

    fn next_event(&self) -> Option<Timestamp> {
        drive::next_event(self)
    }

    fn advance(&mut self, now: Timestamp, done: &mut Vec<(u64, Timestamp)>) {
        drive::advance(self, now, done);
    }

    fn counters(&self) -> ModelCounters {
        self.counters.listed(self.ftl.wear())
    }
}

impl Drive for Ssd {
    fn commands(&self) -> &Commands {
        &self.commands
    }

    fn commands_mut(&mut self) -> &mut Commands {
        &mut self.commands
    }

    fn accept(&mut self, now: u64, request: ModelRequest) {
        self.accept_command(now, request);
    }

    fn next_step(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((time, ..))| *time)
    }

    fn step(&mut self, now: u64) {
        let Reverse((_, _, event)) = self.events.pop().expect("a step was due");
        match event {
            Event::DieDone(die) => self.end_job(now, die),
            Event::ReadReady(request) => self.begin_reads(now, request),
            Event::Arrived(count) => self.arrive(now, count),
        }
    }
}
