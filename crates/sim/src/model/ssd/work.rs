//! What dies do: reads before programs, collection before the host's programs.

use super::{
    Event, Ssd,
    flash::{Collection, Job, ReadJob, ReadPurpose},
    ftl::Point,
};

impl Ssd {
    fn begin(&mut self, now: u64, die: u32, job: Job, units: u32) {
        let end = self.flash.begin(now, die, job, units);
        self.add_event(end, Event::DieDone(die));
    }

    /// A page is to be read from a die.
    pub(super) fn read_from(&mut self, now: u64, die: u32, read: ReadJob) {
        self.counters.page_reads += 1;
        if self.flash.is_idle(die) {
            self.begin(now, die, Job::Read(read), read.units);
        } else {
            self.flash.dies[die as usize].reads.push_back(read);
        }
    }

    /// Units have come into the buffer.
    pub(super) fn arrive(&mut self, now: u64, count: u32) {
        for _ in 0..count {
            if let Some((key, unit)) = self.buffer.arrive() {
                self.merge(now, key, unit);
            }
        }
        self.program_waiting(now);
    }

    /// A unit's rest is read, unless it was discarded since.
    fn merge(&mut self, now: u64, key: u32, unit: u32) {
        match self.ftl.find(unit) {
            None => self.buffer.merged(key),
            Some(slot) => {
                self.counters.merges += 1;
                let die = self.ftl.die_of(slot);
                self.read_from(now, die, ReadJob { units: 1, purpose: ReadPurpose::Merge(key) });
            }
        }
    }

    pub(super) fn end_job(&mut self, now: u64, die: u32) {
        match self.flash.end(die) {
            Job::Read(ReadJob { purpose: ReadPurpose::Request { request, sectors }, .. }) => {
                self.page_read(now, request, sectors);
            }
            Job::Read(ReadJob { purpose: ReadPurpose::Merge(key), .. }) => self.buffer.merged(key),
            Job::Program(keys) => {
                for key in keys {
                    let waiters = self.buffer.programmed(key);
                    self.units_programmed(now, waiters);
                }
                self.end_flushes(now);
                self.fill_buffer(now);
            }
            Job::CollectRead => {}
            Job::Erase(block) => self.ftl.erase(die, block),
        }
        self.begin_next(now, die);
        self.program_waiting(now);
    }

    /// An idle die looks for something to do.
    fn begin_next(&mut self, now: u64, die: u32) {
        let collecting = self.flash.dies[die as usize].collection.is_some() || self.ftl.wants_collection(die);
        let own = &mut self.flash.dies[die as usize];
        // After a read, while the buffer fills, it is the turn of work that makes room.
        let yields = own.read_last && self.buffer.is_pressed();
        if !yields && let Some(read) = own.reads.pop_front() {
            return self.begin(now, die, Job::Read(read), read.units);
        }
        let busy = if collecting { self.collect(now, die) } else { self.program_if_ready(now, die) };
        if !busy && let Some(read) = self.flash.dies[die as usize].reads.pop_front() {
            self.begin(now, die, Job::Read(read), read.units);
        }
    }

    /// Whether buffered data should be programmed now: enough of it, or some that a request waits for.
    fn programs_are_due(&self) -> bool {
        self.buffer.waiting_count() >= self.params.program_units() || self.buffer.is_wanted()
    }

    fn program_if_ready(&mut self, now: u64, die: u32) -> bool {
        let due = self.programs_are_due() && self.ftl.takes_host_data(die);
        if due {
            self.program(now, die, Point::Host, &[]);
        }
        due
    }

    /// Idle dies program waiting units.
    pub(super) fn program_waiting(&mut self, now: u64) {
        while self.programs_are_due() {
            let ftl = &self.ftl;
            let Some(die) = self.flash.next_idle(|die| ftl.takes_host_data(die)) else { return };
            self.program(now, die, Point::Host, &[]);
        }
    }

    /// Programs moved units, and waiting units of the buffer if there is room beside them.
    fn program(&mut self, now: u64, die: u32, point: Point, moved: &[u32]) {
        let program_units = self.params.program_units();
        let mut units = moved.to_vec();
        let mut keys = Vec::new();
        self.buffer.take(program_units - moved.len() as u32, &mut keys, &mut units);
        self.ftl.program(die, point, &units);
        self.counters.host_units += keys.len() as u64;
        self.counters.moved_units += moved.len() as u64;
        self.counters.padded_units += u64::from(program_units) - units.len() as u64;
        self.begin(now, die, Job::Program(keys), units.len() as u32);
    }

    /// The next step of a die's collection: read a page of the victim, program what was read, or erase.
    fn collect(&mut self, now: u64, die: u32) -> bool {
        let Some(mut victim) = self.flash.dies[die as usize].collection.take().or_else(|| self.victim(die))
        else {
            return self.program_if_ready(now, die);
        };
        let ftl = &self.ftl;
        // Units that the host wrote or discarded since the read need not be moved.
        victim.carried.retain(|(unit, slot)| ftl.find(*unit) == Some(*slot));
        if victim.carried.len() < self.params.program_units() as usize {
            let before = victim.carried.len();
            let found = self.ftl.valid_page(die, victim.block, victim.next_page, &mut victim.carried);
            if let Some(page) = found {
                victim.next_page = page + 1;
                self.begin(now, die, Job::CollectRead, (victim.carried.len() - before) as u32);
                self.flash.dies[die as usize].collection = Some(victim);
                return true;
            }
        }
        if victim.carried.is_empty() {
            self.begin(now, die, Job::Erase(victim.block), 0);
            return true;
        }
        let count = victim.carried.len().min(self.params.program_units() as usize);
        let moved: Vec<_> = victim.carried.drain(..count).map(|(unit, _)| unit).collect();
        self.program(now, die, Point::Collection, &moved);
        self.flash.dies[die as usize].collection = Some(victim);
        true
    }

    fn victim(&mut self, die: u32) -> Option<Collection> {
        let block = self.ftl.take_victim(die)?;
        self.counters.collections += 1;
        Some(Collection { block, next_page: 0, carried: Vec::new() })
    }
}
