//! The holders of a device that is in use, and the commands that free it.

mod locks;
mod stacked;

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, FileTypeExt},
    path::{Path, PathBuf},
};

use stripewise::{
    export::attach::{BlockUser, BlockUsers, users_of},
    internals::format::md::SUPERBLOCK_MAGIC,
};

use self::locks::{has_ended, lock_holders};
pub(crate) use self::stacked::in_other_use;

use crate::printable::printable;

/// The most holders to name.
const HOLDERS_MAX: usize = 4;
/// How many levels up to follow devices that stand on each other.
const DEPTH_MAX: usize = 4;

/// The holders of a device, each with the command that frees it. None if they cannot be found.
pub(crate) fn told(path: &Path) -> Option<String> {
    let node = fs::canonicalize(path).ok()?;
    let is_block = fs::metadata(&node).ok()?.file_type().is_block_device();
    let told = if is_block { of_block(&node) } else { of_file(&node) };
    let told: Vec<_> = told.into_iter().take(HOLDERS_MAX).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn of_block(node: &Path) -> Vec<String> {
    of_node(node, 0)
}

fn of_node(node: &Path, depth: usize) -> Vec<String> {
    let disk = disk_of(node).map(|disk| users_of(&disk).found).unwrap_or_default();
    // A device that stands on a whole disk holds its partitions too. A process that has the disk open does
    // not.
    let above = disk.into_iter().filter(|user| matches!(user, BlockUser::Holder(_)));
    let BlockUsers { found, is_complete, .. } = users_of(node);
    let users = found.into_iter().chain(above);
    let others =
        users.filter(|user| !matches!(user, BlockUser::Process { pid, .. } if *pid == std::process::id()));
    let mut told: Vec<_> = others.map(|user| of_user(node, &user, depth)).collect();
    if !is_complete {
        // Said even if no user was found: the device must not be taken for unused.
        told.push("who else uses it cannot be told, as a process hangs".to_owned());
    }
    told
}

/// The disk of a partition.
fn disk_of(node: &Path) -> Option<PathBuf> {
    let folder = fs::canonicalize(Path::new("/sys/class/block").join(node.file_name()?)).ok()?;
    folder.join("partition").exists().then(|| Path::new("/dev").join(folder.parent()?.file_name()?).into())?
}

fn of_user(node: &Path, user: &BlockUser, depth: usize) -> String {
    let told = printable(&user.to_string());
    match user {
        BlockUser::Mount { .. } => match user.mount_point() {
            Some(point) => format!("{told}: `umount {}` frees it", printable(&point.display().to_string())),
            None => told,
        },
        BlockUser::Swap => format!("{told}: `swapoff {}` frees it", node.display()),
        BlockUser::Holder(name) => of_holder(name, depth),
        BlockUser::Process { pid, .. } => of_process(*pid).unwrap_or(told),
        _ => told,
    }
}

/// A device that stands on this one, by its kernel name, and what keeps that device in use: that must go
/// first.
fn of_holder(name: &str, depth: usize) -> String {
    let told = holder(name);
    let above =
        if depth < DEPTH_MAX { of_node(&Path::new("/dev").join(name), depth + 1) } else { Vec::new() };
    match above.first() {
        Some(first) => format!("{told} once it is free itself ({first})"),
        None => told,
    }
}

fn holder(name: &str) -> String {
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

/// A device of device mapper, by the name and the UUID that it was given.
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

/// Whether only processes that have been killed hold a device that is in use. The kernel releases a lock, or
/// a disk, once it has wound up the process's I/O, which takes seconds on a busy machine.
pub(crate) fn are_ending(path: &Path) -> bool {
    let is_block = fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    if is_block {
        // A killed process has no visible descriptors, so no holder can be named. Only a device that was a
        // member is waited for, as a few drivers hold disks without saying so.
        return told(path).is_none() && !is_own(path) && has_superblock(path);
    }
    let holders = lock_holders(path);
    !holders.is_empty() && holders.into_iter().all(has_ended)
}

/// Whether this process itself has a block device open.
fn is_own(path: &Path) -> bool {
    let own = std::process::id();
    let users = fs::canonicalize(path).map(|node| users_of(&node).found).unwrap_or_default();
    users.iter().any(|user| matches!(user, BlockUser::Process { pid, .. } if *pid == own))
}

/// Where md 1.2 keeps its superblock.
const SUPERBLOCK_OFFSET: u64 = 4096;

fn has_superblock(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut magic, SUPERBLOCK_OFFSET));
    read.is_ok() && u32::from_le_bytes(magic) == SUPERBLOCK_MAGIC
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
    if let [program, daemon, point, ..] = &words[..]
        && program.ends_with("stripewise")
        && daemon == "mount-daemon"
    {
        let point = printable(point);
        return Some(format!("it is mounted on {point}: `stripewise umount {point}` frees it"));
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
}
