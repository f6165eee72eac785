//! What the way of a write must not do: allocate. Over members that are done at once, in the steady state.

use std::{alloc::System, sync::Arc};

use fastrand::Rng;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use stripewise_device::{Device, IoBuf, WriteFlags, memory::MemoryDevice};
use stripewise_engine::{Array, CreateOptions, geometry::Level};
use stripewise_sim::World;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BLOCK: usize = 4096;
/// Enough to have touched every region.
const WARM_UP: u64 = 30_000;
const COUNTED: u64 = 5_000;

fn array(world: &World, level: Level, members: usize) -> Array {
    let member = |i| Arc::new(MemoryDevice::new(format!("m{i}"), 64 << 20)) as Arc<dyn Device>;
    let mut options = CreateOptions::new("hot", level, (0..members).map(member).collect());
    options.assume_clean = true;
    let env = world.env();
    world.run(async move { Array::create(env, options).await }).expect("members in memory do not fail")
}

#[derive(Debug, Clone, Copy)]
enum Case {
    SmallWrite,
    WholeStripe,
    SmallRead,
}

/// Allocations of some operations, after as many that warm everything up.
async fn allocations(array: Array, case: Case) -> usize {
    let (capacity, stripe_bytes) = (array.geometry().capacity_bytes(), array.geometry().stripe_bytes());
    let source = IoBuf::zeroed(stripe_bytes as usize).freeze();
    let mut block = IoBuf::with_len(BLOCK);
    let mut rng = Rng::with_seed(1);
    let mut warm = None;
    for index in 0..WARM_UP + COUNTED {
        if index == WARM_UP {
            warm = Some(Region::new(ALLOCATOR));
        }
        let at = rng.u64(..capacity / BLOCK as u64) * BLOCK as u64;
        let (at, data) = match case {
            Case::SmallRead => {
                block = array.read(at, block).await.expect("members in memory do not fail");
                continue;
            }
            Case::SmallWrite => (at, source.slice(0..BLOCK)),
            Case::WholeStripe => (index % (capacity / stripe_bytes) * stripe_bytes, source.clone()),
        };
        array.write(at, data, WriteFlags::default()).await.expect("members in memory do not fail");
    }
    let change = warm.expect("there is something to count").change();
    change.allocations + change.reallocations
}

/// One test, since the allocator counts for all threads.
#[test]
fn writes_and_reads_allocate_nothing() {
    for (level, members) in [(Level::Raid5, 5), (Level::Raid6, 6), (Level::Raid1, 2)] {
        for case in [Case::SmallWrite, Case::WholeStripe, Case::SmallRead] {
            let world = World::new(1);
            let array = array(&world, level, members);
            let counted = world.run(allocations(array, case));
            assert_eq!(counted, 0, "{level:?}, {case:?}");
        }
    }
}
