//! The holders of a device that is in use, and the commands that free it.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use stripewise::export::attach::{BlockUser, users_of};

use crate::printable::printable;

/// Holders that are told of.
const HOLDERS_MAX: usize = 4;

/// Its holders, each with the command that frees the device; none where that cannot be found out.
pub(crate) fn told(path: &Path) -> Option<String> {
    let node = fs::canonicalize(path).ok()?;
    let is_block = fs::metadata(&node).ok()?.file_type().is_block_device();
    let told = if is_block { of_block(&node) } else { of_file(&node) };
    let told: Vec<_> = told.into_iter().take(HOLDERS_MAX).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn of_block(node: &Path) -> Vec<String> {
    let disk = disk_of(node).map(|disk| users_of(&disk)).unwrap_or_default();
    // A device that stands on a whole disk holds its partitions too. A process that has the disk open does not.
    let above = disk.into_iter().filter(|user| matches!(user, BlockUser::Holder(_)));
    let users = users_of(node).into_iter().chain(above);
    let others =
        users.filter(|user| !matches!(user, BlockUser::Process { pid, .. } if *pid == std::process::id()));
    others.map(|user| of_user(node, &user)).collect()
}

/// The disk of a partition.
fn disk_of(node: &Path) -> Option<PathBuf> {
    let folder = fs::canonicalize(Path::new("/sys/class/block").join(node.file_name()?)).ok()?;
    folder.join("partition").exists().then(|| Path::new("/dev").join(folder.parent()?.file_name()?).into())?
}

fn of_user(node: &Path, user: &BlockUser) -> String {
    let told = printable(&user.to_string());
    match user {
        BlockUser::Mount { .. } => match user.mount_point() {
            Some(point) => format!("{told}: `umount {}` frees it", printable(&point.display().to_string())),
            None => told,
        },
        BlockUser::Swap => format!("{told}: `swapoff {}` frees it", node.display()),
        BlockUser::Holder(name) => of_holder(name),
        BlockUser::Process { pid, .. } => of_process(*pid).unwrap_or(told),
        _ => told,
    }
}

/// A device that stands on it, by its kernel name.
fn of_holder(name: &str) -> String {
    let folder = Path::new("/sys/class/block").join(name);
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default().trim().to_owned();
    if name.starts_with("md") {
        let mdstat = fs::read_to_string("/proc/mdstat").unwrap_or_default();
        return of_md(name, &mdstat);
    }
    of_mapped(name, &read("dm/name"), &read("dm/uuid"))
}

/// The kernel's md, which takes members that it finds at boot.
fn of_md(name: &str, mdstat: &str) -> String {
    let line = mdstat.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    let state: Vec<_> = line.unwrap_or_default().split_whitespace().take(2).collect();
    let state = if state.is_empty() { String::new() } else { format!(" ({})", printable(&state.join(" "))) };
    format!(
        "the kernel's {name}{state} has taken it: `mdadm --stop /dev/{name}` frees it, and an `ARRAY <ignore> UUID=` line in \
         mdadm.conf keeps mdadm from taking it at boot"
    )
}

/// Device mapper, by the name and the UUID that it was given.
fn of_mapped(name: &str, mapped: &str, uuid: &str) -> String {
    if mapped.is_empty() {
        return format!("/dev/{} stands on it; stop that first", printable(name));
    }
    let mapped = printable(mapped);
    let frees = match uuid.split_once('-').map_or(uuid, |(kind, _)| kind) {
        "LVM" => format!("lvchange --activate n /dev/mapper/{mapped}"),
        "CRYPT" => format!("cryptsetup close {mapped}"),
        "mpath" => return format!("multipath has it as /dev/mapper/{mapped}: give that path"),
        _ => format!("dmsetup remove {mapped}"),
    };
    format!("/dev/mapper/{mapped} stands on it: `{frees}` frees it")
}

/// The processes that hold a lock on a file.
fn of_file(path: &Path) -> Vec<String> {
    lock_holders(path).into_iter().filter_map(of_process).collect()
}

/// Whether the processes that hold a lock on a file have all been killed: the kernel lets go of the lock once it has wound up
/// their I/O, which takes it seconds on a busy machine.
pub(crate) fn are_ending(path: &Path) -> bool {
    let holders = lock_holders(path);
    !holders.is_empty() && holders.into_iter().all(has_ended)
}

/// The processes other than this one that hold a lock on a file.
fn lock_holders(path: &Path) -> Vec<u32> {
    let Ok(metadata) = fs::metadata(path) else { return Vec::new() };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut pids: Vec<u32> =
        locks.lines().filter_map(|line| lock_holder(line, metadata.dev(), metadata.ino())).collect();
    pids.dedup();
    pids.retain(|pid| *pid != std::process::id());
    pids
}

/// Whether a process has been killed, though threads of it may not be gone: its memory is.
fn has_ended(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).map_or(true, |line| line.is_empty())
}

/// The process of a line of /proc/locks, if the lock is on this file: `1: FLOCK ADVISORY WRITE 117 fe:00:4711 0 EOF`.
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

fn of_process(pid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    if let [program, daemon, array, ..] = &words[..]
        && program.ends_with("stripewise")
        && daemon == "daemon"
    {
        let array = printable(array);
        return Some(format!("the array '{array}' has it: `stripewise stop {array}` frees it"));
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("open in process {pid} ({}); end that first", printable(name.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_on_a_device_is_told_with_what_frees_it() {
        let mdstat = "Personalities : [raid6]\nmd12 : inactive sdb[0](S)\nmd127 : active (auto-read-only) raid5 sdb[0]\n";
        let told = of_md("md127", mdstat);
        assert!(
            told.contains("md127 (active (auto-read-only))") && told.contains("`mdadm --stop /dev/md127`"),
            "{told}"
        );
        assert!(of_md("md1", mdstat).contains("the kernel's md1 has"), "not md12's line");
        for (uuid, frees) in [
            ("LVM-x", "lvchange --activate n /dev/mapper/v"),
            ("CRYPT-LUKS2-x", "cryptsetup close v"),
            ("mpath-3600", "give that path"),
            ("", "dmsetup remove v"),
        ] {
            let told = of_mapped("dm-0", "v", uuid);
            assert!(told.contains(frees), "{told}");
        }
        assert!(of_mapped("bcache0", "", "").contains("/dev/bcache0 stands on it"));
    }

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
