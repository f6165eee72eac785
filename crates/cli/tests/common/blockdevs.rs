//! Loop devices and mounts of a test, taken away when it ends, also when it fails.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use stripewise_testkit::{run_bounded, tool};

/// A loop device over a file.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    pub(crate) fn new(file: &str) -> Self {
        Self(tool("losetup", &["--find", "--show", "--direct-io=on", file]).trim().to_owned())
    }

    /// One with two partitions of its own, of so many bytes each.
    pub(crate) fn with_partitions(file: &str, part_bytes: u64) -> (Self, [String; 2]) {
        let disk = Self::new(file);
        // As the kernel may not know any kind of partition table, it is told of them.
        let sectors = part_bytes / 512;
        let starts = [("1", 2048), ("2", 2048 + sectors)];
        disk.without_partitions();
        for (number, start) in starts {
            tool("addpart", &[&disk.0, number, &start.to_string(), &sectors.to_string()]);
        }
        let parts = starts.map(|(number, _)| format!("{}p{number}", disk.0));
        (disk, parts)
    }

    /// Takes partitions away that the kernel was told of: they would outlive the loop device, in its number's
    /// next user too.
    fn without_partitions(&self) {
        for number in ["1", "2"] {
            let _ = Command::new("delpart").args([&self.0, number]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.without_partitions();
        let _ = Command::new("losetup").args(["--detach", &self.0]).stderr(Stdio::null()).status();
    }
}

/// A mounted file system.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    pub(crate) fn new(arguments: &[&str], point: &Path) -> Self {
        std::fs::create_dir_all(point).unwrap();
        let mut all = arguments.to_vec();
        all.push(point.to_str().unwrap());
        tool("mount", &all);
        Self(point.to_owned())
    }

    /// Unmounts. A child that another test is just starting holds our open files until its exec, so more than
    /// once.
    pub(crate) fn unmount(self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while run_bounded(Command::new("umount").arg(&self.0), Duration::from_secs(60)).code != Some(0) {
            assert!(Instant::now() < deadline, "cannot unmount {}", self.0.display());
            thread::sleep(Duration::from_millis(20));
        }
        std::mem::forget(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}
