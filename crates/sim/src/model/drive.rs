//! What all kinds of drives share: command slots, the ends of commands, and how time passes.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use stripewise_device::Timestamp;

use super::{DiskModel, ModelRequest};

/// The commands of one drive, from the host's queue to their ends.
pub(super) struct Commands {
    /// Commands that the drive holds; more wait at the host.
    slots: usize,
    /// Accepted, and not ended.
    accepted: usize,
    waiting: VecDeque<ModelRequest>,
    /// Times of ends that are known, in the order they became known, and the requests.
    ends: BinaryHeap<Reverse<(u64, u64, u64)>>,
    next_order: u64,
}

impl Commands {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots, accepted: 0, waiting: VecDeque::new(), ends: BinaryHeap::new(), next_order: 0 }
    }

    /// A request ends at a time: its host is told then, and its slot is free.
    pub(super) fn end_at(&mut self, time: u64, id: u64) {
        self.next_order += 1;
        self.ends.push(Reverse((time, self.next_order, id)));
    }

    fn next_end(&self) -> Option<u64> {
        self.ends.peek().map(|Reverse((time, ..))| *time)
    }

    /// The request that ends by a time, if one does.
    fn end_by(&mut self, time: u64) -> Option<u64> {
        self.next_end().filter(|end| *end <= time)?;
        self.accepted -= 1;
        self.ends.pop().map(|Reverse((_, _, id))| id)
    }

    #[cfg(test)]
    pub(super) fn accepted(&self) -> usize {
        self.accepted
    }
}

/// A kind of drive: what it does with commands, and what happens in it by itself.
pub(super) trait Drive: DiskModel {
    fn commands(&self) -> &Commands;

    fn commands_mut(&mut self) -> &mut Commands;

    /// Whether it takes more commands now, if it has slots.
    fn is_open(&self) -> bool {
        true
    }

    /// A command takes a slot.
    fn accept(&mut self, now: u64, request: ModelRequest);

    /// When something happens in it next; the ends of commands are not meant.
    fn next_step(&self) -> Option<u64>;

    /// What is due at this time happens.
    fn step(&mut self, now: u64);
}

/// [`DiskModel::submit`].
pub(super) fn submit(drive: &mut impl Drive, now: Timestamp, request: ModelRequest) {
    debug_assert!(request.offset_bytes + request.len_bytes <= drive.capacity_bytes());
    drive.commands_mut().waiting.push_back(request);
    accept_waiting(drive, now.0);
}

/// Commands that wait at the host take the slots that are free, first come first served.
pub(super) fn accept_waiting(drive: &mut impl Drive, now: u64) {
    while drive.is_open()
        && drive.commands().accepted < drive.commands().slots
        && let Some(request) = drive.commands_mut().waiting.pop_front()
    {
        drive.commands_mut().accepted += 1;
        drive.accept(now, request);
    }
}

/// The earlier of two times, of which there may be one or none.
pub(super) fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// [`DiskModel::next_event`].
pub(super) fn next_event(drive: &impl Drive) -> Option<Timestamp> {
    earlier(drive.commands().next_end(), drive.next_step()).map(Timestamp)
}

/// [`DiskModel::advance`]: all that is due by `now`, in the order of time; of what is due at one time, ends
/// come first.
pub(super) fn advance(drive: &mut impl Drive, now: Timestamp, done: &mut Vec<(u64, Timestamp)>) {
    while let Some(time) = next_event(drive).filter(|time| *time <= now) {
        match drive.commands_mut().end_by(time.0) {
            Some(id) => {
                done.push((id, time));
                accept_waiting(drive, time.0);
            }
            None => drive.step(time.0),
        }
    }
}
