//! The life of one array under kills: whole, degraded, rebuilding, and whole again, with a scrub at the end.

use std::{
    collections::BTreeSet,
    ops::{AddAssign, Range},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rustix::process::Signal;
use stripewise::{
    Device,
    internals::{
        format::{
            extension::MapKind,
            md::{Features, SUPERBLOCK_SECTOR, Superblock},
            media::{BLOCK_LEN, SECTOR_BYTES},
        },
        locking::{PRESETS, Preset},
    },
};

use crate::{
    common::{Client, KIB, MIB, Sandbox, eventually, has_ended},
    load::write_until_gone,
    model::{Found, Model, SECTOR},
};

const MEMBER_BYTES: u64 = 13 * MIB;
/// How much is read at a time when the whole array is checked.
const LOOK_BYTES: u64 = MIB;
/// A rebuild at this speed lasts longer than any round.
const SLOW: &str = "1500K";
/// Where a rebuild that is interrupted late is at least, by what it wrote down.
const LATE_BYTES: u64 = 4 * MIB;
/// Where the last region of the bitmap begins on a member: 12 MiB of data in regions of 1 MiB.
const LAST_REGION_BYTES: u64 = 11 * MIB;
/// What arrays with parity have.
const CACHES: [&str; 5] = ["none", "stripe", "pbg", "stripe+ct", "auto"];

/// What happened, for the report.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    kills: u64,
    acknowledged: u64,
    found: Found,
    /// Assemblies that needed `--force`: dirty and degraded.
    forced: u64,
    rebuilds_resumed: u64,
    scrubs: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.acknowledged += other.acknowledged;
        self.found += other.found;
        self.forced += other.forced;
        self.rebuilds_resumed += other.rebuilds_resumed;
        self.scrubs += other.scrubs;
    }
}

pub(crate) struct Story {
    sandbox: Sandbox,
    level: i32,
    preset: &'static Preset,
    count: usize,
    /// By role; the lost one is left out until another takes its place.
    members: Vec<String>,
    chunk_bytes: u64,
    data_members: u64,
    /// The role that is not complete.
    lost: Option<usize>,
    /// Devices that failed and are handed in at every assembly all the same.
    stale: Vec<String>,
    model: Arc<Mutex<Model>>,
    random: fastrand::Rng,
    figures: Figures,
}

impl Story {
    pub(crate) fn begin(level: i32, count: usize) -> Self {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        let preset = &PRESETS[random.usize(..PRESETS.len())];
        let cache = if level == 1 { "none" } else { CACHES[random.usize(..CACHES.len())] };
        eprintln!("level {level}, seed {seed}, locking {}, cache {cache}", preset.name);
        let sandbox = Sandbox::new();
        let members = sandbox.members(count, MEMBER_BYTES);
        let chunk_bytes = if level == 1 { 64 * KIB } else { [4, 16, 64, 256][random.usize(..4)] * KIB };
        let size = if cache == "none" { "" } else { "--cache-size 6M" };
        let line = format!(
            "create a --level {level} --chunk {chunk_bytes}B --bitmap-chunk 1M --assume-clean --locking {} --cache {cache} {size}",
            preset.name
        );
        sandbox.ok(&line, &members);
        if cache != "none" {
            // Files are not measured as disks that rotate are: gaps are filled all the same.
            sandbox.done("cache a --s-max-read 16 --s-max-write 16");
        }
        let size_bytes = sandbox.status("a")["size_bytes"].as_u64().unwrap();
        let data_members = size_bytes / sandbox.status("a")["member_bytes"].as_u64().unwrap();
        let model = Arc::new(Mutex::new(Model::new(size_bytes, cache != "none")));
        let figures = Figures::default();
        let (lost, stale) = (None, Vec::new());
        Self {
            sandbox,
            level,
            preset,
            count,
            members,
            chunk_bytes,
            data_members,
            lost,
            stale,
            model,
            random,
            figures,
        }
    }

    pub(crate) fn run(mut self) -> Figures {
        for _ in 0..5 {
            self.round();
        }
        self.lose_a_member();
        for _ in 0..3 {
            self.round();
        }
        self.begin_rebuild();
        self.round();
        self.settle_down();
        self.lose_a_member();
        self.begin_rebuild();
        self.late_round();
        self.settle_down();
        self.sandbox.done("stop a");
        self.sandbox.ok("assemble a", &self.members);
        self.check_all();
        self.figures
    }

    /// Load, kill, assemble, and a look at every byte.
    fn round(&mut self) {
        let moment = Duration::from_micros(self.random.u64(500..150_000));
        let everywhere = 0..self.model.lock().unwrap().len();
        self.kill_under_load(everywhere, move || thread::sleep(moment));
        self.assemble();
        self.check_all();
    }

    /// A round whose rebuild is killed after it has written down how far it was. It must go on from there:
    /// what is behind a region that was being written would be filled again, so only the last region is.
    fn late_round(&mut self) {
        let incoming = self.members[self.lost.unwrap()].clone();
        let watched = incoming.clone();
        let sectors = self.model.lock().unwrap().len();
        self.kill_under_load(sectors / 16 * 15..sectors, move || {
            eventually("the rebuild's place is written down", || {
                recovery_offset_bytes(&watched) > Some(LATE_BYTES)
            });
        });
        let mut written_down = recovery_offset_bytes(&incoming).unwrap().min(LAST_REGION_BYTES);
        if self.preset.map == MapKind::Distributed {
            written_down = 0; // the regions of what was written lie all over the members
        }
        let log_len = self.sandbox.log("a").len();
        self.assemble();
        self.check_all();
        self.sandbox.done("wait a");
        let begun = self.rebuild_began_at(&self.sandbox.log("a")[log_len..]);
        assert!(begun >= written_down, "went on at {begun}, not at {written_down}");
        self.figures.rebuilds_resumed += u64::from(written_down > 0);
    }

    fn kill_under_load(&mut self, span: Range<usize>, until: impl FnOnce() + Send + 'static) {
        let client = Client::connect(&self.sandbox.serve("a"));
        let pid = self.sandbox.pid("a");
        let killer = thread::spawn(move || {
            until();
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
        });
        let (device, model, seed) = (client.device.clone(), self.model.clone(), self.random.u64(..));
        let load = async move { write_until_gone(device, model, span, seed).await };
        self.figures.acknowledged += client.runtime.block_on(load);
        killer.join().unwrap();
        eventually("the daemon is gone", || has_ended(pid));
        self.figures.kills += 1;
    }

    /// Assembles in any order, failed devices among them. A dirty and degraded array must refuse without
    /// `--force`.
    fn assemble(&mut self) {
        let mut given: Vec<String> = self.members.iter().chain(&self.stale).cloned().collect();
        self.random.shuffle(&mut given);
        let said = self.sandbox.run("assemble a", &given);
        if said.code == Some(0) {
            return;
        }
        assert!(said.err.contains("is degraded, and was not stopped cleanly"), "{}", said.err);
        assert!(self.lost.is_some() && self.level > 1, "{}", said.err);
        self.sandbox.ok("assemble a --force", &given);
        self.figures.forced += 1;
    }

    /// Reads the whole array.
    fn check_all(&mut self) {
        let client = Client::connect(&self.sandbox.serve("a"));
        let model = self.model.clone();
        let mut model = model.lock().unwrap();
        let stripe_bytes = self.chunk_bytes * self.data_members;
        let rows: BTreeSet<_> = model.rows_under_way(stripe_bytes, self.chunk_bytes).into_iter().collect();
        let in_hole = |sector: usize| {
            let at = (sector * SECTOR) as u64;
            let (stripe, within) = (at / stripe_bytes, at % stripe_bytes);
            let on_lost = self.lost == Some(self.member_of(stripe, within / self.chunk_bytes));
            on_lost && rows.contains(&(stripe, within % self.chunk_bytes / 4096))
        };
        let size = client.device.info().size_bytes;
        let mut all = Found::default();
        for at in (0..size).step_by(LOOK_BYTES as usize) {
            let bytes = client.read(at, LOOK_BYTES.min(size - at) as usize).unwrap();
            all += model.settle(at as usize / SECTOR, &bytes, in_hole);
        }
        self.figures.found += all;
        drop(client);
        self.sandbox.done("serve a --stop");
    }

    /// The role that holds a data chunk: left-symmetric for levels 5 and 6, parity last for level 4. Of level
    /// 1 there is no chunk that only one member holds.
    fn member_of(&self, stripe: u64, data_chunk: u64) -> usize {
        let count = self.count as u64;
        let parity = count - 1 - stripe % count;
        let role = match self.level {
            4 => data_chunk,
            5 => (parity + 1 + data_chunk) % count,
            6 => (parity + 2 + data_chunk) % count,
            _ => return usize::MAX,
        };
        role as usize
    }

    /// Waits until nothing is marked as being written, and lets a member go.
    fn lose_a_member(&mut self) {
        self.sandbox.done("wait a");
        eventually("the bitmap is clear", || self.sandbox.status("a")["bitmap"]["marked"] == 0);
        let role = self.random.usize(..self.count);
        let device = self.members.remove(role);
        self.sandbox.ok("fail a", &[&device]);
        self.sandbox.ok("remove a", &[&device]);
        self.stale.push(device);
        self.lost = Some(role);
    }

    fn begin_rebuild(&mut self) {
        let fresh = self.sandbox.member(&format!("fresh{}", self.stale.len()), MEMBER_BYTES);
        self.sandbox.done(&format!("speed a --min {SLOW} --max {SLOW}"));
        self.sandbox.ok("add a", &[&fresh]);
        self.members.insert(self.lost.unwrap(), fresh);
    }

    /// Where the first rebuild of a log began, in bytes of a member.
    fn rebuild_began_at(&self, log: &str) -> u64 {
        let is_start = |line: &&str| line.contains("job starts") && line.contains("\"rebuild\"");
        let line = log.lines().find(is_start).unwrap_or_else(|| panic!("no rebuild began:\n{log}"));
        let stripes = line.rsplit_once("done_stripes=").unwrap().1.trim();
        stripes.parse::<u64>().unwrap() * self.chunk_bytes
    }

    /// Everything is rebuilt, agrees, and is as the model has it.
    fn settle_down(&mut self) {
        self.sandbox.assert_consistent("a");
        self.figures.scrubs += 1;
        self.sandbox.done("detail a --test");
        self.lost = None;
        self.check_all();
    }
}

/// How far a member being filled is known to be, by its superblock. None if it is complete.
fn recovery_offset_bytes(member: &str) -> Option<u64> {
    use std::os::unix::fs::FileExt;
    let mut block = [0; BLOCK_LEN];
    let file = std::fs::File::open(member).unwrap();
    file.read_exact_at(&mut block, SUPERBLOCK_SECTOR * SECTOR_BYTES).unwrap();
    let superblock = Superblock::decode(&block, SUPERBLOCK_SECTOR).unwrap();
    let filling = superblock.features.contains(Features::RECOVERY_OFFSET);
    filling.then_some(superblock.recovery_offset_sectors * SECTOR_BYTES)
}
