//! Changes of an array's state, cut short at any step, or with members failing in the middle of them.
//!
//! Each of these windows was open once; a review found them by following every await.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{
    Lab, MEMBER_BYTES, Shape, devices,
    faulty::{Bench, bench, bench_with, benches, latent_error, write_error},
    preset_of,
};
use stripewise_device::{
    Device, IoBuf, WriteFlags,
    wrap::{Fault, FaultRule},
};
use stripewise_engine::{
    ArrayReport, AssembleOptions, JobKind, JobOutcome, MemberState, assemble,
    geometry::Level,
    locking::{PRESETS, Preset},
};
use stripewise_format::md::{BadBlockArea, Role, Superblock};
use stripewise_sim::SimMember;

const RAID5: Shape = Shape { level: Level::Raid5, members: 4, chunk_bytes: 16384 };
const RAID6: Shape = Shape { level: Level::Raid6, members: 5, chunk_bytes: 16384 };
const MIRROR: Shape = Shape { level: Level::Raid1, members: 2, chunk_bytes: 65536 };
const FORCE: AssembleOptions = AssembleOptions::new().run(true).force(true);

fn report(lab: &Lab) -> ArrayReport {
    let array = lab.array.clone();
    lab.world.run(async move { array.report().await })
}

/// The members in sync, by role.
fn by_role(lab: &Lab, all: &[Arc<SimMember>]) -> Vec<Arc<SimMember>> {
    let report = report(lab);
    let in_sync = report.members.iter().filter(|m| m.state == MemberState::InSync);
    let mut members: Vec<_> = in_sync.map(|m| (m.slot.unwrap(), m.name.clone())).collect();
    members.sort();
    members.iter().map(|(_, name)| all.iter().find(|m| m.info().name == *name).unwrap().clone()).collect()
}

/// A member full of garbage where the data will be.
fn garbage(lab: &mut Lab) -> Arc<SimMember> {
    let spare = lab.world.add_member("spare", MEMBER_BYTES);
    spare.poke(1 << 20, &vec![0xee; 1 << 20]);
    spare
}

#[test]
fn a_crash_at_any_step_of_taking_up_a_spare_never_passes_garbage_for_data() {
    for step in (0..700).step_by(9) {
        let mut lab = Lab::new(step, RAID5);
        lab.run_clients(2, 10);
        lab.flush();
        let spare = garbage(&mut lab);
        let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
        lab.world.env().spawn(Box::pin(async move {
            array.fail("m2").await.unwrap();
            let _ = array.add(device).await;
        }));
        lab.world.run_steps(step);
        lab.crash();
        lab.members.push(spare);
        lab.assemble_all(FORCE).unwrap_or_else(|e| panic!("step {step}: {e}"));
        lab.adopt();
        lab.wait_for_jobs();
        lab.check_all();
        let members = by_role(&lab, &lab.members);
        if members.len() == RAID5.members {
            lab.check_parity(&members);
        }
    }
}

/// A second crash, while the array is assembled: the spare that was being taken up is brought level with the
/// others, and must not be told then that it has a role.
#[test]
fn a_crash_while_taking_up_a_spare_and_one_more_while_assembling_never_pass_garbage_for_data() {
    for round in 0..400 {
        let mut lab = Lab::new(5000 + round, RAID6);
        lab.run_clients(2, 10);
        lab.flush();
        let spare = garbage(&mut lab);
        let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
        lab.world.env().spawn(Box::pin(async move {
            array.fail("m2").await.unwrap();
            let _ = array.add(device).await;
        }));
        lab.world.run_steps(40 + round % 80);
        lab.crash();
        lab.members.push(spare);
        let (env, devices) = (lab.world.env(), devices(&lab.members));
        lab.world.env().spawn(Box::pin(async move {
            let _ = assemble(env, devices, &FORCE).await;
        }));
        lab.world.run_steps(lab.world.random(160));
        lab.crash();
        lab.assemble_all(FORCE).unwrap_or_else(|e| panic!("round {round}: {e}"));
        lab.adopt();
        lab.wait_for_jobs();
        lab.check_all();
        let members = by_role(&lab, &lab.members);
        if members.len() == RAID6.members {
            lab.check_parity(&members);
        }
    }
}

#[test]
fn a_crash_at_any_step_of_a_replacement_under_load_loses_nothing() {
    for shape in [RAID5, RAID6, MIRROR] {
        for seed in 0..60 {
            let mut lab = Lab::new(1000 + seed, shape);
            lab.run_clients(2, 5);
            let spare = garbage(&mut lab);
            let (array, device) = (lab.array.clone(), spare.clone() as Arc<dyn Device>);
            lab.world.env().spawn(Box::pin(async move {
                if array.add(device).await.is_ok() {
                    let _ = array.replace("m1", "spare").await;
                }
            }));
            lab.start_clients(3, 1000);
            lab.world.run_steps(seed * 40 + lab.world.random(40));
            lab.crash();
            lab.members.push(spare);
            lab.assemble_all(AssembleOptions::default().run(true))
                .unwrap_or_else(|e| panic!("{shape:?} seed {seed}: {e}"));
            lab.adopt();
            lab.wait_for_jobs();
            assert_eq!(report(&lab).degraded(), 0, "{shape:?} seed {seed}: no member has failed");
            lab.check_all();
            let members = by_role(&lab, &lab.members);
            lab.check_parity(&members);
        }
    }
}

#[test]
fn a_member_that_fails_while_it_is_filled_does_not_come_back_as_good() {
    for mut bench in benches(1, RAID5) {
        bench.fill(3);
        let (device, sim, faults) = bench.spare("spare");
        let array = bench.array.clone();
        bench.world.run(async move {
            array.set_speed_limits(stripewise_engine::SpeedLimits {
                min_bytes_per_s: 1 << 20,
                max_bytes_per_s: 1 << 20,
            });
            array.fail("m1").await.unwrap();
            array.add(device).await.unwrap();
        });
        bench.world.run_for(Duration::from_millis(500));
        faults.add(write_error());
        bench.world.run_for(Duration::from_secs(10));
        bench.fill(4);
        let array = bench.array.clone();
        bench.world.run(async move { array.stop().await }).unwrap();
        bench.sims.push(sim);
        let array = bench.assemble(0..5, AssembleOptions::default().run(true)).unwrap();
        let capacity = array.geometry().capacity_bytes() as usize;
        let found = bench.world.run(async move { array.read(0, IoBuf::with_len(capacity)).await }).unwrap();
        assert!(found.iter().all(|b| *b == 4));
    }
}

#[test]
fn a_spare_takes_over_when_a_member_fails_by_itself() {
    for mut bench in benches(2, RAID5) {
        bench.fill(5);
        let (device, _sim, _faults) = bench.spare("spare");
        let array = bench.array.clone();
        bench.world.run(async move { array.add(device).await }).unwrap();
        bench.faults[2].set_gone(true);
        bench.write(0, 6, 65536).unwrap();
        let array = bench.array.clone();
        bench.world.run(async move { array.wait_for_jobs().await });
        assert_eq!(bench.array.last_job().unwrap().outcome, Some(JobOutcome::Done));
        assert!(bench.in_sync().iter().all(|in_sync| *in_sync));
    }
}

#[test]
fn a_double_loss_of_a_clean_array_leaves_members_that_can_be_put_together_again() {
    for bench in benches(3, RAID5) {
        bench.fill(7);
        // Until the array is clean again.
        bench.world.run_for(Duration::from_secs(5));
        bench.faults[1].set_gone(true);
        bench.faults[2].set_gone(true);
        for _ in 0..10 {
            // A client that tries again and again must not push the superblocks ahead of the lost members'.
            bench.write(0, 8, 4096).unwrap_err();
        }
        bench.world.crash();
        let array = bench.assemble(0..4, FORCE).unwrap();
        let found = bench.world.run(async move { array.read(65536, IoBuf::with_len(65536)).await }).unwrap();
        assert!(found.iter().all(|b| *b == 7));
    }
}

#[test]
fn two_members_that_vanish_together_under_load_hang_nobody() {
    for seed in 0..20 {
        let bench = bench(100 + seed, RAID6);
        bench.fill(1);
        let writers: Vec<_> = (0..8u64)
            .map(|i| {
                let array = bench.array.clone();
                async move {
                    for round in 0..20 {
                        let data = IoBuf::copy_of(&vec![round; 8192]).freeze();
                        array.write(i * 65536, data, WriteFlags::default()).await.unwrap();
                    }
                }
            })
            .collect();
        bench.world.env().spawn({
            let (a, b, env) = (bench.faults[0].clone(), bench.faults[3].clone(), bench.world.env());
            let delay = Duration::from_micros(bench.world.random(3000));
            Box::pin(async move {
                env.sleep(delay).await;
                a.set_gone(true);
                b.set_gone(true);
            })
        });
        bench.world.run(async move {
            futures_util::future::join_all(writers).await;
        });
        bench.world.run_for(Duration::from_secs(1));
        bench.write(0, 9, 65536).unwrap();
        assert_eq!(bench.in_sync(), [false, true, true, false, true], "seed {seed}");
    }
}

#[test]
fn a_resync_goes_around_bad_blocks_and_leaves_parity_right() {
    for seed in 0..10 {
        let bench = bench(200 + seed, RAID5);
        bench.fill(2);
        let array = bench.array.clone();
        bench.world.env().spawn(Box::pin(async move {
            for i in 0..100u64 {
                let data = IoBuf::copy_of(&[i as u8; 4096]).freeze();
                let _ = array.write(i * 12288, data, WriteFlags::default()).await;
            }
        }));
        bench.world.run_steps(500 + bench.world.random(1000));
        bench.world.crash();
        // A latent error where the resync will read; healed by writing.
        let faulty = Fault::new(bench.sims[1].clone());
        faulty.1.add(latent_error((1 << 20) + 4096..(1 << 20) + 4608));
        let mut devices = devices(&bench.sims);
        devices[1] = Arc::new(faulty.0);
        let env = bench.world.env();
        let array = bench.world.run(async move {
            let array = assemble(env, devices, &AssembleOptions::default()).await.unwrap();
            array.wait_for_jobs().await;
            array
        });
        common::check_parity(&array.geometry(), &bench.sims);
    }
}

#[test]
fn a_write_whose_caller_goes_away_is_whole() {
    for lab in Lab::each(9, RAID5) {
        lab.run_clients(2, 10);
        let array = lab.array.clone();
        lab.world.run(async move {
            for i in 0..40u64 {
                let data = IoBuf::copy_of(&vec![i as u8; 20_480]).freeze();
                drop(array.write(i * 8192, data, WriteFlags::default()));
            }
            array.flush().await.unwrap();
        });
        lab.stop();
        lab.check_parity(&lab.members);
    }
}

/// A degraded array with a replacement under way, and the faults of the member that is to take over.
fn replacing_while_degraded(preset: &'static Preset) -> (Bench, Arc<stripewise_device::wrap::Faults>) {
    let mut bench = bench_with(11, RAID5, preset);
    bench.fill(3);
    let array = bench.array.clone();
    bench.world.run(async move { array.fail("m0").await }).unwrap();
    // One spare goes to the vacant role, and fails; the other replaces a living member.
    let (first, _sim, gone) = bench.spare("first");
    let (second, _sim, faults) = bench.spare("second");
    let array = bench.array.clone();
    bench.world.run(async move {
        array.pause_jobs();
        array.add(first).await.unwrap();
        array.add(second).await.unwrap();
        array.replace("m1", "second").await.unwrap();
    });
    gone.set_gone(true);
    bench.array.resume_jobs();
    (bench, faults)
}

/// How a replacement ends whose new member does not take its next superblock after so many steps.
fn a_replacement_that_fails_after(steps: u64, preset: &'static Preset) -> JobOutcome {
    let (bench, faults) = replacing_while_degraded(preset);
    bench.world.run_steps(steps);
    faults.add(FaultRule { range_bytes: 4096..4608, times: 1, ..write_error() });
    let array = bench.array.clone();
    bench.world.run(async move { array.wait_for_jobs().await });
    bench.fill(4);
    assert!(bench.read(0, 1 << 20).unwrap().iter().all(|b| *b == 4), "after {steps} steps");
    bench.array.last_job().unwrap().outcome.unwrap()
}

/// Once the new member failed only to take the superblock that made it the role's member, and the array gave
/// up although the old one was good.
#[test]
fn a_replacement_that_fails_at_any_step_costs_a_degraded_array_nothing() {
    for preset in PRESETS {
        let (bench, _) = replacing_while_degraded(preset);
        let replaced = |_: &u64| {
            bench.world.run_steps(1);
            bench.array.last_job().is_some_and(|job| job.kind == JobKind::Replace)
        };
        let steps = (1..).find(replaced).unwrap();
        // Presets take turns.
        let steps = (u64::from(preset.number)..steps).step_by(PRESETS.len());
        let outcomes: Vec<_> = steps.map(|steps| a_replacement_that_fails_after(steps, preset)).collect();
        assert!(outcomes.iter().any(|outcome| matches!(outcome, JobOutcome::Failed(_))));
        assert!(outcomes.contains(&JobOutcome::Done), "and some came too late to matter");
    }
}

#[test]
fn nothing_is_written_once_an_array_has_stopped() {
    for steps in (0..400).step_by(4) {
        let mut bench = bench(300 + steps / 4, RAID5);
        bench.fill(1);
        let (device, sim, _faults) = bench.spare("spare");
        let array = bench.array.clone();
        bench.world.env().spawn(Box::pin(async move {
            let _ = array.add(device).await;
            let _ = array.fail("m2").await;
            let _ = array.remove("m2").await;
        }));
        bench.world.run_steps(steps);
        let array = bench.array.clone();
        bench.world.run(async move { array.stop().await }).unwrap();
        let content = |bench: &Bench| {
            let all = bench.sims.iter().chain([&sim]);
            all.map(|member| member.snapshot().bytes().to_vec()).collect::<Vec<_>>()
        };
        let stopped = content(&bench);
        bench.world.run_for(Duration::from_secs(2));
        assert!(stopped == content(&bench), "after {steps} steps");
    }
}

#[test]
fn force_takes_the_least_stale_member_where_too_few_are_left() {
    for bench in benches(7, RAID5) {
        bench.fill(1);
        bench.faults[3].set_gone(true);
        bench.fill(2);
        let array = bench.array.clone();
        bench.world.run(async move { array.stop().await }).unwrap();
        let given = |members: [usize; 3], options| {
            let devices = members.map(|i| bench.sims[i].clone() as Arc<dyn Device>).to_vec();
            let env = bench.world.env();
            bench.world.run(async move { assemble(env, devices, &options).await })
        };
        let run = AssembleOptions::default().run(true);
        let refused = given([0, 1, 3], run).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("m3") && refused.contains("add it anew"), "{refused}");
        let array = given([0, 1, 3], FORCE).unwrap();
        let chunk_on = |member: usize| {
            let geometry = array.geometry();
            let column = (0..3)
                .find(|c| geometry.member_of(stripewise_engine::geometry::StripeIndex(0), *c).0 == member);
            column.map(|column| column as u64 * geometry.chunk_bytes() as u64)
        };
        let read = |offset: u64| {
            let array = array.clone();
            bench.world.run(async move { array.read(offset, IoBuf::with_len(4096)).await }).unwrap().to_vec()
        };
        assert!(read(chunk_on(0).unwrap()).iter().all(|b| *b == 2), "current members tell what is current");
        let stale = (0..4).filter_map(|stripe| {
            let geometry = array.geometry();
            let index = stripewise_engine::geometry::StripeIndex(stripe);
            let column = (0..3).find(|c| geometry.member_of(index, *c).0 == 3)? as u64;
            Some(stripe * 3 * geometry.chunk_bytes() as u64 + column * geometry.chunk_bytes() as u64)
        });
        assert!(stale.map(read).any(|content| content.iter().all(|b| *b == 1)), "the stale one what it was");
    }
}

/// Each opening raises the event count, and a crash in the middle leaves some members behind. Once members
/// that were one behind became two behind with the second crash, and were left out as stale.
#[test]
fn an_opening_may_be_cut_short_any_number_of_times() {
    for seed in 0..60 {
        let mut lab = Lab::new(500 + seed, RAID5);
        lab.run_clients(2, 5);
        for _ in 0..8 {
            lab.crash();
            let devices = devices(&lab.members);
            let env = lab.world.env();
            lab.world.env().spawn(Box::pin(async move {
                let _ = assemble(env, devices, &AssembleOptions::default()).await;
            }));
            lab.world.run_steps(lab.world.random(160));
        }
        lab.crash();
        lab.assemble_all(AssembleOptions::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        lab.adopt();
        lab.wait_for_jobs();
        lab.check_parity(&lab.members);
    }
}

/// The event counts of all members.
fn events(bench: &Bench) -> Vec<u64> {
    let of = |sim: &Arc<SimMember>| {
        let bytes = sim.bytes();
        u64::from_le_bytes(bytes[4296..4304].try_into().unwrap())
    };
    bench.sims.iter().map(of).collect()
}

/// A healthy array whose member m1 is being replaced by "second", the last of the bench's members.
fn replacing(preset: &'static Preset) -> (Bench, Arc<stripewise_device::wrap::Faults>) {
    let mut bench = bench_with(11, RAID5, preset);
    bench.fill(3);
    let (second, sim, faults) = bench.spare("second");
    bench.sims.push(sim);
    let array = bench.array.clone();
    bench.world.run(async move {
        array.pause_jobs();
        array.add(second).await.unwrap();
        array.replace("m1", "second").await.unwrap();
    });
    bench.array.resume_jobs();
    (bench, faults)
}

/// The round of superblocks in which a new member takes over passes the old one by. Once, when the new one
/// failed in it and the old one stayed, a crash in the next round left the old one two events behind, and
/// stale.
#[test]
fn a_hand_over_that_is_taken_back_leaves_nobody_behind_whenever_power_fails() {
    let mut spent = 0;
    for preset in PRESETS {
        let (bench, _) = replacing(preset);
        let steps = (1..).find(|_: &u64| {
            bench.world.run_steps(1);
            bench.array.last_job().is_some()
        });
        let steps = steps.unwrap();
        // Presets take turns.
        let first = steps.saturating_sub(100) + 5 * u64::from(preset.number);
        for fails_after in (first..steps).step_by(5 * PRESETS.len()) {
            for crashes_after in 0..60 {
                let (bench, faults) = replacing(preset);
                bench.world.run_steps(fails_after);
                faults.add(FaultRule { range_bytes: 4096..4608, times: 1, ..write_error() });
                bench.world.run_steps(crashes_after);
                if !faults.is_quiet() {
                    continue;
                }
                spent += 1;
                bench.world.crash();
                let assembled = bench.assemble(0..5, AssembleOptions::default().run(true));
                assert!(
                    assembled.is_ok(),
                    "{fails_after} + {crashes_after}: {:?}, {:?}",
                    events(&bench),
                    assembled.err()
                );
            }
        }
    }
    assert!(spent > 20, "{spent}");
}

/// A crash leaves one member an event ahead, its superblock says clean. The array is started without it and
/// written to. Once all stood at the same event then, and when that member came back its table counted.
#[test]
fn a_member_that_was_ahead_and_absent_is_stale_when_it_comes_back() {
    let mirror = Shape { level: Level::Raid1, members: 3, chunk_bytes: 65536 };
    let mut hits = 0;
    for seed in 0..40 {
        let bench = bench(900 + seed, mirror);
        bench.fill(1);
        // Some time from now the array becomes clean; the first to have it written down is ours.
        let before = events(&bench);
        let changed = (0..4000).any(|_| {
            bench.world.run_steps(1);
            events(&bench) != before
        });
        bench.world.crash();
        if !changed || events(&bench) != [before[0] + 1, before[1], before[2]] {
            continue;
        }
        hits += 1;
        let run = AssembleOptions::default().run(true);
        let array = bench.assemble(1..3, run).unwrap();
        let capacity = array.geometry().capacity_bytes() as usize;
        bench.world.run(async move {
            let two = IoBuf::copy_of(&vec![2; capacity]).freeze();
            array.write(0, two, WriteFlags { fua: true }).await.unwrap();
        });
        bench.world.crash();
        let array = bench.assemble(0..3, run).unwrap();
        let (in_sync, found) = bench.world.run(async move {
            let in_sync = array.report().await.in_sync;
            (in_sync, array.read(0, IoBuf::with_len(capacity)).await.unwrap())
        });
        assert_eq!(in_sync, [false, true, true], "seed {seed}");
        assert!(found.iter().all(|byte| *byte == 2), "seed {seed}");
    }
    assert!(hits > 2, "{hits}");
}

/// Once the member that is being filled stayed the incoming one of a role that a stale member took by force:
/// it went on being filled from that.
#[test]
fn what_was_being_filled_is_left_out_where_force_takes_a_stale_member() {
    for mut bench in benches(21, RAID5) {
        bench.fill(1);
        bench.faults[3].set_gone(true);
        bench.fill(2);
        let (new, sim, _) = bench.spare("new");
        bench.sims.push(sim);
        let array = bench.array.clone();
        bench.world.run(async move {
            array.pause_jobs();
            array.add(new).await.unwrap();
        });
        bench.world.run_for(Duration::from_secs(3));
        let array = bench.array.clone();
        bench.world.run(async move { array.stop().await }).unwrap();
        // m0 is dead for good.
        let array = bench.assemble(1..5, FORCE).unwrap();
        let report = bench.world.run(async move { array.report().await });
        assert_eq!(report.in_sync, [false, true, true, true]);
        assert_eq!(report.forced.iter().map(|forced| forced.name.as_str()).collect::<Vec<_>>(), ["m3"]);
        let left_out = report.excluded.iter().find(|excluded| excluded.name == "new").unwrap();
        assert!(left_out.reason.contains("by force"), "{left_out:?}");
    }
}

#[test]
fn a_scrub_without_redundancy_left_is_refused() {
    for bench in benches(22, RAID5) {
        bench.fill(1);
        let array = bench.array.clone();
        bench.world.run(async move { array.fail("m1").await }).unwrap();
        let refused = bench.array.start_scrub(false).unwrap_err().to_string();
        assert!(refused.contains("no redundancy is left"), "{refused}");
    }
}

/// An operator fails m1, and power fails when only m0 has that written down. The array is started without m0.
/// When it came back it was once taken for the other half of a split array, though nobody had served anything
/// from it.
#[test]
fn a_member_cut_off_while_it_wrote_a_failure_down_is_stale_and_no_half_of_a_split_array() {
    let mut hits = 0;
    for seed in 0..100 {
        let bench = bench(1300 + seed, RAID6);
        bench.fill(1);
        let before = events(&bench);
        let array = bench.array.clone();
        bench.world.env().spawn(Box::pin(async move {
            let _ = array.fail("m1").await;
        }));
        let changed = (0..200).any(|_| {
            bench.world.run_steps(1);
            events(&bench) != before
        });
        bench.world.crash();
        if !changed || events(&bench)[0] == before[0] || events(&bench)[1..] != before[1..] {
            continue;
        }
        hits += 1;
        let run = AssembleOptions::default().run(true);
        let array = bench.assemble(1..5, FORCE).unwrap();
        bench.world.run(async move {
            array.wait_for_jobs().await;
            array.stop().await.unwrap();
        });
        let array = bench.assemble(0..5, run).unwrap();
        let in_sync = bench.world.run(async move { array.report().await }).in_sync;
        assert_eq!(in_sync, [false, true, true, true, true], "seed {seed}");
    }
    assert!(hits > 2, "{hits}");
}

/// A new member takes the role of m1, and power fails when only m0 has that written down. The array is
/// started from m1 alone. When the others came back, m0 was once taken for the other half of a split array,
/// although the new member, which it counts, shows that it never went on.
#[test]
fn a_member_cut_off_while_it_wrote_a_promotion_down_is_stale_and_no_half_of_a_split_array() {
    let mut hits = 0;
    for seed in 5..60 {
        if hits == 1 {
            break;
        }
        let mut bench = bench(2600 + seed, MIRROR);
        bench.fill(1);
        let (new, sim, _) = bench.spare("new");
        bench.sims.push(sim);
        let array = bench.array.clone();
        bench.world.env().spawn(Box::pin(async move {
            array.add(new).await.unwrap();
            let _ = array.replace("m1", "new").await;
        }));
        let superblocks = || {
            let decode =
                |sim: &Arc<SimMember>| Superblock::decode(&sim.snapshot().bytes()[4096..8192], 8).ok();
            bench.sims.iter().map(decode).collect::<Option<Vec<_>>>()
        };
        // Only m0 says that the new one has the role.
        let says_so = |superblock: &Superblock| superblock.roles.of(1) == Some(Role::Faulty);
        let is_cut_off =
            || superblocks().is_some_and(|all| says_so(&all[0]) && !all[1..].iter().any(says_so));
        let cut_off = (0..3000).any(|_| {
            bench.world.run_steps(1);
            is_cut_off()
        });
        bench.world.crash();
        if !cut_off || !is_cut_off() {
            continue;
        }
        hits += 1;
        let devices = |sims: &[Arc<SimMember>]| {
            sims.iter().map(|sim| sim.clone() as Arc<dyn Device>).collect::<Vec<_>>()
        };
        let open = |devices, options| {
            let env = bench.world.env();
            bench.world.run(async move { assemble(env, devices, &options).await })
        };
        let array = open(devices(&bench.sims[1..2]), FORCE).unwrap();
        bench.world.run(async move {
            array.write(0, IoBuf::copy_of(&[9; 4096]).freeze(), WriteFlags::default()).await.unwrap();
            array.stop().await.unwrap();
        });
        let run = AssembleOptions::default().run(true);
        let array = open(devices(&bench.sims), run).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let in_sync = bench.world.run(async move { array.report().await }).in_sync;
        assert_eq!(in_sync, [false, true], "seed {seed}");
    }
    assert_eq!(hits, 1);
}

/// After a crash, mirrors differ in a region that is due for a resync, and one block of the first cannot be
/// read. Once a read of more than that block came from the second mirror as a whole, and after the resync,
/// which takes the first for right, the same bytes read otherwise.
#[test]
fn what_a_read_found_before_the_resync_is_there_after_it_around_a_bad_block_too() {
    for bench in benches(31, MIRROR) {
        bench.fill(1);
        let array = bench.array.clone();
        bench.world.run(async move { array.flush().await }).unwrap();
        bench.world.crash();
        // What a crash may leave of writes that were under way.
        bench.sims[1].poke(1 << 20, &[2; 8192]);
        let (first, faults) = Fault::new(bench.sims[0].clone());
        faults.add(latent_error((1 << 20) + 20_480..(1 << 20) + 20_992));
        let devices: Vec<Arc<dyn Device>> = vec![Arc::new(first), bench.sims[1].clone()];
        let env = bench.world.env();
        let (before, after) = bench.world.run(async move {
            let array = assemble(env, devices, &AssembleOptions::default()).await.unwrap();
            array.pause_jobs();
            let before = array.read(0, IoBuf::with_len(65536)).await.unwrap();
            array.resume_jobs();
            array.wait_for_jobs().await;
            (before, array.read(0, IoBuf::with_len(65536)).await.unwrap())
        });
        assert!(before[..] == [1; 65536], "the first mirror's blocks, where they can be read");
        assert!(before[..] == after[..]);
    }
}

/// A crash leaves the second of three members an event behind, and the third is absent at the next opening,
/// which is cut short too. Once the second was brought level with a table that called the third failed, at a
/// count that others had with another table: whether all three were taken up then depended on the order in
/// which they were named.
#[test]
fn who_belongs_does_not_depend_on_the_order_of_the_devices() {
    const THREE: Shape = Shape { level: Level::Raid5, members: 3, chunk_bytes: 16384 };
    let mut hits = 0;
    for seed in 0..400 {
        let bench = bench(2000 + seed, THREE);
        bench.fill(1);
        let before = events(&bench);
        let uneven = (0..4000).any(|_| {
            bench.world.run_steps(1);
            events(&bench) == [before[0] + 1, before[1], before[2] + 1]
        });
        bench.world.crash();
        if !uneven || events(&bench) != [before[0] + 1, before[1], before[2] + 1] {
            continue;
        }
        hits += 1;
        let (env, devices) = (bench.world.env(), devices(&bench.sims[..2]));
        bench.world.env().spawn(Box::pin(async move {
            let _ = assemble(env, devices, &FORCE).await;
        }));
        bench.world.run_steps(20 + seed % 60);
        bench.world.crash();
        let taken_up = [[0, 1, 2], [1, 0, 2], [2, 1, 0]].map(|order| {
            let examined = order.map(|index| bench.sims[index].clone() as Arc<dyn Device>);
            let read_only = FORCE.read_only(true);
            let env = bench.world.env();
            bench.world.run(async move {
                let array = assemble(env, examined.to_vec(), &read_only).await.unwrap();
                array.report().await.in_sync
            })
        });
        assert!(taken_up.iter().all(|in_sync| *in_sync == taken_up[0]), "seed {seed}: {taken_up:?}");
    }
    assert!(hits > 2, "{hits}");
}

/// Takes the room for a bad-block log from all members: a rebuild can list nothing there, and fails.
fn without_bad_block_logs(bench: &mut Bench) {
    let array = bench.array.clone();
    bench.world.run(async move { array.stop().await }).unwrap();
    for sim in &bench.sims {
        let mut superblock = Superblock::decode(&sim.snapshot().bytes()[4096..8192], 8).unwrap();
        superblock.bad_blocks = BadBlockArea::default();
        sim.poke(4096, &superblock.encode()[..]);
    }
    let (members, faults): (Vec<_>, Vec<_>) = bench.sims.iter().cloned().map(Fault::new).unzip();
    bench.faults = faults;
    let members = members.into_iter().map(|member| Arc::new(member) as Arc<dyn Device>).collect();
    let env = bench.world.env();
    let opened = bench.world.run(async move { assemble(env, members, &AssembleOptions::default()).await });
    bench.array = opened.unwrap();
}

/// A rebuild cannot read all that it needs. Once each request for a scrub began it again, and no scrub came
/// of it.
#[test]
fn a_scrub_is_carried_out_although_a_rebuild_has_failed() {
    for mut bench in benches(41, RAID6) {
        bench.fill(1);
        without_bad_block_logs(&mut bench);
        let start = (1 << 20) + 8192;
        for member in [2, 3] {
            bench.faults[member].add(latent_error(start..start + 512));
        }
        let (spare, _sim, _) = bench.spare("spare");
        let array = bench.array.clone();
        bench.world.run(async move {
            array.fail("m1").await.unwrap();
            array.add(spare).await.unwrap();
            array.wait_for_jobs().await;
            assert!(matches!(array.last_job().unwrap().outcome, Some(JobOutcome::Failed(_))));
            array.start_scrub(false).unwrap();
            array.wait_for_jobs().await;
        });
        let scrub = bench.array.last_scrub().expect("it was carried out");
        assert_eq!(scrub.done_stripes, scrub.total_stripes);
        assert!(matches!(scrub.outcome, Some(JobOutcome::Failed(_))), "it found what cannot be read");
    }
}

/// Two members have the bitmap. One fails, and within the second in which its pages would go to another the
/// other one is replaced. Once nobody had the bitmap then until it was written anew, and a crash made every
/// row doubtful.
#[test]
fn somebody_has_the_bitmap_while_its_last_holder_is_replaced() {
    for steps in (0..1500).step_by(7) {
        let (bench, _) = replacing(preset_of(steps));
        bench.write(0, 5, 4096).unwrap();
        bench.faults[0].set_gone(true);
        let array = bench.array.clone();
        bench.world.env().spawn(Box::pin(async move {
            for round in 0..200_u64 {
                let data = IoBuf::copy_of(&[round as u8; 4096]).freeze();
                let _ = array.write(round % 12 * 4096, data, WriteFlags::default()).await;
            }
        }));
        bench.world.run_steps(steps);
        bench.world.crash();
        let guards: Vec<_> = bench.sims.iter().map(|sim| sim.bytes()).collect();
        let bytes: Vec<&[u8]> = guards.iter().map(|guard| &**guard).collect();
        let image = stripewise_sim::check::image::Image::of(&bytes).unwrap();
        image.check_bitmap().unwrap_or_else(|violation| panic!("after {steps} steps: {violation}"));
    }
}

/// Whether a member's superblock says that it is to replace another member.
fn replaces(sim: &SimMember) -> bool {
    const REPLACEMENT: u8 = 16;
    sim.bytes()[4104] & REPLACEMENT != 0
}

/// Whether a member's table of roles says that m1 has its role.
fn names_m1(sim: &SimMember) -> bool {
    let role_of_m1 = 4096 + 256 + 2;
    sim.bytes()[role_of_m1..role_of_m1 + 2] == [1, 0]
}

/// The member that is being replaced is absent when the array is opened. Once the new member went on saying
/// that it replaces another one until its first checkpoint, which no md implementation expects of a role that
/// no member holds.
#[test]
fn a_new_member_replaces_no_absent_one() {
    let (bench, _) = replacing(&PRESETS[0]);
    let is_told = (0..4000).any(|_| {
        bench.world.run_steps(1);
        replaces(&bench.sims[4])
    });
    assert!(is_told, "it is being filled");
    bench.world.crash();
    let options = AssembleOptions::default().run(true).force(true);
    let (env, mut left) = (bench.world.env(), devices(&bench.sims[..]));
    left.remove(1);
    let array = bench.world.run(async move { assemble(env, left, &options).await }).unwrap();
    array.pause_jobs();
    assert!(!replaces(&bench.sims[4]), "nothing is there to be replaced");
    assert_eq!(events(&bench)[4], events(&bench)[0], "it is up to date");
}

/// A crash left the new member an event behind, and at the next opening the old one is absent. Once the new
/// member was brought up to date with a table of roles that still named the old one, and did not say that it
/// replaces it.
#[test]
fn a_new_member_that_was_behind_replaces_as_its_table_says() {
    let mut were_behind = 0;
    for steps in 0..300 {
        let (bench, _) = replacing(&PRESETS[0]);
        assert!(bench.world.run_steps_until(4000, || replaces(&bench.sims[4])), "it is being filled");
        bench.world.run_steps(steps);
        bench.world.crash();
        if events(&bench)[4] == events(&bench)[0] {
            continue;
        }
        were_behind += 1;
        let options = AssembleOptions::default().run(true).force(true);
        let (env, mut left) = (bench.world.env(), devices(&bench.sims[..]));
        left.remove(1);
        bench.world.env().spawn(Box::pin(async move {
            let _ = assemble(env, left, &options).await;
        }));
        for _ in 0..400 {
            bench.world.run_steps(1);
            assert_eq!(replaces(&bench.sims[4]), names_m1(&bench.sims[4]), "after {steps} steps");
        }
    }
    assert!(were_behind > 0, "none was behind");
}
