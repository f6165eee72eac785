//! `bench/mdraid` without its kernel: that its scripts parse, that its table is right, and what it says where
//! it cannot run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use stripewise_testkit::{Need, can_run, can_try};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bench/mdraid").canonicalize().unwrap()
}

fn said(command: &mut Command) -> (Output, String) {
    let output = command.current_dir(folder()).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text)
}

fn succeeds(command: &mut Command) -> String {
    let (output, text) = said(command);
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

#[test]
fn the_scripts_and_the_load_generator_parse() {
    for script in ["run", "build-kernel", "guest/init"] {
        succeeds(Command::new("sh").args(["-n", script]));
    }
    if can_try("the load generator", &[Need::Tool("cc")]) {
        succeeds(Command::new("cc").args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "guest/load.c"]));
    }
    if can_try("the scripts of Python", &[Need::Tool("python3")]) {
        let parse = "import ast, pathlib; [ast.parse(path.read_text(), path) for path in pathlib.Path('.').rglob('*.py')]";
        succeeds(Command::new("python3").args(["-c", parse]));
    }
}

#[test]
fn the_table_of_a_kept_result_is_right() {
    if can_run(&[Need::Tool("python3")]) {
        // As docs/testing.md has it, from the repository's root.
        succeeds(
            Command::new("sh").args(["-c", "cd ../.. && python3 -m unittest discover -s bench/mdraid/tests"]),
        );
        let table = succeeds(Command::new("./run").args(["--table", "tests/sample.json"]));
        assert!(table.starts_with("processor: an example") && table.contains("| met "), "{table}");
    }
}

/// With nothing in the path but what the first checks need, it ends at the first thing missing.
#[test]
fn what_is_missing_is_told() {
    let tools = tempfile::tempdir().unwrap();
    for tool in ["dirname", "uname", "id"] {
        let found = succeeds(Command::new("sh").args(["-c", &format!("command -v {tool}")]));
        std::os::unix::fs::symlink(found.trim(), tools.path().join(tool)).unwrap();
    }
    let (output, text) = said(Command::new("/bin/sh").arg("run").env("PATH", tools.path()));
    let expected = match rustix::process::geteuid().is_root() {
        true => "no apt-get: the kernel is built from Debian's source",
        false => "not root: packages are installed",
    };
    assert!(!output.status.success() && output.stdout.is_empty(), "{text}");
    assert!(text.contains(expected), "{text}");
}
