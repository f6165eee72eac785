//! Writes of a few blocks and of whole stripes, whose recipes take no plan, and others between them: in every
//! shape, around missing members, beside a rebuild and with faults. That these recipes are those of plans is
//! a property beside `src/plan/quick.rs`.

#![allow(clippy::unwrap_used)]

mod common;

use std::{sync::Arc, time::Duration};

use common::{
    Shape,
    timed::{How, TIMED_BYTES, Timed, WHILE, timed},
};
use fastrand::Rng;
use smallvec::smallvec;
use stripewise_device::{
    Device, IoBuf, IoErrorKind, WriteFlags,
    memory::MemoryDevice,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::{
    ArrayReport, MemberState, SpeedLimits,
    geometry::Level,
    locking::PRESETS,
    plan::selection::{POLICIES, policy},
};
use stripewise_sim::check::layout::Layout;

const BLOCK: usize = 4096;
/// Of the array, that are written.
const BLOCKS: usize = 96;

struct Bench {
    timed: Timed,
    content: Vec<u8>,
}

fn bench(how: How) -> Bench {
    Bench { timed: timed(how), content: vec![0; BLOCKS * BLOCK] }
}

impl Bench {
    /// Writes of one to three blocks, some that are none, and whole stripes, the same for a seed.
    fn write(&mut self, seed: u64, count: usize) {
        let (array, mut content) = (self.timed.array.clone(), std::mem::take(&mut self.content));
        let stripe = array.geometry().stripe_bytes() as usize;
        self.content = self.timed.world.run(async move {
            let mut rng = Rng::with_seed(seed);
            for _ in 0..count {
                let mut at = rng.usize(..BLOCKS - 3) * BLOCK + if rng.u8(..5) == 0 { 512 } else { 0 };
                let mut len = rng.usize(1..=3) * BLOCK - if rng.u8(..5) == 0 { 1024 } else { 0 };
                if rng.u8(..5) == 0 {
                    (at, len) = (rng.usize(..content.len() / stripe) * stripe, stripe);
                }
                let data: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
                content[at..at + len].copy_from_slice(&data);
                let data = IoBuf::copy_of(&data).freeze();
                array.write(at as u64, data, WriteFlags { fua: rng.bool() }).await.unwrap();
            }
            let found = array.read(0, IoBuf::with_len(content.len())).await.unwrap();
            assert!(*found == *content, "seed {seed}");
            content
        });
    }

    fn report(&self) -> ArrayReport {
        let array = self.timed.array.clone();
        self.timed.world.run(async move { array.report().await })
    }

    fn in_sync(&self) -> usize {
        self.report().members.iter().filter(|member| member.state == MemberState::InSync).count()
    }

    /// Takes a member out and fills another one in its place, slowly.
    fn begin_rebuild(&mut self, place: usize) {
        let array = self.timed.array.clone();
        array.set_speed_limits(SpeedLimits { min_bytes_per_s: 2 << 20, max_bytes_per_s: 2 << 20 });
        let device = Arc::new(MemoryDevice::new("spare", TIMED_BYTES));
        self.timed.members.push(device.clone());
        self.timed.world.run(async move {
            array.fail(&format!("memory{place}")).await.unwrap();
            array.add(device).await.unwrap();
        });
    }

    /// Lets the rebuild end that was begun.
    fn end_rebuild(&self) {
        self.timed
            .array
            .set_speed_limits(SpeedLimits { min_bytes_per_s: 1 << 30, max_bytes_per_s: u64::MAX });
        for _ in 0..100 {
            if self.timed.array.job().is_none() {
                return;
            }
            self.timed.world.run_for(Duration::from_millis(100));
        }
        panic!("the rebuild does not end");
    }

    /// The redundancy of the members in sync agrees with the data, by arithmetic that is not the engine's.
    fn check(&self, what: &str) {
        let data = self.data();
        let geometry = self.timed.array.geometry();
        let mut by_role: Vec<Option<&[u8]>> = vec![None; geometry.members()];
        for member in self.report().members.iter().filter(|member| member.state == MemberState::InSync) {
            let is_it = |device: &Arc<MemoryDevice>| device.info().name == member.name;
            let index = self.timed.members.iter().position(is_it).unwrap();
            by_role[member.slot.unwrap().0] = Some(&data[index]);
        }
        let layout = Layout {
            level: geometry.level().number(),
            members: geometry.members(),
            chunk_bytes: geometry.chunk_bytes(),
            member_bytes: geometry.member_bytes() as usize,
        };
        assert_eq!(layout.disagreeing_rows(&by_role), [0; 0], "{what}");
    }

    /// The members' data, without what tells arrays apart.
    fn data(&self) -> Vec<Vec<u8>> {
        let read = |member: &Arc<MemoryDevice>| {
            let buf = smallvec![IoBuf::with_len(TIMED_BYTES as usize)];
            let done = member.read(0, buf).try_ready().unwrap();
            done.into_one().unwrap()[1 << 20..].to_vec()
        };
        self.timed.members.iter().map(read).collect()
    }
}

#[test]
fn a_quick_recipe_leaves_redundancy_right() {
    let shapes =
        [(Level::Raid4, 5), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 6), (Level::Raid6, 8)];
    let mut presets = PRESETS.iter().cycle();
    for (level, members) in shapes {
        for policy in POLICIES {
            for chunk_bytes in [4096, 16384] {
                for delay in [None, Some(WHILE)] {
                    let (shape, preset) = (Shape { level, members, chunk_bytes }, presets.next().unwrap());
                    let how = How { shape, preset, policy: Some(policy), delay };
                    let mut bench = bench(how);
                    bench.write(7, 300);
                    bench.check(&format!("{shape:?}, {}, {}, {delay:?}", preset.name, policy.name));
                }
            }
        }
    }
}

/// Every set of members that a level can lose.
fn losses(level: Level, members: usize) -> Vec<Vec<usize>> {
    let one = (0..members).map(|member| vec![member]);
    let two = (0..members).flat_map(|first| (first + 1..members).map(move |second| vec![first, second]));
    if level == Level::Raid6 { one.chain(two).collect() } else { one.collect() }
}

/// A write may lose its column, another one, some of the parity, all of it, and two of these.
#[test]
fn a_quick_recipe_around_missing_members_leaves_redundancy_right() {
    let shapes =
        [(Level::Raid4, 3), (Level::Raid4, 5), (Level::Raid5, 4), (Level::Raid6, 4), (Level::Raid6, 6)];
    let mut policies = POLICIES.iter().cycle();
    let mut presets = PRESETS.iter().cycle();
    for (level, members) in shapes {
        let shape = Shape { level, members, chunk_bytes: 16384 };
        for (lost, delay) in
            losses(level, members).iter().flat_map(|lost| [(lost, None), (lost, Some(WHILE))])
        {
            for policy in policies.by_ref().take(2) {
                let how = How { shape, preset: presets.next().unwrap(), policy: Some(policy), delay };
                let mut bench = bench(how);
                bench.write(8, 30);
                for member in lost {
                    // Noticed in the middle of a write.
                    bench.timed.faults[*member].set_gone(true);
                    bench.write(9, 30);
                }
                assert_eq!(bench.in_sync(), members - lost.len());
                bench.write(10, 80);
                bench.check(&format!("{shape:?} without {lost:?}, {}, {delay:?}", policy.name));
            }
        }
    }
}

/// A member is filled meanwhile, in stripes behind the writes and before them.
#[test]
fn a_quick_recipe_beside_a_rebuild_leaves_both_members_right() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 4), (Level::Raid6, 6)] {
        for (policy, filled) in POLICIES.iter().flat_map(|policy| [(policy, 0), (policy, members - 1)]) {
            let shape = Shape { level, members, chunk_bytes: 16384 };
            let how = How { shape, preset: &PRESETS[0], policy: Some(policy), delay: Some(WHILE) };
            let mut bench = bench(how);
            bench.write(11, 30);
            bench.begin_rebuild(filled);
            bench.write(12, 200);
            assert!(bench.timed.array.job().is_some(), "it goes on");
            bench.write(13, 100);
            bench.end_rebuild();
            assert_eq!(bench.in_sync(), members);
            bench.check(&format!("{shape:?}, {filled} filled, {}", policy.name));
        }
    }
}

/// A block of each member in turn that cannot be read, while another member is missing.
#[test]
fn a_quick_recipe_around_a_missing_member_gives_way_to_faults() {
    for name in ["classic", "modified"] {
        for (lost, delay) in (0..4).flat_map(|lost| [(lost, None), (lost, Some(WHILE))]) {
            let shape = Shape { level: Level::Raid6, members: 4, chunk_bytes: 16384 };
            let how = How { shape, preset: &PRESETS[0], policy: Some(policy(name).unwrap()), delay };
            let mut bench = bench(how);
            bench.timed.faults[lost].set_gone(true);
            bench.write(14, 50);
            for (member, faults) in bench.timed.faults.clone().iter().enumerate() {
                if member != lost {
                    faults.add(unreadable_chunk());
                    bench.write(15, 50);
                }
            }
            assert_eq!(bench.in_sync(), 3);
            bench.check(&format!("without {lost}, {name}, {delay:?}"));
        }
    }
}

/// The first 16 KiB of a member's data, until they are written.
fn unreadable_chunk() -> FaultRule {
    FaultRule {
        operation: Operation::Read,
        range_bytes: (1 << 20)..(1 << 20) + 16384,
        kind: IoErrorKind::Medium,
        times: u32::MAX,
        healed_by_write: true,
    }
}

/// A block that cannot be read, and a member that goes away, in the middle of it.
#[test]
fn a_quick_recipe_gives_way_to_faults() {
    // The middle one by reconstruct-write.
    for (level, members) in [(Level::Raid5, 5), (Level::Raid6, 6), (Level::Raid6, 8)] {
        for delay in [None, Some(WHILE)] {
            let shape = Shape { level, members, chunk_bytes: 16384 };
            let how = How { shape, preset: &PRESETS[0], policy: Some(POLICIES[0]), delay };
            let mut bench = bench(how);
            bench.write(1, 50);
            for faults in bench.timed.faults.clone() {
                faults.add(unreadable_chunk());
                bench.write(2, 50);
            }
            bench.timed.faults[1].set_gone(true);
            bench.write(3, 100);
            assert_eq!(bench.in_sync(), members - 1, "the one that has gone, and nobody else, was dropped");
        }
    }
}

/// What waits goes on by itself, and keeps its rows and its region until it is done.
#[test]
fn a_write_that_is_forgotten_is_written() {
    let [forgotten, awaited] = [true, false].map(|is_forgotten| {
        let shape = Shape { level: Level::Raid5, members: 5, chunk_bytes: 16384 };
        let how = How { shape, preset: &PRESETS[0], policy: Some(POLICIES[0]), delay: Some(WHILE) };
        let bench = bench(how);
        let array = bench.timed.array.clone();
        bench.timed.world.run(async move {
            // A block of every other chunk: two of the same rows in each stripe.
            for chunk in (0..24).step_by(2) {
                let data = IoBuf::copy_of(&[chunk as u8 + 1; BLOCK]).freeze();
                let write = array.write(chunk * 16384, data, WriteFlags::default());
                if is_forgotten {
                    drop(write);
                } else {
                    write.await.unwrap();
                }
            }
            array.stop().await.unwrap();
        });
        bench
    });
    assert!(forgotten.data() == awaited.data());
    let stats = forgotten.timed.array.stats().report();
    assert_eq!(stats, awaited.timed.array.stats().report());
    assert_eq!(stats.rows_rmw, 12);
}
