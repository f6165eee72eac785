//! Failing, removing, adding and replacing members.

use std::os::unix::fs::FileExt;

use crate::common::{Client, MIB, Need, Sandbox, can_try, noise, tool};

/// An array with something on it.
fn filled(level: i32, count: usize) -> (Sandbox, Vec<String>, Client, Vec<u8>) {
    let sandbox = Sandbox::new();
    let members = sandbox.members(count, 24 * MIB);
    sandbox.ok(&format!("create a --level {level} --assume-clean"), &members);
    let client = Client::connect(&sandbox.serve("a"));
    let data = noise(7, 8 << 20);
    client.write(0, &data).unwrap();
    (sandbox, members, client, data)
}

#[test]
fn a_member_is_failed_removed_and_rebuilt_on_another() {
    for (level, count) in [(1, 2), (4, 3), (5, 3), (6, 4)] {
        let (sandbox, members, client, data) = filled(level, count);
        sandbox.ok("fail a", &members[..1]);
        assert_eq!(sandbox.member_state("a", &members[0]).unwrap(), "faulty");
        sandbox.fails(1, "fail a", &members[..1], &["not active"]);
        sandbox.ok("remove a", &members[..1]);
        assert_eq!(sandbox.member_state("a", &members[0]), None);
        assert!(client.read(0, data.len()).unwrap() == data, "degraded level {level}");
        let fresh = sandbox.member("fresh", 24 * MIB);
        sandbox.ok("add a --wait", &[fresh]);
        sandbox.done("detail a --test");
        assert!(client.read(0, data.len()).unwrap() == data, "rebuilt level {level}");
        sandbox.assert_consistent("a");
    }
}

/// It is filled anew, whatever is on it.
#[test]
fn a_removed_member_is_added_again() {
    let (sandbox, members, client, data) = filled(5, 3);
    sandbox.fails(1, "add a", &members[1..2], &["is a member already"]);
    sandbox.ok("fail a", &members[1..2]);
    sandbox.fails(1, "add a --force", &members[1..2], &["once it is removed"]);
    sandbox.ok("remove a", &members[1..2]);
    let newer = noise(8, data.len());
    client.write(0, &newer).unwrap();
    sandbox.ok("add a --wait", &members[1..2]);
    assert!(client.read(0, data.len()).unwrap() == newer);
    sandbox.assert_consistent("a");
    // Another has taken its place since.
    let fresh = sandbox.member("fresh", 24 * MIB);
    sandbox.ok("fail a", &members[1..2]);
    sandbox.ok("remove a", &members[1..2]);
    sandbox.ok("add a --wait", &[fresh]);
    sandbox.ok("add a", &members[1..2]);
    assert_eq!(sandbox.member_state("a", &members[1]).unwrap(), "spare");
}

#[test]
fn members_of_others_and_those_that_were_used_apart_are_added_with_force_only() {
    let (sandbox, members, client, _) = filled(1, 2);
    let others = [sandbox.member("o0", 24 * MIB), sandbox.member("o1", 24 * MIB)];
    sandbox.ok("create o --level 1 --assume-clean", &others);
    sandbox.done("stop o");
    let refused = |name: &str, member: &String| {
        let words: [&str; 3] = [member, "holds an md array member", "--force"];
        sandbox.fails(1, &format!("add {name}"), &[member], &words);
    };
    refused("a", &others[0]);
    drop(client);
    sandbox.done("stop a");
    // Each half of the mirror runs without the other.
    for member in &members {
        sandbox.ok("assemble a --run", &[member]);
        Client::connect(&sandbox.serve("a")).write(0, &noise(9, 4096)).unwrap();
        sandbox.done("stop a");
    }
    sandbox.ok("assemble a --run", &members[..1]);
    refused("a", &members[1]);
    // What is not of the array is told as ever.
    std::fs::File::options().write(true).open(&members[1]).unwrap().write_all_at(b"hsqs\0\0\0\0", 0).unwrap();
    sandbox.fails(1, "add a", &members[1..], &["--force"]);
    sandbox.ok("add a --force --wait", &members[1..]);
    sandbox.assert_consistent("a");
}

#[test]
fn an_active_member_is_not_removed() {
    let (sandbox, members, ..) = filled(5, 3);
    sandbox.fails(1, "remove a", &members[..1], &[&members[0], "active; fail it first"]);
}

#[test]
fn the_member_that_is_needed_is_not_failed() {
    let (sandbox, members, ..) = filled(5, 3);
    sandbox.ok("fail a", &members[..1]);
    sandbox.fails(1, "fail a", &members[1..2], &[&members[1], "cannot do without it"]);
    assert_eq!(sandbox.run("detail a --test", &[""; 0]).code, Some(1));
    let striped = [sandbox.member("s0", 24 * MIB), sandbox.member("s1", 24 * MIB)];
    sandbox.ok("create b --level 0", &striped);
    sandbox.fails(1, "fail b", &striped[..1], &["this level cannot do without any member"]);
}

#[test]
fn a_member_is_replaced_without_losing_redundancy() {
    for (level, count) in [(1, 2), (5, 3), (6, 4)] {
        let (sandbox, members, client, data) = filled(level, count);
        let fresh = sandbox.member("fresh", 24 * MIB);
        sandbox.ok(&format!("replace a {} --wait --with", members[1]), &[&fresh]);
        sandbox.done("detail a --test");
        assert_eq!(sandbox.member_state("a", &fresh).unwrap(), "in sync");
        assert_eq!(sandbox.member_state("a", &members[1]).unwrap(), "faulty");
        assert!(client.read(0, data.len()).unwrap() == data);
        sandbox.ok("remove a", &members[1..2]);
        sandbox.assert_consistent("a");
    }
}

#[test]
fn a_member_that_is_being_replaced_is_shown_as_mdadm_does() {
    let (sandbox, members, ..) = filled(5, 3);
    sandbox.done("speed a --min 1M --max 1M");
    let fresh = sandbox.member("fresh", 24 * MIB);
    sandbox.ok(&format!("replace a {} --with", members[0]), &[&fresh]);
    sandbox.done("stop a");
    let shown = sandbox.ok("examine", &members[1..2]);
    assert!(shown.contains("Array State : RAA ") && shown.contains("Layout : left-symmetric"), "{shown}");
    if can_try("what mdadm shows", &[Need::Tool("mdadm")]) {
        let theirs = tool("mdadm", &["--examine", &members[1]]);
        assert!(theirs.contains("Array State : RAA "), "{theirs}");
    }
}

#[test]
fn spares_are_still_spares_after_an_assembly() {
    let (sandbox, mut members, _, data) = filled(5, 3);
    // Role 2 wanders: its first member is lost, a spare takes over, another spare gets the free number.
    sandbox.ok("fail a", &members[2..]);
    let taken = sandbox.member("taken", 24 * MIB);
    sandbox.ok("add a --wait", &[&taken]);
    sandbox.ok("remove a", &members[2..]);
    sandbox.done("stop a");
    members[2] = taken;
    sandbox.ok("assemble a", &members);
    let spare = sandbox.member("spare", 24 * MIB);
    sandbox.ok("add a", &[&spare]);
    assert_eq!(sandbox.member_state("a", &spare).unwrap(), "spare");
    sandbox.done("stop a");
    members.push(spare.clone());
    sandbox.ok("assemble a", &members);
    assert_eq!(sandbox.member_state("a", &spare).as_deref(), Some("spare"));
    assert!(Client::connect(&sandbox.serve("a")).read(0, data.len()).unwrap() == data);
}

#[test]
fn a_spare_with_the_number_of_a_lost_member_is_still_a_spare() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean -n 3 -x 1", &members);
    sandbox.done("stop a");
    // Member 1 is left behind: the spare takes its role, and the table goes on calling number 1 faulty.
    let left = [&members[0], &members[2], &members[3]];
    sandbox.ok("assemble a --run", &left);
    sandbox.done("wait a");
    let fresh = sandbox.member("fresh", 24 * MIB);
    sandbox.ok("add a", &[&fresh]);
    assert_eq!(sandbox.member_state("a", &fresh).as_deref(), Some("spare"));
    sandbox.done("stop a");
    sandbox.ok("assemble a", &[left[0], left[1], left[2], &fresh]);
    sandbox.done("detail a --test");
    assert_eq!(sandbox.member_state("a", &fresh).as_deref(), Some("spare"));
}

#[test]
fn what_was_done_to_members_is_said_and_all_that_are_faulty_go_with_one_word() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 24 * MIB);
    sandbox.ok("create a --level 6 --assume-clean", &members);
    for member in &members[..2] {
        assert_eq!(sandbox.ok("fail a", &[member]), format!("a: declared {member} faulty\n"));
    }
    let log = sandbox.log("a");
    assert!(
        log.contains("member declared failed") && !log.contains("I/O error"),
        "an operator's word is no error: {log}"
    );
    let removed = sandbox.done("remove a failed");
    assert!(
        members[..2].iter().all(|member| removed.contains(&format!("a: removed {member}\n"))),
        "{removed}"
    );
    sandbox.fails(1, "remove a failed", &[""; 0], &["no member is faulty"]);
    assert_eq!(sandbox.ok("--json add a --force", &members[..1]), "", "programs go by the exit code");
    assert!(sandbox.ok("add a --force --wait", &members[1..2]).contains(&format!("a: added {}", members[1])));
    let said = sandbox.run("scrub a repair", &[""; 0]);
    assert!(said.code == Some(0) && said.err.contains("data is taken for right"), "{said:?}");
}
