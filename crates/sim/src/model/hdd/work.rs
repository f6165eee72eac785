//! What the mechanism does: it ends one access, chooses the next, and reads ahead when there is none.

use super::{
    Hdd, ReadAhead,
    mechanism::{Moment, Target},
    queue::Command,
};
use crate::model::{drive, epochs::Flush};

/// What the mechanism is doing.
pub(super) struct Work {
    pub(super) until: u64,
    kind: WorkKind,
}

pub(super) enum WorkKind {
    /// A host's read or write.
    Command(Command),
    /// Buffered data goes to the medium.
    Destage,
    /// The head returns to where a read segment ends.
    Return(Ahead),
}

/// The idle mechanism reads on into a segment, up to a sector.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    pub(super) segment: usize,
    /// The first sector not read yet.
    pub(super) next: u64,
    pub(super) limit: u64,
}

impl Hdd {
    /// The idle mechanism looks for work at a time, or before.
    pub(super) fn wake_by(&mut self, time: u64) {
        self.wake = drive::earlier(self.wake, Some(time));
    }

    pub(super) fn mechanism_event(&self) -> Option<u64> {
        self.work.as_ref().map_or(self.wake, |work| Some(work.until))
    }

    pub(super) fn mechanism_step(&mut self, now: u64) {
        if let Some(work) = self.work.take() {
            self.end_work(now, work.kind);
        }
        if self.work.is_none() {
            self.begin_work(now);
        }
    }

    fn end_work(&mut self, now: u64, kind: WorkKind) {
        match kind {
            WorkKind::Command(command) if command.target.write => {
                self.reads.overwrite(command.target.lba, command.target.end);
                self.commands.end_at(self.host.status(now), command.id);
            }
            WorkKind::Command(command) => self.end_read(now, &command),
            WorkKind::Destage => {
                let written = self.writes.end();
                self.reads.overwrite(written.lba, written.end);
                self.end_flush(now);
                self.fill_buffer(now);
            }
            WorkKind::Return(ahead) if self.reads.end_of(ahead.segment) == ahead.next => {
                self.read_ahead(ahead)
            }
            // Its segment's end was overwritten meanwhile.
            WorkKind::Return(_) => {}
        }
    }

    fn end_read(&mut self, now: u64, command: &Command) {
        let sent = self.host.transfer_behind(now, command.target.sectors());
        self.commands.end_at(self.host.status(sent), command.id);
        let Target { lba, end, .. } = command.target;
        let stored = self.reads.store(lba, end);
        let go_on = match self.params.read_ahead {
            ReadAhead::Off => false,
            ReadAhead::Always => true,
            ReadAhead::AfterSequential => stored.sequential,
        };
        if go_on {
            self.read_ahead(Ahead { segment: stored.segment, next: end, limit: self.ahead_limit(end) });
        }
    }

    fn read_ahead(&mut self, ahead: Ahead) {
        self.mechanism.read_through(ahead.limit);
        self.ahead = Some(ahead);
    }

    fn end_flush(&mut self, now: u64) {
        if let Some(Flush { id, epoch, ready }) = self.flush
            && self.writes.is_settled(epoch)
        {
            self.commands.end_at(self.host.status(now.max(ready)), id);
            self.flush = None;
            drive::accept_waiting(self, now);
        }
    }

    /// Lets the idle mechanism's reading ahead come up to now.
    pub(super) fn read_on(&mut self, now: u64) {
        if self.work.is_some() {
            return;
        }
        if let Some(ahead) = &mut self.ahead {
            let count = self.mechanism.read_on(now, ahead.limit.saturating_sub(ahead.next));
            ahead.next += count;
            self.reads.extend_to(ahead.segment, ahead.next);
            if ahead.next < ahead.limit {
                return;
            }
            self.ahead = None;
        }
        self.mechanism.lose_stream_before(now);
    }

    /// Chooses what to do next; reads come before buffered writes unless the buffer fills.
    fn begin_work(&mut self, now: u64) {
        self.wake = None;
        self.read_on(now);
        self.serve_from_ahead();
        let moment = self.mechanism.moment(now);
        let command = self.queue.cheapest(&self.mechanism, &moment);
        let destage = command.is_none() || self.writes.is_pressed() || self.flush.is_some();
        let run = destage.then(|| self.writes.cheapest(&self.mechanism, &moment)).flatten();
        match (command, run) {
            (None, None) => self.sleep(),
            (Some(command), run) if run.is_none_or(|run| command.price_ns <= run.price_ns) => {
                let command = self.queue.take(command.what);
                self.begin(&moment, &command.target, WorkKind::Command(command));
            }
            (_, run) => {
                let run = run.expect("a command without a rival was taken");
                let target = self.writes.begin(&self.mechanism, run.what);
                self.counters.destages += 1;
                self.begin(&moment, &target, WorkKind::Destage);
            }
        }
    }

    /// The head returns to where a segment ends, to read ahead from there.
    pub(super) fn begin_return(&mut self, now: u64, ahead: Ahead) {
        let target = self.mechanism.target(ahead.next, ahead.next, false, 0);
        self.begin(&self.mechanism.moment(now), &target, WorkKind::Return(ahead));
    }

    fn begin(&mut self, moment: &Moment, target: &Target, kind: WorkKind) {
        if let Some(ahead) = self.ahead.take()
            && self.mechanism.goes_on(moment, target).is_some()
        {
            // What lies between is read in passing.
            self.reads.extend_to(ahead.segment, target.lba);
        }
        let until = self.mechanism.access(moment, target, &mut self.counters);
        self.counters.busy_ns += until.saturating_sub(moment.now);
        self.work = Some(Work { until: until.max(moment.now), kind });
    }

    /// Nothing is ready: until something will be.
    fn sleep(&mut self) {
        self.wake = drive::earlier(self.queue.next_ready(), self.writes.next_ready());
    }

    /// Reads whose data was read ahead meanwhile need the medium no longer, or for their end only.
    fn serve_from_ahead(&mut self) {
        let Some(Ahead { segment, next, .. }) = self.ahead else { return };
        let held = self.reads.start_of(segment)..next;
        let Self { queue, mechanism, host, commands, counters, .. } = self;
        queue.serve_reads(|command| {
            let Target { lba, end, earliest, .. } = command.target;
            if !held.contains(&lba) {
                return false;
            }
            if end > next {
                command.target = mechanism.target(next, end, false, earliest);
                return false;
            }
            counters.read_hits += 1;
            let sent = host.transfer(command.ready, end - lba);
            commands.end_at(host.status(sent), command.id);
            true
        });
    }
}
