//! The users of a block device: mounts in any mount namespace, swap, devices stacked on it, and processes
//! that have it open or work in a file system on it.

use std::{
    collections::HashSet,
    fmt, fs,
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use super::mounts::{self, Mount};

/// One user of a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockUser {
    /// A file system on it is mounted.
    Mount {
        /// Where, as the processes of its mount namespace see it.
        point: PathBuf,
        /// Whether it is in this process's mount namespace.
        own: bool,
        /// The point leads to it: nothing is mounted over it.
        topmost: bool,
    },
    /// It is a swap area.
    Swap,
    /// A device such as dm or md is built on it.
    Holder(String),
    /// A process has it open.
    Process {
        /// Its number.
        pid: u32,
        /// Its command name.
        name: String,
    },
    /// Another process works in a file system on it, which therefore cannot be unmounted.
    Inside {
        /// Its number.
        pid: u32,
        /// Its command name.
        name: String,
        /// Where the file system is mounted.
        point: PathBuf,
    },
}

/// Report at most this many processes that work in file systems: enough to see what is going on.
const INSIDE_MAX: usize = 8;

impl BlockUser {
    /// For a mount: the point at which an unmount by path removes it.
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
        // The source is whatever the mounting process said, so it counts only if there is nothing better.
        let source = || fs::canonicalize(&mount.source).unwrap_or_else(|_| mount.source.clone());
        let has_own_number = NUMBERED_ANEW.contains(&mount.kind.as_str());
        self.numbers.contains(&mount.device) || (has_own_number && self.nodes.contains(&source()))
    }
}

/// How long a search for users may take. While a process begins another program, the kernel makes everyone
/// wait who looks at the process; that takes for ever if the program's file is on a server that hangs.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// The users found of a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockUsers {
    /// The users found. What cannot be read counts as no user.
    pub found: Vec<BlockUser>,
    /// Whether all processes were searched. If not, there may be more users, and an empty list means nothing.
    pub is_complete: bool,
}

impl BlockUsers {
    /// Whether it certainly has no users.
    pub fn is_nobody(&self) -> bool {
        self.is_complete && self.found.is_empty()
    }
}

/// The users of the disk or partition `node`, or of one of its partitions.
pub fn users_of(node: &Path) -> BlockUsers {
    let family = Family::of(node);
    let own = mounted_here(&family);
    let mut found: Vec<_> = own.iter().cloned().chain(swapped(&family)).chain(stacked(&family)).collect();
    let (others, is_complete) = SEARCH.run(LOOK_MAX, move |tell| look(&family, own, tell));
    found.extend(others);
    if !is_complete {
        tracing::warn!(node = %node.display(), "looking for its users takes too long: a process hangs; some may be missing");
    }
    BlockUsers { found, is_complete }
}

static SEARCH: Search = Search { state: Mutex::new(SearchState::Idle), ended: Condvar::new() };

/// Searches that may hang, one at a time: while one hangs, no more threads are spent.
struct Search {
    state: Mutex<SearchState>,
    ended: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchState {
    Idle,
    Running,
    /// It took too long, and its caller no longer waits for it.
    Abandoned,
}

/// Makes room for the next search, however this one ends.
struct Turn(&'static Search);

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.lock() = SearchState::Idle;
        self.0.ended.notify_one();
    }
}

impl Search {
    fn lock(&self) -> MutexGuard<'_, SearchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the previous search, as long as that one's caller waits for it. None if it hangs.
    fn turn(&'static self, limit: Duration) -> Option<Turn> {
        let is_running = |state: &mut SearchState| *state == SearchState::Running;
        let waited = self.ended.wait_timeout_while(self.lock(), limit, is_running);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (*state == SearchState::Idle).then(|| {
            *state = SearchState::Running;
            Turn(self)
        })
    }

    /// The results of a search until it ends, or until it has taken too long and is abandoned; and whether it
    /// ended.
    fn run<T: Send + 'static>(
        &'static self,
        limit: Duration,
        search: impl FnOnce(&dyn Fn(T)) + Send + 'static,
    ) -> (Vec<T>, bool) {
        let mut all = Vec::new();
        let Some(turn) = self.turn(limit) else { return (all, false) };
        let (sender, receiver) = mpsc::channel();
        let search = move || {
            let _turn = turn;
            search(&|found| drop(sender.send(found)));
        };
        let Ok(thread) = thread::Builder::new().name("stripewise-users".into()).spawn(search) else {
            return (all, false);
        };
        let deadline = Instant::now() + limit;
        loop {
            match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(found) => all.push(found),
                Err(RecvTimeoutError::Disconnected) => return (all, thread.join().is_ok()),
                Err(RecvTimeoutError::Timeout) => {
                    self.abandon();
                    return (all, false);
                }
            }
        }
    }

    fn abandon(&self) {
        let mut state = self.lock();
        // It may have ended just now.
        if *state == SearchState::Running {
            *state = SearchState::Abandoned;
        }
        drop(state);
        self.ended.notify_all();
    }
}

/// Reports the users that only a look at other processes finds. `own` are the mounts in this process's own
/// namespace.
fn look(family: &Family, own: Vec<BlockUser>, tell: &dyn Fn(BlockUser)) {
    let points: Vec<_> = own.iter().filter_map(BlockUser::mount_point).map(Path::to_owned).collect();
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

/// Mounts in other mount namespaces that are not equal to those.
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

/// How many descriptors this process has open on the disk or its partitions.
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

/// Other processes that have a folder, a file or their program in a file system on the disk that is mounted
/// on one of the points. Links are read and not followed, so that a hanging file system does not matter.
fn working_in(family: &Family, points: &[PathBuf]) -> impl Iterator<Item = BlockUser> {
    // Every process works in the root mount.
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

/// The paths that a process has open.
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

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_search_that_hangs_is_left_to_itself_and_no_other_begins_until_it_ends() {
        static SEARCH: Search = Search { state: Mutex::new(SearchState::Idle), ended: Condvar::new() };
        let (release, hangs) = mpsc::channel::<()>();
        let (began, has_begun) = mpsc::channel();
        let first = thread::spawn(move || {
            SEARCH.run(Duration::from_secs(5), move |tell| {
                tell(1);
                began.send(()).unwrap();
                let _ = hangs.recv();
                tell(2);
            })
        });
        has_begun.recv_timeout(LONG).unwrap();
        assert_eq!(first.join().unwrap(), (vec![1], false), "what it found, and that there may be more");
        for _ in 0..3 {
            let another = SEARCH.run(LONG, |_: &dyn Fn(i32)| unreachable!("while the first one hangs"));
            assert_eq!(another, (vec![], false));
        }
        drop(release);
        let begun = Instant::now();
        let mut found = (Vec::new(), false);
        while !found.1 && begun.elapsed() < LONG {
            found = SEARCH.run(LONG, |tell| tell(7));
        }
        assert_eq!(found, (vec![7], true), "once it has ended");
    }

    #[test]
    fn searches_at_the_same_time_wait_for_each_other() {
        static SEARCH: Search = Search { state: Mutex::new(SearchState::Idle), ended: Condvar::new() };
        let searches = (0..8).map(|index| thread::spawn(move || SEARCH.run(LONG, move |tell| tell(index))));
        let found: Vec<_> = searches.collect::<Vec<_>>().into_iter().map(|one| one.join().unwrap()).collect();
        assert_eq!(found, (0..8).map(|index| (vec![index], true)).collect::<Vec<_>>());
    }

    #[test]
    fn nobody_was_found_means_nobody_only_if_it_was_looked_everywhere() {
        let users = |is_complete| BlockUsers { found: Vec::new(), is_complete };
        assert!(users(true).is_nobody() && !users(false).is_nobody());
    }
}
