//! How many device I/Os are simulated in a second of real time, on one core: level 5 of 4+1 modelled hard
//! disks, random writes of 4 KiB and then reads, 32 under way.
//!
//! `cargo run --release -p stripewise-sim --example io_rate [client writes] [wd|cheetah|exos]`

use std::sync::Arc;

use stripewise_device::Device;
use stripewise_engine::{Array, CreateOptions, geometry::Level};
use stripewise_load::{Load, LoadReport, Stop};
use stripewise_sim::{
    World,
    model::{Contents, DiskOptions, ModelledDisk, hdd::HddParams},
};

/// What the laboratory needs to run the papers' experiments in minutes.
const GOAL_PER_S: f64 = 500_000.0;
/// Metadata before an array's data, kept so that the engine finds its superblocks and bitmap.
const METADATA_BYTES: u64 = 256 << 20;

fn main() {
    let writes = std::env::args().nth(1).map_or(200_000, |text| text.parse().expect("a number of writes"));
    let params = drive(&std::env::args().nth(2).unwrap_or_else(|| "wd".to_owned()));
    let mut world = World::new(1);
    world.set_steps_max(u64::MAX);
    let options = DiskOptions {
        contents: Contents::First(METADATA_BYTES),
        size_bytes: Some(12_250_000_896),
        ..DiskOptions::default()
    };
    let disks: Vec<_> = (0..5).map(|i| world.add_hdd(format!("disk{i}"), params.clone(), options)).collect();
    let array = create(&world, &disks);
    let device: Arc<dyn Device> = Arc::new(array.device());
    run(&world, &device, writes / 10, 0); // warms up caches and marks regions
    let writes_per_s = measure(&world, &device, &disks, writes, 0);
    let reads_per_s = measure(&world, &device, &disks, 4 * writes, 100);
    println!("{}", disks[0].counters());
    println!(
        "{:.2} of the goal of {GOAL_PER_S:.0} with writes, {:.2} with reads",
        writes_per_s / GOAL_PER_S,
        reads_per_s / GOAL_PER_S
    );
}

/// Device I/Os in a second of a core.
fn measure(
    world: &World,
    device: &Arc<dyn Device>,
    disks: &[Arc<ModelledDisk>],
    requests: u64,
    read_percent: u8,
) -> f64 {
    let (clock_before, ios_before, virtual_start) = (clock_hz(), device_ios(disks), world.now());
    let start = cpu_seconds();
    let report = run(world, device, requests, read_percent);
    let core_seconds = cpu_seconds() - start;
    let ios = device_ios(disks) - ios_before;
    let (per_s, clock) = (ios as f64 / core_seconds, f64::midpoint(clock_before, clock_hz()));
    println!("{report}");
    let virtual_s = world.now().since(virtual_start).as_secs_f64();
    println!("virtual: {virtual_s:.1} s; trace {:016x}", world.trace_hash());
    println!(
        "{ios} device I/Os in {core_seconds:.2} s of a core of {:.2} GHz: {per_s:.0} a second, {:.0} cycles each",
        clock / 1e9,
        clock / per_s
    );
    per_s
}

/// What this thread had of a core so far; on a machine with other work, wall time says less.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(f64::NAN, |ns| ns / 1e9)
}

/// The clock of this thread's core, by a chain of instructions of which each waits for the one before: a
/// shift, an exclusive or and a multiplication take five cycles on all of today's cores. How much of the core
/// a neighbour on its other thread takes does not show in it.
fn clock_hz() -> f64 {
    const STEPS: u64 = 40_000_000;
    let cpu_start = cpu_seconds();
    let end = (0..STEPS).fold(STEPS, |x, _| (x ^ (x >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    std::hint::black_box(end);
    5.0 * STEPS as f64 / (cpu_seconds() - cpu_start)
}

fn drive(name: &str) -> HddParams {
    match name {
        "cheetah" => HddParams::seagate_cheetah_15k4_73(),
        "exos" => HddParams::seagate_exos_x18(),
        _ => HddParams::wd_caviar_black_640(),
    }
}

fn create(world: &World, disks: &[Arc<ModelledDisk>]) -> Array {
    let members = disks.iter().map(|disk| disk.clone() as Arc<dyn Device>).collect();
    let mut options = CreateOptions::new("sim:rate", Level::Raid5, members);
    options.assume_clean = true;
    let env = world.env();
    world.run(async move { Array::create(env, options).await }).expect("the disks are as an array needs them")
}

fn run(world: &World, device: &Arc<dyn Device>, requests: u64, read_percent: u8) -> LoadReport {
    let load = Load { depth: 32, stop: Stop::Requests(requests), read_percent, ..Load::default() };
    let (env, device) = (world.env(), device.clone());
    world.run(async move { stripewise_load::run(env, device, load).await })
}

fn device_ios(disks: &[Arc<ModelledDisk>]) -> u64 {
    let count = |disk: &Arc<ModelledDisk>| {
        let counters = disk.counters();
        ["reads", "writes", "flushes"].iter().filter_map(|name| counters.find(name)).sum::<u64>()
    };
    disks.iter().map(count).sum()
}
