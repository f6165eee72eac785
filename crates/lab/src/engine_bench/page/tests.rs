//! Pages of made-up figures.

use std::{collections::BTreeMap, fs};

use super::{sections::sections, *};
use crate::engine_bench::{Case, Latency, TurnFigure};

fn options() -> Options {
    Options {
        raid_devices: vec![3, 5],
        threads: vec![1, 2],
        cases: vec![Case::RandomRead, Case::FullStripe],
        ..Options::default()
    }
}

/// Of every shape, case, count of threads and preset.
fn figures(options: &Options, has_all: bool) -> Vec<Figure> {
    let mut figures = Vec::new();
    for members in options.raid_devices.iter().copied() {
        for case in [Case::FullStripe, Case::RandomRead] {
            for threads in options.threads.iter().copied() {
                figures.extend(
                    ["default", "orig"].map(|locking| figure(case, (members, threads), locking, has_all)),
                );
            }
        }
    }
    figures
}

fn figure(case: Case, (raid_devices, threads): (usize, usize), locking: &str, has_all: bool) -> Figure {
    let latency = Latency { p50: 1, p90: 2, p99: 3, p99_9: 4, p99_99: 5000, max: 6000, operations: 7 };
    let parts =
        if has_all { BTreeMap::from([("copy", 0.75), ("stripe lock", 0.25)]) } else { BTreeMap::new() };
    Figure {
        case: case.name().to_owned(),
        level: 5,
        bitmap: "internal",
        policy: "classic",
        locking: locking.to_owned(),
        cache: "none",
        threads,
        queue: 1,
        raid_devices,
        bytes_per_operation: if case == Case::FullStripe { 1 << 17 } else { 4096 },
        engine_per_s: 1e4 * threads as f64,
        cpu_ns_per_operation: 1500.0,
        limit_per_s: has_all.then_some(2e4),
        ratio: has_all.then_some(0.5),
        of_uncached: None,
        rows_full: None,
        member_reads: 0.0,
        latency_ns: has_all.then_some(latency),
        parts,
        looks: 0,
        turns: vec![TurnFigure { per_s: 1e4, p99_99_ns: has_all.then_some(5000) }],
    }
}

fn machine() -> Machine {
    Machine { processor: "Some <Xeon>".to_owned(), ..Machine::here() }
}

fn write(
    options: &Options,
    figures: &[Figure],
    folder: &std::path::Path,
) -> Result<(), crate::runner::RunError> {
    let (command, machine) = ("stripewise bench engine --out 'a b'", machine());
    Page { command, machine: &machine, options, figures }.write_to(folder)
}

#[test]
fn a_folder_holds_the_page_the_figures_and_the_plots() {
    let (folder, options) = (tempfile::tempdir().unwrap(), options());
    let figures = figures(&options, true);
    write(&options, &figures, folder.path()).unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let page = read("report.html");
    for told in
        ["Some &lt;Xeon&gt;", "--out 'a b'", "2+1, 4+1", "1, 2, each with 1 under way", "7 of 500 ms each"]
    {
        assert!(page.contains(told), "{told}: {page}");
    }
    let network = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!network.contains("http") && !network.contains("src="), "the page needs nothing else");
    assert!(!page.contains("NaN"));
    let csv = read("figures.csv");
    assert_eq!(csv.lines().count(), 1 + figures.len());
    let columns: Vec<_> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.iter().all(|count| *count == columns[0]), "{csv}");
    let throughput = read("full-stripe-4+1-throughput.csv");
    assert!(throughput.starts_with("series,threads,GB/s\ndefault,1,1.31072\n"), "{throughput}");
    assert!(throughput.contains("limit,2,2.62144"), "{throughput}");
    assert!(read("random-read-2+1-percentiles.csv").contains("orig,99.99,5\n"));
    assert!(read("random-read-2+1-parts.csv").contains("stripe lock,orig 2,25\n"));
    let names = fs::read_dir(folder.path()).unwrap().count();
    let sections = sections(&options, &figures);
    assert_eq!((sections.len(), names), (4, 2 + 4 * 6), "six plots each");
}

#[test]
fn of_one_count_of_threads_each_variant_has_a_bar() {
    let options = Options { threads: vec![4], ..options() };
    let sections = sections(&options, &figures(&options, true));
    let throughput = &sections[0].plots[0];
    assert_eq!(
        (throughput.x.names.join(" ").as_str(), throughput.x.label.as_str()),
        ("default orig limit", "locks, with 4 threads")
    );
    assert_eq!(throughput.series[1].points, [(1.0, 5.24288)]);
    assert!(sections[0].plots.iter().all(|plot| !plot.name.ends_with("-tail")), "the percentiles have it");
}

#[test]
fn of_many_bars_each_variant_has_a_plot() {
    let options = Options { threads: (1..=5).collect(), ..options() };
    let sections = sections(&options, &figures(&options, true));
    let of_parts = |plot: &&crate::plot::Plot| plot.name.contains("-parts-");
    let plots: Vec<_> = sections[0].plots.iter().filter(of_parts).collect();
    assert_eq!((plots.len(), plots[1].x.names.join(" ")), (2, "1 2 3 4 5".to_owned()));
}

#[test]
fn what_was_not_taken_is_not_drawn() {
    let options = options();
    for section in sections(&options, &figures(&options, false)) {
        let names: Vec<_> = section.plots.iter().map(|plot| plot.name.to_string()).collect();
        let has = |what: &str| names.contains(&format!("{}-{what}", section.name));
        assert!(names.len() == 2 && has("throughput") && has("cpu"), "{names:?}");
        assert_eq!(section.tables.len(), 1);
    }
}

#[test]
fn nothing_is_written_where_other_things_are() {
    let (folder, options) = (tempfile::tempdir().unwrap(), options());
    let theirs = folder.path().join("report.html");
    fs::write(&theirs, "my thesis").unwrap();
    let told = write(&options, &[], folder.path()).unwrap_err().to_string();
    assert!(told.contains("figures.csv") && told.contains("give a new or an empty folder"), "{told}");
    fs::write(folder.path().join("figures.csv"), "figure,price\n").unwrap();
    assert!(write(&options, &[], folder.path()).is_err());
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "my thesis");
    let ours = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        write(&options, &[], ours.path()).unwrap();
    }
}
