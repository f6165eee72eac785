//! Who uses a block device: mounts in any mount namespace, swap, devices stacked on it, processes that have it open or work in
//! a file system on it.

use std::{
    collections::HashSet,
    fmt, fs,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
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

/// How long it is looked for users. The kernel keeps everybody who looks at a process waiting while it begins another program,
/// which takes for ever where it has a file of a server that hangs.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// Who uses the disk or partition `node`, or one of its partitions. What cannot be read counts as nobody.
pub fn users_of(node: &Path) -> Vec<BlockUser> {
    let family = Family::of(node);
    let users = found_within(LOOK_MAX, move |tell| look(&family, tell));
    users.unwrap_or_else(|found| {
        tracing::warn!(node = %node.display(), "looking for its users takes too long: a process hangs; some may be missing");
        found
    })
}

/// What a search tells until it ends; as an error what it told so far, if it takes too long. It is left to itself then.
fn found_within<T: Send + 'static>(
    limit: Duration,
    search: impl FnOnce(&dyn Fn(T)) + Send + 'static,
) -> Result<Vec<T>, Vec<T>> {
    let (sender, receiver) = mpsc::channel();
    let search = move || search(&|found| drop(sender.send(found)));
    let mut all = Vec::new();
    if thread::Builder::new().name("stripewise-users".into()).spawn(search).is_err() {
        return Err(all);
    }
    let deadline = Instant::now() + limit;
    loop {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(found) => all.push(found),
            Err(RecvTimeoutError::Disconnected) => return Ok(all),
            Err(RecvTimeoutError::Timeout) => return Err(all),
        }
    }
}

/// Tells users as they are found: first those that are found without looking at other processes.
fn look(family: &Family, tell: &dyn Fn(BlockUser)) {
    let own = mounted_here(family);
    let points: Vec<_> = own.iter().filter_map(BlockUser::mount_point).map(Path::to_owned).collect();
    let near = own.iter().cloned().chain(swapped(family)).chain(stacked(family));
    near.for_each(tell);
    mounted_elsewhere(family, own).into_iter().for_each(tell);
    opened(family).into_iter().for_each(tell);
    working_in(family, &points).take(INSIDE_MAX).for_each(tell);
}

fn numbered(entry: &fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}

fn processes() -> impl Iterator<Item = (u32, PathBuf)> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|e| Some((numbered(&e)?, e.path())))
}

/// Mounts in our own mount namespace.
fn mounted_here(family: &Family) -> Vec<BlockUser> {
    mounts_seen_by(Path::new("/proc/self"), true, family)
}

/// Mounts in other mount namespaces that are not like those.
fn mounted_elsewhere(family: &Family, own: Vec<BlockUser>) -> Vec<BlockUser> {
    let here = own.len();
    let mut users = own;
    let mut seen: HashSet<_> = namespace(Path::new("/proc/self")).into_iter().collect();
    for (_, process) in processes() {
        if namespace(&process).is_some_and(|namespace| seen.insert(namespace)) {
            for user in mounts_seen_by(&process, false, family) {
                if !users.contains(&user) {
                    users.push(user);
                }
            }
        }
    }
    users.split_off(here)
}

fn mounts_seen_by(process: &Path, own: bool, family: &Family) -> Vec<BlockUser> {
    let mounts = mounts::of(&process.join("mountinfo")).unwrap_or_default();
    let of_family = mounts.iter().filter(|mount| family.carries(mount));
    let user = |mount: &Mount| BlockUser::Mount {
        point: mount.point.clone(),
        own,
        topmost: mount.is_reached(&mounts),
    };
    let mut users: Vec<BlockUser> = Vec::new();
    for user in of_family.map(user) {
        if !users.contains(&user) {
            users.push(user);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_hangs_is_left_to_itself_with_what_it_found() {
        let (release, hangs) = mpsc::channel::<()>();
        let found = found_within(Duration::from_millis(200), move |tell| {
            tell(1);
            let _ = hangs.recv();
            tell(2);
        });
        assert_eq!(found, Err(vec![1]));
        drop(release);
        assert_eq!(found_within(Duration::from_secs(60), |tell| tell(7)), Ok(vec![7]));
    }
}
