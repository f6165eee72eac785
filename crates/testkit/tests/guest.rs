//! The guest's scripts without a guest: which kernel it boots, and what is said where none does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use stripewise_testkit::{Need, can_run, run_bounded};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/uml")
}

#[test]
fn the_kernel_is_chosen_by_name_processor_and_what_was_built() {
    if !can_run(&[Need::Tool("python3")]) {
        return;
    }
    let mut unittest = Command::new("python3");
    unittest.args(["-m", "unittest", "discover", "-s", "tests"]).current_dir(folder());
    let said = run_bounded(unittest.env("PYTHONDONTWRITEBYTECODE", "1"), Duration::from_secs(60));
    assert!(said.code == Some(0) && said.err.contains("Ran 7 tests"), "{said:?}");
}

#[test]
fn a_kernel_that_does_not_boot_is_told_by_name() {
    if !can_run(&[Need::Tool("python3"), Need::Tool("mdadm"), Need::Tool("busybox")]) {
        return;
    }
    let mut can_run = Command::new(folder().join("can-run"));
    let said = run_bounded(can_run.env("STRIPEWISE_UML_KERNEL", "/bin/true"), Duration::from_secs(120));
    assert!(said.code == Some(1) && said.err.contains("/true boots on this processor"), "{said:?}");
}

#[test]
fn the_scripts_parse() {
    for script in ["can-run", "build-kernel", "guest-init"] {
        let said = run_bounded(
            Command::new("sh").args(["-n", script]).current_dir(folder()),
            Duration::from_secs(60),
        );
        assert_eq!(said.code, Some(0), "{script}: {said:?}");
    }
}
