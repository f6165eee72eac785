//! Devices that an array cannot, or should not, be made of.

use std::{os::unix::fs::FileExt, time::Duration};

use crate::common::{KIB, Loop, MIB, Mounted, Need, Sandbox, can_run, can_try, run_bounded, tool};

#[test]
fn a_run_directory_that_no_socket_fits_in_is_found_out_first() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    let mut command = sandbox.command();
    command.args(["create", "a", "--level", "5"]).args(&members);
    command.env("STRIPEWISE_RUN_DIR", sandbox.path(&"long".repeat(40)));
    let said = run_bounded(&mut command, Duration::from_secs(60));
    assert!(said.code == Some(1) && said.err.contains("cannot listen there"), "{said:?}");
    assert!(std::fs::read(&members[0]).unwrap().iter().all(|byte| *byte == 0), "it was written to");
}

#[test]
fn members_that_are_too_small() {
    let sandbox = Sandbox::new();
    let mut members = sandbox.members(2, 24 * MIB);
    members.push(sandbox.member("tiny", 64 * KIB));
    sandbox.fails(1, "create a --level 5", &members, &["0 bytes of data"]);
    members[2] = sandbox.member("empty", 0);
    sandbox.fails(1, "create a --level 5", &members, &["0 bytes of data"]);
    members[2] = sandbox.member("small", 8 * MIB);
    let words: [&str; 2] = [&members[2], "or ask for less (--size"];
    sandbox.fails(1, "create a --level 5 --size 16M", &members, &words);
}

#[test]
fn settings_of_a_cache_that_mean_nothing() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    for option in ["--cache-size 8M", "--cache-flush-time 1s", "--cache-alloc stripe"] {
        let words = [option.split(' ').next().unwrap(), "without a cache"];
        sandbox.fails(1, &format!("create a --level 5 {option}"), &members, &words);
    }
    for option in ["--cache-size 8M", "--cache-flush-time off", "--cache-alloc block"] {
        let words =
            [option.split(' ').next().unwrap(), "with --cache none: leave it out", "`stripewise cache`"];
        sandbox.fails(1, &format!("create a --level 5 --cache none {option}"), &members, &words);
    }
    let words = ["a cache of 5 B: give a size from 336K", "two stripes", "the memory that the daemon has"];
    sandbox.fails(1, "create a --level 5 --cache stripe --cache-size 5", &members, &words);
    let plan = sandbox.ok("create a --level 5 --cache stripe --cache-size 8M --dry-run", &members);
    assert!(plan.contains("cache stripe of 8 MiB"), "{plan:?}");
    sandbox.ok("create a --level 5 --assume-clean", &members);
    // Also while there is no cache.
    sandbox.fails(1, "cache a --size 1K", &[""; 0], &["a cache of 1 KiB: give a size from 336K"]);
    sandbox.fails(
        1,
        "cache a --size 100T",
        &[""; 0],
        &["a cache of 100 TiB: give a size from 336K", "M, the memory"],
    );
    sandbox.fails(1, "cache a --age 50d", &[""; 0], &["from 1ms to 49d, or `off`"]);
    sandbox.fails(2, "cache a --age 1w", &[""; 0], &["'1w' is not a time", "m, h or d (days)", "or `off`"]);
    sandbox.done("cache a --age 49d");
    sandbox.fails(
        2,
        "cache a --idle 0.0002ms",
        &[""; 0],
        &["'0.0002ms' is too short", "give 1ms or more", "or `off`"],
    );
    sandbox.done("cache a none --read none");
}

#[test]
fn members_of_different_size_give_what_the_smallest_has() {
    let sandbox = Sandbox::new();
    let members = [("a", 40), ("b", 24), ("c", 32)].map(|(name, mib)| sandbox.member(name, mib * MIB));
    sandbox.ok("create a --level 5", &members);
    let status = sandbox.status("a");
    let member_bytes = status["member_bytes"].as_u64().unwrap();
    assert!((20 * MIB..24 * MIB).contains(&member_bytes), "{status}");
    sandbox.ok("fail a", &members[..1]);
    let small = sandbox.member("small", 16 * MIB);
    sandbox.fails(1, "add a", &[&small], &[&small, "give a larger one"]);
}

#[test]
fn shapes_that_are_impossible() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.fails(1, "create a --level 6", &members, &["level 6 needs 4"]);
    sandbox.fails(1, "create a --level 5", &members[..1], &["level 5 needs 2"]);
    for chunk in ["2K", "48K", "2M", "0"] {
        let words = ["power of two from 4K to 1M"];
        sandbox.fails(1, &format!("create a --level 5 --chunk {chunk}"), &members, &words);
    }
    sandbox.fails(1, "create a --level 5 -n 5", &members, &["--raid-devices 5", "given: 3"]);
    sandbox.fails(1, "create a --level 5 --size 0", &members, &["0 bytes"]);
    sandbox.fails(1, "create a --level 5 --uuid nonsense", &members, &["--uuid"]);
    for region in ["0", "3M", "1"] {
        sandbox.fails(
            1,
            &format!("create a --level 5 --bitmap-chunk {region}"),
            &members,
            &["--bitmap-chunk"],
        );
    }
    assert!(std::fs::read(&members[0]).unwrap().iter().all(|byte| *byte == 0), "a refused creation wrote");
}

#[test]
fn more_missing_than_the_level_tolerates() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    for (level, missing, tolerated) in [(0, 1, 0), (4, 2, 1), (5, 2, 1), (6, 3, 2)] {
        let line = format!("create a --level {level} {}", "missing ".repeat(missing));
        let words = [&*format!("{missing} members are missing"), &format!("tolerates {tolerated}")];
        sandbox.fails(1, &line, &members, &words);
    }
    sandbox.fails(1, "create a --level 1", &["missing"; 3], &["every member is missing", "at least one"]);
}

#[test]
fn one_device_for_two_roles() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(2, 24 * MIB);
    let link = sandbox.path("link");
    std::os::unix::fs::symlink(&members[0], &link).unwrap();
    let twice = [&members[0], &members[1], &members[0]];
    sandbox.fails(1, "create a --level 5", &twice, &[&members[0], "is given twice"]);
    let linked = [&members[0], &members[1], &link];
    sandbox.fails(1, "create a --level 5", &linked, &[&members[0], &link, "same device"]);
    let hard = sandbox.path("hard");
    std::fs::hard_link(&members[0], &hard).unwrap();
    let hardlinked = [&members[0], &members[1], &hard];
    sandbox.fails(1, "create a --level 5", &hardlinked, &[&members[0], &hard, "same device"]);
    // Also where they hold something, which is the other thing to say about them.
    sandbox.ok("create a --level 1 --assume-clean", &members);
    sandbox.fails(1, "create b --level 5", &twice, &[&members[0], "is given twice"]);
    let fresh = sandbox.member("fresh", 24 * MIB);
    sandbox.fails(1, "add a", &[&fresh, &fresh], &[&fresh, "is given twice"]);
    assert_eq!(sandbox.member_state("a", &fresh), None, "a refused command added the first");
    sandbox.fails(1, "replace a", &[&members[0], "--with", &members[0]], &[&members[0], "is given twice"]);
}

#[test]
fn the_name_of_a_running_array_is_told_before_anything_about_devices() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    for line in ["create a --level 5", "create a --level 5 --dry-run", "assemble a"] {
        let said = sandbox.fails(1, line, &members, &["an array named 'a' is running already"]);
        assert!(!said.contains(&members[0]), "{said}");
    }
    sandbox.done("detail a --test");
}

#[test]
fn a_command_that_fails_leaves_nothing_in_the_run_directory() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    let left = || -> Vec<_> {
        let entries = std::fs::read_dir(sandbox.run_dir()).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    sandbox.fails(1, "create a --level 6", &members, &["level 6 needs 4"]);
    sandbox.fails(1, "assemble a", &members, &["no member was found"]);
    assert_eq!(left(), [""; 0]);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox.done("scrub a start --wait");
    sandbox.done("stop a");
    assert_eq!(left(), ["a.log"], "the log tells how it went");
    let log = sandbox.log("a");
    sandbox.fails(1, "assemble a", &members[..1], &["1 of 3 members are usable"]);
    assert_eq!(left(), ["a.log"]);
    assert!(sandbox.log("a").starts_with(&log), "an earlier array's log stays");
}

#[test]
fn things_that_are_no_devices() {
    let sandbox = Sandbox::new();
    let mut members = sandbox.members(2, 24 * MIB);
    members.push("/dev/null".to_owned());
    let words = ["/dev/null", "not a block device or regular file"];
    sandbox.fails(1, "create a --level 5", &members, &words);
    sandbox.fails(1, "assemble a", &members, &words);
    members[2] = sandbox.folder().to_str().unwrap().to_owned();
    sandbox.fails(
        1,
        "create a --level 5",
        &members,
        &[&members[2].clone(), "not a block device or regular file"],
    );
    members[2] = sandbox.path("absent");
    sandbox.fails(1, "create a --level 5", &members, &[&members[2].clone(), "No such file"]);
    // A fifo has no end to wait for.
    members[2] = sandbox.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &members[2],
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    sandbox.fails(
        1,
        "create a --level 5",
        &members,
        &[&members[2].clone(), "not a block device or regular file"],
    );
    sandbox.fails(1, "examine", &members[2..], &[&members[2].clone(), "not a block device or regular file"]);
    let said = sandbox.fails(1, "examine", &["absent"], &["absent: No such file"]);
    assert_eq!(said.matches("No such file").count(), 1, "{said}");
}

#[test]
fn devices_that_hold_something_take_force() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    let file = |index: usize| std::fs::File::options().write(true).open(&members[index]).unwrap();
    if can_try("a file system of mkfs.ext4 instead of its magic number", &[Need::Tool("mkfs.ext4")]) {
        tool("mkfs.ext4", &["-q", &members[0]]);
    } else {
        file(0).write_all_at(&[0x53, 0xef], 0x438).unwrap();
    }
    file(1).write_all_at(&[0x55, 0xaa], 510).unwrap();
    file(2).write_all_at(b"EFI PART", 512).unwrap();
    let before: Vec<_> = members.iter().map(|member| std::fs::read(member).unwrap()).collect();
    let words = ["ext2/3/4", "MBR partition table", "GPT partition table", &members[0], "--force"];
    sandbox.fails(1, "create a --level 5", &members, &words);
    let after: Vec<_> = members.iter().map(|member| std::fs::read(member).unwrap()).collect();
    assert!(before == after, "a refused creation wrote");
    for (option, name) in [("--force", "a"), ("--yes", "b")] {
        let said = sandbox.run(&format!("create {name} --level 5 {option} --dry-run"), &members);
        assert!(said.code == Some(0) && said.err.contains("to be overwritten: "), "{said:?}");
    }
    let said = sandbox.run("create a --level 5 --force", &members);
    let words = ["to be overwritten: ", "ext2/3/4", &members[0]];
    assert!(said.code == Some(0) && words.iter().all(|word| said.err.contains(word)), "{said:?}");
    sandbox.done("stop a");
    sandbox.fails(1, "create b --level 5", &members, &["an md array member (metadata 1.2)", "--force"]);
    sandbox.ok("assemble a", &members);
}

#[test]
fn a_mounted_device_is_refused_whatever_is_said() {
    if !can_run(&[Need::Tool("losetup"), Need::Tool("mkfs.ext4"), Need::Tool("mount"), Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mut members = sandbox.members(3, 24 * MIB);
    let device = Loop::new(&members[0]);
    tool("mkfs.ext4", &["-q", &device.0]);
    let point = sandbox.folder().join("mnt");
    let mounted = Mounted::new(&[&device.0], &point);
    std::fs::write(point.join("precious"), b"data").unwrap();
    members[0] = device.0.clone();
    let frees = format!("`umount {}` frees it", point.display());
    let words = [&device.0, "in use: mounted on", &frees];
    sandbox.fails(1, "create a --level 5 --force", &members, &words);
    assert_eq!(std::fs::read(point.join("precious")).unwrap(), b"data");
    mounted.unmount();
    tool("fsck.ext4", &["-fn", &device.0]);
}

#[test]
fn members_of_a_running_array_are_in_use() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    let words: [&str; 4] = [&members[0], "in use", "the array 'a' has it", "`stripewise stop a`"];
    sandbox.fails(1, "create b --level 5 --force", &members, &words);
    sandbox.fails(1, "assemble b", &members, &words);
    let more: Vec<_> = ["x", "y"].iter().map(|name| sandbox.member(name, 24 * MIB)).collect();
    sandbox.ok("create c --level 1 --assume-clean", &more);
    sandbox.fails(1, "add c --force", &members[..1], &words);
    sandbox.fails(1, "add a --force", &members[..1], &[&members[0], "in"]);
    sandbox.fails(1, "create a --level 1", &[sandbox.member("z", 24 * MIB)], &["'a' is running already"]);
    sandbox.done("detail a --test");
}
