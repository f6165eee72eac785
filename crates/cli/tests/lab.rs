//! `stripewise lab` as users run it.

#![allow(clippy::unwrap_used)]

use std::{
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

fn lab(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_stripewise")).arg("lab").args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn the_validation_prints_a_table_and_writes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a").join("b");
    let output = lab(&["validate", "--quick", "--out", out.to_str().unwrap()]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("ST373454LC") && table.contains("S_max of writes"), "{table}");
    assert!(table.lines().last().unwrap().contains("given by construction"), "{table}");

    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.matches("<svg").count() >= 7 && page.ends_with("</html>\n"));
    let network = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!network.contains("http") && !network.contains("src="), "the page needs nothing else");
    for name in ["checks", "strides-write", "amplification", "ssd-steady", "queue-depth-ssd", "hdd-zones"] {
        let text = std::fs::read_to_string(out.join(format!("{name}.csv"))).unwrap();
        assert!(text.lines().count() > 3, "{name}: {text}");
    }
}

#[test]
fn a_validation_leaves_other_peoples_folders_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("report.html"), "my thesis").unwrap();
    let told = refused(&["validate", "--quick", "--out", folder.path().to_str().unwrap()]);
    assert!(told.contains("is not empty") && told.contains("give a new or an empty folder"), "{told}");
    assert_eq!(std::fs::read_to_string(folder.path().join("report.html")).unwrap(), "my thesis");
}

#[test]
fn the_validation_speaks_json() {
    let output = lab(&["validate", "--quick", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let check = &report["sections"][0]["checks"][0];
    assert_eq!((&check["subject"], &check["verdict"]), (&"WD6401AALS".into(), &"given".into()), "{check}");
}

fn refused(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_stripewise")).arg("lab").args(args).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_file_that_is_no_loadfile_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (out, calls) = (folder.path().join("out"), folder.path().join("calls"));
    std::fs::write(&calls, "NTCreateX once\n").unwrap();
    let run = |calls: &str| {
        refused(&["run", "msc-clients", "--quick", "--loadfile", calls, "--out", out.to_str().unwrap()])
    };
    let told = run(calls.to_str().unwrap());
    assert!(told.contains("line 1: the call has no status") && told.contains("client.txt"), "{told}");
    assert!(run("/nowhere/client.txt").contains("/nowhere/client.txt: No such file"));
    assert!(!out.exists());
}

#[test]
fn experiments_are_listed_run_and_reported() {
    let listed = String::from_utf8(lab(&["list"]).stdout).unwrap();
    assert!(listed.contains("modthresh-fine") && listed.contains("raid4s-slides"), "{listed}");
    assert!(
        listed.contains("`all` is one experiment") && listed.contains("'every' is every experiment"),
        "{listed}"
    );

    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let ran = lab(&["run", "raid4s-e", "--quick", "--out", out, "--json"]);
    let told = String::from_utf8(ran.stderr).unwrap();
    // A slow machine is told how far it is, in lines of their own.
    let is_progress = |line: &&str| line.starts_with("stripewise: ") && line.contains(" % done, ");
    let lines: Vec<_> = told.lines().filter(|line| !is_progress(line)).collect();
    assert!(lines.len() == 1 && lines[0].ends_with("report.html"), "{told:?}");
    assert!(!told.contains(['\r', '\u{1b}']), "{told:?}");
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let claim = &report["experiments"][0]["claims"][0];
    assert_eq!((&claim["paper"], &claim["verdict"]), (&"7.7 months".into(), &"reproduced".into()), "{claim}");
    assert_eq!(report["command"], "stripewise lab run raid4s-endurance --quick --seed 1");

    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    let network = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!network.contains("http") && !network.contains("src="), "the page needs nothing else");
    std::fs::remove_file(folder.path().join("report.html")).unwrap();
    let text = String::from_utf8(lab(&["report", out]).stdout).unwrap();
    assert!(text.contains("[reproduced]") && !text.contains("missing"), "{text}");
    assert_eq!(std::fs::read_to_string(folder.path().join("report.html")).unwrap(), page, "made anew");
}

#[test]
fn an_experiment_in_real_time_names_its_machine_and_is_taken_up_again() {
    let listed: serde_json::Value = serde_json::from_slice(&lab(&["list", "--json"]).stdout).unwrap();
    let is_real_time = |id: &str| {
        let found = listed.as_array().unwrap().iter().find(|one| one["id"] == id).unwrap();
        found["real_time"].as_bool().unwrap()
    };
    assert!(is_real_time("scalaraid-tail") && !is_real_time("raid4s-seq"), "{listed}");
    let text = String::from_utf8(lab(&["list"]).stdout).unwrap();
    assert!(text.contains("in real time; 3 with --quick)"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let run = || {
        let ran = lab(&["run", "scalaraid-tail", "--quick", "--out", out, "--json"]);
        serde_json::from_slice::<serde_json::Value>(&ran.stdout).unwrap()
    };
    let points = || std::fs::read_to_string(folder.path().join("points.jsonl")).unwrap();
    let (report, finished) = (run(), points());
    let cores = report["machine"]["cores"].as_u64().unwrap();
    let claims = report["experiments"][0]["claims"].as_array().unwrap();
    assert_eq!((claims.len(), finished.lines().count()), (6, 1 + 3), "{finished}");
    if cores < 9 {
        assert_eq!(claims[0]["verdict"], "not-decidable-here", "{report}");
        assert!(claims[0]["reason"].as_str().unwrap().contains("this machine"), "{report}");
    }
    assert!(claims.iter().all(|claim| claim["verdict"] != "open"), "{report}");
    // All is there: nothing is measured again, and the report is the same.
    assert_eq!(run(), report);
    assert_eq!(points(), finished);
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(
        page.contains("The machine: ") && page.contains("44.9 %") && !page.contains("modelled disks"),
        "{page}"
    );
    let csv = std::fs::read_to_string(folder.path().join("scalaraid-tail.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 3 * 4, "{csv}");
    lab(&["report", out]);
    assert_eq!(std::fs::read_to_string(folder.path().join("report.html")).unwrap(), page, "made anew");
}

#[test]
fn a_killed_run_is_taken_up_again() {
    let [whole, killed] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let run = |folder: &tempfile::TempDir| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stripewise"));
        command
            .args(["lab", "run", "raid4s-endurance", "--quick", "--seed", "3", "--out"])
            .arg(folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut child = run(&killed).spawn().unwrap();
    let points = killed.path().join("points.jsonl");
    // A header, and a point at least.
    while std::fs::read_to_string(&points).unwrap_or_default().lines().count() < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let report = String::from_utf8(lab(&["report", killed.path().to_str().unwrap()]).stdout).unwrap();
    let goes_on = format!("raid4s-endurance --quick --seed 3 --out {}` goes on", killed.path().display());
    assert!(report.contains("points are missing") && report.contains(&goes_on), "{report}");

    assert!(run(&killed).status().unwrap().success() && run(&whole).status().unwrap().success());
    for name in ["raid4s-endurance.csv", "claims.csv", "report.html"] {
        let read = |folder: &tempfile::TempDir| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read(&killed), read(&whole), "{name}");
    }
}

#[test]
fn an_interrupted_run_says_what_is_kept_and_how_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("my results");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stripewise"));
    command.args(["lab", "run", "raid4s-seq", "--quick", "--seed", "3", "--out"]).arg(&out);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let points = out.join("points.jsonl");
    while std::fs::read_to_string(&points).unwrap_or_default().lines().count() < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{told}");
    let resume =
        format!("`stripewise lab run raid4s-seq --quick --seed 3 --out '{}'` goes on", out.display());
    assert!(told.contains(&resume), "{told}");
    assert!(told.contains("% of the work") && told.contains("of 35 points are finished and kept"), "{told}");
    assert!(!told.contains(" 0 of 35 points"), "{told}");
    let report = String::from_utf8(lab(&["report", out.to_str().unwrap()]).stdout).unwrap();
    assert!(report.contains("points are missing"), "{report}");
}

#[test]
fn a_full_disk_costs_the_point_that_it_met() {
    let [whole, small] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let run = |limit: &str, folder: &tempfile::TempDir| {
        let script =
            format!("trap '' XFSZ; {limit} exec \"$0\" lab run raid4s-endurance --quick --out \"$1\"");
        let mut command = Command::new("bash");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_stripewise")]).arg(folder.path()).output().unwrap()
    };
    // A file of 2 KiB holds the header, a point, and a part of the next.
    let full = run("ulimit -f 2;", &small);
    let told = String::from_utf8(full.stderr).unwrap();
    assert!(!full.status.success() && told.contains("points.jsonl"), "{told}");
    let kept = std::fs::read_to_string(small.path().join("points.jsonl")).unwrap();
    assert!(kept.ends_with("}}\n") && kept.lines().count() == 2, "nothing is torn: {kept}");

    assert!(run("", &small).status.success() && run("", &whole).status.success());
    for name in ["raid4s-endurance.csv", "claims.csv", "report.html"] {
        let read = |folder: &tempfile::TempDir| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read(&small), read(&whole), "{name}");
    }
}

#[test]
fn what_cannot_be_run_or_reported_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let told = refused(&["run", "raid9", "--out", out]);
    assert!(told.contains("no experiment 'raid9'") && told.contains("modthresh-fine"), "{told}");
    let told = refused(&["report", out]);
    assert!(told.contains(out) && told.contains("holds no results"), "{told}");
    let file = folder.path().join("points.jsonl");
    std::fs::write(&file, "somebody's\n").unwrap();
    let told = refused(&["run", "raid4s-endurance", "--quick", "--out", out]);
    assert!(told.contains("not a file of the laboratory's"), "{told}");
    let told = refused(&["run", "raid4s-endurance", "--quick", "--out", file.to_str().unwrap()]);
    assert!(told.contains("points.jsonl") && !told.contains("panicked"), "{told}");
}

#[test]
fn files_and_modelled_members_count_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let given = folder.path().to_str().unwrap();
    let table = String::from_utf8(lab(&["counters", "--folder", given, "--seed", "5"]).stdout).unwrap();
    assert!(table.contains("84 of 84 counters are equal") && table.contains("cost"), "{table}");
    assert!(table.lines().any(|line| line.contains("rows_rcw") && line.ends_with("equal")), "{table}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");

    let output = lab(&["counters", "--json"]);
    let compared: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = compared["comparisons"].as_array().unwrap();
    let levels: std::collections::BTreeSet<_> =
        cases.iter().filter_map(|case| case["level"].as_u64()).collect();
    assert_eq!((cases.len(), levels.into_iter().collect::<Vec<_>>()), (12, vec![4, 5, 6]));
    assert_eq!((&compared["equal"], &compared["not_compared"][0]), (&true.into(), &"cost".into()));

    let told = refused(&["counters", "--folder", &folder.path().join("nowhere").to_string_lossy()]);
    assert!(told.contains("nowhere: no folder can be made there"), "{told}");
}
