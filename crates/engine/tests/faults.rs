//! Members that fail, lie, come back or do not belong.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{
    Lab, MEMBER_BYTES, Shape, devices,
    faulty::{benches, latent_error, write_error},
};
use smallvec::smallvec;
use stripewise_device::{
    Device, IoBuf, ZeroFlags,
    wrap::{Fault, TraceEvent},
};
use stripewise_engine::{
    Array, ArrayError, AssembleError, AssembleOptions, CreateOptions, assemble, examine, geometry::Level,
};
use stripewise_format::{
    bitmap::{Slot, newest, slot_offset_bytes},
    extension::{ExtensionError, SuperblockOrigin},
    md::Superblock,
};
use stripewise_sim::World;

const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };
const RAID6: Shape = Shape { level: Level::Raid6, members: 5, chunk_bytes: 16384 };

#[test]
fn a_failed_read_is_reconstructed_and_the_sector_rewritten() {
    let shapes = [RAID5, RAID6, Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 }];
    for bench in shapes.into_iter().flat_map(|shape| benches(1, shape)) {
        bench.fill(7);
        let data = 1 << 20;
        bench
            .faults
            .iter()
            .enumerate()
            .for_each(|(i, f)| f.add(latent_error(data + i as u64 * 20480..data + i as u64 * 20480 + 512)));
        let capacity = bench.array.geometry().capacity_bytes() as usize;
        assert!(bench.read(0, capacity).unwrap().iter().all(|b| *b == 7));
        bench.world.run_for(Duration::from_secs(3));
        assert!(bench.array.stats().report().healed_blocks > 0);
        let errors_before = bench.array.stats().report().member_read_errors;
        assert!(bench.read(0, capacity).unwrap().iter().all(|b| *b == 7));
        assert_eq!(bench.array.stats().report().member_read_errors, errors_before, "all healed");
        assert!(bench.in_sync().iter().all(|in_sync| *in_sync), "no member was dropped");
    }
}

/// Mirrors take turns by stripe: the bad block is the second mirror's.
#[test]
fn a_mirror_heals_the_copy_that_could_not_be_read() {
    for bench in benches(1, Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 }) {
        bench.fill(7);
        let bad = (1 << 20) + 65536;
        bench.faults[1].add(latent_error(bad..bad + 512));
        assert!(bench.read(65536, 4096).unwrap().iter().all(|b| *b == 7));
        assert_eq!(bench.array.stats().report().member_read_errors, 1, "the second mirror was read");
        bench.world.run_for(Duration::from_secs(3));
        let member = bench.members[1].clone();
        let read = bench.world.run(async move { member.read(bad, smallvec![IoBuf::with_len(512)]).await });
        assert!(read.into_one().unwrap().iter().all(|b| *b == 7), "it was healed");
    }
}

#[test]
fn zeroes_that_a_member_cannot_take_drop_it() {
    for shape in [RAID5, RAID6] {
        for (bench, stripes) in [1, 5].into_iter().flat_map(|n| benches(4, shape).map(move |b| (b, n))) {
            bench.fill(7);
            bench.faults[1].add(write_error());
            let (array, len) = (bench.array.clone(), stripes * bench.array.geometry().stripe_bytes());
            let zeroed =
                bench.world.run(async move { array.write_zeroes(0, len, ZeroFlags::default()).await });
            assert_eq!((zeroed, bench.in_sync()[1]), (Ok(()), false), "{stripes} stripes");
            assert!(bench.read(0, len as usize).unwrap().iter().all(|b| *b == 0), "{stripes} stripes");
        }
    }
}

#[test]
fn a_write_around_unreadable_blocks_is_right() {
    for bench in benches(2, RAID5) {
        bench.fill(3);
        // Old data and old parity of the first rows cannot be read: every cycle that wants them must find
        // another way.
        bench.faults[0].add(latent_error(1 << 20..(1 << 20) + 8192));
        bench.write(512, 9, 1024).unwrap();
        bench.write(4096, 9, 4096).unwrap();
        let found = bench.read(0, 16384).unwrap();
        let expected: Vec<u8> = (0..16384)
            .map(|i| if (512..1536).contains(&i) || (4096..8192).contains(&i) { 9 } else { 3 })
            .collect();
        assert_eq!(found, expected);
        bench.world.run_for(Duration::from_secs(3));
        common::check_parity(&bench.array.geometry(), &bench.sims);
    }
}

#[test]
fn a_failed_write_drops_the_member_and_records_it_before_the_next_acknowledgement() {
    for bench in benches(3, RAID5) {
        bench.fill(1);
        bench.logs.iter().for_each(|log| drop(log.take()));
        bench.faults[1].add(write_error());
        bench.write(0, 2, 3 * 16384).unwrap();
        assert_eq!(bench.in_sync(), [true, false, true, true]);
        for (i, log) in bench.logs.iter().enumerate().filter(|(i, _)| *i != 1) {
            let superblock =
                |e: &TraceEvent| matches!(e, TraceEvent::Write { offset_bytes: 4096, fua: true, .. });
            assert!(log.take().iter().any(superblock), "survivor {i} knows");
        }
        // Power fails: what was flushed must not be lost to the stale member.
        let array = bench.array.clone();
        bench.world.run(async move { array.flush().await }).unwrap();
        bench.world.crash();
        let refused = bench.assemble(0..4, AssembleOptions::default()).map(|_| ()).unwrap_err();
        assert_eq!(refused, AssembleError::DirtyDegraded);
        let force = AssembleOptions::default().force(true);
        let array = bench.assemble(0..4, force).unwrap();
        let report = bench.world.run({
            let array = array.clone();
            async move { array.report().await }
        });
        assert_eq!(report.in_sync, [true, false, true, true], "the stale member stays out");
        let found = bench.world.run(async move { array.read(0, IoBuf::with_len(3 * 16384)).await }).unwrap();
        assert!(found.iter().all(|b| *b == 2));
    }
}

#[test]
fn a_vanished_member_is_dropped_and_the_array_goes_on() {
    for bench in benches(4, RAID6) {
        bench.fill(5);
        bench.faults[2].set_gone(true);
        assert!(bench.read(0, 1 << 20).unwrap().iter().all(|b| *b == 5));
        assert!(!bench.in_sync()[2]);
        bench.faults[0].set_gone(true);
        bench.write(0, 6, 1 << 20).unwrap();
        assert!(bench.read(0, 1 << 20).unwrap().iter().all(|b| *b == 6));
        assert_eq!(bench.in_sync(), [false, true, false, true, true]);
    }
}

#[test]
fn past_the_tolerance_there_are_clear_errors_and_nothing_misleading_on_disk() {
    for bench in benches(5, RAID5) {
        bench.fill(5);
        bench.faults[0].set_gone(true);
        bench.write(0, 6, 4096).unwrap();
        let before: Vec<_> =
            [1, 2, 3].map(|i| bench.sims[i].snapshot().bytes()[4096..4096 + 512].to_vec()).into();
        bench.faults[1].add(write_error());
        assert_eq!(bench.write(0, 7, 1 << 18), Err(ArrayError::Failed));
        assert_eq!(bench.write(0, 8, 4096), Err(ArrayError::Failed), "and stays failed");
        let after: Vec<_> =
            [1, 2, 3].map(|i| bench.sims[i].snapshot().bytes()[4096..4096 + 512].to_vec()).into();
        assert_eq!(before, after, "no superblock says that a second member failed");
        let array = bench.array.clone();
        assert_eq!(bench.world.run(async move { array.stop().await }), Err(ArrayError::Failed));
    }
}

#[test]
fn repeated_read_errors_drop_a_member() {
    for bench in benches(6, RAID5) {
        bench.fill(5);
        bench.faults[3].add(latent_error(1 << 20..MEMBER_BYTES));
        let capacity = bench.array.geometry().capacity_bytes() as usize;
        assert!(bench.read(0, capacity).unwrap().iter().all(|b| *b == 5));
        assert_eq!(bench.in_sync(), [true, true, true, false], "each chunk counted");
    }
}

/// Each time its four blocks count, and the chunk that they are in.
#[test]
fn a_member_that_does_not_keep_what_is_rewritten_is_dropped() {
    for bench in benches(6, RAID5) {
        bench.fill(5);
        let mut rule = latent_error(1 << 20..(1 << 20) + 16384);
        rule.healed_by_write = false;
        bench.faults[0].add(rule);
        for round in 0..6 {
            assert_eq!(bench.in_sync(), [round < 5, true, true, true], "{round}");
            assert!(bench.read(0, 4096).unwrap().iter().all(|b| *b == 5));
            bench.world.run_for(Duration::from_secs(3));
        }
        assert_eq!(bench.array.stats().report().healed_blocks, 0);
    }
}

/// Blocks that cannot be read back count where they are rewritten: no client's read has to fail once more.
#[test]
fn a_member_is_dropped_while_it_is_healed_if_it_keeps_nothing() {
    let long_chunks = Shape { chunk_bytes: 65536, ..RAID5 };
    for bench in benches(6, long_chunks) {
        bench.fill(5);
        let mut rule = latent_error(1 << 20..(1 << 20) + 65536);
        rule.healed_by_write = false;
        bench.faults[0].add(rule);
        // Each round the chunk counts, and its 16 blocks.
        for in_sync in [true, false] {
            assert!(bench.read(0, 4096).unwrap().iter().all(|b| *b == 5));
            bench.world.run_for(Duration::from_secs(3));
            assert_eq!(bench.in_sync(), [in_sync, true, true, true]);
        }
    }
}

#[test]
fn a_block_that_waits_to_be_healed_counts_once() {
    for bench in benches(6, RAID5) {
        bench.fill(5);
        bench.faults[0].add(latent_error(1 << 20..(1 << 20) + 512));
        for _ in 0..100 {
            assert!(bench.read(0, 4096).unwrap().iter().all(|b| *b == 5));
        }
        assert_eq!(bench.in_sync(), [true; 4]);
        let array = bench.array.clone();
        assert_eq!(bench.world.run(async move { array.report().await }).members[0].read_errors, 1);
        assert!(bench.array.stats().report().member_read_errors > 20, "there were as many");
        bench.world.run_for(Duration::from_secs(3));
        let errors = bench.array.stats().report().member_read_errors;
        bench.read(0, 4096).unwrap();
        assert_eq!(bench.array.stats().report().member_read_errors, errors, "it was healed");
    }
}

#[test]
fn a_stale_member_that_comes_back_is_left_out() {
    for mut lab in Lab::each(7, RAID5) {
        lab.run_clients(2, 10);
        lab.stop();
        lab.assemble(&[0, 1, 2], AssembleOptions::default().run(true)).unwrap();
        lab.run_clients(2, 30);
        lab.stop();
        lab.assemble_all(AssembleOptions::default().run(true)).unwrap();
        let array = lab.array.clone();
        assert_eq!(lab.world.run(async move { array.report().await }).in_sync, [true, true, true, false]);
        lab.check_all();
    }
}

#[test]
fn members_absent_without_run_are_refused() {
    for mut lab in Lab::each(8, RAID5) {
        lab.stop();
        let error = lab.assemble(&[0, 1, 2], AssembleOptions::default()).unwrap_err();
        assert!(matches!(&error, AssembleError::Absent { roles, .. } if roles.len() == 1), "{error}");
        let error = lab.assemble(&[0, 1], AssembleOptions::default().run(true)).unwrap_err();
        assert!(matches!(error, AssembleError::TooFew { have: 2, need: 3, .. }), "{error}");
    }
}

#[test]
fn two_halves_of_an_array_are_not_put_together() {
    for mut lab in Lab::each(9, Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 }) {
        lab.stop();
        let run = AssembleOptions::default().run(true);
        for half in [[0], [1]] {
            lab.assemble(&half, run).unwrap();
            lab.adopt_anything();
            lab.run_clients(1, 5);
            lab.stop();
        }
        let error = lab.assemble_all(run).unwrap_err();
        assert!(matches!(error, AssembleError::SplitBrain { .. }), "{error}");
        assert!(lab.assemble(&[1], run).is_ok(), "either half alone is fine");
    }
}

#[test]
fn foreign_and_repeated_members_are_named() {
    for bench_a in benches(10, RAID5) {
        let mut world = World::new(11);
        let others: Vec<_> = (0..3).map(|i| world.add_member(format!("x{i}"), MEMBER_BYTES)).collect();
        let env = world.env();
        let options = CreateOptions::new("other", Level::Raid5, devices(&others));
        let other = world.run(async move { Array::create(env, options).await }).unwrap();
        world.run(async move { other.stop().await }).unwrap();
        let try_with = |extra: Arc<dyn Device>| {
            let mut all = devices(&bench_a.sims);
            all.push(extra);
            let env = bench_a.world.env();
            bench_a
                .world
                .run(async move { assemble(env, all, &AssembleOptions::default()).await })
                .map(|_| ())
                .unwrap_err()
        };
        // A member of another array, as a copy in this world.
        let mut here = World::new(12);
        let copy = here.add_member("copy", MEMBER_BYTES);
        copy.poke(0, others[0].snapshot().bytes());
        let _ = copy;
        let same = try_with(Arc::new(bench_a.sims[1].clone()));
        assert!(matches!(same, AssembleError::SameMember { .. }), "{same}");
    }
}

#[test]
fn a_damaged_copy_of_the_extension_header_is_mended() {
    let copies = [256 << 10, (1 << 20) - 4096];
    for (damage, mut lab) in
        copies.into_iter().flat_map(|copy| Lab::each(13, RAID5).map(move |lab| (copy, lab)))
    {
        lab.run_clients(1, 10);
        lab.stop();
        lab.members[2].poke(damage, &[0xff; 512]);
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.check_all();
        lab.stop();
        let device: Arc<dyn Device> = lab.members[2].clone();
        let examined = lab.world.run(async move { examine(device).await }).unwrap();
        assert_eq!(examined.extension.unwrap().1.to_rewrite(), None, "both copies are good again");
    }
}

#[test]
fn a_copy_of_the_extension_header_that_cannot_be_read_leaves_nobody_out() {
    for copy in [256 << 10, (1 << 20) - 4096] {
        let mut lab = Lab::new(17, RAID5);
        lab.start_clients(1, 1000);
        lab.world.run_steps(500);
        lab.crash();
        let (faulty, faults) = Fault::new(lab.members[2].clone());
        faults.add(latent_error(copy..copy + 512));
        let mut devices = devices(&lab.members);
        devices[2] = Arc::new(faulty);
        let (device, env) = (devices[2].clone(), lab.world.env());
        let examined = lab.world.run(async move { examine(device).await }).unwrap();
        assert_ne!(examined.origin, SuperblockOrigin::Foreign, "its bitmap is to be trusted");
        let opened = lab.world.run(async move { assemble(env, devices, &AssembleOptions::default()).await });
        lab.array = opened.unwrap();
        assert!(faults.is_quiet(), "it was written, and can be read again");
        lab.adopt();
        lab.wait_for_jobs();
        lab.check_parity(&lab.members);
    }
}

/// The newest generation of the bitmap's first page that lies on members.
fn generation_of_page(lab: &Lab) -> u64 {
    let generations = lab.members.iter().filter_map(|member| {
        let device: Arc<dyn Device> = member.clone();
        let examined = lab.world.run(async move { examine(device).await }).unwrap();
        let (header, _) = examined.extension.unwrap();
        let bytes = member.bytes();
        let slot = |slot| {
            let start = header.bitmap.offset_bytes + slot_offset_bytes(0, slot);
            &bytes[start as usize..][..4096]
        };
        newest(slot(Slot::A), slot(Slot::B), header.array_uuid, 0).ok().map(|found| found.page.generation())
    });
    generations.max().unwrap()
}

/// Once a page that was read in part was counted from nothing: its older slot would have come first after the
/// next crash, and hidden what was marked meanwhile.
#[test]
fn a_page_that_cannot_be_read_in_part_goes_on_above_what_it_was() {
    for slot in [Slot::A, Slot::B] {
        let mut lab = Lab::new(18, RAID5);
        for _ in 0..4 {
            lab.run_clients(1, 20);
            lab.pass(30);
        }
        lab.run_clients(1, 20);
        lab.crash();
        let before = generation_of_page(&lab);
        let device: Arc<dyn Device> = lab.members[0].clone();
        let examined = lab.world.run(async move { examine(device).await }).unwrap();
        let start = examined.extension.unwrap().0.bitmap.offset_bytes + slot_offset_bytes(0, slot);
        let (faulty, faults): (Vec<_>, Vec<_>) = lab.members.iter().cloned().map(Fault::new).unzip();
        faults.iter().for_each(|faults| faults.add(latent_error(start..start + 4096)));
        let devices = faulty.into_iter().map(|faulty| Arc::new(faulty) as Arc<dyn Device>).collect();
        let env = lab.world.env();
        let opened = lab.world.run(async move { assemble(env, devices, &AssembleOptions::default()).await });
        lab.array = opened.unwrap();
        lab.adopt();
        lab.wait_for_jobs();
        lab.pass(30);
        lab.run_clients(1, 20);
        let after = generation_of_page(&lab);
        assert!(before > 2 && after > before, "{slot:?}: {before}, then {after}");
    }
}

#[test]
fn without_any_extension_area_a_dirty_array_is_resynced_whole() {
    for mut lab in Lab::each(14, RAID5) {
        lab.start_clients(1, 1000);
        lab.world.run_steps(500);
        lab.crash();
        for member in &lab.members {
            member.poke(256 << 10, &vec![0; (1 << 20) - (256 << 10)]);
        }
        let device: Arc<dyn Device> = lab.members[0].clone();
        let examined = lab.world.run(async move { examine(device).await }).unwrap();
        assert_eq!(examined.extension.unwrap_err(), ExtensionError::Absent);
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.wait_for_jobs();
        assert_eq!(lab.array.last_job().unwrap().total_stripes, lab.array.geometry().stripes());
        lab.check_parity(&lab.members);
    }
}

#[test]
fn a_damaged_superblock_leaves_one_member_out() {
    for mut lab in Lab::each(15, RAID5) {
        lab.run_clients(1, 10);
        lab.stop();
        lab.members[0].poke(4096 + 100, &[0xee; 8]);
        let error = lab.assemble_all(AssembleOptions::default()).unwrap_err();
        assert!(
            matches!(&error, AssembleError::Absent { excluded, .. } if excluded[0].name == "m0"),
            "{error}"
        );
        lab.assemble_all(AssembleOptions::default().run(true)).unwrap();
        lab.check_all();
    }
}

#[test]
fn a_truncated_member_is_left_out_with_the_reason() {
    for mut lab in Lab::each(16, RAID5) {
        lab.run_clients(1, 10);
        lab.stop();
        let short = lab.world.add_member("short", MEMBER_BYTES - 65536);
        short.poke(0, &lab.members[3].snapshot().bytes()[..(MEMBER_BYTES - 65536) as usize]);
        lab.members[3] = short;
        let error = lab.assemble_all(AssembleOptions::default()).unwrap_err();
        assert!(error.to_string().contains("short: truncated"), "{error}");
    }
}

#[test]
fn a_second_latent_error_during_rebuild_does_not_write_garbage() {
    for bench in benches(17, RAID5) {
        bench.fill(8);
        bench.faults[1].set_gone(true);
        bench.write(0, 8, 4096).unwrap();
        let mut rule = latent_error((1 << 20) + 65536..(1 << 20) + 65536 + 512);
        rule.healed_by_write = false;
        bench.faults[2].add(rule);
        let mut world_member = World::new(99);
        let _ = world_member.add_member("unused", 4096);
        let spare: Arc<dyn Device> =
            Arc::new(stripewise_device::memory::MemoryDevice::new("spare", MEMBER_BYTES));
        let array = bench.array.clone();
        bench.world.run(async move { array.add(spare).await }).unwrap();
        let array = bench.array.clone();
        bench.world.run(async move { array.wait_for_jobs().await });
        let job = bench.array.last_job().unwrap();
        assert_eq!(job.outcome, Some(stripewise_engine::JobOutcome::Done), "{job:?}");
        assert!(job.unreadable.is_some(), "what was lost is told");
        let capacity = bench.array.geometry().capacity_bytes();
        let blocks: Vec<_> = (0..capacity).step_by(4096).map(|at| bench.read(at, 4096)).collect();
        let lost = blocks.iter().filter(|block| block.is_err()).count();
        assert_eq!(lost, 2, "the block that cannot be read, and the one that was to be recovered from it");
        assert!(blocks.iter().flatten().flatten().all(|byte| *byte == 8));
    }
}

/// Sectors of several members, in rows of their own: some are of chunks that the rebuild wants, some of those
/// that it can do without.
#[test]
fn a_rebuild_goes_around_blocks_that_cannot_be_read() {
    let level6 = |chunk_bytes| Shape { level: Level::Raid6, members: 6, chunk_bytes };
    let mirrors = Shape { level: Level::Raid1, members: 3, chunk_bytes: 65536 };
    let shapes = [level6(16 << 10), level6(32 << 10), level6(64 << 10), mirrors];
    for mut bench in shapes.into_iter().flat_map(|shape| benches(17, shape)) {
        let capacity = bench.array.geometry().capacity_bytes() as usize;
        for block in 0..capacity / 4096 {
            bench.write(block as u64 * 4096, (block % 251) as u8 + 1, 4096).unwrap();
        }
        let content = bench.read(0, capacity).unwrap();
        let array = bench.array.clone();
        bench.world.run(async move { array.fail("m2").await }).unwrap();
        let others = (0..bench.sims.len()).filter(|member| *member != 2);
        for (index, member) in others.enumerate() {
            for at in (index as u64 * 4096..1 << 20).step_by(220 << 10) {
                bench.faults[member].add(latent_error((1 << 20) + at..(1 << 20) + at + 512));
            }
        }
        let (spare, sim, _) = bench.spare("spare");
        let array = bench.array.clone();
        bench.world.run(async move {
            array.add(spare).await.unwrap();
            array.wait_for_jobs().await;
        });
        let job = bench.array.last_job().unwrap();
        assert_eq!(job.outcome, Some(stripewise_engine::JobOutcome::Done), "{job:?}");
        // What could not be read is mended in passing; unmended, it would count against its member again.
        bench.world.run_for(Duration::from_secs(3));
        assert!(bench.in_sync().iter().all(|in_sync| *in_sync));
        assert!(bench.array.stats().report().healed_blocks > 0);
        assert!(bench.read(0, capacity).unwrap() == content);
        bench.sims[2] = sim;
        common::check_parity(&bench.array.geometry(), &bench.sims);
    }
}

#[test]
fn scrub_finds_and_mends_what_was_changed_behind_its_back() {
    let shapes = [RAID5, RAID6, Shape { level: Level::Raid1, members: 3, chunk_bytes: 65536 }];
    for lab in shapes.into_iter().flat_map(|shape| Lab::each(18, shape)) {
        lab.run_clients(2, 30);
        // A parity (or mirror) block on the last member of the first stripes.
        lab.members.last().unwrap().poke((1 << 20) + 8192, &[0x5a; 512]);
        lab.array.start_scrub(false).unwrap();
        lab.wait_for_jobs();
        let check = lab.array.last_scrub().unwrap();
        assert_eq!((check.mismatched_rows, check.mismatches.len()), (1, 1));
        lab.array.start_scrub(true).unwrap();
        lab.wait_for_jobs();
        assert_eq!(lab.array.last_scrub().unwrap().mismatched_rows, 1);
        lab.array.start_scrub(false).unwrap();
        lab.wait_for_jobs();
        assert_eq!(lab.array.last_scrub().unwrap().mismatched_rows, 0);
    }
}

/// Once the end of the data on such a member was computed with an overflow: a panic, or memory for 2^38
/// regions.
#[test]
fn a_superblock_with_an_impossible_size_is_refused() {
    for mut lab in Lab::each(23, Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 }) {
        lab.stop();
        for member in &lab.members {
            let block = member.snapshot().bytes()[4096..8192].to_vec();
            let mut superblock = Superblock::decode(&block, 8).unwrap();
            superblock.member_size_sectors = 1 << 56;
            superblock.data_size_sectors = 1 << 56;
            member.poke(4096, &superblock.encode()[..]);
        }
        let error = lab.assemble_all(AssembleOptions::default()).unwrap_err().to_string();
        assert!(error.contains("8 EiB"), "{error}");
    }
}

/// A member that was replaced long ago still names the members of its time. Where two halves of an array
/// cannot both have enough members, it once was taken for one of them all the same, and a sound array was
/// refused.
#[test]
fn an_old_member_is_no_half_of_an_array_that_cannot_split() {
    for mut lab in Lab::each(24, RAID5) {
        lab.run_clients(1, 5);
        let array = lab.array.clone();
        lab.world.run(async move { array.fail("m3").await }).unwrap();
        lab.stop();
        let block = lab.members[3].snapshot().bytes()[4096..8192].to_vec();
        let mut old = Superblock::decode(&block, 8).unwrap();
        old.roles.set(0, stripewise_format::md::Role::Faulty).unwrap();
        for number in [1, 2] {
            old.roles.set(number, stripewise_format::md::Role::Spare).unwrap();
        }
        lab.members[3].poke(4096, &old.encode()[..]);
        lab.assemble_all(AssembleOptions::default().run(true)).unwrap();
    }
}

/// Both halves of a mirror went on alone, and each took a new member: both gave it the same number.
#[test]
fn halves_that_each_took_a_new_member_are_two_sides() {
    for mut lab in Lab::each(27, Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 }) {
        lab.run_clients(1, 5);
        lab.stop();
        use stripewise_format::md::Role::{Active, Faulty};
        for (member, roles) in [(0, [Active(0), Faulty, Active(1)]), (1, [Faulty, Active(1), Active(0)])] {
            let block = lab.members[member].snapshot().bytes()[4096..8192].to_vec();
            let mut superblock = Superblock::decode(&block, 8).unwrap();
            for (number, role) in (0..).zip(roles) {
                superblock.roles.set(number, role).unwrap();
            }
            superblock.events += 10 * member as u64;
            lab.members[member].poke(4096, &superblock.encode()[..]);
        }
        let split = lab.assemble_all(AssembleOptions::default().run(true)).unwrap_err();
        assert!(split.to_string().contains("split brain"), "{split}");
    }
}

/// The same member, when m1 still belongs to the array and only is not there.
#[test]
fn an_old_member_that_counts_one_who_is_absent_now_is_no_half_of_a_split_array() {
    for mut lab in Lab::each(26, Shape { level: Level::Raid1, members: 3, chunk_bytes: 65536 }) {
        lab.run_clients(1, 5);
        let array = lab.array.clone();
        lab.world.run(async move { array.fail("m2").await }).unwrap();
        lab.stop();
        let block = lab.members[2].snapshot().bytes()[4096..8192].to_vec();
        let mut old = Superblock::decode(&block, 8).unwrap();
        old.roles.set(0, stripewise_format::md::Role::Faulty).unwrap();
        lab.members[2].poke(4096, &old.encode()[..]);
        lab.members[1].poke(4096, &[0; 4096]);
        lab.assemble_all(AssembleOptions::default().run(true)).unwrap();
        // Once m0 went on without m1, the other two may have done so without m0.
        lab.stop();
        let split = lab.assemble_all(AssembleOptions::default().run(true)).unwrap_err();
        assert!(split.to_string().contains("split brain"), "{split}");
    }
}

/// An old member that was cut off while it wrote down that m0 failed: m1, whom it counts, went on without it,
/// and has failed since. Once it was enough that none of those who are left were among them it counts.
#[test]
fn an_old_member_that_counts_one_who_went_on_without_it_is_no_half_of_a_split_array() {
    let four = Shape { level: Level::Raid6, members: 4, chunk_bytes: 16384 };
    for mut lab in Lab::each(25, four) {
        lab.run_clients(1, 5);
        let array = lab.array.clone();
        lab.world
            .run(async move {
                array.fail("m3").await?;
                array.fail("m1").await
            })
            .unwrap();
        lab.stop();
        let block = lab.members[3].snapshot().bytes()[4096..8192].to_vec();
        let mut old = Superblock::decode(&block, 8).unwrap();
        old.roles.set(0, stripewise_format::md::Role::Faulty).unwrap();
        old.roles.set(2, stripewise_format::md::Role::Spare).unwrap();
        lab.members[3].poke(4096, &old.encode()[..]);
        lab.assemble_all(AssembleOptions::default().run(true)).unwrap();
        // Had m1 not been there, both could have gone on.
        lab.members[1].poke(4096, &[0; 4096]);
        let split = lab.assemble_all(AssembleOptions::default().run(true)).unwrap_err();
        assert!(split.to_string().contains("split brain"), "{split}");
    }
}
