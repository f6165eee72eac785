//! Databases on ext4 on an attached array with a cache, whose daemon is killed with -9 under load, at random moments.
//! Each transaction whose commit was acknowledged is there afterwards, whole; one that was under way is there whole or
//! not at all.
//!
//! `STRIPEWISE_DATABASE_ROUNDS` says how many kills there are, over both databases; 4 if it is not set.
//! `STRIPEWISE_DATABASE_SEED` repeats the draws of a run that printed it. Moments at which processes run stay chance.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod clients;
mod database;
mod ground;
mod noise;
mod postgres;
mod sqlite;
mod story;

use common::{Need, can_run};
use database::Database;
use story::{Figures, Story};

/// Rounds of one story: an array's life from its creation to the last scrub.
const STORY_ROUNDS: u64 = 5;
const DATABASES: u64 = 2;

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().unwrap())
}

/// Whether an array can be attached here, with a file system on it.
fn can_mount() -> bool {
    let tools = ["losetup", "mkfs.ext4", "fsck.ext4", "mount"].map(Need::Tool);
    let kernel = [Need::Root, Need::Device("/dev/fuse"), Need::FileSystem("ext4")];
    can_run(&[&tools[..], &kernel].concat())
}

/// As many stories as there are rounds for one of the databases. Caches take turns.
fn run<D: Database>(name: &str) {
    let rounds = number_of("STRIPEWISE_DATABASE_ROUNDS").unwrap_or(4).div_ceil(DATABASES);
    let seed = number_of("STRIPEWISE_DATABASE_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("{name}: STRIPEWISE_DATABASE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut caches = ["stripe", "pbg", "stripe+ct", "auto"];
    random.shuffle(&mut caches);
    let mut figures = Figures::default();
    for (story, begun) in (0..rounds).step_by(STORY_ROUNDS as usize).enumerate() {
        let rounds = STORY_ROUNDS.min(rounds - begun);
        let cache = caches[story % caches.len()];
        figures += Story::<D>::begin(cache, fastrand::Rng::with_seed(random.u64(..))).run(rounds);
        eprintln!("{name}, after a story with cache {cache}: {figures:?}");
    }
}

#[test]
fn sqlite_keeps_what_it_committed() {
    if can_mount() && can_run(&[Need::Tool("sqlite3")]) {
        run::<sqlite::Sqlite>("sqlite");
    }
}

#[test]
fn postgresql_keeps_what_it_committed() {
    if can_mount() && postgres::is_here() {
        run::<postgres::Postgres>("postgresql");
    }
}
