//! Devices that do not make one array, or not the one that they made last.

use crate::common::{Client, MIB, Sandbox, noise};

/// A stopped array with data on it.
fn stopped(level: i32, count: usize) -> (Sandbox, Vec<String>, Vec<u8>) {
    let sandbox = Sandbox::new();
    let members = sandbox.members(count, 24 * MIB);
    sandbox.ok(&format!("create a --level {level} --assume-clean"), &members);
    let data = noise(11, 2 << 20);
    write(&sandbox, &data);
    sandbox.done("stop a");
    (sandbox, members, data)
}

fn write(sandbox: &Sandbox, data: &[u8]) {
    Client::connect(&sandbox.serve("a")).write(0, data).unwrap();
}

fn assert_holds(sandbox: &Sandbox, data: &[u8]) {
    assert!(Client::connect(&sandbox.serve("a")).read(0, data.len()).unwrap() == data);
}

#[test]
fn the_same_member_twice() {
    let (sandbox, members, data) = stopped(5, 3);
    let link = sandbox.path("link");
    std::os::unix::fs::symlink(&members[0], &link).unwrap();
    let twice = [&members[0], &members[0], &members[1], &members[2]];
    sandbox.fails(1, "assemble a", &twice, &[&members[0], "is given twice"]);
    let linked = [&link, &members[0], &members[1], &members[2]];
    sandbox.fails(1, "assemble a", &linked, &[&members[0], &link, "same device"]);
    let copy = sandbox.path("copy");
    std::fs::copy(&members[0], &copy).unwrap();
    let copied = [&copy, &members[0], &members[1], &members[2]];
    sandbox.fails(1, "assemble a", &copied, &[&members[0], &copy, "are the same member", "give one of them"]);
    sandbox.ok("assemble a", &[&copy, &members[1], &members[2]]);
    assert_holds(&sandbox, &data);
}

#[test]
fn a_member_of_another_array() {
    let (sandbox, members, data) = stopped(5, 3);
    let others: Vec<_> = ["x", "y"].iter().map(|name| sandbox.member(name, 24 * MIB)).collect();
    sandbox.ok("create other --level 1 --assume-clean", &others);
    sandbox.done("stop other");
    let mixed = [&members[0], &members[1], &others[0]];
    let words = [&*members[0], &others[0], "give the members of one array"];
    sandbox.fails(1, "assemble a", &mixed, &words);
    let blank = sandbox.member("blank", 24 * MIB);
    sandbox.fails(1, "assemble a", &[&blank], &["no member was found", &blank]);
    let with_blank = [&members[0], &members[1], &blank];
    sandbox.fails(1, "assemble a", &with_blank, &["a member is absent", &blank, "--run"]);
    sandbox.fails(1, "assemble a --run", &members[..1], &["1 of 3 members are usable and 2 are needed"]);
    sandbox.ok("assemble a", &members);
    assert_holds(&sandbox, &data);
}

#[test]
fn a_spare_in_place_of_members_is_told() {
    let (sandbox, members, data) = stopped(5, 3);
    sandbox.ok("assemble a", &members);
    let spare = sandbox.member("spare", 24 * MIB);
    sandbox.ok("add a", &[&spare]);
    sandbox.done("stop a");
    let reason = format!("{spare}: it is a spare");
    let words = ["1 of 3 members are usable", &reason];
    sandbox.fails(1, "assemble a --run", &[&members[0], &spare], &words);
    sandbox.ok("assemble a", &[&members[0], &members[1], &members[2], &spare]);
    assert_holds(&sandbox, &data);
}

#[test]
fn a_stale_member_that_comes_back_is_left_out() {
    let (sandbox, members, _) = stopped(5, 3);
    sandbox.ok("assemble a --run", &members[..2]);
    let newer = noise(12, 2 << 20);
    write(&sandbox, &newer);
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    assert_eq!(sandbox.member_state("a", &members[2]), None, "it is not part of the array");
    assert_eq!(sandbox.status("a")["state"], "clean, degraded");
    assert_holds(&sandbox, &newer);
    sandbox.done("stop a");
    let words = [&*members[2], "not current", "add it anew"];
    sandbox.fails(1, "assemble a --run", &members[1..], &words);
    sandbox.ok("assemble a", &members[..2]);
    sandbox.ok("add a --force --wait", &members[2..]);
    assert_holds(&sandbox, &newer);
    sandbox.assert_consistent("a");
}

#[test]
fn what_is_left_out_is_told_until_it_is_a_member() {
    let (sandbox, members, data) = stopped(5, 3);
    sandbox.ok("assemble a --run", &members[..2]);
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    assert!(sandbox.done("status a").contains(&format!("left out: {}: ", members[2])));
    assert!(sandbox.done("detail a").contains(&format!("Left Out : {}: ", members[2])));
    sandbox.ok("add a --force --wait", &members[2..]);
    assert_eq!(sandbox.status("a")["left_out"], serde_json::json!([]));
    assert_holds(&sandbox, &data);
}

#[test]
fn what_is_taken_by_force_is_told() {
    let (sandbox, members, _) = stopped(5, 3);
    sandbox.ok("assemble a --run", &members[..2]);
    assert_eq!(sandbox.status("a")["forced"], serde_json::json!([]));
    write(&sandbox, &noise(12, 2 << 20));
    sandbox.done("stop a");
    let said = sandbox.run("assemble a --force", &members[1..]);
    let words = ["taken by force, what was written since it left is lost", &members[2]];
    assert!(said.code == Some(0) && words.iter().all(|word| said.err.contains(word)), "{said:?}");
    assert!(!said.err.contains("anew"), "it is in: {said:?}");
    assert!(sandbox.done("status a").contains(&format!("taken by force: {}: ", members[2])));
    assert!(sandbox.done("detail a").contains(&format!("Taken By Force : {}: ", members[2])));
    assert!(sandbox.status("a")["forced"][0].as_str().unwrap().contains(&*members[2]));
}

#[test]
fn two_halves_that_went_on_apart() {
    let (sandbox, members, data) = stopped(1, 2);
    for (half, more) in [(0, 1), (1, 2)] {
        for _ in 0..more {
            sandbox.ok("assemble a --run", &members[half..=half]);
            let client = Client::connect(&sandbox.serve("a"));
            client.write(0, &vec![half as u8 + 1; data.len()]).unwrap();
            drop(client);
            sandbox.done("stop a");
        }
    }
    let words = ["split brain", &members[0], &members[1], "Give only the members to keep"];
    sandbox.fails(1, "assemble a", &members, &words);
    sandbox.fails(1, "assemble a --run", &members, &words);
    sandbox.ok("assemble a", &members[..1]);
    assert_holds(&sandbox, &vec![1; data.len()]);
    sandbox.ok("add a --force --wait", &members[1..]);
    sandbox.assert_consistent("a");
    sandbox.done("stop a");
    sandbox.ok("assemble a", &members);
    assert_holds(&sandbox, &vec![1; data.len()]);
}

#[test]
fn a_member_that_is_no_longer_a_path() {
    let (sandbox, members, data) = stopped(5, 3);
    std::fs::remove_file(&members[1]).unwrap();
    sandbox.fails(1, "assemble a", &members, &[&members[1], "No such file"]);
    sandbox.ok("assemble a --run", &[&members[0], &members[2]]);
    assert_holds(&sandbox, &data);
}
