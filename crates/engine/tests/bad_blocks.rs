//! md's bad-block log: what it lists is reconstructed, not read, and written back; what a rebuild loses is
//! listed.

#![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]

mod common;

use std::{ops::Range, sync::Arc, time::Duration};

use common::{
    DATA_OFFSET, Lab, MEMBER_BYTES, Shape,
    faulty::{bench, latent_error},
};
use stripewise_device::Device;
use stripewise_engine::{AssembleError, AssembleOptions, JobOutcome, SpeedLimits, assemble, geometry::Level};
use stripewise_format::md::{BadBlockArea, BadBlockLog, Features, SectorExtent, Superblock};
use stripewise_sim::SimMember;

const SHAPES: [Shape; 4] = [
    Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 },
    Shape { level: Level::Raid4, members: 4, chunk_bytes: 16384 },
    Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 },
    Shape { level: Level::Raid6, members: 5, chunk_bytes: 8192 },
];
const RAID5: Shape = SHAPES[2];

fn superblock(member: &SimMember) -> Superblock {
    Superblock::decode(&member.snapshot().bytes()[4096..8192], 8).unwrap()
}

/// The sectors of its data that a member's log lists on disk, from the member's first byte on.
fn listed(member: &SimMember) -> Vec<Range<u64>> {
    let superblock = superblock(member);
    if !superblock.features.contains(Features::BAD_BLOCKS) {
        return Vec::new();
    }
    let place = superblock.bad_block_place(512).unwrap();
    let bytes = member.snapshot().bytes()[place.start as usize..place.end as usize].to_vec();
    let log = BadBlockLog::decode(&bytes, &superblock.bad_blocks).unwrap();
    let mut extents: Vec<_> =
        log.extents().map(|e| e.start_sector * 512..(e.start_sector + e.length_sectors) * 512).collect();
    extents.sort_by_key(|extent| extent.start);
    extents
}

/// Lists bytes of a stopped member's data as the kernel would, and overwrites them: a read of them would
/// return garbage.
fn list(member: &SimMember, in_data: &[Range<u64>]) {
    let mut superblock = superblock(member);
    let place = superblock.bad_block_place(512).unwrap();
    let mut log = BadBlockLog::empty(&superblock.bad_blocks).unwrap();
    let extent = |bytes: &Range<u64>| SectorExtent {
        start_sector: (DATA_OFFSET + bytes.start) / 512,
        length_sectors: (bytes.end - bytes.start) / 512,
    };
    for image in log.change_to(in_data.iter().map(extent)).unwrap() {
        member.poke(place.start, &image);
    }
    superblock.features = superblock.features.with(Features::BAD_BLOCKS);
    member.poke(4096, &superblock.encode()[..]);
    for bytes in in_data {
        member.poke(DATA_OFFSET + bytes.start, &vec![0xdb; (bytes.end - bytes.start) as usize]);
    }
}

/// Blocks of all members, no two of them in one row.
fn scatter(lab: &Lab) {
    for (index, member) in lab.members.iter().enumerate() {
        let at = |row: u64| (row * 8 + index as u64) * 4096;
        list(
            member,
            &[at(0)..at(0) + 4096, at(1)..at(1) + 512, at(2) + 1024..at(2) + 4096, at(5)..at(5) + 4096],
        );
    }
}

fn stopped(seed: u64, shape: Shape) -> Lab {
    let lab = Lab::new(seed, shape);
    lab.run_clients(2, 40);
    lab.stop();
    lab
}

#[test]
fn listed_blocks_are_reconstructed_and_written_back() {
    for (seed, shape) in (1..).zip(SHAPES) {
        let mut lab = stopped(seed, shape);
        scatter(&lab);
        lab.assemble_all(AssembleOptions::default().read_only(true)).unwrap();
        lab.check_all();
        let before: Vec<_> = lab.members.iter().map(|member| member.snapshot().bytes().to_vec()).collect();
        lab.stop();
        assert!(lab.members.iter().zip(&before).all(|(member, before)| member.snapshot().bytes() == before));

        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.check_all();
        let array = lab.array.clone();
        let report = lab.world.run(async move { array.report().await });
        assert!(report.members.iter().all(|member| member.bad_block_bytes > 0 && member.read_errors == 0));
        lab.pass(3);
        lab.check_all();
        assert!(lab.members.iter().all(|member| listed(member).is_empty()), "all were written back");
        lab.stop();
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.check_all();
        lab.check_parity(&lab.members);
    }
}

#[test]
fn writes_around_listed_blocks_are_right() {
    for (seed, shape) in (11..).zip(SHAPES) {
        for round in 0..4 {
            let mut lab = stopped(seed + 100 * round, shape);
            scatter(&lab);
            lab.assemble_all(AssembleOptions::default()).unwrap();
            lab.run_clients(4, 60);
            lab.check_all();
            lab.pass(3);
            lab.stop();
            lab.assemble_all(AssembleOptions::default()).unwrap();
            lab.check_all();
            lab.check_parity(&lab.members);
        }
    }
}

/// A crash at any step of writing them back: what the log does not list any more holds what it should.
#[test]
fn a_crash_while_blocks_are_written_back_brings_none_back_as_good() {
    for (seed, shape) in (21..).zip(SHAPES) {
        for steps in (0..900).step_by(45) {
            let mut lab = stopped(seed, shape);
            scatter(&lab);
            lab.assemble_all(AssembleOptions::default()).unwrap();
            lab.world.run_for(Duration::from_millis(900));
            lab.world.run_steps(steps);
            lab.crash();
            lab.assemble_all(AssembleOptions::default().force(true)).unwrap();
            lab.adopt();
            lab.check_all();
            lab.wait_for_jobs();
            lab.pass(3);
            lab.check_all();
            assert!(lab.members.iter().all(|member| listed(member).is_empty()));
            lab.check_parity(&lab.members);
        }
    }
}

#[test]
fn without_redundancy_a_listed_block_is_an_error_until_it_is_written() {
    let mut lab = stopped(31, RAID5);
    // The first chunk of the first stripe, on the first member.
    list(&lab.members[0], &[0..4096, 8192..8704]);
    lab.assemble(&[0, 1, 2], AssembleOptions::default().run(true)).unwrap();
    let read_some = |lab: &Lab, offset: u64, len: usize| {
        let array = lab.array.clone();
        let into = stripewise_device::IoBuf::with_len(len);
        lab.world.run(async move { array.read(offset, into).await }).map(drop)
    };
    let column = lab
        .array
        .geometry()
        .column_of(stripewise_engine::geometry::StripeIndex(0), stripewise_engine::geometry::MemberIndex(0));
    assert_eq!(column, 0, "where level 5 begins");
    let read = |lab: &Lab, offset: u64| read_some(lab, offset, 4096);
    assert!(read(&lab, 0).is_err() && read(&lab, 8192).is_err());
    read(&lab, 4096).unwrap();
    lab.pass(3);
    assert_eq!(listed(&lab.members[0]).len(), 2, "nothing could be written back");
    let write = |lab: &Lab, offset: u64, len: usize| {
        let (array, data) = (lab.array.clone(), stripewise_device::IoBuf::zeroed(len).freeze());
        lab.world.run(async move { array.write(offset, data, Default::default()).await })
    };
    // The stripe's parity is lost, so that a sector is all that is written, and all that is good then.
    write(&lab, 0, 512).unwrap();
    read_some(&lab, 0, 512).unwrap();
    read(&lab, 0).unwrap_err();
    write(&lab, 0, 4096).unwrap();
    read(&lab, 0).unwrap();
    lab.pass(3);
    assert_eq!(
        listed(&lab.members[0]),
        [DATA_OFFSET + 8192..DATA_OFFSET + 8704],
        "one is written, one is not"
    );
    assert!(read(&lab, 8192).is_err());
}

/// More of a row is listed than redundancy makes up for, and the row is written anew. The flush that follows,
/// or FUA, takes it off the logs: once it stayed there for up to a second, and after a crash it could not be
/// read.
#[test]
fn what_was_written_durably_is_off_the_logs_at_once() {
    for (shape, fua) in SHAPES.into_iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        let mut lab = stopped(33, shape);
        for member in &lab.members {
            list(member, &[4096..8192]);
        }
        lab.assemble_all(AssembleOptions::default()).unwrap();
        let array = lab.array.clone();
        let len = array.geometry().stripe_bytes() as usize;
        let stripe = stripewise_device::IoBuf::zeroed(len).freeze();
        lab.world.run(async move {
            array.write(0, stripe, stripewise_device::WriteFlags { fua }).await.unwrap();
            if !fua {
                array.flush().await.unwrap();
            }
        });
        lab.world.crash();
        lab.assemble_all(AssembleOptions::default()).unwrap();
        let array = lab.array.clone();
        let read = lab.world.run(async move { array.read(0, stripewise_device::IoBuf::with_len(len)).await });
        assert!(read.unwrap().iter().all(|byte| *byte == 0), "{shape:?}, FUA: {fua}");
    }
}

/// Another data member's sector cannot be read while a member is rebuilt: both blocks of that row are lost,
/// and nothing else is.
#[test]
fn what_a_rebuild_cannot_recover_is_listed_and_stays_so() {
    for preset in 0..4 {
        let mut bench = bench(40 + preset, RAID5);
        bench.fill(8);
        let array = bench.array.clone();
        bench.world.run(async move { array.fail("m1").await }).unwrap();
        let bad = DATA_OFFSET + 5 * 16384 + 4096;
        let mut rule = latent_error(bad..bad + 512);
        rule.healed_by_write = true;
        bench.faults[2].add(rule);
        let (spare, sim, _) = bench.spare("spare");
        let array = bench.array.clone();
        bench.world.run(async move {
            array.add(spare).await.unwrap();
            array.wait_for_jobs().await;
        });
        let job = bench.array.last_job().unwrap();
        assert_eq!((job.outcome, job.unreadable.is_some()), (Some(JobOutcome::Done), true));
        assert_eq!(listed(&sim), [bad - bad % 4096..bad - bad % 4096 + 4096], "durable when the job is done");
        let lost = |bench: &common::faulty::Bench| -> Vec<u64> {
            let capacity = bench.array.geometry().capacity_bytes();
            let blocks = (0..capacity).step_by(4096).map(|at| (at, bench.read(at, 4096)));
            let right = |content: Vec<u8>| assert!(content.iter().all(|byte| *byte == 8 || *byte == 9));
            blocks.filter_map(|(at, result)| result.map(right).is_err().then_some(at)).collect()
        };
        let lost_now = lost(&bench);
        assert!((1..=2).contains(&lost_now.len()), "data of two columns, or data and parity: {lost_now:?}");
        bench.world.run_for(Duration::from_secs(3));
        assert_eq!(lost(&bench), lost_now, "what is lost is not made up");
        // Each is good again when it is written as a whole.
        lost_now.iter().for_each(|at| bench.write(*at, 9, 4096).unwrap());
        assert_eq!(lost(&bench), [0; 0]);
        bench.world.run_for(Duration::from_secs(3));
        bench.sims[1] = sim;
        let array = bench.array.clone();
        bench.world.run(async move {
            array.start_scrub(true).unwrap();
            array.wait_for_jobs().await;
        });
        bench.world.run_for(Duration::from_secs(3));
        assert!(bench.sims.iter().all(|member| listed(member).is_empty()));
        common::check_parity(&bench.array.geometry(), &bench.sims);
    }
}

/// A row in which one member lists a block and another one has a bad sector cannot be healed. Once each
/// attempt counted as a failure of the member with the bad sector, which was dropped within a minute.
#[test]
fn what_cannot_be_healed_costs_no_member() {
    let mut bench = bench(44, RAID5);
    bench.fill(8);
    let array = bench.array.clone();
    bench.world.run(async move { array.fail("m1").await }).unwrap();
    let bad = DATA_OFFSET + 5 * 16384 + 4096;
    bench.faults[2].add(latent_error(bad..bad + 512));
    let (spare, _, _) = bench.spare("spare");
    let array = bench.array.clone();
    bench.world.run(async move {
        array.add(spare).await.unwrap();
        array.wait_for_jobs().await;
    });
    bench.world.run_for(Duration::from_secs(2000));
    let array = bench.array.clone();
    let report = bench.world.run(async move { array.report().await });
    assert_eq!(report.degraded(), 0, "{:?}", report.members);
}

/// A block that nobody could read for a while is listed on the member that is to take over. Once the member
/// that leaves reads it again, it is written to the one that comes.
#[test]
fn what_a_new_member_lists_is_healed_before_it_takes_over() {
    let mut bench = bench(46, RAID5);
    bench.fill(8);
    let bad = DATA_OFFSET + 2 * 16384 + 4096;
    [1, 2].into_iter().for_each(|member| bench.faults[member].add(latent_error(bad..bad + 512)));
    let (spare, sim, _) = bench.spare("spare");
    let array = bench.array.clone();
    array.set_speed_limits(SpeedLimits { min_bytes_per_s: 100 << 10, max_bytes_per_s: 100 << 10 });
    bench.world.run(async move {
        array.add(spare).await.unwrap();
        array.replace("m1", "spare").await.unwrap();
    });
    let array = bench.array.clone();
    bench.world.run_steps_until(100_000, || array.job().is_some_and(|job| job.done_stripes > 4));
    array.pause_jobs();
    bench.world.run_for(Duration::from_secs(2));
    assert!(!listed(&sim).is_empty());
    bench.faults.iter().for_each(|faults| faults.clear());
    bench.world.run_for(Duration::from_secs(700));
    assert!(array.job().is_some(), "it is not filled yet");
    assert!(listed(&sim).is_empty());
}

/// A resync passes over a row that is on record as lost, and makes all others agree: the array is clean then.
/// Once the whole stripe stayed as it was, and the array dirty for good.
#[test]
fn a_resync_makes_all_agree_but_rows_that_are_listed_as_lost() {
    let mut bench = bench(45, RAID5);
    bench.fill(8);
    let array = bench.array.clone();
    bench.world.run(async move { array.fail("m1").await }).unwrap();
    let bad = 5 * 16384 + 4096;
    bench.faults[2].add(latent_error(DATA_OFFSET + bad..DATA_OFFSET + bad + 512));
    let (spare, sim, _) = bench.spare("spare");
    let array = bench.array.clone();
    bench.world.run(async move {
        array.add(spare).await.unwrap();
        array.wait_for_jobs().await;
        array.flush().await.unwrap();
    });
    bench.world.crash();
    // Both lists name the row: its other block is as bad to any reader as one that cannot be read.
    bench.sims[1] = sim;
    let superblocks: Vec<_> = bench.sims.iter().map(|member| superblock(member)).collect();
    for (member, mut superblock) in bench.sims.iter().zip(superblocks) {
        superblock.resync_offset_sectors = 0;
        member.poke(4096, &superblock.encode()[..]);
    }
    // The first row of the same stripe and a row elsewhere disagree, as a crash may leave them.
    for row in [5 * 4, 9 * 4] {
        bench.sims[3].poke(DATA_OFFSET + row * 4096, &[0x33; 4096]);
    }
    list(&bench.sims[2], &[bad..bad + 4096]);
    bench.array = bench.assemble(0..4, AssembleOptions::default()).unwrap();
    let array = bench.array.clone();
    bench.world.run(async move { array.wait_for_jobs().await });
    let array = bench.array.clone();
    bench.world.run(async move { array.stop().await }).unwrap();
    assert!(bench.sims.iter().all(|member| superblock(member).resync_offset_sectors == u64::MAX), "clean");
    let images: Vec<_> = bench.sims.iter().map(|member| member.snapshot()).collect();
    let differs = |at: &u64| {
        let of = |image: &stripewise_sim::MemberSnapshot| image.bytes()[(DATA_OFFSET + at) as usize];
        images.iter().map(of).fold(0, |sum, byte| sum ^ byte) != 0
    };
    let lost = bad..bad + 4096;
    let data = 0..bench.array.geometry().member_bytes();
    assert_eq!(data.filter(differs).find(|at| !lost.contains(at)), None, "all else agrees");
    assert!(!listed(&bench.sims[1]).is_empty() && !listed(&bench.sims[2]).is_empty(), "lost all the same");
}

/// The same with a crash at any step of the rebuild: a member that counts as filled lists what it lacks.
#[test]
fn a_crash_during_such_a_rebuild_passes_nothing_off_as_good() {
    for steps in (0..1500).step_by(75) {
        let mut bench = bench(50, RAID5);
        bench.fill(8);
        let array = bench.array.clone();
        bench.world.run(async move {
            array.flush().await.unwrap();
            array.fail("m1").await.unwrap();
        });
        let bad = DATA_OFFSET + 5 * 16384 + 4096;
        bench.faults[2].add(latent_error(bad..bad + 512));
        let (spare, sim, _) = bench.spare("spare");
        let array = bench.array.clone();
        bench.world.run(async move { array.add(spare).await }).unwrap();
        bench.world.run_steps(steps);
        bench.world.crash();
        let members: Vec<Arc<dyn Device>> = [&bench.sims[0], &sim, &bench.sims[2], &bench.sims[3]]
            .map(|m| m.clone() as Arc<dyn Device>)
            .into();
        let env = bench.world.env();
        let force = AssembleOptions::default().force(true);
        bench.array = bench.world.run(async move { assemble(env, members, &force).await }).unwrap();
        let capacity = bench.array.geometry().capacity_bytes();
        for at in (0..capacity).step_by(4096) {
            if let Ok(content) = bench.read(at, 4096) {
                assert!(content.iter().all(|byte| *byte == 8), "{steps} steps, byte {at}: {}", content[0]);
            }
        }
    }
}

#[test]
fn a_log_that_nobody_could_find_leaves_its_member_out() {
    let damages: [fn(&mut BadBlockArea); 4] = [
        |area| area.size_sectors = 0,
        |area| area.size_sectors = 9,
        |area| area.offset_sectors = (DATA_OFFSET / 512) as i32 - 12,
        |area| area.shift = 60,
    ];
    for damage in damages {
        let mut lab = stopped(61, RAID5);
        let mut broken = superblock(&lab.members[1]);
        broken.features = broken.features.with(Features::BAD_BLOCKS);
        damage(&mut broken.bad_blocks);
        lab.members[1].poke(4096, &broken.encode()[..]);
        let error = lab.assemble_all(AssembleOptions::default()).unwrap_err();
        assert!(
            matches!(&error, AssembleError::Absent { excluded, .. } if excluded[0].reason.contains("bad blocks")),
            "{error}"
        );
    }
}

/// Whatever the log's bytes are, nothing but reconstruction follows from them.
#[test]
fn a_log_of_random_bytes_costs_reconstructions_and_nothing_else() {
    let mut random = fastrand::Rng::with_seed(7);
    for (seed, shape) in (71..).zip(SHAPES) {
        let mut lab = stopped(seed, shape);
        let mut superblock = superblock(&lab.members[0]);
        superblock.features = superblock.features.with(Features::BAD_BLOCKS);
        let place = superblock.bad_block_place(512).unwrap();
        let bytes: Vec<u8> = (place.start..place.end).map(|_| random.u8(..)).collect();
        lab.members[0].poke(place.start, &bytes);
        // And some that lie in the data.
        let near: Vec<u8> = (0..64_u64)
            .flat_map(|i| ((DATA_OFFSET / 512 + i * 16) << 10 | random.u64(1..12)).to_le_bytes())
            .collect();
        lab.members[0].poke(place.start, &near);
        lab.members[0].poke(4096, &superblock.encode()[..]);
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.check_all();
        lab.run_clients(2, 40);
        lab.pass(3);
        lab.stop();
        lab.assemble_all(AssembleOptions::default()).unwrap();
        lab.check_all();
        lab.check_parity(&lab.members);
        assert_eq!(lab.members[0].snapshot().bytes().len() as u64, MEMBER_BYTES);
    }
}
