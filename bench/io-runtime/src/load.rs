//! The load that every candidate carries: 32 tasks, each with one 4 KiB I/O in flight, for a fixed time.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

pub const DEPTH: usize = 32;
pub const BLOCK: usize = 4096;
const FILE_BLOCKS: u64 = 256 << 20 >> 12;
/// The clock is read once in so many I/Os of a task.
const CLOCK_EVERY: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Random reads of the file, O_DIRECT.
    Read,
    /// Random overwrites of the file, O_DIRECT.
    Write,
    /// Reads of /dev/null, which return at once: the cost of the runtime and of the kernel's entry alone.
    Null,
}

impl Case {
    pub const ALL: [(&'static str, Case); 3] =
        [("read", Case::Read), ("write", Case::Write), ("null", Case::Null)];

    pub fn open(self, path: &Path) -> File {
        let path = if self == Case::Null { Path::new("/dev/null") } else { path };
        let direct = if self == Case::Null { 0 } else { libc::O_DIRECT };
        let file = OpenOptions::new().read(true).write(true).custom_flags(direct).open(path);
        file.expect("the file of the bench opens")
    }

    pub fn expect(self, result: i32) {
        assert_eq!(result, if self == Case::Null { 0 } else { BLOCK as i32 }, "an I/O failed or was short");
    }
}

/// Writes the whole file once, so that later writes overwrite and allocate nothing.
pub fn prepare(path: &Path) {
    let mut file = File::create(path).expect("the file can be made");
    let block = vec![0x5A; 1 << 20];
    (0..FILE_BLOCKS >> 8).for_each(|_| file.write_all(&block).expect("there is room"));
    file.sync_all().expect("it can be synced");
}

/// One task's share: where to go next, and whether time is up.
pub struct Walk {
    case: Case,
    state: u64,
    until: Instant,
    count: u32,
}

impl Walk {
    pub fn all(case: Case, time: Duration) -> Vec<Walk> {
        let until = Instant::now() + time;
        let seeds = 1..=DEPTH as u64;
        let walk =
            |seed: u64| Walk { case, state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15), until, count: 0 };
        seeds.map(walk).collect()
    }

    pub fn next(&mut self) -> Option<u64> {
        self.count += 1;
        if self.count.is_multiple_of(CLOCK_EVERY) && Instant::now() >= self.until {
            return None;
        }
        if self.case == Case::Null {
            return Some(0);
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Some((self.state >> 20) % FILE_BLOCKS * BLOCK as u64)
    }
}

/// A block at a page boundary, as O_DIRECT wants it, in the type that all runtimes take. It must never be dropped:
/// its layout is not the one that `Vec` would free.
pub fn buffer() -> Vec<u8> {
    let memory = vec![0x77_u8; 2 * BLOCK].leak();
    let skip = memory.as_ptr().align_offset(BLOCK);
    // SAFETY: the block lies within memory that is leaked; callers forget the vector.
    unsafe { Vec::from_raw_parts(memory[skip..].as_mut_ptr(), BLOCK, BLOCK) }
}
