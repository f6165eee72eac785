//! The life of one database on one array: filled, killed, recovered and read, round after round.

use std::{
    ops::AddAssign,
    thread,
    time::{Duration, Instant},
};

use crate::{
    clients::{Clients, Ledger},
    database::{Database, EVERYTHING, TABLES, counter},
    ground::Ground,
    noise,
};

const CLIENTS: u64 = 5;
/// How long clients work before the kill, after their first answers.
const LOAD_MS_MAX: u64 = 1500;

/// What happened, for the report.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    kills: u64,
    acknowledged: u64,
    /// Transactions that are there and were not acknowledged: they were under way.
    unacknowledged: u64,
    /// Kills while blocks were dirty, and how many bytes were.
    kills_dirty: u64,
    dirty_bytes: u64,
    /// Writes beside the database that nobody flushed.
    noise: u64,
    load_ms: u64,
    /// From the kill to a database that takes clients again.
    recovery_ms: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.acknowledged += other.acknowledged;
        self.unacknowledged += other.unacknowledged;
        self.kills_dirty += other.kills_dirty;
        self.dirty_bytes += other.dirty_bytes;
        self.noise += other.noise;
        self.load_ms += other.load_ms;
        self.recovery_ms += other.recovery_ms;
    }
}

/// Fields end in this order: a server that runs before the array that it stands on.
pub(crate) struct Story<D> {
    database: D,
    ground: Ground,
    ledger: Ledger,
    random: fastrand::Rng,
    figures: Figures,
}

impl<D: Database> Story<D> {
    pub(crate) fn begin(cache: &str, mut random: fastrand::Rng) -> Self {
        let size = ["8M", "64M"][random.usize(..2)];
        let chunk = ["16K", "64K", "256K"][random.usize(..3)];
        eprintln!("cache {cache} of {size}, chunks of {chunk}");
        let ground = Ground::new(&format!("--chunk {chunk} --cache {cache} --cache-size {size}"));
        noise::make(&ground.folder().join("noise"));
        let counters: String = (0..CLIENTS).map(counter).collect();
        let tables = format!("{TABLES}{counters}");
        let database = D::make(&ground.folder(), ground.sandbox.folder(), &tables);
        Self { database, ground, ledger: Ledger::of(CLIENTS), random, figures: Figures::default() }
    }

    pub(crate) fn run(mut self, rounds: u64) -> Figures {
        self.database.open(&mut self.random);
        for _ in 0..rounds {
            self.round();
        }
        self.database.close();
        drop(self.database);
        self.ground.end();
        self.figures
    }

    /// Load, kill, recovery, and a look at every row.
    fn round(&mut self) {
        self.kill_under_load();
        let killed = Instant::now();
        self.ground.come_back();
        self.database.open(&mut self.random);
        self.figures.recovery_ms += killed.elapsed().as_millis() as u64;
        self.figures.unacknowledged += self.ledger.settle(&self.everything());
        self.database.check();
    }

    fn kill_under_load(&mut self) {
        let before = self.ledger.acknowledged();
        let noise = noise::start(&self.ground.folder().join("noise"), self.random.u64(..));
        let mut clients = Clients::start(&self.database, &self.ledger);
        let moment = self.random.u64(..LOAD_MS_MAX);
        thread::sleep(Duration::from_millis(moment));
        let dirty_bytes = self.ground.dirty_bytes();
        clients.assert_all_run();
        self.ground.kill();
        clients.end();
        self.database.abandon();
        self.figures.kills += 1;
        self.figures.load_ms += moment;
        self.figures.dirty_bytes += dirty_bytes;
        self.figures.kills_dirty += u64::from(dirty_bytes > 0);
        self.figures.noise += noise.join().unwrap();
        self.figures.acknowledged += self.ledger.acknowledged() - before;
    }

    fn everything(&self) -> String {
        EVERYTHING.map(|sql| self.database.ask(sql)).concat()
    }
}
