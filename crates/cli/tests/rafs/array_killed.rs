//! The array's daemon is killed while clients sync files on its mount, or asked to end while a member hangs: nothing that was
//! synced is lost.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::process::{Signal, kill_process};

use super::{
    common::{Halted, MIB, eventually, has_ended, noise, on_a_served_file},
    world::{World, can_mount},
};

/// Rounds, unless this variable says how many.
const ROUNDS_VARIABLE: &str = "STRIPEWISE_RAFS_KILL_ROUNDS";
const ROUNDS: u64 = 6;
const CLIENTS: u64 = 3;

/// What was synced, by path: the seed and the length of its noise.
type Synced = Mutex<BTreeMap<PathBuf, (u64, usize)>>;

/// Writes files and syncs them until it is told to end or the server has died.
fn client(folder: &Path, client: u64, round: u64, is_over: &AtomicBool, synced: &Synced) {
    for number in 0..2000 {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        // Some files are overwritten, by new ones that are renamed over them.
        let path = folder.join(format!("client{client}-{}", number % 40));
        let (seed, len) = (round << 32 | client << 16 | number, 1000 + number as usize * 977 % 60_000);
        let temporary = folder.join(format!("client{client}.new"));
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(&noise(seed, len))?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(folder)?.sync_all()
        };
        if write().is_err() {
            // The rename may have been durable all the same.
            synced.lock().unwrap().remove(&path);
            return;
        }
        synced.lock().unwrap().insert(path, (seed, len));
    }
}

#[test]
fn nothing_that_was_synced_is_lost_when_the_daemon_is_killed() {
    if !can_mount(&[]) {
        return;
    }
    let rounds = std::env::var(ROUNDS_VARIABLE).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let world = World::new();
    let (sandbox, point) = (&world.sandbox, world.point());
    let members = sandbox.members(4, 96 * MIB);
    sandbox.ok("create a --level 5 --chunk 64K --assume-clean", &members);
    sandbox.done("mkfs a");
    let synced = Synced::default();
    for round in 0..rounds {
        // An array's cache loses with the daemon what no flush has covered.
        sandbox.done(&format!("cache a {}", ["none", "pbg", "auto"][round as usize % 3]));
        // Dead mounts are cleared.
        sandbox.done(&format!("mount a {point} --buffer 8M --tt 300ms"));
        for (path, (seed, len)) in &*synced.lock().unwrap() {
            let found =
                fs::read(path).unwrap_or_else(|error| panic!("round {round}: {}: {error}", path.display()));
            assert!(found == noise(*seed, *len), "round {round}: {} is another one", path.display());
        }
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (point, is_over, synced) = (Path::new(&point), &is_over, &synced);
                scope.spawn(move || client(point, number, round, is_over, synced));
            }
            thread::sleep(Duration::from_millis(150 + round * 211 % 700));
            sandbox.signal(sandbox.pid("a"), Signal::KILL);
            is_over.store(true, Ordering::Relaxed);
        });
        assert!(!synced.lock().unwrap().is_empty());
        sandbox.ok("assemble a", &members);
        if round % 2 == 0 {
            let looked = sandbox.json("fsck a");
            assert_eq!(looked["clean"], true, "round {round}: {looked}");
        }
    }
    world.umount();
    sandbox.assert_consistent("a");
}

#[test]
fn a_second_sigterm_ends_it_while_a_member_hangs_and_loses_nothing_that_was_synced() {
    if !can_mount(&[]) {
        return;
    }
    let Some((sandbox, server, served)) = on_a_served_file() else { return };
    let point = sandbox.path("mnt");
    fs::create_dir(&point).unwrap();
    sandbox.done("mkfs a");
    sandbox.done(&format!("mount a {point} --tt 10m"));
    let synced = Path::new(&point).join("synced");
    let content = noise(5, 3 << 20);
    fs::write(&synced, &content).unwrap();
    File::open(&synced).unwrap().sync_all().unwrap();
    fs::write(Path::new(&point).join("buffered"), &content).unwrap();
    let halted = Halted::new(server);
    let pid = sandbox.pid("a");
    kill_process(pid, Signal::TERM).unwrap();
    eventually("it unmounts", || sandbox.log("a").contains("unmounting"));
    thread::sleep(Duration::from_millis(300));
    kill_process(pid, Signal::TERM).unwrap();
    // The daemon's end closes its member's file, and that waits for the file's server.
    let mut looks = 0;
    while !sandbox.log("a").contains("it has stopped") {
        assert!(looks < 900, "it still waits for the member:\n{}", sandbox.log("a"));
        thread::sleep(Duration::from_millis(100));
        looks += 1;
    }
    drop(halted);
    eventually("it has ended", || has_ended(pid));
    let members = [sandbox.path("m0"), sandbox.path("m1"), served];
    sandbox.ok("assemble a", &members);
    sandbox.done(&format!("mount a {point}"));
    assert!(fs::read(&synced).unwrap() == content);
    sandbox.done("umount a");
    assert_eq!(sandbox.json("fsck a")["clean"], true);
    sandbox.assert_consistent("a");
    sandbox.done("stop a");
}
