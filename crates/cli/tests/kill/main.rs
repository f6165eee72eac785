//! Daemons killed with -9 under load, at random moments. Whatever was acknowledged is there afterwards, and with a
//! cache whatever was flushed; what was under way is old or new, sector by sector.
//!
//! `STRIPEWISE_KILL_ROUNDS` says how many rounds are run over all levels; 40 if it is not set.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod load;
mod model;
mod story;

use story::Story;

/// Rounds of one story: an array's life from its creation to the last scrub.
const STORY_ROUNDS: usize = 10;
const LEVELS: usize = 4;

fn stories() -> usize {
    let rounds: usize = std::env::var("STRIPEWISE_KILL_ROUNDS").map_or(40, |rounds| rounds.parse().unwrap());
    rounds.div_ceil(LEVELS * STORY_ROUNDS)
}

fn run(level: i32, members: usize) {
    let mut figures = story::Figures::default();
    for _ in 0..stories() {
        figures += Story::begin(level, members).run();
    }
    eprintln!("level {level}: {figures:?}");
}

#[test]
fn level_1_survives() {
    run(1, 3);
}

#[test]
fn level_4_survives() {
    run(4, 4);
}

#[test]
fn level_5_survives() {
    run(5, 4);
}

#[test]
fn level_6_survives() {
    run(6, 6);
}
