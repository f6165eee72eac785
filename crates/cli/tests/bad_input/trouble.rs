//! Members that fail in the middle of work: gone, cut off, out of room below.

use std::thread;

use crate::common::{Client, MIB, Mounted, Need, Sandbox, can_run, noise};

/// Writes pieces in turn until something has happened, and returns the contents that were acknowledged.
fn write_until(client: &Client, content: &mut [u8], happened: impl Fn() -> bool) {
    const PIECE: usize = 96 << 10;
    let mut random = fastrand::Rng::with_seed(17);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !happened() {
        assert!(std::time::Instant::now() < deadline, "it did not happen");
        for _ in 0..20 {
            let at = random.usize(..(content.len() - PIECE) / 512) * 512;
            random.fill(&mut content[at..at + PIECE]);
            client.write(at as u64, &content[at..at + PIECE]).unwrap();
            let back = random.usize(..(content.len() - PIECE) / 512) * 512;
            assert!(client.read(back as u64, PIECE).unwrap() == content[back..back + PIECE], "at {back}");
        }
    }
}

/// Everything is as it was written, also after the next assembly without the lost member.
fn assert_all(sandbox: &Sandbox, client: Client, content: &[u8], left: &[String]) {
    assert!(client.read(0, content.len()).unwrap() == content);
    assert_eq!(sandbox.run("detail a --test", &[""; 0]).code, Some(1));
    drop(client);
    sandbox.done("stop a");
    sandbox.ok("assemble a", left);
    assert!(Client::connect(&sandbox.serve("a")).read(0, content.len()).unwrap() == content);
}

#[test]
fn a_member_truncated_under_load() {
    for level in [4, 5, 6] {
        let sandbox = Sandbox::new();
        let members = sandbox.members(4, 24 * MIB);
        sandbox.ok(&format!("create a --level {level} --assume-clean"), &members);
        let client = Client::connect(&sandbox.serve("a"));
        let mut content = noise(3, 20 << 20);
        client.write(0, &content).unwrap();
        let victim = members[0].clone();
        let cut = thread::spawn(move || {
            thread::sleep(std::time::Duration::from_millis(30));
            std::fs::File::options().write(true).open(victim).unwrap().set_len(0).unwrap();
        });
        write_until(&client, &mut content, || sandbox.member_state("a", &members[0]).unwrap() == "faulty");
        cut.join().unwrap();
        let log = sandbox.log("a");
        assert!(log.contains("member failed") && log.contains(&members[0]), "{log}");
        assert_all(&sandbox, client, &content, &members[1..]);
    }
}

#[test]
fn a_member_whose_file_system_is_full() {
    if !can_run(&[Need::Tool("mount"), Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new();
    let _full = Mounted::new(&["-t", "tmpfs", "-o", "size=6m", "none"], &sandbox.folder().join("full"));
    let mut members = sandbox.members(3, 24 * MIB);
    members.insert(1, sandbox.member("full/m", 24 * MIB));
    sandbox.ok("create a --level 5 --assume-clean", &members);
    let client = Client::connect(&sandbox.serve("a"));
    let mut content = vec![0; 40 << 20];
    write_until(&client, &mut content, || sandbox.member_state("a", &members[1]).unwrap() == "faulty");
    let log = sandbox.log("a");
    assert!(log.contains("no space left under the device") && log.contains(&members[1]), "{log}");
    members.remove(1);
    assert_all(&sandbox, client, &content, &members);
}

#[test]
fn a_file_system_that_fills_up_under_one_of_several_members() {
    if !can_run(&[Need::Tool("mkfs.ext4"), Need::Tool("mount"), Need::Tool("losetup"), Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new();
    let image = sandbox.member("image", 16 * MIB);
    crate::common::tool("mkfs.ext4", &["-q", "-m", "0", &image]);
    let mounted = Mounted::new(&["-o", "loop", &image], &sandbox.folder().join("full"));
    let mut members = sandbox.members(2, 24 * MIB);
    members.push(sandbox.member("full/m", 24 * MIB));
    sandbox.ok("create a --level 1 --assume-clean", &members);
    let client = Client::connect(&sandbox.serve("a"));
    let mut content = vec![0; 20 << 20];
    write_until(&client, &mut content, || sandbox.member_state("a", &members[2]).unwrap() == "faulty");
    assert!(sandbox.log("a").contains("no space left under the device"));
    sandbox.ok("remove a", &members[2..]);
    assert_all(&sandbox, client, &content, &members[..2]);
    mounted.unmount();
}

#[test]
fn a_member_deleted_while_it_is_used_stays_good() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    std::fs::remove_file(&members[0]).unwrap();
    let client = Client::connect(&sandbox.serve("a"));
    let data = noise(2, 4 << 20);
    client.write(0, &data).unwrap();
    assert!(client.read(0, data.len()).unwrap() == data);
    sandbox.ok("fail a", &members[..1]);
    sandbox.ok("remove a", &members[..1]);
    assert!(client.read(0, data.len()).unwrap() == data);
}

/// The log cannot be written then. Once a member's failure ended the daemon, as it was to be logged.
#[test]
fn a_run_directory_that_is_full_ends_nothing() {
    if !can_run(&[Need::Tool("mount"), Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new();
    let run = Mounted::new(&["-t", "tmpfs", "-o", "size=64k,mode=0700", "none"], &sandbox.run_dir());
    let fill = || {
        let filler =
            std::fs::File::options().append(true).create(true).open(sandbox.run_dir().join("filler"));
        let mut filler = filler.unwrap();
        while std::io::Write::write_all(&mut filler, &[1; 512]).is_ok() {}
    };
    fill();
    let _small = Mounted::new(&["-t", "tmpfs", "-o", "size=6m", "none"], &sandbox.folder().join("small"));
    let mut members = sandbox.members(3, 24 * MIB);
    members.insert(1, sandbox.member("small/m", 24 * MIB));
    sandbox.ok("create a --level 5 --assume-clean", &members);
    fill();
    let client = Client::connect(&sandbox.serve("a"));
    let mut content = vec![0; 40 << 20];
    write_until(&client, &mut content, || sandbox.member_state("a", &members[1]).unwrap() == "faulty");
    assert!(client.read(0, content.len()).unwrap() == content);
    sandbox.fails(1, "fail a", &members[..1], &["cannot do without it"]);
    sandbox.ok("remove a", &members[1..2]);
    assert!(sandbox.log("a").is_empty(), "there was no room for it");
    // What could not be told is counted once there is room.
    std::fs::remove_file(sandbox.run_dir().join("filler")).unwrap();
    sandbox.done("speed a --min 1M");
    let log = sandbox.log("a");
    assert!(log.contains("messages could not be written here") && log.contains("Speed"), "{log}");
    drop(client);
    sandbox.done("stop a");
    run.unmount();
}

/// Members take no more, and blocks are in the cache only: a stop is refused, and what is cached can be read by new clients.
#[test]
fn what_only_a_cache_holds_can_be_copied_off_after_a_refused_stop() {
    const WRITES: u64 = 200;
    if !can_run(&[Need::Tool("mount"), Need::Root, Need::Device("/dev/fuse")]) {
        return;
    }
    let sandbox = Sandbox::new();
    let _full = Mounted::new(&["-t", "tmpfs", "-o", "size=16m", "none"], &sandbox.folder().join("full"));
    let members: Vec<_> = (0..3).map(|i| sandbox.member(&format!("full/m{i}"), 24 * MIB)).collect();
    sandbox.ok("create a --level 5 --assume-clean --cache stripe --cache-size 8M", &members);
    sandbox.done("cache a --idle off --age off --flush off");
    sandbox.done("attach a --method fuse");
    let uri = sandbox.serve("a");
    let client = Client::connect(&uri);
    let block = noise(5, 4 << 10);
    let written = |at: u64| at * (192 << 10);
    (0..WRITES).for_each(|at| client.write(written(at), &block).unwrap());
    drop(client);
    // As much as there is room for: the blocks of members, which are holes, find none.
    let filled = std::fs::write(sandbox.folder().join("full/rest"), vec![1; 24 << 20]);
    assert!(filled.is_err(), "{filled:?}");
    let stake = "800 KiB are in the cache only, and a stop by force loses what members do not take";
    for (command, words) in [
        ("detach a", "cannot write out the cached data"),
        ("detach a --force", "it is detached, and what is cached could not be written"),
    ] {
        sandbox.fails(1, command, &[""; 0], &[words, stake]);
        sandbox.fails(
            1,
            "stop a",
            &[""; 0],
            &["800 KiB of acknowledged writes", "in the cache only", "a stop by force loses"],
        );
    }
    // As before: its clients are not cut off.
    let client = Client::connect(&uri);
    for at in 0..WRITES {
        assert_eq!(client.read(written(at), block.len()).unwrap(), block, "write {at}");
    }
    drop(client);
    sandbox.ok("stop a --force", &[""; 0]);
}
