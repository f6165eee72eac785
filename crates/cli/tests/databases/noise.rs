//! Writes beside a database that nobody flushes: blocks that are dirty in the cache when the daemon is killed, and that
//! take the database's place there.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::common::{MIB, noise};

const BLOCK: usize = 4096;
const FILE_BYTES: u64 = 24 * MIB;
const WRITES_MAX: usize = 1_000_000;
/// The longest pauses between two writes: without any, a small cache is full.
const PAUSES_US_MAX: [u64; 3] = [0, 200, 800];

/// Makes the file at full length, so that writes into it change nothing of the file system.
pub(crate) fn make(path: &Path) {
    let file = File::create(path).unwrap();
    file.write_all_at(&noise(7, FILE_BYTES as usize), 0).unwrap();
    file.sync_all().unwrap();
}

/// Writes single blocks anywhere in the file, past the kernel's cache, until a write fails.
pub(crate) fn start(path: &Path, seed: u64) -> JoinHandle<u64> {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    thread::spawn(move || write_until_gone(&file, seed))
}

fn write_until_gone(file: &File, seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut buffer = vec![0; 2 * BLOCK];
    let aligned = buffer.as_ptr().align_offset(BLOCK);
    let block = &mut buffer[aligned..aligned + BLOCK];
    let pause_us_max = PAUSES_US_MAX[random.usize(..PAUSES_US_MAX.len())];
    for written in 0..WRITES_MAX {
        random.fill(block);
        let at = random.u64(..FILE_BYTES / BLOCK as u64) * BLOCK as u64;
        if file.write_all_at(block, at).is_err() {
            return written as u64;
        }
        thread::sleep(Duration::from_micros(random.u64(..=pause_us_max)));
    }
    WRITES_MAX as u64
}
