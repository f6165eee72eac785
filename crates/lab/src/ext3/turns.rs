//! Clients that take turns on one file system, in random order.
//!
//! Processors take no time. A client that flushes waits for its transaction; the others go on, until all of them wait or the
//! page cache is full. Then the transaction ends. What is read lies in the page cache unless as much as that holds was
//! written and read since; who reads does not wait.

use fastrand::Rng;
use serde::Serialize;
use stripewise_load::Step;

use super::{copying::read_ahead, file::File, files::Ext3, made::Made, page_cache::PageCache};

/// What the page cache holds, over what may be dirty of it: 40 %, `vm.dirty_ratio` of Linux 2.6.11.
const HELD_OVER_DIRTY: f64 = 2.5;

/// What clients may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOut {
    /// Nobody flushes.
    Flushes,
    /// Nobody reads.
    Reads,
}

impl LeftOut {
    /// In keys.
    pub(super) fn key(without: Option<Self>) -> String {
        without.map_or_else(String::new, |left_out| format!(" {}", left_out.name()))
    }

    /// In words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flushes => "no flushes",
            Self::Reads => "no reads",
        }
    }
}

/// A client that is ready, as it stands among those that are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    index: usize,
    pub(super) client: usize,
}

/// The clients' turns, and what they work on.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) of: Ext3,
    cache: PageCache,
    pub(super) rng: Rng,
    clients: usize,
    /// The clients that do not wait.
    ready: Vec<usize>,
    /// Blocks that were written, and those that were written or read.
    written: u64,
    used: u64,
    /// Blocks of files that the page cache holds.
    held: u64,
}

impl Turns {
    /// So many clients on a new file system.
    pub(super) fn new(made: &Made, clients: usize, seed: u64) -> Self {
        let (of, cache) = made.mount(seed);
        let held = (made.dirty_blocks as f64 * HELD_OVER_DIRTY) as u64;
        let rng = Rng::with_seed(seed);
        Self { of, cache, rng, clients, ready: Vec::new(), written: 0, used: 0, held }
    }

    /// The client whose turn it is. If all wait, the transaction ends.
    pub(super) fn next(&mut self) -> Ready {
        if self.ready.is_empty() {
            self.cache.end_transaction(self.of.take_dirty());
            self.all_go_on();
        }
        let index = self.rng.usize(..self.ready.len());
        Ready { index, client: self.ready[index] }
    }

    /// A client waits until the transaction ends.
    pub(super) fn waits(&mut self, ready: Ready) {
        self.ready.swap_remove(ready.index);
    }

    /// A turn is over. The transaction ends if the page cache is full.
    pub(super) fn end_turn(&mut self) {
        if self.cache.write_when_full(&mut self.of) {
            self.all_go_on();
        }
    }

    fn all_go_on(&mut self) {
        self.ready = (0..self.clients).collect();
    }

    /// So many blocks were written.
    pub(super) fn wrote(&mut self, blocks: u64) {
        self.written += blocks;
        self.used += blocks;
    }

    /// Blocks that all clients have written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Blocks that all clients have written or read: the page cache's clock.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// A client reads so many blocks of a file that was last used at this time of the page cache. A file that it does not hold any
    /// more is read whole.
    pub(super) fn read(&mut self, file: &File, last_used: u64, blocks: u64) {
        if self.used - last_used > self.held {
            self.cache.read(file.data.iter().flat_map(read_ahead));
        }
        self.used += blocks;
    }

    /// What was done so far is part of no step.
    pub(super) fn begin_anew(&mut self) {
        self.cache.begin_anew(&mut self.of);
    }

    /// The steps of all that was done.
    pub(super) fn into_steps(mut self) -> Vec<Step> {
        self.cache.end(&mut self.of)
    }
}
