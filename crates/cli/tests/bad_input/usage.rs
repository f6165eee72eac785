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

/// What is wrong, and what there may be, also where a minus makes a number look like an option.
#[test]
fn numbers_that_are_none_or_out_of_range() {
    let sandbox = Sandbox::new();
    for (line, words) in [
        ("create a --level -1 x", "'-1' is not a level: give 0, 1, 4, 5 or 6"),
        ("create a --level 5 --threads 0 x", "give a whole number from 1 to 1024"),
        ("create a --level 5 --raid-devices three x", "give a whole number from 1 to 1920"),
        ("create a --level 5 --spare-devices -1 x", "give a whole number from 0 to 1920"),
        ("create a --level 5 --size -4K x", "'-4K' is not a size; write it as 64K, 1M or 10G"),
        ("create a --level 5 --size 16384P x", "'16384P' is too large: give 16383P or less"),
        ("create a --level 5 --chunk 8G x", "give a power of two from 4K to 1M"),
        ("speed a --max -1", "'-1' is not a size"),
        ("endurance a m0 --margin -1", "give a whole number from 0 to 36500"),
        ("endurance a m0 --tbw -1T", "'-1T' is neither a decimal size, such as 600T"),
        ("explain --write 0:4K --missing -1", "give a whole number from 0 to 1919"),
        ("trace a --count 0", "give a whole number from 1 to 18446744073709551615"),
        ("trace a --seconds -1", "'-1' is not a time: give 1ms or more, in seconds"),
        ("lab run all --seed abc", "give a whole number from 0 to 18446744073709551615"),
        ("lab counters --seed -1", "give a whole number from 0 to 18446744073709551615"),
        ("bench run a --iodepth 99999999999999999999", "give a whole number from 1 to 1024"),
        ("bench run a --rwmixread 101", "give a whole number from 0 to 100"),
        ("bench engine --turns -7", "give a whole number from 1 to 1000"),
        ("bench engine --seconds -1", "'-1' is not a time"),
    ] {
        sandbox.fails(2, line, &[""; 0], &[words]);
    }
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

/// No similar word is suggested that does something else.
#[test]
fn words_of_mdadm_and_zpool_are_answered_with_what_does_it_here() {
    let sandbox = Sandbox::new();
    for (line, words) in [
        ("top", "watch stripewise status"),
        ("events", "/run/stripewise/NAME.log"),
        ("monitor", "detail --test"),
        ("resync a", "begins by itself"),
        ("check a", "scrub NAME start"),
        ("import a", "assemble NAME"),
        ("assemble a --scan", "name them, in any order"),
        ("create a --level 5 --bitmap none x", "leave --bitmap out"),
        ("create a --level 5 --metadata=0.90 x", "made with metadata 1.2, not '0.90'"),
    ] {
        let said = sandbox.fails(2, line, &[""; 0], &[words]);
        assert!(!said.contains("similar") && !said.contains("'stop'") && !said.contains("'serve'"), "{said}");
    }
    for line in ["add a", "create a --level 1", "assemble a"] {
        sandbox.fails(1, line, &["nbd://host/x"], &["nbd://host/x", "nbd-client"]);
    }
    let said = sandbox.fails(2, "statsu", &[""; 0], &["status"]);
    assert!(said.contains("similar"), "other words are helped as before: {said}");
}

#[test]
fn a_creation_in_mdadms_words() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    let line = "create t --level=5 --raid-devices=3 --metadata=1.2 --run --name=data --bitmap=internal --assume-clean";
    sandbox.ok(line, &members);
    assert!(sandbox.status("t")["full_name"].as_str().unwrap().ends_with("data"));
}

/// Programs go by the exit code: what cannot be told is neither good nor lost.
#[test]
fn a_test_of_what_cannot_be_told_ends_with_its_own_code() {
    let sandbox = Sandbox::new();
    sandbox.fails(4, "detail x --test", &[""; 0], &["x: no such array is running"]);
    sandbox.fails(4, "detail ../x --test", &[""; 0], &["is not an array name"]);
    sandbox.fails(4, "detail -t --bogus x", &[""; 0], &["--bogus"]);
    sandbox.fails(2, "detail ../x", &[""; 0], &["is not an array name"]);
    // A socket on which nothing answers.
    std::fs::create_dir(sandbox.run_dir()).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(sandbox.run_dir().join("y.sock")).unwrap();
    drop(socket);
    sandbox.fails(4, "detail y --test", &[""; 0], &["y: its daemon has died"]);
    std::fs::create_dir(sandbox.run_dir().join("z.sock")).unwrap();
    sandbox.fails(4, "detail z --test", &[""; 0], &["z: "]);
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox.done("detail a --test");
    for options in [&["detail", "a", "--test"][..], &["--json", "detail", "a", "--test"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.command();
        let said = command.args(options).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.code() == Some(4) && err.contains("No space left"), "{:?}: {err}", said.status);
    }
    sandbox.ok("fail a", &members[..1]);
    assert_eq!(sandbox.run("detail a --test", &[""; 0]).code, Some(1));
}

/// A command that changed something says so to people, and to programs by its exit code alone.
#[test]
fn commands_say_what_they_did() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    let socket = sandbox.path("a.nbd");
    for (line, told) in [
        ("speed a --max 100M", "max 100 MiB/s".to_owned()),
        ("policy a classic", "rows are written by classic".to_owned()),
        (&format!("class a {} ssd", members[0]), format!("{} is ssd", members[0])),
        (&format!("serve a --unix {socket}"), socket.clone()),
        ("serve a --stop", "served no more".to_owned()),
        ("scrub a start", "the check has begun".to_owned()),
        ("stop a", "a: stopped".to_owned()),
    ] {
        let said = sandbox.done(line);
        assert!(said.contains(&told), "{line}: {said}");
    }
    sandbox.ok("assemble a", &members);
    assert_eq!(sandbox.done("--json policy a classic"), "");
    assert_eq!(sandbox.done("--json stop a"), "");
}

#[test]
fn what_cannot_be_printed_is_an_error_and_no_panic() {
    let sandbox = Sandbox::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut create = sandbox.command();
    create.args(["create", "a", "--level", "1", "--assume-clean"]).args(sandbox.members(2, 24 * MIB));
    let mut completions = sandbox.command();
    completions.args(["completions", "bash"]);
    for command in [&mut create, sandbox.command().args(["--json", "status", "a"]), &mut completions] {
        let said = command.stdout(full()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let said = said.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.code() == Some(1) && err.contains("printing it"), "{err}");
    }
    sandbox.done("status a");
}

#[test]
fn limits_of_a_server_are_honoured_or_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 5 --assume-clean", &sandbox.members(3, 24 * MIB));
    let socket = sandbox.path("a.nbd");
    let serve = |options: &str| format!("serve a --unix {socket} {options}");
    sandbox.fails(1, &serve("--in-flight 8M"), &[""; 0], &["--in-flight 8 MiB", "40 MiB or more"]);
    sandbox.fails(1, &serve("--connection-in-flight 8M"), &[""; 0], &["40 MiB or more"]);
    sandbox.fails(
        1,
        &serve("--in-flight 48M --connection-in-flight 64M"),
        &[""; 0],
        &["--in-flight as much"],
    );
    assert!(!std::path::Path::new(&socket).exists(), "what is refused serves nothing");
    sandbox.done(&serve("--in-flight 48M"));
}
