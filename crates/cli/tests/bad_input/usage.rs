//! Words that mean nothing: exit code 2, before anything is touched.

use crate::common::{MIB, Sandbox};

fn usage(line: &str, words: &[&str]) {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.fails(2, line, &members, words);
    assert!(std::fs::read(&members[0]).unwrap().iter().all(|byte| *byte == 0), "{line} wrote");
    assert!(!sandbox.run_dir().join("a.sock").exists());
}

#[test]
fn unknown_options_and_commands() {
    usage("create a --level 5 --frobnicate", &["--frobnicate"]);
    usage("destroy a", &["destroy"]);
    usage("create a", &["--level"]);
    usage("create a --level 5 --layout sideways", &["sideways", "left-symmetric"]);
    usage("create a --level 5 --bitmap none", &["none", "internal"]);
}

#[test]
fn levels_chunks_and_sizes_that_are_none() {
    for level in ["7", "10", "-1", "five", ""] {
        usage(&format!("create a --level={level}"), &["--level"]);
    }
    usage("create a --level 10", &["'10' is not a level", "0, 1, 4, 5 or 6"]);
    for chunk in ["0x10", "-4K", "64Q", "99999999999G", "1.5K"] {
        usage(&format!("create a --level 5 --chunk={chunk}"), &["--chunk", chunk]);
    }
    usage("create a --level 5 --size 1Z", &["'1Z' is not a size", "64K, 1M or 10G"]);
}

#[test]
fn names_that_would_escape_a_path() {
    for name in ["../a", "a/b", ".hidden", "..", "a\u{e9}", "x23456789012345678901234567890123"] {
        usage(&format!("create {name} --level 5"), &["is not an array name", name]);
    }
    let sandbox = Sandbox::new();
    for command in ["assemble", "stop", "detail", "status", "add", "fail", "scrub", "serve", "attach"] {
        sandbox.fails(2, command, &["../../etc/passwd"], &["is not an array name"]);
    }
}

#[test]
fn commands_for_arrays_that_are_not_there() {
    let sandbox = Sandbox::new();
    for line in
        ["stop x", "detail x", "status x", "wait x", "speed x --max 1M", "attach x", "detach x", "fail x /y"]
    {
        sandbox.fails(1, line, &[""; 0], &["x: no such array is running", "stripewise status"]);
    }
}
