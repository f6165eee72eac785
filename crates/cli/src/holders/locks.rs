//! The locks with which arrays hold members that are files, and the processes that hold them.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// The processes other than this one that hold a lock on a file.
pub(super) fn lock_holders(path: &Path) -> Vec<u32> {
    let metadata = fs::metadata(path);
    metadata.map_or_else(|_| Vec::new(), |metadata| lock_holders_of(metadata.dev(), metadata.ino()))
}

/// The same for a file given by its file system and inode.
pub(super) fn lock_holders_of(file_system: u64, inode: u64) -> Vec<u32> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut pids: Vec<u32> = locks.lines().filter_map(|line| lock_holder(line, file_system, inode)).collect();
    pids.dedup();
    pids.retain(|pid| *pid != std::process::id());
    pids
}

/// Whether a process has been killed: its memory is gone, though some of its threads may not be.
pub(super) fn has_ended(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty())
}

/// The process in a line of /proc/locks, if the lock is on this file: `1: FLOCK ADVISORY WRITE 117 fe:00:4711
/// 0 EOF`.
fn lock_holder(line: &str, file_system: u64, inode: u64) -> Option<u32> {
    let words: Vec<_> = line.split_whitespace().collect();
    let kind = words.iter().position(|word| *word == "FLOCK")?;
    let (pid, place) = (words.get(kind + 3)?, words.get(kind + 4)?);
    let numbers: Vec<_> = place.split(':').collect();
    let [major, minor, on] = numbers[..] else { return None };
    let hex = |text| u32::from_str_radix(text, 16).ok();
    let is_here = rustix::fs::makedev(hex(major)?, hex(minor)?) == file_system && on.parse() == Ok(inode);
    is_here.then(|| pid.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_killed_has_ended_before_it_is_waited_for() {
        assert!(!has_ended(std::process::id()));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !has_ended(child.id()) {
            assert!(std::time::Instant::now() < deadline, "a zombie has no memory");
        }
        child.wait().unwrap();
        assert!(has_ended(child.id()), "nor does one that is gone");
    }

    #[test]
    fn a_lock_is_known_by_its_file() {
        let (line, disk) = ("1: FLOCK  ADVISORY  WRITE 117 fe:01:4711 0 EOF", rustix::fs::makedev(0xfe, 1));
        assert_eq!(lock_holder(line, disk, 4711), Some(117));
        assert_eq!(lock_holder(line, disk, 4712), None);
        assert_eq!(lock_holder("1: POSIX  ADVISORY  WRITE 117 fe:01:4711 0 EOF", disk, 4711), None);
        assert_eq!(lock_holder("rubbish", disk, 4711), None);
    }
}
