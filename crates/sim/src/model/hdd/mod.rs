//! A hard disk: arm, turning discs, a buffer, and firmware that orders commands by itself.
//!
//! What is modelled: zones, skews, seek curve, angular position, firmware and interface time, command queue, read
//! segments with read-ahead, write cache with destage in the drive's own order, FUA and flush. What is not: defects
//! and retries, thermal recalibration, reading a track from wherever the head lands, a bus shared by several drives.
//!
//! Missed rotations come by themselves: after an access, a drive needs [`HddParams::setup_ns`] before the next one
//! can begin, unless that just goes on. A sector that passes meanwhile comes again one revolution later (msc-ct
//! Fig. 2).

mod accept;
mod counters;
mod geometry;
mod mechanism;
mod params;
mod presets;
mod queue;
mod read_cache;
mod seek;
#[cfg(test)]
mod tests;
mod work;
mod write_cache;

use std::collections::VecDeque;

pub use params::{HddParams, ReadAhead, SeekTimes};
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
    host::{Completions, Host},
};

/// A hard disk.
pub struct Hdd {
    params: HddParams,
    mechanism: Mechanism,
    host: Host,
    queue: Queue,
    reads: ReadCache,
    writes: WriteCache,
    /// Requests for which the drive has no command slot yet, or that came after a flush.
    waiting: VecDeque<ModelRequest>,
    /// Accepted writes for which the buffer has no room yet.
    without_room: VecDeque<Incoming>,
    /// The flush that everything later waits for, and the epoch it waits for.
    flush: Option<(u64, u64)>,
    /// Commands the drive has accepted and not completed.
    accepted: usize,
    work: Option<Work>,
    /// When the idle mechanism has something to do.
    wake: Option<u64>,
    ahead: Option<Ahead>,
    completions: Completions,
    counters: Counters,
}

impl Hdd {
    /// A drive that is idle, its heads at the outermost cylinder.
    ///
    /// # Panics
    /// If the parameters contradict one another.
    pub fn new(params: HddParams) -> Self {
        params.check();
        Self {
            mechanism: Mechanism::new(&params),
            host: Host::new(params.command_ns, params.status_ns, params.interface_bytes_per_s),
            queue: Queue::default(),
            reads: ReadCache::new(params.read_segments, params.segment_sectors),
            writes: WriteCache::new(params.write_cache_sectors),
            waiting: VecDeque::new(),
            without_room: VecDeque::new(),
            flush: None,
            accepted: 0,
            work: None,
            wake: None,
            ahead: None,
            completions: Completions::default(),
            counters: Counters::default(),
            params,
        }
    }

    /// What it is made of.
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
        debug_assert!(request.offset_bytes + request.len_bytes <= self.capacity_bytes());
        self.submit_or_wait(now.0, request);
    }

    fn next_event(&self) -> Option<Timestamp> {
        let (mechanism, completion) = (self.mechanism_event(), self.completions.next());
        let earlier = match (mechanism, completion) {
            (Some(mechanism), Some(completion)) => Some(mechanism.min(completion)),
            (one, other) => one.or(other),
        };
        earlier.map(Timestamp)
    }

    fn advance(&mut self, now: Timestamp, done: &mut Vec<(u64, Timestamp)>) {
        while let Some(Timestamp(time)) = self.next_event()
            && time <= now.0
        {
            if self.completions.next() == Some(time) {
                let id = self.completions.pop().expect("there is one due");
                done.push((id, Timestamp(time)));
                self.accepted -= 1;
                self.accept_waiting(time);
            } else {
                self.mechanism_step(time);
            }
        }
    }

    fn counters(&self) -> ModelCounters {
        self.counters.listed()
    }
}
