//! Requests arrive: they take a command slot and the firmware's time, then the buffer and flash they need.

use super::{
    Event, Ssd,
    buffer::{Put, Waiters},
    flash::{ReadJob, ReadPurpose},
    params::UNIT_SECTORS,
};
use crate::model::{ModelOp, ModelRequest, SECTOR_BYTES, epochs::Flush};

/// A write that the drive has accepted, of which all from `lba` on is still to come into the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Incoming {
    id: u64,
    lba: u64,
    end: u64,
    /// When the firmware is through with its arrival.
    ready: u64,
    /// Its number among those under way, if it waits until it is programmed.
    waiter: Option<u32>,
}

/// A request that waits for dies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Underway {
    id: u64,
    lba: u64,
    end: u64,
    /// Jobs or units it waits for.
    left: u32,
    /// When the last of its data is over the wire.
    sent: u64,
}

impl Ssd {
    /// A command has taken a slot.
    pub(super) fn accept_command(&mut self, now: u64, request: ModelRequest) {
        let ready = self.host.command(now);
        let (id, lba) = (request.id, request.offset_bytes / SECTOR_BYTES);
        let end = lba + request.len_bytes / SECTOR_BYTES;
        match request.op {
            ModelOp::Read => self.accept_read(Underway { id, lba, end, left: 0, sent: ready }),
            ModelOp::Write { fua } => self.accept_write(now, fua, id, lba..end, ready),
            ModelOp::Flush => self.accept_flush(now, id, ready),
            ModelOp::Discard => self.accept_discard(now, id, lba..end, ready),
        }
    }

    fn accept_read(&mut self, read: Underway) {
        self.counters.reads += 1;
        let ready = read.sent;
        let request = self.underway.insert(read) as u32;
        self.add_event(ready, Event::ReadReady(request));
    }

    /// Neighbours in one page of flash are read together. Data in the buffer, or never written, goes to the
    /// host at once.
    pub(super) fn begin_reads(&mut self, now: u64, request: u32) {
        let Underway { lba, end, .. } = self.underway[request as usize];
        let (mut at, mut direct) = (lba, 0);
        // The page being gathered: its number, die, units and sectors.
        let mut page: Option<(u32, u32, u32, u32)> = None;
        while at < end {
            let unit = (at / UNIT_SECTORS) as u32;
            let next = ((at / UNIT_SECTORS + 1) * UNIT_SECTORS).min(end);
            let sectors = (next - at) as u32;
            at = next;
            let held = self.buffer.holds(unit);
            self.counters.buffer_hits += u64::from(held);
            let Some(slot) = self.ftl.find(unit).filter(|_| !held) else {
                direct += u64::from(sectors);
                continue;
            };
            let number = self.ftl.page_of(slot);
            match &mut page {
                Some((same, _, units, sum)) if *same == number => {
                    *units += 1;
                    *sum += sectors;
                }
                page => {
                    let before = page.replace((number, self.ftl.die_of(slot), 1, sectors));
                    self.read_page(now, request, before);
                }
            }
        }
        self.read_page(now, request, page);
        let sent = if direct > 0 { self.host.transfer(now, direct) } else { now };
        let read = &mut self.underway[request as usize];
        read.sent = sent;
        if read.left == 0 {
            self.end_request(request);
        }
    }

    fn read_page(&mut self, now: u64, request: u32, page: Option<(u32, u32, u32, u32)>) {
        let Some((_, die, units, sectors)) = page else { return };
        self.underway[request as usize].left += 1;
        self.read_from(now, die, ReadJob { units, purpose: ReadPurpose::Request { request, sectors } });
    }

    /// A page of a read has come out of flash.
    pub(super) fn page_read(&mut self, now: u64, request: u32, sectors: u32) {
        let sent = self.host.transfer(now, u64::from(sectors));
        let read = &mut self.underway[request as usize];
        read.sent = read.sent.max(sent);
        read.left -= 1;
        if read.left == 0 {
            self.end_request(request);
        }
    }

    fn end_request(&mut self, request: u32) {
        let ended = self.underway.remove(request as usize);
        self.commands.end_at(self.host.status(ended.sent), ended.id);
    }

    fn accept_write(&mut self, now: u64, fua: bool, id: u64, sectors: std::ops::Range<u64>, ready: u64) {
        self.counters.writes += 1;
        self.counters.host_sectors += sectors.end - sectors.start;
        let (lba, end) = (sectors.start, sectors.end);
        let durable = fua && !self.params.power_loss_protected;
        // One more than its units, until all of it is in the buffer: its first units may be programmed before
        // that.
        let waiter = (durable || !self.params.write_buffer)
            .then(|| self.underway.insert(Underway { id, lba, end, left: 1, sent: 0 }) as u32);
        self.without_room.push_back(Incoming { id, lba, end, ready, waiter });
        self.fill_buffer(now);
    }

    /// Takes writes into the buffer, in the order they came, as long as there is room.
    pub(super) fn fill_buffer(&mut self, now: u64) {
        while let Some(&write) = self.without_room.front() {
            let (at, arriving) = self.put_units(&write);
            if at > write.lba || write.lba == write.end {
                let sent = self.host.transfer(write.ready.max(now), at - write.lba);
                self.add_event(sent, Event::Arrived(arriving));
                self.end_transfer(&write, at, sent);
            }
            if at < write.end {
                self.without_room[0].lba = at;
                return;
            }
            self.without_room.pop_front();
        }
    }

    /// Puts as much of a write into the buffer as fits. Returns the end of that part, and the number of new
    /// units.
    fn put_units(&mut self, write: &Incoming) -> (u64, u32) {
        let (mut at, mut arriving) = (write.lba, 0);
        while at < write.end {
            let unit = at / UNIT_SECTORS;
            let next = ((unit + 1) * UNIT_SECTORS).min(write.end);
            let partial = next - at < UNIT_SECTORS && self.ftl.find(unit as u32).is_some();
            match self.buffer.put(unit as u32, partial, write.waiter) {
                Put::NoRoom => break,
                Put::Over => self.counters.buffer_overwrites += 1,
                Put::New => arriving += 1,
            }
            if let Some(waiter) = write.waiter {
                self.underway[waiter as usize].left += 1;
            }
            at = next;
        }
        (at, arriving)
    }

    /// A write's data up to a sector is in the buffer at a time.
    fn end_transfer(&mut self, write: &Incoming, at: u64, sent: u64) {
        match write.waiter {
            _ if at < write.end => {}
            None => self.commands.end_at(self.host.status(sent), write.id),
            Some(waiter) => {
                self.underway[waiter as usize].sent = sent;
                self.unit_programmed(sent, waiter);
            }
        }
    }

    /// One of the units that a request waits for is programmed.
    fn unit_programmed(&mut self, now: u64, waiter: u32) {
        let write = &mut self.underway[waiter as usize];
        write.left -= 1;
        write.sent = write.sent.max(now);
        if write.left == 0 {
            self.end_request(waiter);
        }
    }

    pub(super) fn units_programmed(&mut self, now: u64, waiters: Waiters) {
        waiters.into_iter().for_each(|waiter| self.unit_programmed(now, waiter));
    }

    /// Complete when the buffer's content of this moment is programmed; later commands do not wait for it.
    fn accept_flush(&mut self, now: u64, id: u64, ready: u64) {
        self.counters.flushes += 1;
        if self.buffer.is_empty() || self.params.power_loss_protected {
            return self.commands.end_at(self.host.status(ready), id);
        }
        let epoch = self.buffer.close_epoch();
        self.flushes.push_back(Flush { id, epoch, ready });
        self.program_waiting(now);
    }

    pub(super) fn end_flushes(&mut self, now: u64) {
        while let Some(&Flush { id, epoch, ready }) = self.flushes.front()
            && self.buffer.is_settled(epoch)
        {
            self.flushes.pop_front();
            self.commands.end_at(self.host.status(now.max(ready)), id);
        }
    }

    /// Whole units are forgotten, in the buffer and in flash. Data still on its way to them is kept.
    fn accept_discard(&mut self, now: u64, id: u64, sectors: std::ops::Range<u64>, ready: u64) {
        self.counters.discards += 1;
        for unit in sectors.start.div_ceil(UNIT_SECTORS)..sectors.end / UNIT_SECTORS {
            let waiters = self.buffer.discard(unit as u32);
            self.units_programmed(now, waiters);
            self.counters.discarded_units += u64::from(self.ftl.forget(unit as u32));
        }
        self.end_flushes(now);
        self.fill_buffer(now);
        self.commands.end_at(self.host.status(ready), id);
    }
}
