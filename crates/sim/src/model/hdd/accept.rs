//! Requests arrive: a command slot, the firmware, the buffer, and what goes on to the mechanism's queue.

use super::{Hdd, ReadAhead, SECTOR_BYTES, queue::Command, work::Ahead};
use crate::model::{ModelOp, ModelRequest, epochs::Flush};

/// A read or write that the drive has accepted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming {
    id: u64,
    lba: u64,
    end: u64,
    arrived: u64,
    /// When the firmware is through with its arrival.
    ready: u64,
}

impl Hdd {
    /// A command has taken a slot.
    pub(super) fn accept_command(&mut self, now: u64, request: ModelRequest) {
        let ready = self.host.command(now);
        let lba = request.offset_bytes / SECTOR_BYTES;
        let end = lba + request.len_bytes / SECTOR_BYTES;
        let incoming = Incoming { id: request.id, lba, end, arrived: now, ready };
        match request.op {
            ModelOp::Read => self.accept_read(incoming),
            ModelOp::Write { fua } if fua || !self.params.write_cache => self.accept_write(incoming),
            ModelOp::Write { .. } => self.accept_buffered_write(incoming),
            ModelOp::Flush => self.accept_flush(request.id, ready),
            ModelOp::Discard => self.commands.end_at(self.host.status(ready), request.id),
        }
        if self.work.is_none() {
            self.wake_by(ready.max(now));
        }
    }

    fn accept_read(&mut self, incoming: Incoming) {
        let Incoming { id, lba, end, arrived: now, ready } = incoming;
        self.counters.reads += 1;
        self.read_on(now);
        if self.writes.holds(lba, end) {
            return self.complete_hit(id, ready, end - lba);
        }
        let mut from = lba;
        if let Some((segment, held)) = self.reads.find(lba) {
            if held >= end {
                self.complete_hit(id, ready, end - lba);
                return self.read_on_behind(segment, end, held, now);
            }
            from = held;
        }
        let target = self.mechanism.target(from, end, false, ready);
        self.queue.push(Command { id, target, arrived: now, ready });
    }

    fn complete_hit(&mut self, id: u64, ready: u64, sectors: u64) {
        self.counters.read_hits += 1;
        let sent = self.host.transfer(ready, sectors);
        self.commands.end_at(self.host.status(sent), id);
    }

    /// A stream of reads was served from its segment: the drive stays ahead of it. If it had stopped reading,
    /// and little is left, the head goes back.
    fn read_on_behind(&mut self, segment: usize, end: u64, held: u64, now: u64) {
        let limit = self.ahead_limit(end);
        let little_left = held - end < self.params.segment_sectors / 4 && held < limit;
        if let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.segment == segment) {
            ahead.limit = ahead.limit.max(limit);
            self.mechanism.read_through(ahead.limit);
        } else if little_left && self.params.read_ahead != ReadAhead::Off && self.is_idle() {
            self.begin_return(now, Ahead { segment, next: held, limit });
        }
    }

    fn is_idle(&self) -> bool {
        self.work.is_none() && self.queue.is_empty() && self.writes.is_empty()
    }

    /// Half a segment ahead: the other half keeps what was read before.
    pub(super) fn ahead_limit(&self, end: u64) -> u64 {
        (end + self.params.segment_sectors / 2).min(self.params.sectors)
    }

    /// What the buffer holds of a range that is being written is out of date, and reading ahead does not go
    /// into it. A read that is under way may bring it back; when the write is on the medium, that is
    /// forgotten, too.
    fn overwrite_reads(&mut self, write: &Incoming) {
        self.read_on(write.arrived);
        self.reads.overwrite(write.lba, write.end);
        let Some(ahead) = &mut self.ahead else { return };
        if self.reads.end_of(ahead.segment) != ahead.next {
            self.ahead = None;
        } else if write.lba < ahead.limit && write.end > ahead.next {
            ahead.limit = write.lba.max(ahead.next);
            self.mechanism.read_through(ahead.limit);
        }
    }

    /// A write that completes when it is on the medium.
    fn accept_write(&mut self, incoming: Incoming) {
        let Incoming { id, lba, end, arrived, ready } = incoming;
        self.counters.writes += 1;
        self.overwrite_reads(&incoming);
        let sent = self.host.transfer(ready, end - lba);
        let mut target = self.mechanism.target(lba, end, true, ready);
        // Writing may begin while data still comes, as long as the medium does not overtake the interface.
        target.earliest = ready.max(sent.saturating_sub(self.mechanism.pass_ns(&target)));
        self.queue.push(Command { id, target, arrived, ready });
    }

    /// A write that completes when it is in the buffer.
    fn accept_buffered_write(&mut self, incoming: Incoming) {
        self.counters.writes += 1;
        self.overwrite_reads(&incoming);
        self.without_room.push_back(incoming);
        self.fill_buffer(incoming.arrived);
    }

    /// Takes writes into the buffer, in the order they came, as long as there is room.
    pub(super) fn fill_buffer(&mut self, now: u64) {
        while let Some(&Incoming { id, lba, end, ready, .. }) = self.without_room.front()
            && self.writes.has_room(end - lba)
        {
            self.without_room.pop_front();
            let sent = self.host.transfer(ready.max(now), end - lba);
            self.writes.insert(&self.mechanism, lba, end, sent);
            self.counters.buffered_writes += 1;
            self.commands.end_at(self.host.status(sent), id);
            if self.work.is_none() {
                self.wake_by(sent);
            }
        }
    }

    /// Complete when the buffer's content of this moment is on the medium; commands that come later wait for
    /// it, as ATA hosts have them do.
    fn accept_flush(&mut self, id: u64, ready: u64) {
        self.counters.flushes += 1;
        if self.writes.is_empty() {
            return self.commands.end_at(self.host.status(ready), id);
        }
        self.flush = Some(Flush { id, epoch: self.writes.close_epoch(), ready });
    }
}
