//! A server that is killed while programs write. What was made durable is there at the next mount, and nothing is damaged.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use stripewise_fuse::clear_dead_mount;

use super::common::{Disk, MIB, can_run, pattern, serve};

const ROUNDS: u64 = 10;
/// Where the child finds its file, and the folder to mount it on.
const PLACES: &str = "STRIPEWISE_TEST_KILLED";

/// The child: it serves until it is killed.
#[test]
#[ignore = "the other test starts it as a process of its own"]
fn server() {
    let Some(places) = std::env::var_os(PLACES) else { return };
    let folder = PathBuf::from(places);
    let mounted = serve(&folder.join("disk"), &folder.join("mnt"), true, false);
    println!("\nmounted");
    std::io::stdout().flush().unwrap();
    mounted.wait();
}

fn start(disk: &Disk) -> Child {
    let words = ["--exact", "killed::server", "--ignored", "--nocapture"];
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(words).env(PLACES, disk.file().parent().unwrap());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "mounted"), "the server did not begin");
    // The child's later words go nowhere; it has none.
    child
}

/// Files that were made durable: their names, and the seed and length of what is in them.
type Durable = Mutex<Vec<(PathBuf, u64, usize)>>;

/// Makes, changes, renames and removes until the server is gone.
fn work(root: &Path, seed: u64, durable: &Durable, is_over: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(seed);
    for number in 0_u64.. {
        let result = step(root, seed << 32 | number, &mut random, durable);
        if is_over.load(Ordering::Relaxed) || result.is_err() {
            return;
        }
    }
}

fn step(root: &Path, id: u64, random: &mut fastrand::Rng, durable: &Durable) -> std::io::Result<()> {
    let folder = root.join(format!("d{}", random.u8(0..4)));
    let _ = fs::create_dir(&folder);
    let (temporary, path) = (folder.join(format!("t{id:x}")), folder.join(format!("f{id:x}")));
    let len = random.usize(0..200_000);
    let mut file = File::create(&temporary)?;
    file.write_all(&pattern(id, len))?;
    match random.u8(0..4) {
        0 => {}
        1 => fs::remove_file(&temporary)?,
        2 => fs::rename(&temporary, &path)?,
        _ => {
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&folder)?.sync_all()?;
            durable.lock().unwrap().push((path, id, len));
        }
    }
    Ok(())
}

fn round(disk: &Disk, number: u64, durable: &Durable) {
    let mut server = start(disk);
    let point = disk.point();
    for (path, id, len) in durable.lock().unwrap().iter() {
        assert!(fs::read(path).unwrap() == pattern(*id, *len), "{} in round {number}", path.display());
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 0..3 {
            let (point, is_over) = (&point, &is_over);
            scope.spawn(move || work(point, number << 8 | client, durable, is_over));
        }
        thread::sleep(Duration::from_millis(150 + number * 60));
        server.kill().unwrap();
        is_over.store(true, Ordering::Relaxed);
        server.wait().unwrap();
    });
    assert!(clear_dead_mount(&point).unwrap(), "a dead mount is left");
    disk.check();
}

#[test]
fn what_was_made_durable_survives_the_death_of_the_server() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(512 * MIB);
    let durable = Durable::default();
    for number in 0..ROUNDS {
        round(&disk, number, &durable);
    }
    let durable = durable.into_inner().unwrap();
    assert!(durable.len() > ROUNDS as usize, "only {} files were made durable", durable.len());
    let mounted = disk.mount();
    for (path, id, len) in &durable {
        assert!(fs::read(path).unwrap() == pattern(*id, *len), "{}", path.display());
    }
    mounted.end();
    disk.check();
}
