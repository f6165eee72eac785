//! Who uses a block device: mounts in any mount namespace, swap, devices stacked on it, processes that have it open or work in
//! a file system on it.

use std::{
    collections::HashSet,
    fmt, fs,
    path::{Path, PathBuf},
};

use super::mounts::{self, Mount};

/// Somebody who uses a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockUser {
    /// A file system on it is mounted.
    Mount {
        /// Where, as the processes of its mount namespace see it.
        point: PathBuf,
        /// In this process's mount namespace.
        own: bool,
        /// The point leads to it: nothing is mounted over it.
        topmost: bool,
    },
    /// It is a swap area.
    Swap,
    /// A device such as dm or md stands on it.
    Holder(String),
    /// A process has it open.
    Process {
        /// Its number.
        pid: u32,
        /// Its command name.
        name: String,
    },
    /// Another process works in a file system on it, so that this cannot be unmounted.
    Inside {
        /// Its number.
        pid: u32,
        /// Its command name.
        name: String,
        /// Where the file system is mounted.
        point: PathBuf,
    },
}

/// Enough of those who work in file systems to see what is at hand.
const INSIDE_MAX: usize = 8;

impl BlockUser {
    /// Where an unmount by path takes it away, of a mount.
    pub fn mount_point(&self) -> Option<&Path> {
        match self {
            Self::Mount { point, own: true, topmost: true } => Some(point),
            _ => None,
        }
    }
}

impl fmt::Display for BlockUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount { point, own, topmost } => {
                let place = point.display();
                match (own, topmost) {
                    (true, true) => write!(f, "mounted on {place}"),
                    (true, false) => write!(f, "mounted on {place}, below another mount"),
                    (false, _) => write!(f, "mounted on {place} in another mount namespace"),
                }
            }
            Self::Swap => f.write_str("used as swap"),
            Self::Holder(name) => write!(f, "/dev/{name} stands on it"),
            Self::Process { pid, name } => write!(f, "open in process {pid} ({name})"),
            Self::Inside { pid, name, point } => {
                write!(f, "process {pid} ({name}) works in {}", point.display())
            }
        }
    }
}

/// File systems on block devices that have a device number of their own.
const NUMBERED_ANEW: [&str; 2] = ["btrfs", "bcachefs"];

/// A disk and its partitions, by node and by `major:minor`.
struct Family {
    nodes: Vec<PathBuf>,
    numbers: Vec<String>,
    folders: Vec<PathBuf>,
}

impl Family {
    fn of(node: &Path) -> Self {
        let mut family = Self { nodes: vec![node.to_owned()], numbers: Vec::new(), folders: Vec::new() };
        let Some(name) = node.file_name() else { return family };
        let disk = Path::new("/sys/class/block").join(name);
        for entry in fs::read_dir(&disk).into_iter().flatten().flatten() {
            if entry.path().join("partition").exists() {
                family.nodes.push(Path::new("/dev").join(entry.file_name()));
                family.folders.push(entry.path());
            }
        }
        family.folders.push(disk);
        let number = |folder: &PathBuf| fs::read_to_string(folder.join("dev")).ok();
        family.numbers = family.folders.iter().filter_map(number).map(|n| n.trim().to_owned()).collect();
        family
    }

    fn carries(&self, mount: &Mount) -> bool {
        // The source is whatever the one who mounted it said, so it counts only where there is nothing better.
        let source = || fs::canonicalize(&mount.source).unwrap_or_else(|_| mount.source.clone());
        let has_own_number = NUMBERED_ANEW.contains(&mount.kind.as_str());
        self.numbers.contains(&mount.device) || (has_own_number && self.nodes.contains(&source()))
    }
}

/// Who uses the disk or partition `node`, or one of its partitions. What cannot be read counts as nobody.
pub fn users_of(node: &Path) -> Vec<BlockUser> {
    let family = Family::of(node);
    let mut users = mounted(&family);
    users.extend(swapped(&family));
    users.extend(stacked(&family));
    let points: Vec<_> = users.iter().filter_map(BlockUser::mount_point).map(Path::to_owned).collect();
    users.extend(opened(&family));
    users.extend(working_in(&family, &points).take(INSIDE_MAX));
    users
}

fn numbered(entry: &fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}

fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|e| Some((numbered(&e)?, e.path())))
}

/// Mounts in each mount namespace, our own first.
fn mounted(family: &Family) -> Vec<BlockUser> {
    let mut users = Vec::new();
    let mut add = |process: &Path, own: bool| {
        let mounts = mounts::of(&process.join("mountinfo")).unwrap_or_default();
        for mount in mounts.iter().filter(|mount| family.carries(mount)) {
            let (point, topmost) = (mount.point.clone(), mount.is_reached(&mounts));
            let user = BlockUser::Mount { point, own, topmost };
            if !users.contains(&user) {
                users.push(user);
            }
        }
    };
    let this = PathBuf::from("/proc/self");
    let mut seen: HashSet<_> = namespace(&this).into_iter().collect();
    add(&this, true);
    for (_, process) in processes() {
        if namespace(&process).is_some_and(|namespace| seen.insert(namespace)) {
            add(&process, false);
        }
    }
    users
}

/// The mount namespace of a process.
fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/mnt")).ok()
}

fn swapped(family: &Family) -> Option<BlockUser> {
    let swaps = fs::read_to_string("/proc/swaps").ok()?;
    let areas = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    areas
        .into_iter()
        .any(|area| family.nodes.iter().any(|node| node == Path::new(area)))
        .then_some(BlockUser::Swap)
}

fn stacked(family: &Family) -> Vec<BlockUser> {
    let holders = |folder: &PathBuf| fs::read_dir(folder.join("holders")).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    family.folders.iter().flat_map(holders).map(|entry| BlockUser::Holder(name(entry))).collect()
}

/// How often this process has the disk or one of its partitions open.
pub(super) fn own_descriptors(node: &Path) -> usize {
    let family = Family::of(node);
    descriptors(Path::new("/proc/self")).filter(|to| family.nodes.contains(to)).count()
}

fn opened(family: &Family) -> Vec<BlockUser> {
    let has_open = |process: &Path| descriptors(process).any(|to| family.nodes.contains(&to));
    let user = |(pid, process): (u32, PathBuf)| {
        has_open(&process).then(|| BlockUser::Process { pid, name: command_name(&process) })
    };
    processes().filter_map(user).collect()
}

/// Other processes that have a folder, a file or their program in a file system on the disk that is mounted on one of the
/// points. Links are read and not followed, so that a file system that hangs does not matter.
fn working_in(family: &Family, points: &[PathBuf]) -> impl Iterator<Item = BlockUser> {
    // All processes are in what is mounted on the root.
    let points: Vec<_> = points.iter().filter(|point| point.parent().is_some()).cloned().collect();
    let all = (!points.is_empty()).then(processes).into_iter().flatten();
    let others = all.filter(|(pid, _)| *pid != std::process::id());
    others.filter_map(move |(pid, process)| {
        let links =
            ["cwd", "root", "exe"].into_iter().filter_map(|link| fs::read_link(process.join(link)).ok());
        let below = |to: PathBuf| Some((points.iter().find(|point| to.starts_with(point))?, to));
        let mut inside = links.chain(descriptors(&process)).filter_map(below).peekable();
        inside.peek()?;
        // The path may mean something else there, or another file system may be mounted below.
        let mounts = mounts::of(&process.join("mountinfo")).ok()?;
        let (point, _) =
            inside.find(|(_, to)| mounts::of_path(&mounts, to).is_some_and(|on| family.carries(on)))?;
        Some(BlockUser::Inside { pid, name: command_name(&process), point: point.clone() })
    })
}

/// What a process has open, by path.
fn descriptors(process: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok())
}

fn command_name(process: &Path) -> String {
    fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_owned()
}
