//! A hard disk: arm, turning discs, a buffer, and firmware that orders commands by itself.
//!
//! What is modelled: zones, skews, seek curve, angular position, firmware and interface time, command queue,
//! read segments with read-ahead, write cache with destage in the drive's own order, FUA and flush. What is
//! not: defects and retries, thermal recalibration, reading a track from wherever the head lands, a bus
//! shared by several drives. An FUA write over buffered data leaves that in the buffer, to be written once
//! more. A discard does nothing.
//!
//! Missed rotations come by themselves: after an access, a drive needs [`HddParams::setup_ns`] before the
//! next one can begin, unless that just goes on. A sector that passes meanwhile comes again one revolution
//! later (msc-ct Fig. 2).

mod accept;
mod counters;
mod geometry;
mod mechanism;
mod params;
mod presets;
mod queue;
mod read_cache;
mod runs;
mod seek;
mod spindle;
#[cfg(test)]
mod tests;
mod work;
mod write_cache;

use std::collections::VecDeque;

pub use params::{HddParams, ReadAhead, SeekTimes};
pub use spindle::Spindle;
use stripewise_device::{MediaKind, Timestamp};

use self::{
    accept::Incoming,
    counters::Counters,
    mechanism::Mechanism,
    queue::Queue,
    read_cache::ReadCache,
    work::{Ahead, Work},
    write_cache::WriteCache,
};
use super::{
    DiskModel, ModelCounters, ModelRequest, SECTOR_BYTES,
    drive::{self, Commands, Drive},
    epochs::Flush,
    host::Host,
};

/// A hard disk.
pub struct Hdd {
    params: HddParams,
    mechanism: Mechanism,
    host: Host,
    queue: Queue,
    reads: ReadCache,
    writes: WriteCache,
    commands: Commands,
    /// Accepted writes for which the buffer has no room yet.
    without_room: VecDeque<Incoming>,
    /// The flush that everything later waits for.
    flush: Option<Flush>,
    work: Option<Work>,
    /// When the idle mechanism has something to do.
    wake: Option<u64>,
    ahead: Option<Ahead>,
    counters: Counters,
}

impl Hdd {
    /// A drive that is idle, its heads at the outermost cylinder.
    ///
    /// # Panics
    /// If the parameters contradict one another.
    pub fn new(params: HddParams, spindle: Spindle) -> Self {
        let params = spindle.turning(params);
        params.check();
        Self {
            mechanism: Mechanism::new(&params, spindle.angle_ns(params.revolution_ns)),
            host: Host::new(params.command_ns, params.status_ns, params.interface_bytes_per_s),
            queue: Queue::default(),
            reads: ReadCache::new(params.read_segments, params.segment_sectors),
            writes: WriteCache::new(params.write_cache_sectors),
            commands: Commands::new(params.queue_depth),
            without_room: VecDeque::new(),
            flush: None,
            work: None,
            wake: None,
            ahead: None,
            counters: Counters::default(),
            params,
        }
    }

    /// What it is made of, as fast as its own spindle turns.
    pub fn params(&self) -> &HddParams {
        &self.params
    }
}

impl DiskModel for Hdd {
    fn capacity_bytes(&self) -> u64 {
        self.params.sectors * SECTOR_BYTES
    }

    fn media(&self) -> MediaKind {
        MediaKind::Hdd
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
        self.counters.listed()
    }
}

impl Drive for Hdd {
    fn commands(&self) -> &Commands {
        &self.commands
    }

    fn commands_mut(&mut self) -> &mut Commands {
        &mut self.commands
    }

    /// What comes after a flush waits for it, as ATA hosts have it do.
    fn is_open(&self) -> bool {
        self.flush.is_none()
    }

    fn accept(&mut self, now: u64, request: ModelRequest) {
        self.accept_command(now, request);
    }

    fn next_step(&self) -> Option<u64> {
        self.mechanism_event()
    }

    fn step(&mut self, now: u64) {
        self.mechanism_step(now);
    }
}
