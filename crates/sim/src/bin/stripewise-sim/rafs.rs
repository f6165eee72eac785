//! Stories of the file system, on all cores.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use stripewise_engine::geometry::Level;
use stripewise_sim::rafs::{Ground, Plan, Told, tell};

use crate::args::threads_or_all;

/// What to tell.
#[derive(Debug, Clone, Args)]
pub(crate) struct RafsArgs {
    /// The first seed, and how many
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Stories; as many as --seconds or --crash-points need, if left out and one of these is given
    #[arg(long)]
    stories: Option<u64>,
    /// End after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// End after so many power failures, no two at the same moment of the same history
    #[arg(long)]
    crash_points: Option<u64>,
    /// What it lies on: `file`, or an array of level 4, 5 or 6; each in turn, if left out
    #[arg(long)]
    on: Option<String>,
    /// Lives of each story
    #[arg(long, default_value_t = 12)]
    lives: u32,
    /// Clients
    #[arg(long, default_value_t = 3)]
    clients: u32,
    /// Threads; as many as there are cores, if left out
    #[arg(long)]
    threads: Option<usize>,
}

impl RafsArgs {
    /// What a seed's file system lies on; none for a word that is none.
    fn ground(&self, seed: u64) -> Option<Ground> {
        let turns = ["file", "4", "5", "6"];
        match self.on.as_deref().unwrap_or(turns[(seed % 4) as usize]) {
            "file" => Some(Ground::File),
            "4" => Some(Ground::Level(Level::Raid4)),
            "5" => Some(Ground::Level(Level::Raid5)),
            "6" => Some(Ground::Level(Level::Raid6)),
            _ => None,
        }
    }

    fn plan(&self, seed: u64) -> Option<Plan> {
        Some(Plan { seed, ground: self.ground(seed)?, lives: self.lives, clients: self.clients })
    }

    /// Stories at most.
    fn most(&self) -> u64 {
        let is_bounded = self.seconds.is_some() || self.crash_points.is_some();
        self.stories.unwrap_or(if is_bounded { u64::MAX / 2 } else { 1000 })
    }
}

/// What the threads share.
#[derive(Default)]
struct Progress {
    next: AtomicU64,
    stories: AtomicU64,
    stop: AtomicBool,
    points: Mutex<HashSet<u64>>,
    failed: Mutex<Option<(u64, Told)>>,
}

/// Tells stories until one ends badly, or enough were told. True if none ended badly.
pub(crate) fn rafs(args: &RafsArgs) -> bool {
    if args.ground(0).is_none() {
        println!("--on takes file, 4, 5 or 6");
        return false;
    }
    let (progress, started) = (Progress::default(), Instant::now());
    let threads = threads_or_all(args.threads);
    std::thread::scope(|scope| {
        let tellers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| tell_stories(args, &progress, started))).collect();
        watch(args, &progress, started, || tellers.iter().all(|teller| teller.is_finished()));
    });
    report(args, &progress, started)
}

fn tell_stories(args: &RafsArgs, progress: &Progress, started: Instant) {
    while !progress.stop.load(Ordering::Relaxed) {
        let number = progress.next.fetch_add(1, Ordering::Relaxed);
        let is_over = args.seconds.is_some_and(|most| started.elapsed().as_secs() >= most);
        let Some(plan) = args.plan(args.seed + number).filter(|_| number < args.most() && !is_over) else {
            return;
        };
        let told = tell(&plan);
        progress.stories.fetch_add(1, Ordering::Relaxed);
        let points = {
            let mut points = progress.points.lock().expect("nobody panics with it");
            points.extend(&told.crash_points);
            points.len() as u64
        };
        if args.crash_points.is_some_and(|enough| points >= enough) || told.violation.is_some() {
            progress.stop.store(true, Ordering::Relaxed);
        }
        if told.violation.is_some() {
            progress.failed.lock().expect("nobody panics with it").get_or_insert((plan.seed, told));
        }
    }
}

/// Shows the progress, on a terminal.
fn watch(args: &RafsArgs, progress: &Progress, started: Instant, done: impl Fn() -> bool) {
    let bar = ProgressBar::new(args.crash_points.or(args.seconds).unwrap_or(args.most()));
    let style = ProgressStyle::with_template("{bar:30} {msg} ETA {eta}");
    bar.set_style(style.expect("the template is right"));
    while !done() {
        let points = progress.points.lock().expect("nobody panics with it").len() as u64;
        let stories = progress.stories.load(Ordering::Relaxed);
        let time = args.seconds.map(|_| started.elapsed().as_secs());
        bar.set_position(args.crash_points.map(|_| points).or(time).unwrap_or(stories));
        bar.set_message(format!("{points} power failures"));
        std::thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

fn report(args: &RafsArgs, progress: &Progress, started: Instant) -> bool {
    let stories = progress.stories.load(Ordering::Relaxed);
    let points = progress.points.lock().expect("nobody panics with it").len() as u64;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{stories} stories, {points} distinct power failures in {seconds:.1} s, {:.0} a second",
        points as f64 / seconds.max(1e-9)
    );
    let failed = progress.failed.lock().expect("nobody panics with it").take();
    if let Some((seed, Told { violation: Some((life, what)), .. })) = failed {
        let on = args.on.as_deref().map(|on| format!(" --on {on}")).unwrap_or_default();
        let RafsArgs { lives, clients, .. } = args;
        println!("seed {seed} ends badly, in life {life}: {what}");
        println!("stripewise-sim rafs --seed {seed} --stories 1 --lives {lives} --clients {clients}{on}");
        return false;
    }
    println!("no violation");
    let is_enough = args.crash_points.is_none_or(|wanted| points >= wanted);
    if !is_enough {
        println!("but not as many distinct power failures as wanted: give more --stories or --seconds");
    }
    is_enough
}
