//! Running a point: a new array, a warm-up, writes that fill the drives' caches, the passes.

use stripewise_engine::{StrideLimit, StrideLimits};
use stripewise_load::{Load, Offsets, OpReport, Sizes, Stop};

use super::{Changing, Measured, MemberOutcome, Outcome, Places, Point, Script};
use crate::{
    arrays::{MemberWork, Rig},
    driven::{Driven, drive, drive_steps, drive_whole},
    phases::drive_phases,
};

/// Writes of the warm-up: enough to touch every region of the bitmap, and for policies to learn.
pub(super) const WARM_UP_WRITES: u64 = 400;
/// The longest write of the warm-up: one of a stripe is as good as one of many.
const WARM_UP_BYTES_MAX: u64 = 1 << 20;

/// Runs a point from nothing: the array is made, warmed up, brought to its steady state, and measured in it.
///
/// # Panics
/// If the point is impossible, such as a write larger than its array, passes in sequence beyond its end, or a script whose steady
/// state is asked for.
pub fn measure(point: &Point, seed: u64) -> Outcome {
    let rig = Rig::with_chunks(point.shape, point.policy, point.hdd, point.chunk_bytes, seed);
    let load_seed = point.load_seed(seed);
    if let Some(cache) = point.cache {
        let array = rig.array().clone();
        let set = rig.run(async move { array.set_cache(cache.settings()).await });
        set.expect("the array can have such a cache");
    }
    if let Some(blocks) = point.stride_max {
        let limit = Some(StrideLimit::Blocks(blocks));
        let array = rig.array().clone();
        let set =
            rig.run(async move { array.limit_strides(StrideLimits { read: limit, write: limit }).await });
        set.expect("members keep a limit");
    }
    if point.measured == Measured::Whole {
        let before = rig.work();
        let whole = match point.load.places {
            // A file system has one history: points of other cycles are other times of it.
            Places::Script(script) => run_steps(&rig, point, script, seed),
            Places::Changing(changing) => return run_phases(&rig, changing, load_seed),
            _ => run_whole(&rig, load_of(point, &rig, load_seed)),
        };
        return outcome(&[whole], &before, &rig.work());
    }
    warm_up(&rig, point, load_seed);
    let pass = |number: u64, before: u64, requests: u64| {
        let load = load_of(point, &rig, load_seed.wrapping_add(1 + number));
        run(&rig, Load { stop: Stop::Requests(requests), ..after(load, before * point.load.write_bytes) })
    };
    let (lead, requests) = (point.lead_requests(), point.load.requests());
    pass(0, 0, lead);
    let before = rig.work();
    let passes =
        (0..u64::from(point.load.passes)).map(|number| pass(1 + number, lead + number * requests, requests));
    let passes: Vec<_> = passes.collect();
    outcome(&passes, &before, &rig.work())
}

/// A sequential load continues where earlier ones ended: overwritten data might still lie in the drives'
/// caches.
fn after(load: Load, before_bytes: u64) -> Load {
    match load.offsets {
        Offsets::Sequential => Load {
            start_bytes: before_bytes,
            span_bytes: load.span_bytes.map(|bytes| bytes - before_bytes),
            ..load
        },
        _ => load,
    }
}

/// Writes over the whole array, whatever the passes use: it touches every region of the bitmap.
fn warm_up(rig: &Rig, point: &Point, seed: u64) {
    let write_bytes = point.load.write_bytes.min(WARM_UP_BYTES_MAX);
    run(
        rig,
        Load {
            offsets: Offsets::Uniform,
            sizes: Sizes::Fixed(write_bytes),
            unit_bytes: write_bytes,
            span_bytes: None,
            stop: Stop::Requests(WARM_UP_WRITES),
            ..load_of(point, rig, seed)
        },
    );
}

fn load_of(point: &Point, rig: &Rig, seed: u64) -> Load {
    let load = &point.load;
    Load {
        depth: load.depth,
        offsets: match load.places {
            Places::Random => Offsets::Uniform,
            Places::Sequential => Offsets::Sequential,
            Places::Sweeps(places) => Offsets::Sweeps { places },
            Places::Skips { mean, max } => Offsets::Skips { mean, max },
            Places::Script(_) | Places::Changing(_) => panic!("it is measured as a whole"),
        },
        sizes: Sizes::Fixed(load.write_bytes),
        unit_bytes: load.unit_bytes,
        // raid4s-modthresh 4: the seek range is the device's size over the block's, in blocks.
        span_bytes: load.span_bytes.or(Some(rig.array().geometry().capacity_bytes())),
        stop: Stop::Requests(load.requests()),
        fua: point.cache.is_some_and(|cache| cache.through),
        seed: Some(seed),
        ..Load::default()
    }
}

fn run(rig: &Rig, load: Load) -> Driven {
    let array = rig.array().clone();
    rig.run(async move { drive(&array, load).await })
}

/// Runs a load and then a flush, which counts as part of it.
fn run_whole(rig: &Rig, load: Load) -> Driven {
    let array = rig.array().clone();
    rig.run(async move { drive_whole(&array, load).await })
}

/// Runs a script's steps and then a flush, which counts as part of them.
fn run_steps(rig: &Rig, point: &Point, script: Script, seed: u64) -> Driven {
    let array = rig.array().clone();
    let through = point.cache.is_some_and(|cache| cache.through);
    let pace = script.pace(point.load.depth, through);
    let steps = script.steps(seed);
    rig.run(async move { drive_steps(&array, steps, pace).await })
}

/// Runs the phases of a load that changes and then a flush, which counts as part of them.
fn run_phases(rig: &Rig, changing: Changing, seed: u64) -> Outcome {
    let (array, before) = (rig.array().clone(), rig.work());
    let (whole, phases) = rig.run(async move { drive_phases(&array, changing.loads(seed)).await });
    Outcome { phases, ..outcome(&[whole], &before, &rig.work()) }
}

fn outcome(passes: &[Driven], before: &[MemberWork], after: &[MemberWork]) -> Outcome {
    let mut all = OpReport::default();
    for pass in passes {
        all.add(&pass.load.reads);
        all.add(&pass.load.writes);
    }
    let sum = |value: fn(&Driven) -> u64| passes.iter().map(value).sum::<u64>();
    let latency_ns = |quantile| all.latency_ns.value_at_quantile(quantile);
    Outcome {
        pass_bytes: passes.iter().map(|pass| pass.load.reads.bytes + pass.load.writes.bytes).collect(),
        pass_ns: passes.iter().map(|pass| pass.load.elapsed.as_nanos() as u64).collect(),
        requests: all.requests,
        errors: all.errors,
        latency_mean_ns: all.latency_ns.mean() as u64,
        latency_p50_ns: latency_ns(0.5),
        latency_p99_ns: latency_ns(0.99),
        latency_p999_ns: latency_ns(0.999),
        latency_max_ns: all.latency_ns.max(),
        rows_full: sum(|pass| pass.stats.rows_full),
        rows_rmw: sum(|pass| pass.stats.rows_rmw),
        rows_rcw: sum(|pass| pass.stats.rows_rcw),
        stripe_writes: sum(|pass| pass.stats.stripe_writes),
        stripe_writes_full: sum(|pass| pass.stats.stripe_writes_full),
        blocks_filled: sum(|pass| pass.stats.blocks_filled),
        requests_saved: sum(|pass| pass.stats.requests_saved),
        members: (0..after.len()).map(|role| member(passes, role, before[role], after[role])).collect(),
        phases: Vec::new(),
    }
}

fn member(passes: &[Driven], role: usize, before: MemberWork, after: MemberWork) -> MemberOutcome {
    let stats = passes.iter().map(|pass| &pass.members[role]);
    MemberOutcome {
        drive: after.drive.to_owned(),
        busy_ns: (after.busy - before.busy).as_nanos() as u64,
        reads: stats.clone().map(|stats| stats.reads).sum(),
        read_bytes: stats.clone().map(|stats| stats.read_bytes).sum(),
        writes: stats.clone().map(|stats| stats.writes).sum(),
        written_bytes: stats.map(|stats| stats.wearing_bytes()).sum(),
    }
}
