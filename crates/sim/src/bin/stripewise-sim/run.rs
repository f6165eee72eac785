//! Many stories, on all cores.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use stripewise_sim::story::{Outcome, Plan, tell};

use crate::{
    args::{RunArgs, replay_command, threads_or_all},
    replay,
    shrink::shrink,
};

/// What the threads share.
struct Progress {
    next_seed: AtomicU64,
    stop: AtomicBool,
    crash_points: AtomicU64,
    distinct_points: AtomicU64,
    stories: AtomicU64,
    distinct: Mutex<HashSet<u64>>,
    failed: Mutex<Option<(Plan, Outcome)>>,
}

/// Tells stories until seeds, time or crash points are used up, or one ends badly. True if none did.
pub(crate) fn run(args: &RunArgs) -> bool {
    if !args.is_possible() {
        println!("arrays of this level have no caches; give --level 4, 5 or 6");
        return false;
    }
    let threads = threads_or_all(args.threads);
    let progress = Progress {
        next_seed: AtomicU64::new(args.seeds().start),
        stop: AtomicBool::new(false),
        crash_points: AtomicU64::new(0),
        distinct_points: AtomicU64::new(0),
        stories: AtomicU64::new(0),
        distinct: Mutex::default(),
        failed: Mutex::default(),
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        let tellers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| tell_stories(args, &progress, started))).collect();
        watch(args, &progress, started, || tellers.iter().all(|teller| teller.is_finished()));
    });
    report(&progress, started, threads);
    let failed = progress.failed.into_inner().expect("tellers catch panics");
    if let Some((plan, outcome)) = failed {
        println!("seed {} ends badly, in life {}: {}", plan.seed, outcome.life, replay_command(&plan));
        replay::narrate(&shrink(&plan, &outcome), replay::EVENTS_DEFAULT);
        return false;
    }
    let distinct = progress.distinct_points.into_inner();
    match args.crash_points {
        Some(wanted) if distinct < wanted => {
            println!(
                "but only {distinct} distinct power failures of {wanted}: give more --seeds or --seconds"
            );
            false
        }
        _ => true,
    }
}

fn tell_stories(args: &RunArgs, progress: &Progress, started: Instant) {
    let (seeds, until) = (args.seeds(), args.seconds.map(|limit| started + limit));
    while !progress.stop.load(Ordering::Relaxed) {
        let next = |seed: u64| (seed < seeds.end).then(|| seed + 1);
        let taken = progress.next_seed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let out_of_time = until.is_some_and(|until| Instant::now() >= until);
        let Ok(seed) = taken else { return };
        if out_of_time {
            return;
        }
        let plan = Plan { until, ..args.story.plan(seed) };
        if args.only_caches && !plan.has_caches() {
            continue;
        }
        let outcome = tell(&plan);
        progress.stories.fetch_add(1, Ordering::Relaxed);
        let count = outcome.crash_points.len() as u64;
        progress.crash_points.fetch_add(count, Ordering::Relaxed);
        let distinct = {
            let mut distinct = progress.distinct.lock().expect("nobody panics with it");
            distinct.extend(&outcome.crash_points);
            distinct.len() as u64
        };
        progress.distinct_points.fetch_max(distinct, Ordering::Relaxed);
        if args.crash_points.is_some_and(|enough| distinct >= enough) {
            progress.stop.store(true, Ordering::Relaxed);
        }
        if outcome.violation.is_some() {
            progress.stop.store(true, Ordering::Relaxed);
            let plan = Plan { until: None, ..plan };
            progress.failed.lock().expect("nobody panics with it").get_or_insert((plan, outcome));
        }
    }
}

/// Shows the progress, on a terminal.
fn watch(args: &RunArgs, progress: &Progress, started: Instant, done: impl Fn() -> bool) {
    let seeds = args.seeds().end - args.seeds().start;
    let seconds = args.seconds.map(|limit| limit.as_secs());
    let bar = ProgressBar::new(args.crash_points.or(seconds).unwrap_or(seeds));
    let style = ProgressStyle::with_template("{bar:30} {msg} ETA {eta}");
    bar.set_style(style.expect("the template is right"));
    while !done() {
        let points = progress.crash_points.load(Ordering::Relaxed);
        let stories = progress.stories.load(Ordering::Relaxed);
        bar.set_position(match (args.crash_points, seconds) {
            (Some(_), _) => progress.distinct_points.load(Ordering::Relaxed),
            (None, Some(_)) => started.elapsed().as_secs(),
            (None, None) => stories,
        });
        bar.set_message(format!("{points} power failures, {:.0}/s", rate(points, started)));
        std::thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

fn rate(count: u64, started: Instant) -> f64 {
    count as f64 / started.elapsed().as_secs_f64().max(1e-9)
}

fn report(progress: &Progress, started: Instant, threads: usize) {
    let points = progress.crash_points.load(Ordering::Relaxed);
    let stories = progress.stories.load(Ordering::Relaxed);
    let distinct = progress.distinct.lock().expect("nobody panics with it").len();
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{stories} stories, {points} power failures ({distinct} distinct) in {seconds:.1} s, threads: {threads}, {:.0} a second",
        rate(points, started)
    );
    if progress.failed.lock().expect("nobody panics with it").is_none() {
        println!("no violation");
    }
}
