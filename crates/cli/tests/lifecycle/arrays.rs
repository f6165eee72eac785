//! Creating, looking at, stopping and assembling.

use std::os::unix::fs::FileExt;

use crate::common::{Client, Loop, MIB, Mounted, Need, Sandbox, can_run, can_try, eventually, noise, tool};

/// Level, members, and how many chunks of data a stripe has.
const SHAPES: [(i32, usize, u64); 5] = [(0, 3, 3), (1, 3, 1), (4, 3, 2), (5, 4, 3), (6, 5, 3)];

/// Creates, fills, stops, assembles in another order, and finds everything again.
fn live(sandbox: &Sandbox, level: i32, members: &[String], data_members: u64) {
    let made = sandbox.ok(&format!("--json create a --level {level} --chunk 64K"), members);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["level"], level);
    assert_eq!(made["size_bytes"].as_u64().unwrap(), made["member_bytes"].as_u64().unwrap() * data_members);
    let client = Client::connect(&sandbox.serve("a"));
    assert_eq!(client.size_bytes(), made["size_bytes"]);
    let data = noise(level as u64, 3 << 20);
    client.write(512, &data).unwrap();
    client.flush().unwrap();
    drop(client);
    sandbox.done("stop a");
    let turned: Vec<_> = members.iter().rev().collect();
    sandbox.ok("assemble other", &turned);
    let client = Client::connect(&sandbox.serve("other"));
    assert!(client.read(512, data.len()).unwrap() == data, "level {level}");
    if level > 0 {
        sandbox.assert_consistent("other");
    }
    sandbox.done("stop other");
}

#[test]
fn every_level_on_files() {
    for (level, count, data_members) in SHAPES {
        let sandbox = Sandbox::new();
        live(&sandbox, level, &sandbox.members(count, 24 * MIB), data_members);
    }
}

#[test]
fn every_level_on_block_devices() {
    if !can_run(&[Need::Tool("losetup"), Need::Root]) {
        return;
    }
    for (level, count, data_members) in SHAPES {
        let sandbox = Sandbox::new();
        let loops: Vec<Loop> = sandbox.members(count, 24 * MIB).iter().map(|file| Loop::new(file)).collect();
        let devices: Vec<String> = loops.iter().map(|l| l.0.clone()).collect();
        live(&sandbox, level, &devices, data_members);
    }
}

#[test]
fn status_and_detail_tell_the_same_to_people_and_programs() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 24 * MIB);
    let shown = sandbox.ok("create home --level 6 --chunk 32 --assume-clean", &members);
    assert!(shown.contains("home : clean raid6") && shown.contains("[4/4] [UUUU]"), "{shown}");
    assert!(sandbox.done("status").contains("m0[0] m1[1] m2[2] m3[3]"));
    let detail = sandbox.done("detail home");
    for line in ["Raid Level : raid6", "Chunk Size : 32 KiB", "State : clean", "Consistency Policy : bitmap"]
    {
        assert!(detail.contains(line), "{detail}");
    }
    let status = sandbox.status("home");
    assert_eq!(sandbox.json("status")[0]["uuid"], status["uuid"]);
    assert_eq!(status["in_sync"], serde_json::json!([true, true, true, true]));
    assert_eq!(status["members"][2]["device"], members[2]);
    assert_eq!(status["chunk_bytes"], 32 << 10);
}

#[test]
fn spares_and_missing_members_are_created_as_given() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 -n 3 missing", &members[..2]);
    assert_eq!(sandbox.status("a")["state"], "clean, degraded");
    sandbox.done("stop a");
    sandbox.ok("create b --level 5 --force -n 2 -x 1", &members);
    assert_eq!(sandbox.member_state("b", &members[2]).unwrap(), "spare");
}

#[test]
fn level_1_knows_no_chunk() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(2, 24 * MIB);
    let said = sandbox.run("create a --level 1 --chunk 128K", &members);
    assert!(said.code == Some(0) && said.err.contains("--chunk is ignored"), "{said:?}");
    let shown = sandbox.done("status a") + &sandbox.done("detail a");
    assert!(!shown.contains("chunk") && !shown.contains("Chunk") && !shown.contains("Selection"), "{shown}");
}

#[test]
fn a_dry_run_tells_places_as_they_will_be() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(5, 24 * MIB);
    let [m0, m1, m2, m3, m4] = [0, 1, 2, 3, 4].map(|index| members[index].as_str());
    let said = sandbox.ok("create a --level 4 -x 1 --parity m1 --dry-run", &members);
    assert!(
        said.contains(&format!("raid4 'a' of {m0} {m2} {m3} {m1}\nspares: {m4}\nparity on {m1}\n")),
        "{said}"
    );
    let said = sandbox.ok("create a --level 4 --no-measure --dry-run", &members);
    assert!(said.ends_with(&format!("parity on {m4}\n")), "{said}");
    let said = sandbox.ok("create a --level 4 --dry-run", &members);
    assert!(said.contains(", as reads were measured just now: when it is made"), "{said}");
    let said = sandbox.ok("create a --level 4 --assume-clean --dry-run", &members);
    assert!(said.contains(&format!("parity on {m4}: with --assume-clean")), "{said}");
    assert!(!sandbox.ok("create a --level 5 --dry-run", &members).contains("parity"));
}

/// The dry run once gave parity to a member that was not to get it, and warned of nothing.
#[test]
fn a_dry_run_tells_what_the_creation_does() {
    for options in [
        "--level 4 --class m0=ssd --class m1=hdd --class m2=hdd --class m3=hdd",
        "--level 4 --parity last --class m0=ssd --class m1=hdd --class m2=hdd --class m3=hdd",
        "--level 6 --no-measure --class m0=ssd --class m1=hdd --class m2=hdd --class m3=hdd",
    ] {
        let sandbox = Sandbox::new();
        let members = sandbox.members(4, 24 * MIB);
        let dry = sandbox.run(&format!("--json create a {options} --dry-run"), &members);
        let told: serde_json::Value = serde_json::from_str(&dry.out).unwrap();
        let real = sandbox.run(&format!("create a {options}"), &members);
        // What keeps mdadm off names the array's identity, which is chosen when it is made. Strides, and what rotates, are measured only then.
        let of_real = ["ARRAY <ignore>", "strides are being measured", "no member was measured to rotate"];
        let is_of_both = |line: &&str| !of_real.iter().any(|words| line.contains(words));
        let told_of_both: String = real.err.split_inclusive('\n').filter(is_of_both).collect();
        assert_eq!((dry.code, real.code, &dry.err), (Some(0), Some(0), &told_of_both), "{options}");
        let status = sandbox.status("a");
        let role = |wanted: usize| {
            let members = status["members"].as_array().unwrap();
            members.iter().find(|member| member["role"] == wanted).unwrap()["device"].clone()
        };
        let places: Vec<_> = (0..4).map(role).collect();
        assert_eq!(told["would_create"]["members"], serde_json::json!(places), "{options}");
        assert_eq!(told["advice"], status["advice"]);
        let parity_is_hdd = options.contains("--parity last");
        let is_said = parity_is_hdd || options.contains("--level 6");
        assert_eq!(status["advice"].as_array().unwrap().len(), usize::from(is_said), "{options}");
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    let said = sandbox.ok("create a --level 5 --dry-run", &members);
    assert!(said.contains("would make raid5 'a'"), "{said}");
    let told: serde_json::Value =
        serde_json::from_str(&sandbox.ok("--json create a --level 5 --dry-run", &members)).unwrap();
    assert_eq!((&told["name"], &told["would_create"]["members"][2]), (&"a".into(), &(*members[2]).into()));
    assert!(std::fs::read(&members[0]).unwrap().iter().all(|byte| *byte == 0));
    sandbox.fails(1, "create a --level 5 --size 1T --dry-run", &members, &["bytes for data", "--size"]);
    sandbox.fails(1, "detail a", &[""; 0], &["a: no such array is running", "stripewise status"]);
}

#[test]
fn examine_and_mdadm_read_the_same_superblock() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox.done("stop a");
    let ours = &sandbox.json(&format!("examine {}", members[1]))[0];
    assert_eq!((&ours["role"], &ours["clean"]), (&"active device 1".into(), &true.into()));
    assert!(sandbox.ok("examine", &members).contains("both copies good"));
    if !can_try("what mdadm reads", &[Need::Tool("mdadm")]) {
        return;
    }
    for (index, member) in members.iter().enumerate() {
        let theirs = tool("mdadm", &["--examine", member]);
        let role = format!("Device Role : Active device {index}");
        for line in ["Raid Level : raid5", "State : clean", "Checksum :", "Array State : AAA", &role] {
            assert!(theirs.contains(line), "no '{line}' in\n{theirs}");
        }
        assert!(theirs.contains("correct") && !theirs.contains("expected"), "{theirs}");
        let uuid = ours["array_uuid"].as_str().unwrap().replace('-', "");
        assert!(theirs.replace(':', "").contains(&uuid), "{uuid} is not in\n{theirs}");
    }
}

/// Without its array running: what the extension area keeps.
#[test]
fn examine_tells_what_is_kept_on_a_member() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --class m0=ssd --policy modthresh", &members);
    sandbox.ok("endurance a --tbw 600T --warranty 2099-12-31 --margin 30", &members[..1]);
    sandbox.done("wait a");
    sandbox.done("stop a");
    let shown = sandbox.ok("examine", &members[..1]);
    for line in [
        "Member Class : ssd, as said\n",
        "Write Selection : modthresh\n",
        "Random I/O : read ",
        "Runs : read ",
        "Written : ",
        "Rated For : 600 TB\n",
        "Warranty : until 2099-12-31, and 30 days more are wanted\n",
    ] {
        assert!(shown.contains(line), "no '{line}': {shown}");
    }
    let kept = &sandbox.json(&format!("examine {}", members[0]))[0]["kept"];
    assert_eq!((&kept["class"], &kept["policy"]), (&"ssd".into(), &"modthresh".into()), "{kept}");
    assert_eq!(kept["endurance"]["rated_write_bytes"], 600_000_000_000_000_u64);
    assert!(kept["times"]["random_write_ns"].as_u64() > Some(0) && kept["class_given"] == true, "{kept}");
    sandbox.ok("create b --level 1 --no-measure --force", &members[1..]);
    let kept = &sandbox.json(&format!("examine {}", members[1]))[0]["kept"];
    assert!(kept["policy"].is_null() && kept["times"].is_null(), "{kept}");
}

#[test]
fn a_degraded_assembly_takes_run() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    let data = noise(5, 1 << 20);
    Client::connect(&sandbox.serve("a")).write(0, &data).unwrap();
    sandbox.done("stop a");
    sandbox.fails(1, "assemble a", &members[1..], &["a: a member is absent", "--run"]);
    sandbox.ok("assemble a --run", &members[1..]);
    assert!(Client::connect(&sandbox.serve("a")).read(0, data.len()).unwrap() == data);
}

#[test]
fn a_read_only_assembly_writes_nothing() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox.done("stop a");
    let before: Vec<_> = members.iter().map(|member| std::fs::read(member).unwrap()).collect();
    sandbox.ok("assemble a --readonly", &members);
    let client = Client::connect(&sandbox.serve("a"));
    assert!(client.write(0, &[1; 512]).is_err());
    client.read(0, 4096).unwrap();
    sandbox.fails(1, "scrub a repair", &[""; 0], &["read-only"]);
    sandbox.done("stop a");
    let after: Vec<_> = members.iter().map(|member| std::fs::read(member).unwrap()).collect();
    assert!(before == after, "a member was written to");
}

#[test]
fn a_failed_array_is_stopped_by_force() {
    let needs = [Need::Tool("mount"), Need::Tool("losetup"), Need::Root, Need::Device("/dev/fuse")];
    if !can_run(&needs) {
        return;
    }
    let sandbox = Sandbox::new();
    let _full = Mounted::new(&["-t", "tmpfs", "-o", "size=4m", "none"], &sandbox.folder().join("full"));
    let members = [sandbox.member("m0", 24 * MIB), sandbox.member("full/m1", 24 * MIB)];
    sandbox.ok("create a --level 0", &members);
    let device = sandbox.done("attach a --method fuse").trim().to_owned();
    // Into the cache: nothing of it can be written out once a member has failed.
    std::fs::File::options().write(true).open(&device).unwrap().write_all_at(&noise(1, 24 << 20), 0).unwrap();
    eventually("it has failed", || sandbox.status("a")["state"] == "failed");
    let said = sandbox.run("stop a", &[""; 0]);
    assert!(said.code == Some(1) && said.err.contains("--force"), "{said:?}");
    let said = sandbox.run("stop a --force", &[""; 0]);
    let words = ["has stopped, but is not clean", "lost more members than its level tolerates"];
    assert!(said.code == Some(0) && words.iter().all(|word| said.err.contains(word)), "{said:?}");
    sandbox.fails(1, "stop a", &[""; 0], &["no such array"]);
}

#[test]
fn detail_test_tells_by_its_exit_code() {
    let sandbox = Sandbox::new();
    sandbox.fails(4, "detail a --test", &[""; 0], &["no such array"]);
    if !can_try("all but an array that is not there", &[Need::Tool("mount"), Need::Root]) {
        return;
    }
    let _full = Mounted::new(&["-t", "tmpfs", "-o", "size=4m", "none"], &sandbox.folder().join("full"));
    let members =
        [sandbox.member("m0", 24 * MIB), sandbox.member("m1", 24 * MIB), sandbox.member("full/m2", 24 * MIB)];
    sandbox.ok("create a --level 5 --assume-clean", &members);
    sandbox.done("detail a --test");
    sandbox.ok("fail a", &members[..1]);
    assert_eq!(sandbox.run("detail a --test", &[""; 0]).code, Some(1));
    // The one member that could be lost is; what now fails a write takes the array with it.
    let client = Client::connect(&sandbox.serve("a"));
    assert!(client.write(0, &noise(1, 12 << 20)).is_err());
    assert_eq!(sandbox.run("detail a --test", &[""; 0]).code, Some(2));
    let status = sandbox.status("a");
    assert_eq!(
        (&status["state"], &status["in_sync"]),
        (&"failed".into(), &serde_json::json!([false, true, false]))
    );
    assert_eq!(sandbox.member_state("a", &members[2]).unwrap(), "faulty");
    assert!(sandbox.done("status a").contains("[3/1] [_U_]"));
    // Each of the two members left still says that it belongs, so that an operator can make room and go on.
    sandbox.fails(1, "stop a", &[""; 0], &["lost more members than its level tolerates"]);
}
