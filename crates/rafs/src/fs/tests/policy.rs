//! What journal modes, presets, techniques of the paper and discards change.

use std::{ops::Range, sync::atomic::Ordering};

use super::{
    single::{file, plain},
    *,
};
use crate::fs::{
    JournalMode, Preset, Technique, Without,
    sync::{Along, Ticket},
};

const STRIPE: usize = 64 * BLOCK_BYTES;

/// A new file system that is mounted like this.
fn mounted(change: impl FnOnce(&mut MountOptions)) -> World {
    let mut world = plain();
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    let mut options = options(64);
    change(&mut options);
    world.fs = mount_with(&world.env, &world.volume, options);
    world
}

fn without(technique: Technique) -> World {
    mounted(|options| options.without = Without::default().and(technique))
}

fn counters(world: &World) -> Counters {
    world.run(|fs| Box::pin(fs.counters()))
}

fn sync(world: &World) {
    world.run(|fs| Box::pin(fs.sync())).unwrap();
}

fn overwrite(world: &World, inode: u64, at: usize) {
    let data = IoBuf::copy_of(&[9; BLOCK_BYTES]).freeze();
    world.run(move |fs| Box::pin(fs.write(inode, at as u64, data))).unwrap();
}

/// A file that was overwritten in one block has all its bytes.
fn check_overwritten(world: &World, inode: u64, at: usize, len: usize) {
    let read = world.run(move |fs| Box::pin(fs.read(inode, 0, len + 1))).unwrap();
    let wanted = |byte: usize| if (at..at + BLOCK_BYTES).contains(&byte) { 9 } else { 5 };
    assert!(read.len() == len && read.iter().enumerate().all(|(byte, is)| *is == wanted(byte)));
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

#[test]
fn without_the_layout_nothing_is_overwritten_where_it_lies() {
    let world = without(Technique::Layout);
    let inode = file(&world, b"large", &vec![5; 3 * STRIPE]);
    sync(&world);
    overwrite(&world, inode, 4 * BLOCK_BYTES);
    sync(&world);
    world.env.pass(Duration::from_secs(20));
    let counted = counters(&world);
    assert_eq!((counted.overwritten_blocks, counted.moved_pieces, counted.written_blocks), (0, 0, 193));
    check_overwritten(&world, inode, 4 * BLOCK_BYTES, 3 * STRIPE);
}

#[test]
fn without_the_buffer_nothing_waits() {
    for (world, waits) in [(without(Technique::Buffer), false), (plain(), true)] {
        file(&world, b"small", &vec![5; 20_000]);
        world.env.pass(Duration::from_millis(100));
        assert_eq!(world.run(|fs| Box::pin(fs.usage())).buffered_blocks > 0, waits);
    }
}

/// Two files are written in turns. In the order of age, their blocks lie in turns, too.
#[test]
fn without_the_flush_what_is_older_goes_first() {
    for (world, are_mixed) in [(without(Technique::Flush), true), (plain(), false)] {
        let files = [file(&world, b"one", b""), file(&world, b"other", b"")];
        for at in 0..6 {
            for inode in files {
                overwrite(&world, inode, at * BLOCK_BYTES);
                world.env.pass(Duration::from_millis(1));
            }
        }
        sync(&world);
        let extents = world.run(move |fs| {
            Box::pin(async move { fs.shared.state.lock().await.mapped(files[0], 0..6).await.unwrap().len() })
        });
        assert_eq!(extents > 1, are_mixed, "{extents} extents");
    }
}

fn name_of(number: u8) -> &'static [u8] {
    Box::leak(format!("file {number}").into_boxed_str().into_boxed_bytes())
}

/// Every other small file goes. New ones take free stripes, or the next free blocks.
#[test]
fn without_the_allocation_holes_are_filled_first() {
    for (world, fills_holes) in [(without(Technique::Allocation), true), (plain(), false)] {
        for number in 0..64_u8 {
            let name = name_of(number);
            let inode = file(&world, name, &vec![5; 2 * BLOCK_BYTES]);
            world.run(move |fs| Box::pin(async move { fs.forget(inode, 1).await }));
        }
        world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
        for number in (0..64_u8).step_by(2) {
            let name = name_of(number);
            world.run(move |fs| Box::pin(fs.unlink(ROOT, name))).unwrap();
        }
        world.env.pass(Duration::from_secs(6));
        world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
        // The next free blocks are those behind the last ones, and then the first of all.
        file(&world, b"new", &vec![7; 3 * STRIPE / 2]);
        let large = counters(&world);
        file(&world, b"newer", &vec![7; STRIPE - 1]);
        sync(&world);
        let stripes = world.run(|fs| Box::pin(fs.stripes()));
        assert_eq!(stripes.written.data.single_blocks > 0, fills_holes, "{large:?} {stripes:?}");
        world.check();
    }
}

#[test]
fn the_preset_of_the_paper_cleans_nothing() {
    let paper = MountOptions::of(Preset::Paper);
    assert!(!paper.cleans && paper.measure == crate::space::Measure::Blocks);
    assert_eq!(MountOptions::of(Preset::Default), MountOptions::default());
}

#[test]
fn without_a_journal_a_sync_is_a_checkpoint() {
    let world = mounted(|options| options.journal = JournalMode::None);
    let inode = file(&world, b"file", &[5; 5000]);
    world.run(move |fs| Box::pin(fs.fsync(inode))).unwrap();
    let counted = counters(&world);
    assert_eq!((counted.commits, counted.journaled_blocks), (0, 0));
    assert!((1..=2).contains(&counted.checkpoints), "{counted:?}");
    // What is durable needs no other one.
    world.run(move |fs| Box::pin(fs.fsync(inode))).unwrap();
    assert_eq!(counters(&world), counted);
    let stripes = world.run(|fs| Box::pin(fs.stripes()));
    assert_eq!(stripes.written.journal.stripes, 0);
}

#[test]
fn all_data_that_is_synced_can_go_through_the_journal() {
    let world = mounted(|options| options.journal = JournalMode::Data);
    let inode = file(&world, b"large", &vec![5; 2 * STRIPE]);
    world.run(move |fs| Box::pin(fs.fsync(inode))).unwrap();
    let counted = counters(&world);
    assert!(counted.journaled_blocks == 128 && counted.written_blocks <= 128, "{counted:?}");
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    overwrite(&world, inode, STRIPE);
    sync(&world);
    let after = counters(&world);
    assert_eq!((after.journaled_blocks, after.overwritten_blocks), (129, 1), "{after:?}");
    check_overwritten(&world, inode, STRIPE, 2 * STRIPE);
}

/// A sync of some size, but of no whole stripe, takes one flush instead of two.
#[test]
fn data_that_may_trail_save_a_flush() {
    let flushes = |journal| {
        let world = mounted(|options| options.journal = journal);
        let inode = file(&world, b"file", &vec![5; STRIPE - BLOCK_BYTES]);
        let before = world.volume.flushes_and_reads().0;
        world.run(move |fs| Box::pin(fs.fsync(inode))).unwrap();
        let count = world.volume.flushes_and_reads().0 - before;
        // What is overwritten out of place was durable: that must not be lost.
        overwrite(&world, inode, 0);
        let data = IoBuf::copy_of(&vec![9; STRIPE - 8 * BLOCK_BYTES]).freeze();
        world.run(move |fs| Box::pin(fs.write(inode, 0, data))).unwrap();
        let before = world.volume.flushes_and_reads().0;
        world.run(move |fs| Box::pin(fs.fsync(inode))).unwrap();
        assert_eq!(world.volume.flushes_and_reads().0 - before, 2);
        world.check();
        count
    };
    assert_eq!((flushes(JournalMode::Ordered), flushes(JournalMode::Writeback)), (2, 1));
}

/// What lies in a stripe of its own has no CRC: a record that makes a file longer must not come before what is overwritten there.
#[test]
fn what_is_overwritten_where_it_lies_never_trails() {
    let world = mounted(|options| options.journal = JournalMode::Writeback);
    let inode = file(&world, b"large", &vec![5; STRIPE]);
    sync(&world);
    let set = SetAttr { size_bytes: Some(3 * BLOCK_BYTES as u64 + 100), ..SetAttr::default() };
    world.run(move |fs| Box::pin(fs.set_attr(inode, set))).unwrap();
    world.run(move |fs| Box::pin(fs.fsync(inode))).unwrap();
    let data = IoBuf::copy_of(&[9; 50]).freeze();
    world.run(move |fs| Box::pin(fs.write(inode, 3 * BLOCK_BYTES as u64 + 100, data))).unwrap();
    let before = world.volume.flushes_and_reads().0;
    sync(&world);
    let counted = counters(&world);
    assert_eq!((counted.overwritten_blocks, world.volume.flushes_and_reads().0 - before), (1, 2));
    world.check();
}

#[test]
fn stripes_that_become_free_are_discarded_once_that_is_durable() {
    let world = mounted(|options| options.discards = true);
    let inode = file(&world, b"large", &vec![5; 40 * STRIPE]);
    sync(&world);
    world.run(move |fs| Box::pin(async move { fs.forget(inode, 1).await }));
    assert_eq!(world.volume.discarded(), 0);
    world.run(|fs| Box::pin(fs.unlink(ROOT, b"large"))).unwrap();
    world.env.pass(Duration::from_secs(20));
    let counted = counters(&world);
    assert!(counted.discarded_stripes >= 40 && world.volume.discarded() == counted.discarded_stripes);
    let again = file(&world, b"again", &vec![5; 40 * STRIPE]);
    sync(&world);
    let read = world.run(move |fs| Box::pin(fs.read(again, 0, 64 * STRIPE))).unwrap();
    assert!(read.len() == 40 * STRIPE && read.iter().all(|byte| *byte == 5));
    world.check();
}

/// Nothing is left to the next mount, which knows of no stripe that it was free before.
#[test]
fn what_is_removed_just_before_an_unmount_is_discarded() {
    let world = mounted(|options| options.discards = true);
    let inode = file(&world, b"large", &vec![5; 40 * STRIPE]);
    sync(&world);
    world.run(move |fs| Box::pin(async move { fs.forget(inode, 1).await }));
    world.run(|fs| Box::pin(fs.unlink(ROOT, b"large"))).unwrap();
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    assert!(world.volume.discarded() >= 40, "{} stripes", world.volume.discarded());
    world.check();
}

#[test]
fn files_that_are_synced_together_share_commits() {
    let world = mounted(|options| options.journal = JournalMode::Data);
    for number in 0..60 {
        file(&world, name_of(number), &vec![5; 2 * BLOCK_BYTES]);
    }
    sync(&world);
    let counted = counters(&world);
    // 120 blocks, of which a commit takes 24 along.
    assert_eq!(counted.journaled_blocks, 120);
    assert!(counted.commits <= 8, "{counted:?}");
    world.check();
}

/// A file of a stripe and a tenth has two stripes by the rules of the paper, and what comes behind it goes to the second one, where it
/// lies.
#[test]
fn the_paper_gives_the_tail_of_a_large_file_a_stripe_of_its_own() {
    for preset in Preset::ALL {
        let is_padded = preset == Preset::Paper;
        let world = mounted(|options| options.pads = MountOptions::of(preset).pads);
        let len = STRIPE + 6 * BLOCK_BYTES + 100;
        let inode = file(&world, b"large", &vec![5; len]);
        let small = file(&world, b"small", &vec![5; STRIPE / 2]);
        sync(&world);
        let counted = counters(&world);
        let written = if is_padded { 128 + 32 } else { 64 + 7 + 32 };
        assert_eq!(counted.written_blocks, written, "{preset:?}");
        let plain = |inode: u64, blocks: Range<u64>| {
            world.run(move |fs| {
                Box::pin(async move {
                    let all = fs.shared.state.lock().await.mapped(inode, blocks).await.unwrap();
                    all.iter().all(|one| one.extent.crcs.is_none())
                })
            })
        };
        assert!(plain(inode, 0..64) && plain(inode, 64..71) == is_padded && !plain(small, 0..32));
        // Appended.
        let end = len as u64;
        let more = IoBuf::copy_of(&[5; 3 * BLOCK_BYTES]).freeze();
        world.run(move |fs| Box::pin(fs.write(inode, end, more))).unwrap();
        sync(&world);
        assert_eq!(counters(&world).overwritten_blocks > 0, is_padded);
        overwrite(&world, inode, 65 * BLOCK_BYTES);
        sync(&world);
        // Longer: what was wasted is zeroes.
        let longer = SetAttr { size_bytes: Some(3 * STRIPE as u64), ..SetAttr::default() };
        world.run(move |fs| Box::pin(fs.set_attr(inode, longer))).unwrap();
        let rest =
            world.run(move |fs| Box::pin(fs.read(inode, end + 3 * BLOCK_BYTES as u64, STRIPE))).unwrap();
        assert!(rest.len() == STRIPE && rest.iter().all(|byte| *byte == 0));
        let shorter = SetAttr { size_bytes: Some(end), ..SetAttr::default() };
        world.run(move |fs| Box::pin(fs.set_attr(inode, shorter))).unwrap();
        check_overwritten(&world, inode, 65 * BLOCK_BYTES, len);
    }
}

/// Its first block was in the tree. It is buffered once the file is longer, so that no padding hides it.
#[test]
fn the_tail_of_a_short_file_that_became_large_keeps_its_begin() {
    let world = mounted(|options| options.pads = true);
    let inode = file(&world, b"short", &[5; 1000]);
    sync(&world);
    let longer = SetAttr { size_bytes: Some(2 * STRIPE as u64), ..SetAttr::default() };
    world.run(move |fs| Box::pin(fs.set_attr(inode, longer))).unwrap();
    sync(&world);
    overwrite(&world, inode, 8 * BLOCK_BYTES);
    sync(&world);
    let read = world.run(move |fs| Box::pin(fs.read(inode, 0, 2 * STRIPE))).unwrap();
    let overwritten = 8 * BLOCK_BYTES..9 * BLOCK_BYTES;
    let wanted = |byte: usize| match byte {
        0..1000 => 5,
        _ if overwritten.contains(&byte) => 9,
        _ => 0,
    };
    assert!(read.len() == 2 * STRIPE && read.iter().enumerate().all(|(byte, is)| *is == wanted(byte)));
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

/// Clients may go on writing after the waiting blocks were counted. A commit of whole files may then not fit the journal.
#[test]
fn what_does_not_fit_the_journal_is_durable_in_its_places() {
    for journal in [JournalMode::Ordered, JournalMode::Data, JournalMode::None] {
        let mut world = mounted(|options| (options.journal, options.buffer_blocks) = (journal, 2048));
        let files = [
            (file(&world, b"first", &vec![5; 24 * BLOCK_BYTES]), 5, 24 * BLOCK_BYTES),
            (file(&world, b"large", &vec![6; 300 * BLOCK_BYTES]), 6, 300 * BLOCK_BYTES),
            (file(&world, b"small", &[7; 1000]), 7, 1000),
            (file(&world, b"overtaken", &vec![4; 100 * BLOCK_BYTES]), 8, 100 * BLOCK_BYTES),
        ];
        let inodes = files.map(|(inode, ..)| inode);
        world.run(move |fs| Box::pin(fs.fsync(inodes[0]))).unwrap();
        let data = IoBuf::copy_of(&vec![8; 100 * BLOCK_BYTES]).freeze();
        world.run(move |fs| Box::pin(fs.write(inodes[3], 0, data))).unwrap();
        let is_by_parts = journal == JournalMode::Data;
        let committed = world.run(move |fs| {
            Box::pin(async move {
                if is_by_parts {
                    return fs.shared.commit_part(&inodes, usize::MAX).await;
                }
                assert_eq!(fs.shared.state.lock().await.overtaken.len(), 1);
                let [first, own, small] = [0, 1, 2].map(|at| Ticket::new((inodes[at], false.into())));
                fs.shared.syncs.lock().extend([first.clone(), small.clone()]);
                let committed = fs.shared.commit_alone(Some(&own), Along::Overtaken).await;
                assert!(fs.shared.state.lock().await.overtaken.is_empty());
                // Of the first file nothing has waited.
                let served = [first, small.clone()].map(|ticket| ticket.1.load(Ordering::Acquire));
                assert_eq!((served, fs.shared.syncs.lock().len()), ([true, false], 1));
                committed.and(fs.shared.commit_alone(Some(&small), Along::Synced).await)
            })
        });
        assert_eq!(committed, Ok(()), "{journal:?}");
        world.volume.lose_power(|| false);
        world.env.end();
        world.env = TestEnv::new(1);
        world.check();
        world.fs = mount(&world.env, &world.volume);
        for (inode, byte, len) in files {
            let read = world.run(move |fs| Box::pin(fs.read(inode, 0, 1 << 21))).unwrap();
            assert!(*read == vec![byte; len], "{journal:?}: file {inode}");
        }
    }
}
