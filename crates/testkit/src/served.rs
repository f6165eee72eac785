//! A file that another process serves: FUSE over an NBD server.

#![allow(clippy::unwrap_used)]

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use crate::Need;

/// What it takes to serve one.
pub const NEEDS: [Need<'_>; 4] =
    [Need::Tool("nbdkit"), Need::Tool("nbdfuse"), Need::Root, Need::Device("/dev/fuse")];

const MOUNTED_MAX: Duration = Duration::from_secs(30);

/// A file that knows no discards, as a hard disk on SATA: its server has reads, writes and flushes alone. What is written to it
/// lies in a sparse file. It is unmounted when this is dropped.
pub struct ServedFile {
    server: Child,
    fuse: Child,
    flushes: PathBuf,
    /// What is stored.
    pub stored: PathBuf,
    /// The file that is served.
    pub member: PathBuf,
}

impl ServedFile {
    /// Serves `name` in a folder.
    ///
    /// # Panics
    /// If it is not there within half a minute.
    pub fn new(folder: &Path, name: &str, bytes: u64) -> Self {
        let at = |suffix: &str| folder.join(format!("{name}.{suffix}"));
        let (stored, socket, flushes, member) = (at("stored"), at("sock"), at("flushes"), folder.join(name));
        File::create(&stored).unwrap().set_len(bytes).unwrap();
        File::create(&member).unwrap();
        let file = stored.display();
        let server = Command::new("nbdkit")
            .args(["--foreground", "--unix"])
            .arg(&socket)
            .arg("eval")
            .arg(format!("get_size=echo {bytes}"))
            .arg(format!(
                "pread=dd if={file} skip=$4 count=$3 iflag=count_bytes,skip_bytes bs=64K status=none"
            ))
            .arg(format!("pwrite=dd of={file} seek=$4 oflag=seek_bytes bs=64K conv=notrunc status=none"))
            .args(["can_flush=exit 0", &format!("flush=echo >>{}", flushes.display())])
            .spawn()
            .unwrap();
        eventually(|| socket.exists());
        let fuse = Command::new("nbdfuse").arg(&member).arg("--unix").arg(&socket).spawn().unwrap();
        eventually(|| std::fs::metadata(&member).unwrap().len() == bytes);
        Self { server, fuse, flushes, stored, member }
    }

    /// How often it was flushed so far.
    pub fn flushes(&self) -> u64 {
        std::fs::metadata(&self.flushes).map_or(0, |log| log.len())
    }
}

impl Drop for ServedFile {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.member).output();
        for process in [&mut self.fuse, &mut self.server] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn eventually(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < MOUNTED_MAX, "the file is not served yet");
        thread::sleep(Duration::from_millis(2));
    }
}
