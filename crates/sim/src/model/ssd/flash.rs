//! Dies and channels: what each die is doing, and until when.
//!
//! A die holds its register from the beginning of a job to the end. Its channel is reserved when the job
//! begins, so a transfer never slips into the gap before that of a read which is being sensed. Programs and
//! erases are not suspended for reads.

use std::collections::VecDeque;

use super::{buffer::Key, ftl::Slot, params::SsdParams};
use crate::model::ssd::params::UNIT_BYTES;

/// Times of jobs, and the channels.
pub(super) struct Flash {
    pub(super) dies: Vec<Die>,
    channel_free: Vec<u64>,
    /// Dies without a job, one bit each.
    idle: Vec<u64>,
    /// Where the search for an idle die begins: dies are numbered across the channels first.
    cursor: u32,
    unit_ps: u64,
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
}

/// One die.
#[derive(Default)]
pub(super) struct Die {
    pub(super) reads: VecDeque<ReadJob>,
    pub(super) job: Option<Job>,
    pub(super) collection: Option<Collection>,
    /// The last job was a read.
    pub(super) read_last: bool,
}

/// Units of one page to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadJob {
    pub(super) units: u32,
    pub(super) purpose: ReadPurpose,
}

/// Whom a read is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReadPurpose {
    /// A request, to which so many sectors go.
    Request { request: u32, sectors: u32 },
    /// The rest of a unit in the buffer.
    Merge(Key),
}

/// What a die does.
pub(super) enum Job {
    Read(ReadJob),
    /// The host's units of a program; collection's need no further care.
    Program(Vec<Key>),
    CollectRead,
    Erase(u32),
}

/// A block that is being collected.
pub(super) struct Collection {
    pub(super) block: u32,
    pub(super) next_page: u32,
    /// Read and not yet programmed: units, and the slots where they were.
    pub(super) carried: Vec<(u32, Slot)>,
}

impl Flash {
    pub(super) fn new(params: &SsdParams) -> Self {
        let dies = params.dies() as usize;
        let mut idle = vec![0; dies.div_ceil(64)];
        (0..dies).for_each(|die| idle[die / 64] |= 1 << (die % 64));
        Self {
            dies: (0..dies).map(|_| Die::default()).collect(),
            channel_free: vec![0; params.channels as usize],
            idle,
            cursor: 0,
            unit_ps: UNIT_BYTES * 1_000_000_000_000 / params.channel_bytes_per_s,
            read_ns: u64::from(params.read_ns),
            program_ns: u64::from(params.program_ns),
            erase_ns: u64::from(params.erase_ns),
        }
    }

    /// A die begins a job with so many units to transfer; returns when it ends.
    pub(super) fn begin(&mut self, now: u64, die: u32, job: Job, units: u32) -> u64 {
        let end = match job {
            Job::Read(_) | Job::CollectRead => self.transfer(die, now + self.read_ns, units),
            Job::Program(_) => self.transfer(die, now, units) + self.program_ns,
            Job::Erase(_) => now + self.erase_ns,
        };
        self.idle[die as usize / 64] &= !(1 << (die % 64));
        let own = &mut self.dies[die as usize];
        own.read_last = matches!(job, Job::Read(_));
        assert!(own.job.replace(job).is_none(), "a die does one thing at a time");
        end
    }

    /// Units go over the die's channel from a time on at the earliest; returns when they are over.
    fn transfer(&mut self, die: u32, from: u64, units: u32) -> u64 {
        let channel = die as usize % self.channel_free.len();
        let begin = from.max(self.channel_free[channel]);
        self.channel_free[channel] = begin + (u64::from(units) * self.unit_ps).div_ceil(1000);
        self.channel_free[channel]
    }

    /// A die's job is over.
    pub(super) fn end(&mut self, die: u32) -> Job {
        self.idle[die as usize / 64] |= 1 << (die % 64);
        self.dies[die as usize].job.take().expect("a job that ends was begun")
    }

    pub(super) fn is_idle(&self, die: u32) -> bool {
        self.dies[die as usize].job.is_none()
    }

    /// The next idle die after the last one found that suits, in turns over the channels.
    pub(super) fn next_idle(&mut self, mut suits: impl FnMut(u32) -> bool) -> Option<u32> {
        let count = self.dies.len() as u32;
        if self.idle.iter().all(|word| *word == 0) {
            return None;
        }
        let found = (0..count)
            .map(|step| (self.cursor + step) % count)
            .find(|die| self.idle[*die as usize / 64] & 1 << (die % 64) != 0 && suits(*die))?;
        self.cursor = (found + 1) % count;
        Some(found)
    }
}
