//! Arrays that are stopped, or let go of, and opened again in the same process: their members are free at
//! once.

#![allow(clippy::unwrap_used)]

mod common;

use common::Ground;
use stripewise::{Array, IoBuf, WriteFlags};

/// Once 13 of 20 failed.
const ROUNDS: u8 = 20;

/// Writes a block that tells the round, with what the round before left before it.
fn write(ground: &Ground, array: &Array, round: u8) {
    let array = array.clone();
    let found = ground.host.block_on(async move {
        let found = array.read(0, IoBuf::with_len(4096)).await?;
        let data = IoBuf::copy_of(&[round; 4096]).freeze();
        array.write(0, data, WriteFlags { fua: true }).await?;
        Ok::<_, stripewise::ArrayError>(found)
    });
    assert!(found.unwrap().iter().all(|byte| *byte == round - 1), "round {round}");
}

#[test]
fn an_array_that_was_stopped_is_opened_again_at_once() {
    let ground = Ground::new();
    for round in 1..=ROUNDS {
        let array = ground.open();
        write(&ground, &array, round);
        ground.host.block_on(async move { array.stop().await }).unwrap();
    }
}

/// As after a crash, but for the members, which nothing keeps.
#[test]
fn an_array_that_was_let_go_of_is_opened_again() {
    let ground = Ground::new();
    for round in 1..=ROUNDS {
        let array = ground.open();
        write(&ground, &array, round);
    }
}
