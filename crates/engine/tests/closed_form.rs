//! Writes of a few blocks have their plan in closed form; nobody can tell by what it leaves.

#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use smallvec::smallvec;
use stripewise_device::{
    Device, IoBuf, IoErrorKind, WriteFlags,
    memory::MemoryDevice,
    wrap::{Delay, Fault, FaultRule, Faults, Operation},
};
use stripewise_engine::{
    Array, ArrayReport, CreateOptions, MemberState, MemberStatsReport, StatsReport, TraceFilter,
    geometry::Level,
    plan::selection::{POLICIES, Policy},
};
use stripewise_sim::World;

const MEMBER_BYTES: u64 = 4 << 20;
const BLOCK: usize = 4096;
/// What a member takes that is not done at once.
const WHILE: Duration = Duration::from_micros(100);
/// Of the array, that are written.
const BLOCKS: usize = 96;

struct Bench {
    world: World,
    array: Array,
    members: Vec<Arc<MemoryDevice>>,
    faults: Vec<Arc<Faults>>,
    content: Vec<u8>,
}

/// Members that are done at once, or after a while.
fn bench(
    level: Level,
    members: usize,
    chunk_bytes: u32,
    policy: &'static Policy,
    delay: Option<Duration>,
) -> Bench {
    let world = World::new(1);
    let memory = |i| Arc::new(MemoryDevice::new(format!("memory{i}"), MEMBER_BYTES));
    let members: Vec<_> = (0..members).map(memory).collect();
    let (devices, faults): (Vec<_>, Vec<_>) =
        members.iter().map(|member| Fault::new(member.clone() as Arc<dyn Device>)).unzip();
    let env = world.env();
    let devices = devices.into_iter().map(|device| match delay {
        Some(delay) => Arc::new(Delay::new(device, env.clone(), delay)) as Arc<dyn Device>,
        None => Arc::new(device),
    });
    let devices = devices.collect();
    let mut options = CreateOptions::new("sim:closed-form", level, devices);
    options.chunk_bytes = chunk_bytes;
    options.assume_clean = true;
    options.policy = Some(policy);
    let array = world.run(async move { Array::create(env, options).await }).unwrap();
    Bench { world, array, members, faults, content: vec![0; BLOCKS * BLOCK] }
}

impl Bench {
    /// Writes of one to three blocks and some that are none, the same for a seed.
    fn write(&mut self, seed: u64, count: usize) {
        let (array, mut content) = (self.array.clone(), std::mem::take(&mut self.content));
        self.content = self.world.run(async move {
            let mut rng = Rng::with_seed(seed);
            for _ in 0..count {
                let at = rng.usize(..BLOCKS - 3) * BLOCK + if rng.u8(..5) == 0 { 512 } else { 0 };
                let len = rng.usize(1..=3) * BLOCK - if rng.u8(..5) == 0 { 1024 } else { 0 };
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
        let array = self.array.clone();
        self.world.run(async move { array.report().await })
    }

    fn counters(&self) -> (StatsReport, Vec<MemberStatsReport>) {
        let members = self.report().members.iter().map(|member| member.stats).collect();
        (self.array.stats().report(), members)
    }

    /// The members' data, without what tells arrays apart.
    fn data(&self) -> Vec<Vec<u8>> {
        let read = |member: &Arc<MemoryDevice>| {
            let buf = smallvec![IoBuf::with_len(MEMBER_BYTES as usize)];
            let done = member.read(0, buf).try_ready().unwrap();
            done.into_one().unwrap()[1 << 20..].to_vec()
        };
        self.members.iter().map(read).collect()
    }
}

#[test]
fn the_closed_form_leaves_and_counts_what_the_plan_does() {
    let shapes =
        [(Level::Raid4, 5), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 6), (Level::Raid6, 8)];
    for (level, members) in shapes {
        for policy in POLICIES {
            for chunk_bytes in [4096, 16384] {
                for delay in [None, Some(WHILE)] {
                    // Whoever traces sees plans, so there are plans.
                    let make = || bench(level, members, chunk_bytes, policy, delay);
                    let (mut formed, mut planned) = (make(), make());
                    planned.array.trace_decisions(TraceFilter::default(), 1);
                    formed.write(7, 300);
                    planned.write(7, 300);
                    let what =
                        format!("{level:?}, {members} members, {}, {chunk_bytes}, {delay:?}", policy.name);
                    assert!(formed.data() == planned.data(), "{what}");
                    assert_eq!(formed.counters(), planned.counters(), "{what}");
                    assert_eq!(formed.world.now(), planned.world.now(), "{what}");
                }
            }
        }
    }
}

/// A block that cannot be read, and a member that goes away, in the middle of it.
#[test]
fn the_closed_form_gives_way_to_faults() {
    // The middle one by reconstruct-write.
    for (level, members) in [(Level::Raid5, 5), (Level::Raid6, 6), (Level::Raid6, 8)] {
        for delay in [None, Some(WHILE)] {
            let mut bench = bench(level, members, 16384, POLICIES[0], delay);
            bench.write(1, 50);
            for faults in bench.faults.clone() {
                faults.add(FaultRule {
                    operation: Operation::Read,
                    range_bytes: (1 << 20)..(1 << 20) + 16384,
                    kind: IoErrorKind::Medium,
                    times: u32::MAX,
                    healed_by_write: true,
                });
                bench.write(2, 50);
            }
            bench.faults[1].set_gone(true);
            bench.write(3, 100);
            let in_sync = bench.report().members.iter().filter(|m| m.state == MemberState::InSync).count();
            assert_eq!(in_sync, members - 1, "the one that has gone, and nobody else, was dropped");
        }
    }
}

/// What waits goes on by itself, and keeps its rows and its region until it is done.
#[test]
fn a_write_that_is_forgotten_is_written() {
    let [forgotten, awaited] = [true, false].map(|is_forgotten| {
        let bench = bench(Level::Raid5, 5, 16384, POLICIES[0], Some(WHILE));
        let array = bench.array.clone();
        bench.world.run(async move {
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
    let stats = forgotten.array.stats().report();
    assert_eq!(stats, awaited.array.stats().report());
    assert_eq!(stats.rows_rmw, 12);
}
