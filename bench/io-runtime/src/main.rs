//! What a runtime costs per I/O: 4 KiB random I/O at depth 32 on one core, by a raw io_uring loop, a minimal
//! executor of our own, compio, monoio, and tokio's thread pool.
//!
//! `bench-io-runtime [FILE]` runs every candidate on every case, each in a process of its own on core 1, in
//! interleaved rounds, and prints the medians. FILE (256 MiB, default in the current folder) should lie on a disk.

mod load;
mod others;
mod own;
mod raw;

use load::Case;
use raw::{Mode, Setup};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1500);
const CORE: usize = 1;

type Candidate = fn(Case, File, Duration) -> u64;

const CANDIDATES: [(&str, Candidate); 11] = [
    ("raw ring, default", |case, file, time| raw::run(case, Setup::Default, Mode::Plain, file, time)),
    ("raw ring, coop", |case, file, time| raw::run(case, Setup::Coop, Mode::Plain, file, time)),
    ("raw ring, defer", |case, file, time| raw::run(case, Setup::Defer, Mode::Plain, file, time)),
    ("raw ring, coop, fixed", |case, file, time| raw::run(case, Setup::Coop, Mode::Fixed, file, time)),
    ("own executor, coop", |case, file, time| own::run(case, Setup::Coop, Mode::Plain, file, time)),
    ("own, coop, fixed", |case, file, time| own::run(case, Setup::Coop, Mode::Fixed, file, time)),
    ("own, defer, fixed", |case, file, time| own::run(case, Setup::Defer, Mode::Fixed, file, time)),
    ("compio", |case, file, time| others::compio(case, false, file, time)),
    ("compio, defer", |case, file, time| others::compio(case, true, file, time)),
    ("monoio", others::monoio),
    ("tokio spawn_blocking", others::tokio),
];

/// I/Os per second, and microseconds of user and system time for each.
type Figures = [f64; 3];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [path, case, candidate] => one(Path::new(path), case, candidate),
        [path] => all(Path::new(path)),
        _ => all(Path::new("bench-io-runtime.data")),
    }
}

/// In the child: one candidate on one case.
fn one(path: &Path, case: &str, candidate: &str) {
    pin();
    let (_, case) = Case::ALL.into_iter().find(|(name, _)| *name == case).expect("a case");
    let (_, run) = CANDIDATES.into_iter().find(|(name, _)| *name == candidate).expect("a candidate");
    let (before, start) = (cpu(), Instant::now());
    let done = run(case, case.open(path), TIME) as f64;
    let (after, seconds) = (cpu(), start.elapsed().as_secs_f64());
    println!("{} {} {}", done / seconds, (after[0] - before[0]) / done, (after[1] - before[1]) / done);
}

fn all(path: &Path) {
    load::prepare(path);
    for (case, _) in Case::ALL {
        let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); CANDIDATES.len()];
        for _ in 0..ROUNDS {
            CANDIDATES
                .iter()
                .zip(&mut rounds)
                .for_each(|((name, _), rounds)| rounds.push(child(path, case, name)));
        }
        println!("\n{case:<24}{:>10}{:>10}{:>10}{:>10}", "IOPS", "CPU us/op", "user", "system");
        for ((name, _), rounds) in CANDIDATES.iter().zip(rounds) {
            let [iops, user, system] = [0, 1, 2].map(|figure| median(&rounds, figure));
            println!("{name:<24}{iops:>10.0}{:>10.2}{user:>10.2}{system:>10.2}", user + system);
        }
    }
    std::fs::remove_file(path).expect("the file of the bench");
}

fn child(path: &Path, case: &str, candidate: &str) -> Figures {
    let program: PathBuf = std::env::current_exe().expect("a path");
    let output = Command::new(program).arg(path).args([case, candidate]).output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let failed = || panic!("{candidate}, {case}: {}", String::from_utf8_lossy(&output.stderr));
    figures.try_into().unwrap_or_else(|_| failed())
}

fn median(rounds: &[Figures], figure: usize) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(|round| round[figure]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Before any thread is made, so that all inherit it.
fn pin() {
    // SAFETY: the set is plain data.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(CORE, &mut set);
        assert_eq!(0, libc::sched_setaffinity(0, size_of_val(&set), &set));
    }
}

/// User and system time of this process with all its threads, in microseconds.
fn cpu() -> [f64; 2] {
    // SAFETY: the structure is plain data, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(0, libc::getrusage(libc::RUSAGE_SELF, &mut usage));
        usage
    };
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 * 1e6 + time.tv_usec as f64)
}
