//! Random operations against a map: changes, reads, checkpoints that succeed, fail or find no room, reads that fail or never
//! end, and crashes.

use std::ops::Bound;

use futures_util::FutureExt;
use proptest::prelude::*;
use stripewise_device::IoErrorKind;
use stripewise_format::rafs::key::{Key, KeyKind};
use stripewise_format::rafs::value::VALUE_MAX;
use stripewise_rafs::tree::{Scan, TreeError};

use crate::stored::{Fault, now};
use crate::world::World;

/// The key with a number: keys are in the order of their numbers.
pub(crate) fn key(number: u64) -> Key {
    let kind = KeyKind::ALL[(number / 16 % 8) as usize];
    let spread = |number: u64| number.wrapping_mul(u64::MAX / 16);
    Key::new(number / 128, kind, spread(number % 16))
}

#[derive(Clone, Debug)]
enum Op {
    Insert {
        from: u64,
        count: u64,
        len: usize,
        fill: u8,
    },
    Remove {
        from: u64,
        count: u64,
    },
    Get(u64),
    Next(u64),
    Last(u64, u64),
    Scan(u64, u64),
    WriteOut,
    Settle,
    Abandon(usize),
    Crash(usize),
    CrashBehindAnchor,
    ShrinkCache(usize),
    /// An insert, or a remove, during which a read fails.
    Hurt {
        reads: u32,
        fault: Fault,
        number: u64,
        len: Option<usize>,
    },
}

const NUMBERS: u64 = 3000;

fn ops() -> impl Strategy<Value = Op> {
    let number = 0..NUMBERS;
    let len = prop_oneof![6 => 0..80_usize, 2 => 0..=VALUE_MAX, 1 => 900..1000_usize, 1 => VALUE_MAX - 300..=VALUE_MAX];
    let fault = prop_oneof![Just(Fault::Fail), Just(Fault::Hang)];
    prop_oneof![
        10 => (number.clone(), 1..120_u64, len.clone(), any::<u8>())
            .prop_map(|(from, count, len, fill)| Op::Insert { from, count, len, fill }),
        10 => (number.clone(), len.clone(), any::<u8>())
            .prop_map(|(from, len, fill)| Op::Insert { from, count: 1, len, fill }),
        6 => (number.clone(), 1..200_u64).prop_map(|(from, count)| Op::Remove { from, count }),
        1 => (number.clone(), 1000..3000_u64).prop_map(|(from, count)| Op::Remove { from, count }),
        2 => number.clone().prop_map(Op::Get),
        3 => number.clone().prop_map(Op::Next),
        3 => (number.clone(), number.clone()).prop_map(|(from, to)| Op::Last(from.min(to), from.max(to))),
        3 => (number.clone(), number.clone()).prop_map(|(from, to)| Op::Scan(from, to)),
        6 => Just(Op::WriteOut),
        5 => Just(Op::Settle),
        2 => (0..40_usize).prop_map(Op::Abandon),
        1 => (0..40_usize).prop_map(Op::Crash),
        1 => Just(Op::CrashBehindAnchor),
        2 => (0..8_usize).prop_map(Op::ShrinkCache),
        8 => (0..6_u32, fault, number, prop::option::of(len))
            .prop_map(|(reads, fault, number, len)| Op::Hurt { reads, fault, number, len }),
    ]
}

fn run(world: &mut World, op: Op) {
    match op {
        Op::Insert { from, count, len, fill } => {
            (from..from + count).for_each(|number| world.insert(key(number), &vec![fill; len]));
        }
        Op::Remove { from, count } => (from..from + count).for_each(|number| world.remove(key(number))),
        Op::Get(number) => {
            let found = now(world.tree.get(key(number))).unwrap();
            assert_eq!(found.as_ref(), world.items.get(&key(number)));
        }
        Op::Next(number) => {
            let found = now(world.tree.next(key(number))).unwrap().map(|item| (item.key, item.value));
            let wanted = world.items.range(key(number)..).next();
            assert_eq!(found, wanted.map(|(key, value)| (*key, value.clone())));
        }
        Op::Last(from, to) => check_last(world, key(from), key(to)),
        Op::Scan(from, to) => scan(world, key(from), key(to)),
        Op::WriteOut if world.in_flight.is_none() => drop(world.write_out()),
        Op::WriteOut => world.check(),
        Op::Settle => world.settle(),
        Op::Abandon(count) => world.abandon(count),
        Op::Crash(count) => {
            world.crash(count);
            world.check();
        }
        Op::CrashBehindAnchor => {
            world.crash_behind_anchor();
            world.check();
        }
        Op::ShrinkCache(keep) => world.tree.shrink_cache(keep),
        Op::Hurt { reads, fault, number, len } => hurt(world, reads, fault, key(number), len),
    }
}

fn check_last(world: &World, from: Key, to: Key) {
    let found = now(world.tree.last(from..=to)).unwrap().map(|item| (item.key, item.value));
    let wanted = world.items.range(from..=to).next_back();
    assert_eq!(found, wanted.map(|(key, value)| (*key, value.clone())));
}

fn scan(world: &World, from: Key, to: Key) {
    let found = world.scan(from..=to);
    let range = (Bound::Included(from), Bound::Included(to.max(from)));
    let wanted = world.items.range(range).filter(|(key, _)| **key <= to);
    assert!(found.iter().eq(wanted));
}

/// Whether it fails or is given up, the tree is as it was.
fn hurt(world: &mut World, reads: u32, fault: Fault, key: Key, len: Option<usize>) {
    world.tree.shrink_cache(0);
    world.memory.set_fault(Some((reads, fault)));
    let before = (world.tree.dirty_nodes(), world.tree.given_up().len());
    let done = match len {
        Some(len) => world.tree.insert(key, vec![0xEE; len].into()).now_or_never(),
        None => world.tree.remove(key).now_or_never(),
    };
    world.memory.set_fault(None);
    match done {
        Some(Ok(_)) => drop(match len {
            Some(len) => world.items.insert(key, vec![0xEE; len].into()),
            None => world.items.remove(&key),
        }),
        Some(Err(TreeError::Unreadable { source, .. })) => assert_eq!(source.kind, IoErrorKind::Medium),
        Some(Err(error)) => panic!("{error}"),
        None => assert!(matches!(fault, Fault::Hang)),
    }
    if !matches!(done, Some(Ok(_))) {
        assert_eq!((world.tree.dirty_nodes(), world.tree.given_up().len()), before);
        world.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_a_sorted_map_whose_checkpoints_survive(
        ops in prop::collection::vec(ops(), 1..100),
        places in prop_oneof![60..400_u64, Just(5000)],
        cached_nodes_max in prop_oneof![Just(0_usize), 1..20_usize, Just(1000)],
    ) {
        let mut world = World::new(places, cached_nodes_max);
        for op in ops {
            run(&mut world, op);
        }
        world.check();
        world.settle();
        world.crash(0);
        world.check();
    }
}

/// An inner node may lose its first child, and the node above it still tells the old first key. What lies before that key is found.
#[test]
fn the_last_item_is_found_behind_children_that_are_gone() {
    let mut world = World::new(5000, 1000);
    let value = [7; 1037];
    (0..1200).for_each(|number| world.insert(key(number), &value));
    for first in 1..1190 {
        let gone = first..first + 7;
        gone.clone().for_each(|number| world.remove(key(number)));
        gone.clone().for_each(|number| check_last(&world, key(0), key(number)));
        gone.for_each(|number| world.insert(key(number), &value));
    }
    world.check();
}

#[test]
fn a_scan_sees_the_changes_ahead_of_it() {
    let mut world = World::new(1000, 10);
    (0..400).step_by(2).for_each(|number| world.insert(key(number), &[1; 50]));
    let mut scan = Scan::over(key(0)..=key(399));
    let first = now(scan.batch(&world.tree)).unwrap().unwrap();
    assert!(first.len() < 100, "one leaf at a time");
    world.remove(key(398));
    world.insert(key(397), b"late");
    world.insert(key(1), b"behind");
    let mut rest = Vec::new();
    while let Some(items) = now(scan.batch(&world.tree)).unwrap() {
        rest.extend(items.into_iter().map(|item| item.key));
    }
    assert_eq!(rest.last(), Some(&key(397)));
    assert_eq!(first.len() + rest.len(), 200);
}

#[test]
fn a_value_that_is_too_long_is_refused() {
    let mut world = World::new(10, 10);
    let len = VALUE_MAX + 1;
    let error = now(world.tree.insert(key(1), vec![0; len].into())).unwrap_err();
    assert_eq!(error, TreeError::ValueTooLong { key: key(1), len });
}

#[test]
fn storing_what_is_there_changes_nothing() {
    let mut world = World::new(10, 10);
    world.insert(key(1), b"same");
    assert!(world.write_out());
    world.settle();
    world.insert(key(1), b"same");
    world.remove(key(2));
    assert_eq!((world.tree.dirty_nodes(), world.tree.given_up()), (0, &[][..]));
    assert!(world.write_out());
    let (checkpoint, blocks) = world.in_flight.clone().unwrap();
    assert!(blocks.is_empty() && checkpoint.root.generation == 1);
    world.settle();
}
