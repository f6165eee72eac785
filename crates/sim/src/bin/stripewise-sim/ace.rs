//! Every crash of short workloads of the file system, on all cores.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use stripewise_sim::{
    ace::{Bases, Bounds, Counts, Failure, Kind, Lot, Set, Size, Start, Teller, Workload},
    rafs::Ground,
};

use crate::args::{parse_seconds, parse_threads, threads_or_all};

/// Which workloads.
#[derive(Debug, Clone, Args)]
pub(crate) struct AceArgs {
    /// Workloads: `seq-1`, `seq-2`, `seq-3-data`, `seq-3-metadata`, or several of them; the first two, if left out
    #[arg(long, value_delimiter = ',', default_values_t = [Set::Seq1, Set::Seq2])]
    pub(crate) sets: Vec<Set>,
    /// What the file system lies on: `file`, or an array of level 4, 5 or 6
    #[arg(long, value_delimiter = ',', default_values_t = [Ground::File])]
    pub(crate) on: Vec<Ground>,
    /// Files that are there at the beginning: `inline` (in the tree), `blocks`, `stripes` (of their own)
    #[arg(long, value_delimiter = ',', default_values_t = [Size::Blocks])]
    pub(crate) files: Vec<Size>,
    /// The order of tasks, and how long I/O takes
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Only a part of the workloads: 2/8 is the second of eight
    #[arg(long, value_parser = parse_shard)]
    shard: Option<(usize, usize)>,
    /// End after so many seconds
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<Duration>,
    /// States that are looked at of a power failure that may leave more; the others are counted as skipped
    #[arg(long, default_value_t = 256)]
    states: usize,
    /// Writes under way may also be torn behind their first sector
    #[arg(long)]
    torn: bool,
    /// Only this workload, such as `file:blocks:0:append=foo,rename=foo=bar,fsync=bar`
    #[arg(long)]
    workload: Option<Workload>,
    /// Tell what happens in it
    #[arg(long, requires = "workload")]
    narrate: bool,
    /// Threads; as many as there are cores, if left out
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// A deliberate bug that the file system is to have, as `mutants` names it
    #[cfg(feature = "mutants")]
    #[arg(long, value_parser = crate::args::parse_rafs_mutant)]
    mutant: Option<stripewise_rafs::mutants::Mutant>,
    /// Let deliberate bugs loose, those that must be found or all, and tell which are
    #[cfg(feature = "mutants")]
    #[arg(long, conflicts_with_all = ["workload", "mutant"])]
    pub(crate) mutants: Option<crate::args::WhichMutants>,
}

impl AceArgs {
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { states_max: self.states, torn: self.torn }
    }

    /// The lots asked for, each with the beginnings of its workloads; those of one start are neighbours.
    pub(crate) fn lots(&self) -> Vec<(Arc<Bases>, Lot)> {
        let starts = self.on.iter().flat_map(|ground| {
            let start = |size: &Size| Start { ground: *ground, size: *size, seed: self.seed };
            self.files.iter().map(start)
        });
        let of_start = |start: Start| {
            let bases = Bases::new(start);
            let lots = self.sets.iter().flat_map(move |set| set.lots(start));
            lots.map(move |lot| (bases.clone(), lot))
        };
        let lots = starts.flat_map(of_start).enumerate();
        let is_wanted = |number: usize| self.shard.is_none_or(|(part, parts)| number % parts == part - 1);
        lots.filter(|(number, _)| is_wanted(*number)).map(|(_, lot)| lot).collect()
    }
}

/// What the threads share.
#[derive(Default)]
struct Progress {
    next: AtomicUsize,
    done: AtomicUsize,
    is_over: AtomicBool,
    /// By the first operation.
    counts: Mutex<BTreeMap<Kind, Counts>>,
    /// The failure with the fewest operations.
    failed: Mutex<Option<Box<Failure>>>,
}

impl Progress {
    fn total(&self) -> Counts {
        let counts = self.counts.lock().expect("nobody panics with it");
        counts.values().fold(Counts::default(), |mut all, counts| {
            all += *counts;
            all
        })
    }
}

/// Tells every workload asked for. True if none ends badly.
pub(crate) fn ace(args: &AceArgs) -> bool {
    match &args.workload {
        Some(workload) => tell_one(args, workload),
        None => tell_all(args),
    }
}

fn tell_one(args: &AceArgs, workload: &Workload) -> bool {
    set_mutant(args);
    let mut teller = Teller::new(Bases::new(workload.start), args.bounds(), args.narrate);
    let told = teller.tell(workload);
    teller.narration().iter().for_each(|line| println!("{line}"));
    let Counts { crash_points, states, distinct_states, .. } = teller.counts();
    println!("{crash_points} power failures, {states} states ({distinct_states} distinct)");
    match &told {
        Ok(()) => println!("no violation"),
        Err(failure) => tell_failure(args, failure),
    }
    told.is_ok()
}

fn tell_all(args: &AceArgs) -> bool {
    let threads = threads_or_all(args.threads);
    let (lots, progress, started) = (args.lots(), Progress::default(), Instant::now());
    std::thread::scope(|scope| {
        let tellers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| tell_lots(args, &lots, &progress, started))).collect();
        watch(lots.len(), &progress, || tellers.iter().all(|teller| teller.is_finished()));
    });
    report(&progress, lots.len(), started, threads);
    let failed = progress.failed.into_inner().expect("nobody panics with it");
    match failed {
        None => println!("no violation"),
        Some(failure) => {
            set_mutant(args);
            tell_failure(args, &failure.shortest(args.bounds()));
            return false;
        }
    }
    true
}

fn tell_lots(args: &AceArgs, lots: &[(Arc<Bases>, Lot)], progress: &Progress, started: Instant) {
    set_mutant(args);
    while let Some((bases, lot)) = lots.get(progress.next.fetch_add(1, Ordering::Relaxed)) {
        let mut teller = Teller::new(bases.clone(), args.bounds(), false);
        for workload in lot.workloads() {
            if args.seconds.is_some_and(|most| started.elapsed() >= most) {
                progress.is_over.store(true, Ordering::Relaxed);
                return;
            }
            tell(&mut teller, &workload, progress);
        }
        progress.done.fetch_add(1, Ordering::Relaxed);
    }
}

fn tell(teller: &mut Teller, workload: &Workload, progress: &Progress) {
    let before = teller.counts();
    let told = teller.tell(workload);
    let mut counts = progress.counts.lock().expect("nobody panics with it");
    *counts.entry(workload.ops[0].kind).or_default() += teller.counts() - before;
    drop(counts);
    if let Err(failure) = told {
        let mut failed = progress.failed.lock().expect("nobody panics with it");
        let length = |failure: &Failure| failure.workload.ops.len();
        if failed.as_ref().is_none_or(|best| length(&failure) < length(best)) {
            *failed = Some(failure);
        }
    }
}

#[cfg(feature = "mutants")]
fn set_mutant(args: &AceArgs) {
    stripewise_rafs::mutants::set(args.mutant);
}

#[cfg(not(feature = "mutants"))]
fn set_mutant(_: &AceArgs) {}

/// Shows the progress, on a terminal.
fn watch(lots: usize, progress: &Progress, done: impl Fn() -> bool) {
    let bar = ProgressBar::new(lots as u64);
    let style = ProgressStyle::with_template("{bar:30} {msg} ETA {eta}");
    bar.set_style(style.expect("the template is right"));
    while !done() {
        let Counts { workloads, distinct_states, violations, .. } = progress.total();
        bar.set_position(progress.done.load(Ordering::Relaxed) as u64);
        bar.set_message(format!("{workloads} workloads, {distinct_states} states, {violations} violations"));
        std::thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

fn report(progress: &Progress, lots: usize, started: Instant, threads: usize) {
    let line = |name: &str, counts: &Counts| {
        let Counts { workloads, crash_points, states, distinct_states, violations, .. } = counts;
        println!(
            "{name:12} {workloads:>9} {crash_points:>14} {states:>10} {distinct_states:>10} {violations:>10}"
        );
    };
    println!(
        "{:12} {:>9} {:>14} {:>10} {:>10} {:>10}",
        "first", "workloads", "power failures", "states", "distinct", "violations"
    );
    let counts = progress.counts.lock().expect("nobody panics with it");
    counts.iter().for_each(|(kind, counts)| line(&kind.to_string(), counts));
    drop(counts);
    let all = progress.total();
    line("all", &all);
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "in {seconds:.1} s, threads: {threads}, {:.0} distinct states a second",
        all.distinct_states as f64 / seconds.max(1e-9)
    );
    println!("skipped: {} states of {} power failures", all.skipped, all.bounded_points);
    if progress.is_over.load(Ordering::Relaxed) {
        println!("time was over after {} of {lots} lots of workloads", progress.done.load(Ordering::Relaxed));
    }
}

fn tell_failure(args: &AceArgs, failure: &Failure) {
    let Failure { workload, when, violation } = failure;
    println!("{workload} ends badly: {when}");
    println!("VIOLATION: {}: {}", violation.checker.name(), violation.what);
    println!("again: {} --narrate", command(args, workload));
}

/// The command line that tells a workload again.
fn command(args: &AceArgs, workload: &Workload) -> String {
    let mut words = format!("stripewise-sim ace --workload {workload} --states {}", args.states);
    if args.torn {
        words += " --torn";
    }
    #[cfg(feature = "mutants")]
    if let Some(mutant) = args.mutant {
        words += &format!(" --mutant {mutant:?}");
    }
    words
}

fn parse_shard(text: &str) -> Result<(usize, usize), String> {
    let parts =
        text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    parts
        .filter(|(part, parts)| (1..=*parts).contains(part))
        .ok_or_else(|| "give PART/PARTS, such as 2/8 for the second of eight".to_owned())
}
