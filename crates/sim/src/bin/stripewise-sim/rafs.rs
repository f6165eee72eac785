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
use stripewise_sim::rafs::{Act, Ground, Plan, Violation, tell};

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
    on: Option<Ground>,
    /// Lives of each story
    #[arg(long, default_value_t = 12)]
    lives: u32,
    /// Clients
    #[arg(long, default_value_t = 3)]
    clients: u32,
    /// Lives at the beginning in which clients do nothing
    #[arg(long, default_value_t = 0)]
    quiet: u32,
    /// Steps of the last life at most
    #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
    last_steps: u64,
    /// What clients and the operator do not do, such as `truncate,scrub`
    #[arg(long, value_delimiter = ',')]
    without: Vec<Act>,
    /// Tell what clients and the operator do
    #[arg(long)]
    narrate: bool,
    /// A deliberate bug that the file system is to have, as `mutants` names it
    #[cfg(feature = "mutants")]
    #[arg(long, value_parser = crate::args::parse_rafs_mutant)]
    mutant: Option<stripewise_rafs::mutants::Mutant>,
    /// Threads; as many as there are cores, if left out
    #[arg(long)]
    threads: Option<usize>,
}

impl RafsArgs {
    fn plan(&self, seed: u64) -> Plan {
        Plan {
            lives: self.lives,
            quiet_lives: self.quiet,
            last_steps: self.last_steps,
            clients: self.clients,
            without: self.without.iter().copied().collect(),
            narrate: self.narrate,
            #[cfg(feature = "mutants")]
            mutant: self.mutant,
            ..Plan::new(seed, self.on.unwrap_or(ground(seed)))
        }
    }

    /// Stories at most.
    fn most(&self) -> u64 {
        let is_bounded = self.seconds.is_some() || self.crash_points.is_some();
        self.stories.unwrap_or(if is_bounded { u64::MAX / 2 } else { 1000 })
    }
}

/// What a seed's file system lies on.
pub(crate) fn ground(seed: u64) -> Ground {
    Ground::ALL[(seed % Ground::ALL.len() as u64) as usize]
}

/// What the threads share.
#[derive(Default)]
struct Progress {
    next: AtomicU64,
    stories: AtomicU64,
    stop: AtomicBool,
    points: Mutex<HashSet<u64>>,
    failed: Mutex<Option<(Plan, Violation)>>,
}

/// Tells stories until one ends badly, or enough were told. True if none ended badly.
pub(crate) fn rafs(args: &RafsArgs) -> bool {
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
        if number >= args.most() || is_over {
            return;
        }
        let plan = args.plan(args.seed + number);
        let told = tell(&plan);
        told.narration.iter().for_each(|line| println!("{line}"));
        progress.stories.fetch_add(1, Ordering::Relaxed);
        let points = {
            let mut points = progress.points.lock().expect("nobody panics with it");
            points.extend(&told.crash_points);
            points.len() as u64
        };
        if args.crash_points.is_some_and(|enough| points >= enough) || told.violation.is_some() {
            progress.stop.store(true, Ordering::Relaxed);
        }
        if let Some(violation) = told.violation {
            progress.failed.lock().expect("nobody panics with it").get_or_insert((plan, violation));
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
    if let Some((plan, violation)) = failed {
        let Violation { life, checker, what } = &violation;
        println!("seed {} ends badly, in life {life}: {}: {what}", plan.seed, checker.name());
        println!("{}", command(&plan));
        let shorter = shrink(&plan, &violation);
        println!("shorter:\n{} --narrate", command(&shorter));
        return false;
    }
    println!("no violation");
    let is_enough = args.crash_points.is_none_or(|wanted| points >= wanted);
    if !is_enough {
        println!("but not as many distinct power failures as wanted: give more --stories or --seconds");
    }
    is_enough
}

/// The command that tells a plan's story.
fn command(plan: &Plan) -> String {
    let Plan { seed, lives, quiet_lives, clients, ground, .. } = plan;
    let mut words = format!(
        "stripewise-sim rafs --seed {seed} --stories 1 --on {ground} --lives {lives} --quiet {quiet_lives} --clients \
         {clients}"
    );
    if plan.last_steps != u64::MAX {
        words += &format!(" --last-steps {}", plan.last_steps);
    }
    if !plan.without.is_empty() {
        let names: Vec<String> = plan.without.iter().map(ToString::to_string).collect();
        words += &format!(" --without {}", names.join(","));
    }
    #[cfg(feature = "mutants")]
    if let Some(mutant) = plan.mutant {
        words += &format!(" --mutant {mutant:?}");
    }
    words
}

/// Tries of a shorter story at most, and the longest time for it.
const TRIES_MAX: usize = 300;
const SHRINKING_MAX: Duration = Duration::from_secs(60);

/// A shorter story that ends as badly.
fn shrink(plan: &Plan, violation: &Violation) -> Plan {
    let started = Instant::now();
    let (mut tries, mut best, mut life) = (0, Plan { narrate: false, ..plan.clone() }, violation.life);
    let mut ends_as_badly = |plan: &Plan| {
        tries += 1;
        let may_try = tries <= TRIES_MAX && started.elapsed() < SHRINKING_MAX;
        let found = tell(plan).violation.filter(|_| may_try);
        found.filter(|found| found.checker == violation.checker).map(|found| found.life)
    };
    while let Some((shorter, failed)) =
        best.shorter(life).into_iter().find_map(|plan| ends_as_badly(&plan).map(|life| (plan, life)))
    {
        (best, life) = (shorter, failed);
    }
    best
}
