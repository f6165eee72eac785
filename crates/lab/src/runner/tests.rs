//! Runs with a small experiment of their own.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use super::*;
use crate::{
    arrays::shapes,
    experiments::{Effort, Experiment, Points, Results},
    ext3::{Loadfile, loadfile::tests::LINES},
    findings::{Claim, Findings, Judged, LabReport},
    machine::Machine,
    plot::{Axis, Plot},
    point::{Point, WriteLoad},
    realtime::RealTimePoint,
};

static SMALL: Experiment = Experiment {
    id: "small",
    title: "A few points",
    source: "none",
    setting: &["A test."],
    points: Points::Modelled(points),
    findings,
};

fn points(_: Effort) -> Vec<Point> {
    let policy = stripewise_engine::plan::selection::policy("modthresh").unwrap();
    let load = |kib: u64| WriteLoad::random(kib << 10, 4, kib << 16, 2);
    [4, 8, 64, 96].map(|kib| Point::new(&shapes::RAID4S, policy, load(kib))).to_vec()
}

fn findings(results: &Results) -> Findings {
    let rate = results.mb_per_s(&points(Effort::Full)[3]);
    let judged = rate.map(|rate| Judged::new(rate > 1.0, format!("{rate:.1} MB/s")));
    let plot = Plot {
        name: "small-plot".into(),
        title: String::new(),
        x: Axis::linear(""),
        y: Axis::linear(""),
        series: vec![],
    };
    Findings { claims: vec![Claim::new("It moves.", "", judged)], plots: vec![plot], tables: vec![] }
}

fn order(seed: u64) -> Order {
    Order { experiments: vec![&SMALL], effort: Effort::Full, seed, loadfile: None, machine: Machine::here() }
}

/// Runs, and returns how many points were measured.
fn run_in(folder: &Path, seed: u64, program: &str) -> Result<(LabReport, usize), RunError> {
    let calls = AtomicUsize::new(0);
    let report = run(&order(seed), folder, program, u64::MAX, &|_| {
        calls.fetch_add(1, Ordering::Relaxed);
    })?;
    Ok((report, calls.into_inner() - 1))
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

fn error(result: Result<(LabReport, usize), RunError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let [one, two, other] = [1, 1, 2].map(|seed| {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(run_in(folder.path(), seed, "me").unwrap().1, 4);
        folder
    });
    for name in ["small.csv", "claims.csv", "report.html", "small-plot.csv"] {
        assert_eq!(text(one.path(), name), text(two.path(), name), "{name}");
    }
    assert_ne!(text(one.path(), "small.csv"), text(other.path(), "small.csv"));
    assert_eq!(text(one.path(), "small.csv").lines().count(), 5);
}

#[test]
fn a_folder_knows_its_loadfile_and_finds_it_changed_or_gone() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    fs::write(calls.path(), LINES).unwrap();
    let loadfile = Some(Loadfile::read(calls.path()).unwrap());
    // Reports know the experiments of the table only.
    let order = Order { experiments: Vec::new(), loadfile, ..order(1) };
    run(&order, folder.path(), "me", u64::MAX, &|_| {}).unwrap();
    let goes_on = format!(" --seed 1 --loadfile {}", calls.path().display());
    assert!(text(folder.path(), "setting.json").contains(&goes_on));
    assert!(report(folder.path()).is_ok());

    fs::write(calls.path(), format!("{LINES}\n")).unwrap();
    let changed = report(folder.path()).unwrap_err().to_string();
    assert!(changed.contains("has changed since") && changed.contains("--loadfile"), "{changed}");
    drop(calls);
    let gone = report(folder.path()).unwrap_err().to_string();
    assert!(gone.starts_with("the loadfile of this folder's run: /"), "{gone}");
    // The folder is the laboratory's all the same.
    assert!(run_in(folder.path(), 1, "me").is_ok());
}

#[test]
fn what_was_finished_before_an_interruption_is_not_done_again() {
    let [whole, half] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    run_in(whole.path(), 1, "me").unwrap();
    run_in(half.path(), 1, "me").unwrap();
    // Two of the points and half of the third were there when power failed.
    let points = text(half.path(), "points.jsonl");
    let third: usize = points.lines().take(3).map(|line| line.len() + 1).sum();
    fs::write(half.path().join("points.jsonl"), &points[..third + 40]).unwrap();

    let folder = half.path().to_owned();
    let partial = work::report_of(&order(1), &folder, "me").unwrap();
    assert_eq!(partial.missing(), 2);
    assert!(partial.html().contains("2 points are missing"));
    let goes_on = format!("`{} --out {}` goes on", order(1).command(), folder.display());
    assert!(partial.to_string().contains(&goes_on), "{partial}");
    let [one, two] = &partial.experiments[0].missing[..] else { panic!("two points") };
    let named = format!("2 of 4 points are missing:\n      {one}\n      {two}\n");
    assert!(partial.to_string().contains(&named), "{partial}");
    let claims = text(&folder, "claims.csv");
    assert!(
        claims.contains(&format!("open,points are missing; the experiment lacks: {one}; {two}\n")),
        "{claims}"
    );

    assert_eq!(run_in(&folder, 1, "me").unwrap().1, 2);
    for name in ["small.csv", "claims.csv", "report.html"] {
        assert_eq!(text(whole.path(), name), text(&folder, name), "{name}");
    }
    assert_eq!(run_in(&folder, 1, "me").unwrap().1, 0, "now all is there");
    assert_eq!(run_in(&folder, 2, "me").unwrap().1, 4, "not of another seed");
    assert_eq!(run_in(&folder, 1, "another build").unwrap().1, 4, "nor of another program");
}

static IN_REAL_TIME: Experiment = Experiment {
    id: "in-real-time",
    title: "A point in real time",
    source: "none",
    setting: &["A test."],
    points: Points::RealTime(real_time_points),
    findings: real_time_findings,
};

fn real_time_points(_: Effort, _: &Machine) -> Vec<RealTimePoint> {
    vec![RealTimePoint {
        raid_devices: 3,
        chunk_bytes: 4096,
        member_bytes: 16 << 20,
        threads: 1,
        queue: 1,
        parts: false,
        turn_ms: 5,
        turns: 1,
    }]
}

fn real_time_findings(results: &Results) -> Findings {
    let outcome = results.of_real_time(&real_time_points(results.effort, &results.machine)[0]);
    let judged = outcome.map(|outcome| Judged::new(outcome.limit_bytes_per_s > 0, ""));
    Findings { claims: vec![Claim::new("It moves.", "", judged)], ..Findings::default() }
}

#[test]
fn real_time_points_come_last_are_kept_and_are_of_their_machine() {
    let folder = tempfile::tempdir().unwrap();
    let order = |machine| Order { experiments: vec![&IN_REAL_TIME, &SMALL], machine, ..order(1) };
    let run_on = |machine: Machine| {
        let finished = Mutex::new(Vec::new());
        let report = run(&order(machine), folder.path(), "me", u64::MAX, &|at| {
            finished.lock().push(at.experiment.to_owned())
        });
        let report = report.unwrap();
        assert_eq!((report.missing(), report.experiments[0].claims[0].word()), (0, "holds"));
        // The first call reports the points that were there.
        finished.into_inner().split_off(1)
    };
    let here = Machine::here();
    assert_eq!(run_on(here.clone()), ["small", "small", "small", "small", "in-real-time"]);
    let csv = text(folder.path(), "in-real-time.csv");
    assert!(csv.lines().count() == 5 && csv.contains(&here.processor), "{csv}");
    assert!(run_on(here.clone()).is_empty());
    let other = Machine { memory_gib: here.memory_gib + 1, ..here.clone() };
    assert_eq!(run_on(other.clone()), ["in-real-time"], "measured anew on another machine");
    assert!(run_on(here).is_empty(), "and both are kept");
    assert!(
        text(folder.path(), "setting.json").contains("\"memory_gib\""),
        "a report is of the machine that ran it"
    );
}

#[test]
fn foreign_and_damaged_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let points = folder.path().join("points.jsonl");
    let path = points.to_str().unwrap();
    for foreign in ["my diary", "my diary\n", "\0\u{1}\n"] {
        fs::write(&points, foreign).unwrap();
        let told = error(run_in(folder.path(), 1, "me"));
        assert!(told.contains(path) && told.contains("another folder"), "{told}");
        assert_eq!(fs::read_to_string(&points).unwrap(), foreign, "it is left as it was");
    }
    fs::remove_file(&points).unwrap();
    run_in(folder.path(), 1, "me").unwrap();
    let damaged = text(folder.path(), "points.jsonl").replacen("\"seed\"", "\"sead\"", 1);
    fs::write(&points, damaged).unwrap();
    let (report, measured) = run_in(folder.path(), 1, "me").unwrap();
    assert_eq!((measured, report.missing()), (1, 0));
    let told = &report.warnings[..];
    assert!(told.len() == 1 && told[0].contains("line 2") && told[0].contains("passed over"), "{told:?}");
}

#[test]
fn nothing_is_written_where_other_things_are() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("report.html");
    fs::write(&theirs, "my thesis").unwrap();
    let told = error(run_in(folder.path(), 1, "me"));
    assert!(told.contains("is not empty") && told.contains("give a new or an empty folder"), "{told}");
    // A setting that is none of ours.
    fs::write(folder.path().join("setting.json"), "{\"colour\": 3}").unwrap();
    assert!(error(run_in(folder.path(), 1, "me")).contains("not a file of the laboratory's"));
    assert_eq!(text(folder.path(), "setting.json"), "{\"colour\": 3}");
    // Points that are none of ours.
    fs::remove_file(folder.path().join("setting.json")).unwrap();
    fs::write(folder.path().join("points.jsonl"), "").unwrap();
    assert!(error(run_in(folder.path(), 1, "me")).contains("not a file of the laboratory's"));
    assert_eq!(
        (text(folder.path(), "report.html").as_str(), fs::read_dir(folder.path()).unwrap().count()),
        ("my thesis", 2)
    );
    // Ours whose setting was removed.
    let ours = tempfile::tempdir().unwrap();
    run_in(ours.path(), 1, "me").unwrap();
    fs::remove_file(ours.path().join("setting.json")).unwrap();
    assert_eq!(run_in(ours.path(), 1, "me").unwrap().1, 0);
    // An interruption while the setting was written.
    let begun = tempfile::tempdir().unwrap();
    fs::write(begun.path().join("setting.new"), "{\"stripe").unwrap();
    fs::write(begun.path().join("points.jsonl"), "{\"str").unwrap();
    assert_eq!(run_in(begun.path(), 1, "me").unwrap().1, 4);
    assert!(!begun.path().join("setting.new").exists());
}

#[test]
fn a_second_run_leaves_the_first_alone() {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), 1, "me").unwrap();
    let before = text(folder.path(), "setting.json");
    let (running, _) = store::Store::open(folder.path(), 1, "me").unwrap();
    let told = error(run_in(folder.path(), 2, "me"));
    assert!(told.contains("another run is at work there"), "{told}");
    assert_eq!(text(folder.path(), "setting.json"), before);
    drop(running);
    run_in(folder.path(), 2, "me").unwrap();
}

#[test]
fn a_report_needs_a_folder_with_results() {
    let folder = tempfile::tempdir().unwrap();
    let told = |folder: &Path| report(folder).map(|_| ()).unwrap_err().to_string();
    assert!(told(folder.path()).contains("lab run EXPERIMENT --out"));
    assert!(told(&folder.path().join("nowhere")).contains("nowhere is not there; `stripewise lab run"));
    fs::write(folder.path().join("notes"), "").unwrap();
    assert!(told(folder.path()).contains("holds other things"));
    assert!(told(&folder.path().join("notes")).contains("no folder"));
    fs::remove_file(folder.path().join("notes")).unwrap();
    fs::write(folder.path().join("points.jsonl"), "{\"stripewise_lab_points\":1}\n").unwrap();
    assert!(told(folder.path()).contains("has points but no setting.json"));
    fs::write(folder.path().join("setting.json"), "{\"stripewise_lab\": 9}").unwrap();
    assert!(told(folder.path()).contains("of another version"));
    fs::write(folder.path().join("setting.json"), "{}").unwrap();
    assert!(told(folder.path()).contains("not a file of the laboratory's"));
    fs::remove_file(folder.path().join("setting.json")).unwrap();
    // An experiment of a later version.
    run_in(folder.path(), 1, "me").unwrap();
    assert!(told(folder.path()).contains("no experiment 'small'"));
}
