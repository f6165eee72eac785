//! Clients that each work on small files of their own: a load like DBench's, msc-ct IV-C.
//!
//! A client writes one file after another into its directory. It holds so many; a new one replaces one that it deletes. Sizes
//! are distributed evenly over their logarithms, and files grow in parts, whose lengths are powers of two. Clients take turns,
//! a part each, in random order, so that files of several of them grow at the same time. A file that is complete may be
//! renamed, or flushed, and the client may read one of its files then. These shares are our own; `dbench` repeats DBench's.

use fastrand::Rng;
use serde::Serialize;
use stripewise_load::Step;

use super::{
    file::{File, Growing},
    layout::BLOCK_BYTES,
    made::Made,
    turns::{LeftOut, Ready, Turns},
};

/// Files have 2^0 to 2^8 blocks: 4 KiB to 1 MiB.
const FILE_DOUBLINGS: f64 = 8.0;
/// Parts have 2^0 to 2^4 blocks: 4 KiB to 64 KiB.
const PART_DOUBLINGS: u32 = 4;
/// One of so many complete files is flushed.
const FLUSHED: u32 = 8;
/// One of so many is renamed.
const RENAMED: u32 = 4;
/// After one of so many, the client reads a file.
const READ: u32 = 2;

/// Clients, and how much they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Clients {
    /// The file system.
    pub made: Made,
    /// How many clients.
    pub count: u32,
    /// Files that each of them holds.
    pub held: u32,
    /// Bytes that all of them write together.
    pub written_bytes: u64,
    /// What they leave out.
    pub without: Option<LeftOut>,
}

impl Clients {
    /// In keys.
    pub(crate) fn key(&self) -> String {
        let Self { made, count, held, written_bytes, without } = self;
        let without = LeftOut::key(*without);
        format!("clients={count} hold={held} write={written_bytes}{without} {}", made.key())
    }

    /// What they ask of the array, once each of them holds its files.
    pub(crate) fn steps(&self, seed: u64) -> Vec<Step> {
        let mut working = Working::new(self, seed);
        working.hold_files();
        working.turns.begin_anew();
        working.run(self.written_bytes / BLOCK_BYTES);
        working.turns.into_steps()
    }
}

/// A file that is complete.
struct Held {
    file: File,
    /// What all clients had written and read when this was last used, in blocks.
    used: u64,
}

/// A file that is being written.
struct Open {
    growing: Growing,
    left: u64,
}

/// What a client has.
struct Client {
    directory: u32,
    files: Vec<Held>,
    open: Option<Open>,
}

impl Client {
    /// Its files, with one that is being written.
    fn has(&self) -> usize {
        self.files.len() + usize::from(self.open.is_some())
    }
}

/// The clients at work.
struct Working<'a> {
    told: &'a Clients,
    turns: Turns,
    clients: Vec<Client>,
}

impl<'a> Working<'a> {
    fn new(told: &'a Clients, seed: u64) -> Self {
        let mut turns = Turns::new(&told.made, told.count as usize, seed);
        let top = turns.of.make_directory(None);
        let mut directory = || turns.of.make_directory(Some(top));
        let client = |_| Client { directory: directory(), files: Vec::new(), open: None };
        let clients = (0..told.count).map(client).collect();
        Self { told, turns, clients }
    }

    /// Clients work until each of them has all its files.
    fn hold_files(&mut self) {
        let lacks = |client: &Client| client.has() < self.told.held as usize;
        while self.clients.iter().any(lacks) {
            self.run(u64::from(self.told.count));
        }
    }

    /// Clients write so many blocks more.
    fn run(&mut self, blocks: u64) {
        let end = self.turns.written() + blocks;
        while self.turns.written() < end {
            let ready = self.turns.next();
            self.turn(ready);
            self.turns.end_turn();
        }
    }

    /// A client that is ready writes a part.
    fn turn(&mut self, ready: Ready) {
        let number = ready.client;
        let mut open = match self.clients[number].open.take() {
            Some(open) => open,
            None => self.begin(number),
        };
        let part = open.left.min(1 << self.turns.rng.u32(..=PART_DOUBLINGS));
        open.left -= part;
        for _ in 0..part {
            self.turns.of.append(&mut open.growing);
        }
        self.turns.wrote(part);
        if open.left > 0 {
            self.clients[number].open = Some(open);
        } else if self.complete(number, open.growing) {
            self.turns.waits(ready);
        }
    }

    /// A client begins a file, in place of another one if it has all.
    fn begin(&mut self, number: usize) -> Open {
        let (client, turns) = (&mut self.clients[number], &mut self.turns);
        if client.has() >= self.told.held as usize {
            let gone = client.files.swap_remove(turns.rng.usize(..client.files.len()));
            turns.of.remove(&gone.file);
        }
        turns.of.switch_to(number as u32);
        Open { growing: turns.of.begin(client.directory), left: size_blocks(&mut turns.rng) }
    }

    /// A client's file is complete. Whether the client waits now.
    fn complete(&mut self, number: usize, growing: Growing) -> bool {
        let mut file = self.turns.of.close(growing);
        if self.one_of(RENAMED) {
            self.turns.of.rename(&mut file);
        }
        self.clients[number].files.push(Held { file, used: self.turns.used() });
        if self.one_of(READ) && self.told.without != Some(LeftOut::Reads) {
            self.read(number);
        }
        self.one_of(FLUSHED) && self.told.without != Some(LeftOut::Flushes)
    }

    /// A client reads one of its files.
    fn read(&mut self, number: usize) {
        let files = &mut self.clients[number].files;
        let held = self.turns.rng.usize(..files.len());
        let read = &mut files[held];
        let blocks = read.file.blocks().count() as u64;
        self.turns.read(&read.file, read.used, blocks);
        read.used = self.turns.used();
    }

    fn one_of(&mut self, many: u32) -> bool {
        self.turns.rng.u32(..many) == 0
    }
}

/// A file's size, in blocks: its logarithm is even.
fn size_blocks(rng: &mut Rng) -> u64 {
    // Between two powers of two in a straight line: the same on all machines.
    let doublings = rng.f64() * FILE_DOUBLINGS;
    let whole = (1 << doublings as u32) as f64;
    (whole * (1.0 + doublings.fract())) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn clients(count: u32) -> Clients {
        let made = Made { size_bytes: 4 << 30, journal_blocks: 1024, dirty_blocks: 4096 };
        Clients { made, count, held: 8, written_bytes: 64 << 20, without: None }
    }

    fn sum(steps: &[Step], of: fn(&Step) -> &Vec<stripewise_load::Extent>) -> u64 {
        steps.iter().flat_map(of).map(|extent| extent.len_bytes).sum()
    }

    #[test]
    fn clients_write_what_they_are_told_unless_it_is_deleted_before() {
        let written =
            |told: Clients| sum(&told.steps(1), |step| &step.writes) as f64 / told.written_bytes as f64;
        for (count, many) in [(1, 800), (16, 100), (128, 50)] {
            // Metadata and journal come on top; a file that is deleted while it is dirty is not written.
            let [some, all] = [8, many].map(|held| written(Clients { held, ..clients(count) }));
            assert!(some < all && (1.0..1.3).contains(&all), "{count} clients: {some}, {all}");
        }
    }

    #[test]
    fn what_the_page_cache_holds_is_not_read() {
        let read = |count| sum(&clients(count).steps(1), |step| &step.reads);
        assert_eq!(read(2), 0, "all their files are less than 40 MiB, and soon read or deleted");
        assert!(read(128) > 4 << 20);
        let none = Clients { without: Some(LeftOut::Reads), ..clients(128) };
        assert_eq!(sum(&none.steps(1), |step| &step.reads), 0);
    }

    #[test]
    fn flushes_end_transactions_when_all_wait() {
        let transactions = |told: Clients| told.steps(1).len();
        let [one, many] = [1, 64].map(|count| transactions(clients(count)));
        let none = transactions(Clients { without: Some(LeftOut::Flushes), ..clients(1) });
        assert!(one > 4 * many && many > none, "{one}, {many}, {none}");
    }

    #[test]
    fn more_clients_scatter_their_blocks() {
        let runs_a_block = |count| {
            let told = Clients { without: Some(LeftOut::Flushes), ..clients(count) };
            let steps = told.steps(1);
            let places =
                steps.iter().flat_map(|step| &step.writes).map(|write| write.offset_bytes / BLOCK_BYTES);
            let places: Vec<_> = places.collect();
            places.chunk_by(|one, next| one + 1 == *next).count() as f64 / places.len() as f64
        };
        let [one, many] = [1, 64].map(runs_a_block);
        assert!(many > 1.5 * one, "{one} and {many}");
    }

    #[test]
    fn a_seed_has_one_history_and_no_block_has_two_owners() {
        let told = clients(32);
        assert_eq!(told.steps(3), told.steps(3));
        let mut working = Working::new(&told, 1);
        working.hold_files();
        working.run(10_000);
        let files = || working.clients.iter().flat_map(|client| &client.files);
        let blocks: Vec<_> = files().flat_map(|held| held.file.blocks()).collect();
        assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), blocks.len());
    }

    #[test]
    fn sizes_are_even_over_their_logarithms() {
        let mut rng = Rng::with_seed(1);
        let sizes: Vec<_> = (0..40_000).map(|_| size_blocks(&mut rng)).collect();
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        let small = sizes.iter().filter(|size| **size < 16).count() as f64 / sizes.len() as f64;
        assert!((46.0..49.0).contains(&mean) && (0.49..0.51).contains(&small), "{mean} and {small}");
        assert!(sizes.iter().all(|size| (1..256).contains(size)));
    }
}
