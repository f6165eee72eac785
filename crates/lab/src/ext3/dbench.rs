//! Clients that repeat DBench's loadfile, msc-ct IV-C: each in a directory of its own, a call at a time.
//!
//! A client first makes its files. What counts begins with the first call that reads: from there on clients go through their
//! calls, and through all calls anew when they are at the end, until all of them together have written enough.

use serde::Serialize;
use stripewise_load::Step;

use super::{
    file::Growing,
    layout::BLOCK_BYTES,
    loadfile::{Call, Loadfile},
    made::Made,
    turns::{LeftOut, Turns},
};

/// DBench's clients, and how much they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DBench {
    /// The file system.
    pub made: Made,
    /// How many clients.
    pub count: u32,
    /// Their calls.
    pub loadfile: Loadfile,
    /// Bytes that all of them write together, in whole blocks.
    pub written_bytes: u64,
    /// What they leave out.
    pub without: Option<LeftOut>,
}

impl DBench {
    /// In keys.
    pub(crate) fn key(&self) -> String {
        let Self { made, count, loadfile, written_bytes, without } = self;
        let without = LeftOut::key(*without);
        let (xxh3, made) = (loadfile.xxh3(), made.key());
        format!("dbench={xxh3:016x} clients={count} write={written_bytes}{without} {made}")
    }

    /// What they ask of the array, once each of them has its files.
    pub(crate) fn steps(&self, seed: u64) -> Vec<Step> {
        let mut working = Working::new(self, seed);
        working.make_files();
        working.turns.begin_anew();
        working.run(self.written_bytes / BLOCK_BYTES);
        working.turns.into_steps()
    }
}

/// A file of a client's.
struct Held {
    growing: Growing,
    /// The page cache's time when this was last used.
    used: u64,
}

/// What a client has.
struct Client {
    /// Its next call.
    next: usize,
    /// By the loadfile's numbers; the client's own is the first.
    directories: Vec<Option<u32>>,
    files: Vec<Option<Held>>,
}

/// The clients at work.
struct Working<'a> {
    told: &'a DBench,
    turns: Turns,
    clients: Vec<Client>,
}

impl<'a> Working<'a> {
    fn new(told: &'a DBench, seed: u64) -> Self {
        let mut turns = Turns::new(&told.made, told.count as usize, seed);
        let top = turns.of.make_directory(None);
        let mut client = || {
            let mut directories = vec![None; told.loadfile.directories()];
            directories[0] = Some(turns.of.make_directory(Some(top)));
            let files = (0..told.loadfile.files()).map(|_| None).collect();
            Client { next: 0, directories, files }
        };
        let clients = (0..told.count).map(|_| client()).collect();
        Self { told, turns, clients }
    }

    /// Each client makes its files.
    fn make_files(&mut self) {
        let setup = self.told.loadfile.setup();
        while self.clients.iter().any(|client| client.next < setup) {
            let ready = self.turns.next();
            if self.clients[ready.client].next < setup {
                self.call(ready.client);
                self.turns.end_turn();
            }
        }
    }

    /// Clients go on until they have written so many blocks more.
    fn run(&mut self, blocks: u64) {
        let end = self.turns.written() + blocks;
        while self.turns.written() < end {
            let ready = self.turns.next();
            if self.call(ready.client) {
                self.turns.waits(ready);
            }
            self.turns.end_turn();
        }
    }

    /// A client's next call. Whether it waits for the transaction then.
    fn call(&mut self, number: usize) -> bool {
        let client = &mut self.clients[number];
        let calls = self.told.loadfile.calls();
        let call = &calls[client.next];
        client.next = (client.next + 1) % calls.len();
        self.turns.of.switch_to(number as u32);
        match call {
            Call::Flush(_) => return self.told.without != Some(LeftOut::Flushes),
            Call::Read { .. } if self.told.without == Some(LeftOut::Reads) => {}
            call => client.carry_out(call, &mut self.turns),
        }
        false
    }
}

impl Client {
    /// Carries out a call that does not wait. The loadfile knows which files there are.
    fn carry_out(&mut self, call: &Call, turns: &mut Turns) {
        match *call {
            Call::MakeDirectory(number) => {
                let parent = self.directories[0];
                self.directories[number].get_or_insert_with(|| turns.of.make_directory(parent));
            }
            Call::Create { file, directory } => {
                let directory = self.directories[directory].expect("its folder is there");
                self.files[file] = Some(Held { growing: turns.of.begin(directory), used: turns.used() });
            }
            Call::Write { file, ref over, appended } => {
                let held = self.held(file);
                let anew: Vec<_> = held.growing.file.blocks().skip(over.start).take(over.len()).collect();
                turns.of.overwrite(&held.growing.file, &anew);
                (0..appended).for_each(|_| turns.of.append(&mut held.growing));
                turns.wrote((anew.len() + appended) as u64);
                held.used = turns.used();
            }
            Call::Read { file, blocks } => {
                let held = self.held(file);
                turns.read(&held.growing.file, held.used, blocks);
                held.used = turns.used();
            }
            Call::Touch(file) => turns.of.overwrite(&self.held(file).growing.file, &[]),
            Call::Close(file) => turns.of.release(&mut self.held(file).growing),
            Call::Rename(file) => turns.of.rename(&mut self.held(file).growing.file),
            Call::Remove(file) => {
                turns.of.release(&mut self.held(file).growing);
                turns.of.remove(&self.held(file).growing.file);
                self.files[file] = None;
            }
            Call::Flush(_) => {}
        }
    }

    fn held(&mut self, file: usize) -> &mut Held {
        self.files[file].as_mut().expect("the loadfile made it")
    }
}

#[cfg(test)]
mod tests {
    use stripewise_testkit::{Need, can_run};

    use super::{super::loadfile::tests as loadfile, *};

    /// Clients with these calls, on a file system that they do not fill.
    fn clients(lines: &str, count: u32, written_bytes: u64) -> DBench {
        let made = Made { size_bytes: 1 << 30, journal_blocks: 1024, dirty_blocks: 1024 };
        DBench { made, count, loadfile: loadfile::of(lines).unwrap(), written_bytes, without: None }
    }

    fn blocks(of: &[stripewise_load::Extent]) -> u64 {
        of.iter().map(|extent| extent.len_bytes / BLOCK_BYTES).sum()
    }

    #[test]
    fn clients_go_through_their_calls_and_begin_anew() {
        let told = clients(loadfile::LINES, 3, 40 * BLOCK_BYTES);
        let mut working = Working::new(&told, 1);
        working.make_files();
        let setup = told.loadfile.setup();
        assert!(working.clients.iter().all(|client| client.next >= setup));
        working.run(40);
        // A round writes six blocks, and ends without files.
        let held = working.clients.iter().flat_map(|client| &client.files).flatten();
        let held = held.map(|held| held.growing.file.blocks().count()).sum::<usize>();
        assert!(working.turns.written() >= 40 && held <= 3 * 5, "{held} blocks");
        assert_eq!(told.steps(3), told.steps(3), "a seed has one history");
    }

    #[test]
    fn a_client_that_flushes_waits_until_all_do() {
        let transactions = |count, without| {
            let told = DBench { without, ..clients(loadfile::LINES, count, 600 * BLOCK_BYTES) };
            told.steps(1).len()
        };
        let [one, many] = [1, 20].map(|count| transactions(count, None));
        let none = transactions(1, Some(LeftOut::Flushes));
        assert!(one > 4 * many && many > none, "{one}, {many}, {none}");
    }

    #[test]
    fn what_was_not_used_for_long_is_read() {
        // The page cache holds 2,560 blocks. Between a client's write and its read others write more.
        let large = loadfile::LINES.replace("WriteX 2 0 10000 10000", "WriteX 2 0 2000000 2000000");
        let again = large.replace("WriteX 4", "ReadX 4 0 4096 4096 NT_STATUS_OK\nWriteX 4");
        let read = |without| {
            let told = DBench { without, ..clients(&again, 50, 40_000 * BLOCK_BYTES) };
            told.steps(1).iter().map(|step| blocks(&step.reads)).sum::<u64>()
        };
        assert!(read(None) > 0);
        assert_eq!(read(Some(LeftOut::Reads)), 0);
    }

    /// The real one, where the package dbench is installed.
    #[test]
    fn the_real_loadfile_runs() {
        if !can_run(&[Need::Tool("dbench")]) {
            return;
        }
        let loadfile = Loadfile::read("/usr/share/dbench/client.txt".as_ref()).unwrap();
        assert!(loadfile.calls().len() > 100_000 && loadfile.files() < 1000);
        let told = DBench { loadfile, ..clients(loadfile::LINES, 16, 200 << 20) };
        let steps = told.steps(1);
        let written: u64 = steps.iter().map(|step| blocks(&step.writes)).sum();
        let ratio = written as f64 * BLOCK_BYTES as f64 / told.written_bytes as f64;
        // Much of what is written goes again before it is written back; metadata come on top.
        assert!((0.1..1.5).contains(&ratio), "{ratio}");
    }
}
