//! Every crash of short histories, on all cores.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
#[cfg(feature = "mutants")]
use stripewise_engine::mutants;
use stripewise_sim::{
    check::Violation,
    exhaust::{Base, Counts, Failure, History, Lot, Teller},
};

use crate::args::{ExhaustArgs, threads_or_all};

/// What the threads share.
struct Progress {
    lots: Vec<Lot>,
    next: AtomicUsize,
    done: AtomicUsize,
    stop: AtomicBool,
    counts: Mutex<Counts>,
    failed: Mutex<Option<Failed>>,
}

/// What ended badly.
enum Failed {
    /// No history was told: the array of this lot could not be made.
    Making(Lot, Violation),
    History(Box<Failure>),
}

/// Tells every history asked for. True if none ends badly.
pub(crate) fn exhaust(args: &ExhaustArgs) -> bool {
    match &args.history {
        Some(history) => tell_one(args, history),
        None => tell_all(args),
    }
}

fn tell_one(args: &ExhaustArgs, history: &History) -> bool {
    set_mutant(args);
    let started = Instant::now();
    let mut teller = match Base::new(history.shape, history.seed) {
        Ok(base) => Teller::new(base, args.states),
        Err(violation) => {
            println!("VIOLATION when the array was made: {violation}");
            return false;
        }
    };
    let told = teller.tell(history);
    report(teller.counts(), started, 1);
    match &told {
        Ok(()) => println!("no violation"),
        Err(failure) => tell_failure(args, failure),
    }
    told.is_ok()
}

fn tell_all(args: &ExhaustArgs) -> bool {
    let threads = threads_or_all(args.threads);
    let progress = Progress {
        lots: args.extent().lots(),
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        counts: Mutex::default(),
        failed: Mutex::default(),
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        let tellers: Vec<_> = (0..threads).map(|_| scope.spawn(|| tell_lots(args, &progress))).collect();
        watch(&progress, || tellers.iter().all(|teller| teller.is_finished()));
    });
    report(*progress.counts.lock().expect("nobody panics with it"), started, threads);
    match progress.failed.into_inner().expect("nobody panics with it") {
        None => println!("no violation"),
        Some(Failed::Making(lot, violation)) => {
            println!("VIOLATION when the array was made, {:?}, seed {}: {violation}", lot.shape, lot.seed);
            return false;
        }
        Some(Failed::History(failure)) => {
            tell_failure(args, &failure);
            return false;
        }
    }
    true
}

fn tell_lots(args: &ExhaustArgs, progress: &Progress) {
    set_mutant(args);
    let mut base = None;
    while !progress.stop.load(Ordering::Relaxed) {
        let Some(lot) = progress.lots.get(progress.next.fetch_add(1, Ordering::Relaxed)) else { return };
        let failed = tell_lot(*lot, &mut base, args.states, progress).err();
        progress.done.fetch_add(1, Ordering::Relaxed);
        if let Some(failed) = failed {
            progress.stop.store(true, Ordering::Relaxed);
            progress.failed.lock().expect("nobody panics with it").get_or_insert(failed);
        }
    }
}

/// The array that a lot begins with: mostly that of the lot before.
pub(crate) fn base_of(lot: Lot, last: &mut Option<Arc<Base>>) -> Result<Arc<Base>, Violation> {
    if let Some(base) = last.as_ref().filter(|base| base.is_of(lot.shape, lot.seed)) {
        return Ok(base.clone());
    }
    Ok(last.insert(Base::new(lot.shape, lot.seed)?).clone())
}

fn tell_lot(
    lot: Lot,
    base: &mut Option<Arc<Base>>,
    states_max: usize,
    progress: &Progress,
) -> Result<(), Failed> {
    let base = base_of(lot, base).map_err(|violation| Failed::Making(lot, violation))?;
    let mut teller = Teller::new(base, states_max);
    let mut noted = Counts::default();
    for history in lot.histories() {
        if progress.stop.load(Ordering::Relaxed) {
            break;
        }
        let told = teller.tell(&history);
        let mut counts = progress.counts.lock().expect("nobody panics with it");
        *counts += teller.counts() - noted;
        noted = teller.counts();
        drop(counts);
        told.map_err(Failed::History)?;
    }
    Ok(())
}

#[cfg(feature = "mutants")]
fn set_mutant(args: &ExhaustArgs) {
    mutants::set(args.mutant);
}

#[cfg(not(feature = "mutants"))]
fn set_mutant(_: &ExhaustArgs) {}

/// Shows the progress, on a terminal.
fn watch(progress: &Progress, done: impl Fn() -> bool) {
    let bar = ProgressBar::new(progress.lots.len() as u64);
    let style = ProgressStyle::with_template("{bar:30} {msg} ETA {eta}");
    bar.set_style(style.expect("the template is right"));
    while !done() {
        let counts = *progress.counts.lock().expect("nobody panics with it");
        bar.set_position(progress.done.load(Ordering::Relaxed) as u64);
        bar.set_message(format!("{} histories, {} states", counts.histories, counts.distinct_states));
        std::thread::sleep(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

fn report(counts: Counts, started: Instant, threads: usize) {
    let Counts { histories, crash_points, distinct_points, states, distinct_states, .. } = counts;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{histories} histories, {crash_points} power failures ({distinct_points} distinct), {states} states \
         ({distinct_states} distinct) in {seconds:.1} s, threads: {threads}, {:.0} distinct states a second",
        distinct_states as f64 / seconds.max(1e-9)
    );
    println!("skipped: {} states of {} power failures", counts.skipped, counts.bounded_points);
}

fn tell_failure(args: &ExhaustArgs, failure: &Failure) {
    let Failure { history, when, violation } = failure;
    println!("{history} ends badly: {when}\nVIOLATION: {violation}\nagain: {}", command(args, history));
}

/// The command line that tells a history again.
fn command(args: &ExhaustArgs, history: &History) -> String {
    let words = format!("stripewise-sim exhaust --history {history} --states {}", args.states);
    #[cfg(feature = "mutants")]
    if let Some(mutant) = args.mutant {
        return format!("{words} --mutant {mutant:?}");
    }
    words
}
