//! Single cases.

use stripewise_device::SharedBuf;
use stripewise_format::rafs::{
    key::{Key, KeyKind},
    names::Entry,
    space::GroupKind,
};

use super::*;
use crate::store::StripeCounts;

pub(super) fn plain() -> World {
    World::new((4, 16), 400, Order::Rows, 0)
}

/// A file of the root with these bytes.
pub(super) fn file(world: &World, name: &'static [u8], bytes: &[u8]) -> u64 {
    let data = IoBuf::copy_of(bytes).freeze();
    world.run(move |fs| {
        Box::pin(async move {
            let attr = fs.create(ROOT, name, new_inode(FileType::File)).await.unwrap();
            assert_eq!(fs.write(attr.inode, 0, data.clone()).await, Ok(data.len()));
            attr.inode
        })
    })
}

#[test]
fn a_small_fsync_takes_a_row_or_two_one_flush_and_no_read() {
    let world = plain();
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    let (rows, blocks) = world.volume.written();
    let (flushes, reads) = world.volume.flushes_and_reads();
    let inode = file(&world, b"new", &[7; 4096]);
    world.run(move |fs| Box::pin(fs.fsync(inode))).unwrap();
    let (rows_then, blocks_then) = world.volume.written();
    let (flushes_then, reads_then) = world.volume.flushes_and_reads();
    assert!((1..=2).contains(&(rows_then - rows)), "{} rows", rows_then - rows);
    assert_eq!((blocks_then - blocks, flushes_then - flushes, reads_then - reads), (0, 1, 0));
}

#[test]
fn a_tree_that_is_written_and_synced_takes_whole_rows() {
    let world = plain();
    for number in 0..200_u32 {
        let name: &'static [u8] = Box::leak(format!("file {number}").into_boxed_str().into_boxed_bytes());
        file(&world, name, &vec![number as u8; 1000 + 700 * number as usize % 50_000]);
    }
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    let stripes = world.run(|fs| Box::pin(fs.stripes()));
    let StripeCounts { data, metadata, journal } = stripes.written;
    assert_eq!((data.single_blocks, data.partial_rows, metadata.single_blocks), (0, 0, 0), "{stripes:?}");
    assert!(data.full_rows > 300 && data.full_stripes * 2 > data.stripes, "{stripes:?}");
    assert!(metadata.full_rows > 0 && journal.partial_rows == 0, "{stripes:?}");
    let groups = world.run(|fs| Box::pin(async move { fs.shared.state.lock().await.store.free_stripes() }));
    assert_eq!((stripes.fill[0], stripes.fill.iter().sum()), groups);
    let counters = world.run(|fs| Box::pin(fs.counters()));
    assert_eq!(counters.client_writes, 200);
    assert_eq!(counters.coalesced_writes(&data), 200 - data.stripes);
    world.check();
}

#[test]
fn large_files_lie_in_stripes_of_their_own_and_are_overwritten_there() {
    let world = plain();
    let stripe = 64 * BLOCK_BYTES;
    let inode = file(&world, b"large", &vec![5; 3 * stripe + 10_000]);
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    let before = world.run(|fs| Box::pin(fs.counters()));
    assert_eq!(before.overwritten_blocks, 0);
    let data = IoBuf::copy_of(&[6; 4096]).freeze();
    world.run(move |fs| Box::pin(fs.write(inode, 40_960, data))).unwrap();
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    let after = world.run(|fs| Box::pin(fs.counters()));
    assert_eq!((after.overwritten_blocks, after.written_blocks), (1, before.written_blocks));
    let read = world.run(move |fs| Box::pin(fs.read(inode, 40_000, 10_000))).unwrap();
    let wanted = |at: usize| if (960..5056).contains(&at) { 6 } else { 5 };
    assert!(read.iter().enumerate().all(|(at, byte)| *byte == wanted(at)));
    world.check();
}

#[test]
fn a_hole_in_a_hole_takes_no_block() {
    let world = plain();
    let inode = file(&world, b"sparse", &[1; 5000]);
    let longer = SetAttr { size_bytes: Some(100_000), ..SetAttr::default() };
    world.run(move |fs| Box::pin(async move { fs.set_attr(inode, longer).await })).unwrap();
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    let usage = |world: &World| world.run(|fs| Box::pin(fs.usage()));
    let before = usage(&world);
    for bytes in [20_000..21_000, 6000..50_000, 99_000..100_000] {
        world.run(move |fs| Box::pin(fs.punch(inode, bytes.clone()))).unwrap();
    }
    assert_eq!(usage(&world).buffered_blocks, 0, "zeroes that nobody had to write");
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    assert_eq!(usage(&world).free_blocks, before.free_blocks);
    // Of what was written, a block that a hole cuts is written anew.
    world.run(move |fs| Box::pin(fs.punch(inode, 4500..4600))).unwrap();
    assert_eq!(usage(&world).buffered_blocks, 1);
    let read = world.run(move |fs| Box::pin(fs.read(inode, 0, 200_000))).unwrap();
    let wanted = |at: usize| u8::from(at < 5000 && !(4500..4600).contains(&at));
    assert!(read.len() == 100_000 && read.iter().enumerate().all(|(at, byte)| *byte == wanted(at)));
    world.check();
}

#[test]
fn a_file_without_a_name_lives_until_it_is_given_back() {
    let mut world = plain();
    let inode = file(&world, b"gone", &[1; 30_000]);
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    world.run(|fs| Box::pin(fs.unlink(ROOT, b"gone"))).unwrap();
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    let read = world.run(move |fs| Box::pin(fs.read(inode, 29_000, 5000))).unwrap();
    assert_eq!(read.len(), 1000);
    assert_eq!(world.check().orphans, 1);
    let before = world.run(|fs| Box::pin(fs.usage()));
    world.run(move |fs| Box::pin(fs.forget(inode, 1)));
    world.env.pass(Duration::from_secs(6));
    let after = world.run(|fs| Box::pin(fs.usage()));
    assert_eq!(after.inodes + 1, before.inodes);
    let attr = world.run(move |fs| Box::pin(fs.attr(inode)));
    assert_eq!(attr, Err(FsError::Stale(inode)));
    world.remount();
}

#[test]
fn a_full_file_system_says_so_and_goes_on_once_files_are_removed() {
    let world = World::new((4, 4), 100, Order::Rows, 0);
    let inode = file(&world, b"full", &[1; 100]);
    let chunk = IoBuf::copy_of(&[2; 65_536]).freeze();
    let written = world.run(move |fs| {
        Box::pin(async move {
            for at in 0..1000 {
                match fs.write(inode, at * 65_536, chunk.clone()).await {
                    Ok(65_536) => {}
                    Ok(_) | Err(FsError::NoSpace) => return at,
                    Err(error) => panic!("{error}"),
                }
            }
            panic!("no volume is so large")
        })
    });
    // 1,600 blocks; the rest is journal, and kept for what frees space.
    assert!(written * 16 > 1000, "only {written} pieces of 16 blocks");
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    world.run(|fs| {
        Box::pin(async move {
            fs.unlink(ROOT, b"full").await.unwrap();
            let new = fs.create(ROOT, b"other", new_inode(FileType::File)).await;
            assert!(new.is_err() || new.is_ok());
        })
    });
    world.run(move |fs| Box::pin(fs.forget(inode, 1)));
    world.env.pass(Duration::from_secs(10));
    let again = file(&world, b"again", &vec![3; 500_000]);
    world.run(move |fs| Box::pin(fs.fsync(again))).unwrap();
    world.check();
}

#[test]
fn a_file_that_grows_slowly_moves_to_stripes_of_its_own() {
    let world = plain();
    let inode = file(&world, b"log", b"");
    for at in 0..40_u64 {
        let data = IoBuf::copy_of(&[at as u8 + 1; 7 * BLOCK_BYTES]).freeze();
        world.run(move |fs| Box::pin(fs.write(inode, at * 7 * BLOCK_BYTES as u64, data))).unwrap();
        world.env.pass(Duration::from_secs(6));
    }
    world.env.pass(Duration::from_secs(12));
    let counters = world.run(|fs| Box::pin(fs.counters()));
    // 280 blocks are 4 stripes and a tail.
    assert_eq!(counters.moved_pieces, 4);
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    let kinds = world.run(move |fs| {
        Box::pin(async move {
            let state = fs.shared.state.lock().await;
            let all = state.mapped(inode, 0..1000).await.unwrap();
            all.iter().map(|one| (one.first, one.extent.crcs.is_some())).collect::<Vec<_>>()
        })
    });
    assert_eq!(kinds[..4], [(0, false), (64, false), (128, false), (192, false)]);
    let read = world.run(move |fs| Box::pin(fs.read(inode, 0, 2 << 20))).unwrap();
    assert!(read.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at / (7 * BLOCK_BYTES) + 1));
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

/// Every fourth file stays, and most of each stripe is free then: what is left moves together, and that ends.
#[test]
fn what_is_left_in_half_empty_stripes_moves_together() {
    let world = plain();
    for number in 0..400_u32 {
        let name: &'static [u8] = Box::leak(format!("file {number}").into_boxed_str().into_boxed_bytes());
        let inode = file(&world, name, &[number as u8; 20_000]);
        world.run(move |fs| Box::pin(async move { fs.forget(inode, 1).await }));
    }
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    for number in (0..400_u32).filter(|number| number % 4 != 0) {
        let name = format!("file {number}");
        world.run(move |fs| Box::pin(async move { fs.unlink(ROOT, name.as_bytes()).await })).unwrap();
    }
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    let state = || world.run(|fs| Box::pin(async move { fs.shared.state.lock().await.store.free_stripes() }));
    let (before, _) = state();
    world.env.pass(Duration::from_secs(100));
    let (after, _) = state();
    let counters = world.run(|fs| Box::pin(fs.counters()));
    // 500 blocks are left in some 32 stripes of 64 blocks, and fit 8.
    assert!(after >= before + 16, "{before} free stripes, then {after}: {counters:?}");
    assert!(counters.cleaned_blocks * 5 <= counters.written_blocks, "{counters:?}");
    world.env.pass(Duration::from_secs(1000));
    assert_eq!(world.run(|fs| Box::pin(fs.counters())), counters);
    for number in (0..400_u32).step_by(4) {
        let name = format!("file {number}");
        let read = world.run(move |fs| {
            Box::pin(async move {
                let inode = fs.lookup(ROOT, name.as_bytes()).await?.inode;
                fs.read(inode, 0, 1 << 20).await
            })
        });
        assert!(read.unwrap()[..] == [number as u8; 20_000]);
    }
    world.check();
}

fn leaked(name: String) -> &'static [u8] {
    Box::leak(name.into_boxed_str().into_boxed_bytes())
}

/// Attributes take no space of their own, but the leaves of the tree that have them are written anew.
#[test]
fn what_was_accepted_has_room_though_many_nodes_become_dirty() {
    let world = World::new((4, 16), 100, Order::Rows, 0);
    let small: Vec<u64> = (0..1500_u32)
        .map(|number| file(&world, leaked(format!("file {number}")), &[number as u8; 1500]))
        .collect();
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    let full = file(&world, b"full", &[1; 100]);
    let chunk = IoBuf::copy_of(&[2; 16_384]).freeze();
    let written = world.run(move |fs| {
        Box::pin(async move {
            let mut at = 0;
            while fs.write(full, at, chunk.clone()).await.is_ok() {
                at += 16_384;
            }
            at
        })
    });
    for inode in small {
        let set = SetAttr { permissions: Some(0o600), ..SetAttr::default() };
        world.run(move |fs| Box::pin(fs.set_attr(inode, set))).unwrap();
    }
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    let read = world.run(move |fs| Box::pin(fs.read(full, 0, written as usize))).unwrap();
    assert!(read.iter().all(|byte| *byte == 2));
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

/// The folders above are in memory only.
#[test]
fn a_new_folder_in_new_folders_is_renamed() {
    let world = plain();
    world.run(|fs| {
        Box::pin(async move {
            let mut above = ROOT;
            for name in [b"a", b"b", b"c"] {
                above = fs.create(above, name, new_inode(FileType::Folder)).await.unwrap().inode;
            }
            let a = fs.lookup(ROOT, b"a").await.unwrap().inode;
            let b = fs.lookup(a, b"b").await.unwrap().inode;
            fs.rename((b, b"c"), (b, b"d"), Rename::Replace).await.unwrap();
            assert_eq!(
                fs.rename((ROOT, b"a"), (b, b"e"), Rename::Replace).await.map_err(|e| e.errno()),
                Err(22)
            );
        })
    });
    world.check();
}

/// Every seven seconds a client writes a row, and nothing else waits.
#[test]
fn what_is_written_out_now_and_then_fills_stripes_on() {
    let world = plain();
    let free =
        || world.run(|fs| Box::pin(async move { fs.shared.state.lock().await.store.free_stripes().0 }));
    let before = free();
    for number in 0..40_u32 {
        file(&world, leaked(format!("file {number}")), &[1; 4 * BLOCK_BYTES]);
        world.env.pass(Duration::from_secs(7));
    }
    let data = world.run(|fs| Box::pin(fs.stripes())).written.data;
    assert!(data.stripes >= 30 && data.partial_rows == 0, "{data:?}");
    // 160 blocks fit three stripes of 64, and the tree has some.
    assert!(before - free() <= 8, "{before} stripes were free, and {} are", free());
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

/// Files here and there change, and each checkpoint leaves holes in the stripes of the tree.
#[test]
fn what_is_left_of_the_tree_in_half_empty_stripes_moves_together() {
    let world = plain();
    let clean = |cleans| {
        world.run(move |fs| Box::pin(async move { fs.shared.state.lock().await.cleans = cleans }));
    };
    // Not before all holes are there.
    clean(false);
    let all: Vec<u64> =
        (0..2000_u32).map(|number| file(&world, leaked(format!("file {number}")), &[1; 1800])).collect();
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    for round in 0..5 {
        for inode in all.iter().skip(round).step_by(5).copied() {
            let set = SetAttr { permissions: Some(0o600), ..SetAttr::default() };
            world.run(move |fs| Box::pin(fs.set_attr(inode, set))).unwrap();
        }
        world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    }
    let state = || {
        world.run(|fs| {
            Box::pin(async move {
                let state = fs.shared.state.lock().await;
                (state.store.half_empty(GroupKind::Metadata).len(), state.store.free_stripes().0)
            })
        })
    };
    let before = state();
    clean(true);
    world.run(|fs| Box::pin(async move { fs.shared.kick.want() }));
    world.env.pass(Duration::from_secs(100));
    let after = state();
    let counters = world.run(|fs| Box::pin(fs.counters()));
    assert!(counters.cleaned_nodes > 0 && counters.cleaned_blocks == 0, "{counters:?}");
    assert!(after.0 < before.0 && after.1 > before.1, "{before:?} half-empty and free, then {after:?}");
    let written = world.run(|fs| Box::pin(fs.stripes())).written.metadata;
    assert!(counters.cleaned_nodes <= written.full_rows, "{counters:?}, {written:?}");
    world.env.pass(Duration::from_secs(1000));
    assert_eq!(world.run(|fs| Box::pin(fs.counters())), counters, "it ends");
    world.check();
}

/// All nodes have left their places already, for those that the next checkpoint gives them: a pass makes that checkpoint, and ends.
#[test]
fn a_pass_ends_though_clients_have_moved_all_that_it_looks_for() {
    let world = plain();
    let all: Vec<u64> =
        (0..2000_u32).map(|number| file(&world, leaked(format!("file {number}")), &[1; 1800])).collect();
    let touch = |every: usize| {
        for inode in all.iter().step_by(every).copied() {
            let set = SetAttr { permissions: Some(0o600), ..SetAttr::default() };
            world.run(move |fs| Box::pin(fs.set_attr(inode, set))).unwrap();
        }
    };
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    for every in [5, 7, 3] {
        touch(every);
        world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    }
    touch(1);
    world.env.pass(Duration::from_secs(200));
    let counters = world.run(|fs| Box::pin(fs.counters()));
    world.env.pass(Duration::from_secs(1000));
    assert_eq!(world.run(|fs| Box::pin(fs.counters())), counters, "it ends");
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

#[test]
fn reads_of_nothing_and_behind_the_end_give_nothing() {
    let world = plain();
    let inode = file(&world, b"short", &[1; 5000]);
    for (offset_bytes, len) in [(5000, 100), (8192, 4096), (u64::MAX, 1), (100, 0)] {
        let read = world.run(move |fs| Box::pin(fs.read(inode, offset_bytes, len)));
        assert_eq!(read.map(|bytes| bytes.len()), Ok(0), "{len} bytes at {offset_bytes}");
    }
}

/// What is abandoned leaves the volume alone, though it could be written again.
#[test]
fn nothing_is_written_once_it_is_abandoned() {
    let mut world = World::new((4, 16), 400, Order::Rows, 0);
    world.act(&Action::Create { folder: 0, name: 0, file_type: FileType::File });
    world.act(&Action::Write { file: 0, offset_bytes: 0, len: 300_000 });
    world.volume.fail_after(3);
    assert!(world.run(|fs| Box::pin(fs.unmount())).is_err());
    world.run(|fs| Box::pin(fs.abandon()));
    world.volume.fail_after(u64::MAX);
    let written = world.volume.written();
    world.env.pass(Duration::from_secs(60));
    assert_eq!(world.run(|fs| Box::pin(fs.sync())), Err(FsError::Broken));
    assert_eq!(world.run(|fs| Box::pin(fs.unmount())), Err(FsError::Broken));
    assert_eq!(world.volume.written(), written);
    world.check();
}

/// A file's extents cannot be read for a while: the file cannot be changed meanwhile, and all goes on afterwards.
#[test]
fn extents_that_cannot_be_read_now_end_nothing() {
    let mut world = World::new((4, 16), 400, Order::Rows, 0);
    world.act(&Action::Create { folder: 0, name: 0, file_type: FileType::File });
    let (_, inode) = world.model.file(0).unwrap();
    let block = IoBuf::copy_of(&[9; BLOCK_BYTES]).freeze();
    let writes = |world: &World, at: u64| {
        let block = block.clone();
        world.run(move |fs| Box::pin(async move { fs.write(inode, at * BLOCK_BYTES as u64, block).await }))
    };
    // Each has an extent of its own.
    (0..1500).step_by(2).for_each(|at| writes(&world, at).map(drop).unwrap());
    for turn in 0..3 {
        world.run(|fs| Box::pin(fs.unmount())).unwrap();
        world.fs = mount(&world.env, &world.volume);
        world.run(move |fs| Box::pin(async move { fs.attr(inode).await })).unwrap();
        world.volume.fail_reads(true);
        match turn {
            0 => {
                writes(&world, 600).map(drop).unwrap();
                assert!(world.run(|fs| Box::pin(fs.checkpoint())).is_err());
            }
            1 => {
                let set = SetAttr { size_bytes: Some(40_000), ..SetAttr::default() };
                let cut = world.run(move |fs| Box::pin(fs.set_attr(inode, set)));
                assert!(matches!(cut, Err(FsError::Io(_) | FsError::Store(_))), "{cut:?}");
            }
            _ => {
                world.volume.fail_reads(false);
                let (folder_id, folder, name) = world.model.place(0, 0);
                world.model.unlink(folder_id, &name).unwrap();
                world.run(move |fs| Box::pin(async move { fs.unlink(folder, &name).await })).unwrap();
                world.volume.fail_reads(true);
                world.env.pass(Duration::from_secs(1));
            }
        }
        world.volume.fail_reads(false);
        world.run(|fs| Box::pin(fs.sync())).unwrap();
    }
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

/// A file whose extents cannot be read keeps no other one from being written out, and what waits of it is written out later.
#[test]
fn a_file_that_cannot_be_read_keeps_no_other_one_waiting() {
    let mut world = World::new((4, 16), 400, Order::Rows, 0);
    let spread = file(&world, b"spread", &[9; BLOCK_BYTES]);
    let block = IoBuf::copy_of(&[9; BLOCK_BYTES]).freeze();
    let write = |world: &World, inode: u64, at: u64, data: SharedBuf| {
        world
            .run(move |fs| Box::pin(async move { fs.write(inode, at * BLOCK_BYTES as u64, data).await }))
            .unwrap()
    };
    (0..1500).step_by(2).for_each(|at| assert_eq!(write(&world, spread, at, block.clone()), BLOCK_BYTES));
    let other = file(&world, b"other", &[8; 3 * BLOCK_BYTES]);
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.fs = mount(&world.env, &world.volume);
    for inode in [spread, other] {
        world.run(move |fs| Box::pin(async move { fs.attr(inode).await })).unwrap();
    }
    // What it takes to write the other one out is in memory.
    world.run(move |fs| {
        Box::pin(async move {
            let state = fs.shared.state.lock().await;
            state.look_at_blocks(other, 0..3).await.unwrap();
            state.store.tree().get(Key::new(other, KeyKind::Inline, 0)).await.unwrap();
        })
    });
    // Whole stripes of the one file come before any of the other, and single blocks of it beside that.
    let blocks = IoBuf::copy_of(&vec![7; 64 * BLOCK_BYTES]).freeze();
    write(&world, spread, 640, blocks);
    write(&world, spread, 900, block);
    let data = IoBuf::copy_of(&[6; 2 * BLOCK_BYTES]).freeze();
    write(&world, other, 0, data);
    world.volume.fail_reads(true);
    let is_buffered = |world: &World, inode: u64| {
        world.run(move |fs| Box::pin(async move { fs.shared.state.lock().await.buffer.has(inode) }))
    };
    let synced = world.run(|fs| Box::pin(fs.sync()));
    assert!(matches!(synced, Err(FsError::Io(_) | FsError::Store(_))), "{synced:?}");
    assert!(is_buffered(&world, spread) && !is_buffered(&world, other));
    world.volume.fail_reads(false);
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    assert!(!is_buffered(&world, spread));
    let read =
        world.run(move |fs| Box::pin(fs.read(spread, 639 * BLOCK_BYTES as u64, 66 * BLOCK_BYTES))).unwrap();
    let wanted = |at: usize| match at / BLOCK_BYTES {
        0 => 0,
        1..65 => 7,
        _ => 9 * u8::from(at / BLOCK_BYTES % 2 == 1),
    };
    assert!(read.iter().enumerate().all(|(at, byte)| *byte == wanted(at)));
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

/// An inode whose leaf cannot be read fails the commit that was to tell of it, and not all that comes after it.
#[test]
fn a_commit_that_cannot_read_is_tried_again() {
    let mut world = World::new((4, 16), 400, Order::Rows, 0);
    let inode = file(&world, b"file", &[9; BLOCK_BYTES]);
    for number in 0..2000 {
        file(&world, leaked(format!("other{number}")), b"");
    }
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.fs = mount(&world.env, &world.volume);
    world.run(move |fs| Box::pin(async move { fs.attr(inode).await })).unwrap();
    world
        .run(move |fs| {
            Box::pin(fs.set_attr(inode, SetAttr { permissions: Some(0o600), ..SetAttr::default() }))
        })
        .unwrap();
    // What is in memory of the tree goes.
    for entry in world.run(|fs| Box::pin(fs.read_folder(ROOT, 0, 3000))).unwrap() {
        world.run(move |fs| Box::pin(async move { fs.attr(entry.inode).await })).unwrap();
    }
    world.volume.fail_reads(true);
    let synced = world.run(|fs| Box::pin(fs.sync()));
    assert!(matches!(synced, Err(FsError::Store(_))), "{synced:?}");
    world.volume.fail_reads(false);
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

/// As programs replace their files: they write another one, and rename it, often without an fsync. The next commit is another file's.
#[test]
fn a_rename_over_a_file_leaves_the_old_one_or_all_of_the_new_one() {
    for journal in [JournalMode::Writeback, JournalMode::Ordered, JournalMode::Data, JournalMode::None] {
        for (len, is_checkpoint, is_written_out) in [
            (1000, false, false),
            (40_000, false, false),
            (40_000, false, true),
            (3 << 20, false, false),
            (40_000, true, false),
        ] {
            let mut world = plain();
            world.run(|fs| Box::pin(fs.unmount())).unwrap();
            let options = MountOptions { journal, buffer_blocks: 2048, ..options(64) };
            world.fs = mount_with(&world.env, &world.volume, options);
            file(&world, b"name", &[1; 5000]);
            world.run(|fs| Box::pin(fs.sync())).unwrap();
            let new = file(&world, b"new", &vec![2; len]);
            if is_written_out {
                let scope = write_out::Scope::File(new);
                world.run(move |fs| Box::pin(async move { fs.shared.write_out(scope).await })).unwrap();
            }
            world.run(|fs| Box::pin(fs.rename((ROOT, b"new"), (ROOT, b"name"), Rename::Replace))).unwrap();
            let other = file(&world, b"other", &[3; 100]);
            if is_checkpoint {
                world.run(|fs| Box::pin(async move { fs.shared.make_journal_room().await })).unwrap();
            } else {
                world.run(move |fs| Box::pin(fs.fsync(other))).unwrap();
            }
            world.volume.lose_power(|| false);
            world.env.end();
            world.env = TestEnv::new(1);
            world.check();
            world.fs = mount(&world.env, &world.volume);
            let read = world.run(|fs| {
                Box::pin(async move {
                    let inode = fs.lookup(ROOT, b"name").await.unwrap().inode;
                    fs.read(inode, 0, 1 << 23).await.unwrap()
                })
            });
            assert!(read[..] == vec![2; len], "{journal:?}: {} of {len} bytes", read.len());
        }
    }
}

/// What was written out of the new one is not in the buffer any more, and may not be durable.
#[test]
fn a_crash_in_a_commit_after_a_rename_leaves_one_of_the_files() {
    let mut kept = [0; 2];
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut world = World::new((4, 4), 120, Order::Rows, 0);
        world.run(|fs| Box::pin(fs.unmount())).unwrap();
        let options = MountOptions { journal: JournalMode::Writeback, ..options(16) };
        world.fs = mount_with(&world.env, &world.volume, options);
        file(&world, b"name", &[1; 9000]);
        world.run(|fs| Box::pin(fs.sync())).unwrap();
        let new = file(&world, b"new", &[2; 9000]);
        let write_out = |world: &World, inode: u64| {
            let scope = write_out::Scope::File(inode);
            world.run(move |fs| Box::pin(async move { fs.shared.write_out(scope).await })).unwrap();
        };
        let is_late = seed % 4 >= 2;
        if !is_late {
            write_out(&world, new);
        }
        world.run(|fs| Box::pin(fs.rename((ROOT, b"new"), (ROOT, b"name"), Rename::Replace))).unwrap();
        if is_late {
            // A commit flushes, and fails then.
            let flushed = file(&world, b"flushed", &[4; 9000]);
            write_out(&world, flushed);
            world.volume.fail_after(1);
            assert!(world.run(move |fs| Box::pin(fs.fsync(flushed))).is_err());
            world.volume.fail_after(u64::MAX);
            write_out(&world, new);
        }
        let other = file(&world, b"other", &[3; 100]);
        world.volume.stop_after(1 + seed % 2);
        world.run(move |fs| Box::pin(fs.fsync(other))).unwrap();
        let share = 1.0 - rng.f64() / 10.0;
        world.volume.lose_power(|| rng.f64() < share);
        world.env.end();
        world.env = TestEnv::new(seed);
        world.fs = mount(&world.env, &world.volume);
        let read = world.run(|fs| {
            Box::pin(async move {
                let inode = fs.lookup(ROOT, b"name").await.unwrap().inode;
                fs.read(inode, 0, 1 << 20).await
            })
        });
        let read = read.unwrap();
        let which = [1, 2].iter().position(|byte| read[..] == vec![*byte; 9000]);
        kept[which.expect("it is one of the two, as a whole")] += 1;
    }
    assert!(kept.iter().all(|count| *count > 0), "always the same one is kept: {kept:?}");
}

/// A listing goes on behind the number that the last entry tells: another one than its place would never let it end.
#[test]
fn a_listing_ends_where_an_entry_tells_another_number() {
    let world = plain();
    file(&world, b"name", &[]);
    let misplaced = world.run(|fs| {
        Box::pin(async move {
            let mut state = fs.shared.state.lock().await;
            let [entry] = &state.entries(ROOT, 0, 9).await.unwrap()[..] else { panic!("there is one") };
            let item =
                Entry { inode: entry.inode, number: 0, file_type: entry.file_type, name: b"x".to_vec() };
            let key = Key::new(ROOT, KeyKind::Number, entry.number + 1);
            state.store.put(key, Entry::encode(&[item]).unwrap().into()).await.unwrap();
            state.entries(ROOT, entry.number, 9).await.err()
        })
    });
    assert!(matches!(misplaced, Some(FsError::Item { inode: ROOT, .. })), "{misplaced:?}");
}
