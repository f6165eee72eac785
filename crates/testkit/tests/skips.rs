//! What becomes of a test that cannot run: on record, on standard error, or a failure. The tests here run others of this
//! program, as a test runner would.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{path::Path, process::Command, time::Duration};

use stripewise_testkit::{Need, Said, can_run, can_try, run_bounded};

const SKIPS: &str = "STRIPEWISE_SKIPS";
const REQUIRE: &str = "STRIPEWISE_REQUIRE_TOOLS";

#[test]
#[ignore = "run by the others"]
fn lacks_a_tool() {
    if can_run(&[Need::Tool("no-such-tool"), Need::Tool("sh")]) {
        panic!("it is not here");
    }
}

#[test]
#[ignore = "run by the others"]
fn lacks_something_of_the_kernel() {
    if can_try("the device", &[Need::Device("/dev/no-such-device")]) {
        panic!("it is not here");
    }
}

#[test]
#[ignore = "run by the others"]
fn lacks_nothing() {
    assert!(can_run(&[Need::Tool("sh")]));
}

/// Runs one of the above with a list of skips, or none.
fn run(test: &str, list: Option<&Path>, required: bool) -> Said {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "--test-threads", "2", test]).env_remove(SKIPS);
    command.env(REQUIRE, if required { "1" } else { "0" });
    if let Some(list) = list {
        command.env(SKIPS, list);
    }
    run_bounded(&mut command, Duration::from_secs(60))
}

/// What `scripts/skipped` says of a list.
fn shown(list: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/skipped");
    let said = run_bounded(Command::new(script).arg(list), Duration::from_secs(60));
    assert_eq!(said.code, Some(0), "{said:?}");
    said.out
}

#[test]
fn skips_are_listed_by_reason_with_what_was_not_tried() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("skips");
    for test in ["lacks_something_of_the_kernel", "lacks_a_tool", "lacks_a_tool", "lacks_nothing"] {
        let said = run(test, Some(&list), false);
        assert!(said.code == Some(0) && said.out.contains("1 passed"), "{said:?}");
        assert!(!said.err.contains("SKIPPED"), "one place is enough: {said:?}");
    }
    let expected = "Not tried on this machine:\n  \
        no no-such-tool:\n    stripewise-testkit/skips lacks_a_tool\n  \
        this kernel has no /dev/no-such-device:\n    \
        stripewise-testkit/skips lacks_something_of_the_kernel (the device only)\n";
    assert_eq!(shown(&list), expected);
}

#[test]
fn without_a_list_a_skip_is_seen_although_the_runner_hides_what_tests_print() {
    let said = run("lacks_a_tool", None, false);
    let expected = "*** SKIPPED: stripewise-testkit/skips lacks_a_tool, because: no no-such-tool ***";
    assert!(said.code == Some(0) && said.err.contains(expected), "{said:?}");
}

#[test]
fn a_tool_that_is_demanded_fails_its_test_and_what_the_kernel_lacks_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("skips");
    let said = run("lacks_a_tool", Some(&list), true);
    let words = "STRIPEWISE_REQUIRE_TOOLS=1, and this is missing: no no-such-tool";
    assert!(said.code == Some(101) && said.out.contains(words), "{said:?}");
    assert!(!list.exists(), "a failure is no skip");
    assert_eq!(run("lacks_something_of_the_kernel", Some(&list), true).code, Some(0));
    assert!(shown(&list).contains("no /dev/no-such-device"));
}

#[test]
fn nothing_skipped_is_said_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("skips");
    assert_eq!(shown(&list), "Nothing was skipped.\n");
    std::fs::write(&list, "").unwrap();
    assert_eq!(shown(&list), "Nothing was skipped.\n");
}

#[test]
fn a_list_that_takes_no_records_fails_the_test() {
    let said = run("lacks_a_tool", Some(Path::new("/nowhere/skips")), false);
    assert!(said.code == Some(101) && said.out.contains("takes no records"), "{said:?}");
}
