//! `stripewise demo`: the main job, for real, in under a minute.
//!
//! Five file members make an array; a real file system on it takes a copy of a real tree; a member dies
//! during the copy; every byte is checked; a new member is rebuilt; a scrub finds nothing; the array is
//! stopped. Without root or FUSE the tree goes over NBD instead, through the built-in client. However the
//! demo ends, it leaves nothing behind.

mod filesystem;
mod place;
mod raw;
mod story;
mod tree;
mod worker;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context, bail, ensure};
use clap::Args;
use stripewise::{
    Array, CreateOptions, Device, Host, HostOptions, JobOutcome, JobReport,
    file::{FileDevice, FileOptions},
    geometry::Level,
    internals::wrap::{Fault, Faults},
};

pub(crate) use self::worker::work;
use self::{filesystem::OnFileSystem, raw::OverNbd, story::Story, tree::Tree, worker::FileWorker};
use crate::{
    errors,
    progress::bytes_bar,
    said::note,
    sizes::{format_size, parse_size},
};

#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Where to put the members; a temporary folder, if left out.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// How much to copy in.
    #[arg(long, default_value = "220M", value_parser = parse_size)]
    data: u64,
}

/// Members: four for data, one for parity.
const MEMBERS: usize = 5;
/// The member that dies.
const VICTIM: usize = 1;
/// The folder in the demo's folder on which its file system is mounted.
const MOUNT_POINT: &str = "mnt";

/// A place on the array that takes a tree of files.
trait Store {
    /// Describes the place, for the story.
    fn describe(&self) -> String;
    /// Copies every file in. `at_half` is called once in the middle, while the copy goes on.
    fn copy_in(&mut self, tree: &Tree, story: &Story, at_half: &mut dyn FnMut()) -> anyhow::Result<()>;
    /// Reads every file from the array (not from caches) and compares checksums.
    fn verify(&mut self, tree: &Tree, story: &Story) -> anyhow::Result<()>;
    /// Releases the array.
    fn close(&mut self) -> anyhow::Result<()>;
}

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs, json: bool) -> anyhow::Result<ExitCode> {
    let interrupted = Arc::new(AtomicBool::new(false));
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let parent = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = place::make(&parent)?;
    let mut worker = FileWorker::start(folder.path())?;
    let story = Story::begin(interrupted, json);
    let result = play(args, folder.path(), &mut worker, &story);
    match &result {
        Ok(()) => story.tell("all checks passed; everything is cleaned up"),
        Err(error) => story.tell(format!("FAILED: {}", errors::line(error))),
    }
    folder.close().context("removing the members")?;
    result.map(|()| ExitCode::SUCCESS)
}

/// The members of the demo, and the handles that make them fail.
struct Members {
    folder: PathBuf,
    bytes: u64,
    faults: Vec<Arc<Faults>>,
}

impl Members {
    fn path(&self, index: usize) -> PathBuf {
        self.folder.join(format!("member{index}"))
    }

    /// Makes and opens one more member.
    fn add(&mut self) -> anyhow::Result<Arc<dyn Device>> {
        let path = self.path(self.faults.len());
        std::fs::File::create(&path)?.set_len(self.bytes)?;
        let (device, faults) = Fault::new(FileDevice::open(&path, FileOptions::default())?);
        self.faults.push(faults);
        Ok(Arc::new(device))
    }
}

fn play(args: &DemoArgs, folder: &Path, worker: &mut FileWorker, story: &Story) -> anyhow::Result<()> {
    let tree = Tree::gather(Path::new("/usr"), args.data, folder, story)?;
    // Room on four data members for the tree and a file system's own needs.
    let bytes = (tree.bytes() * 2 / (MEMBERS as u64 - 1)).max(96 << 20).next_multiple_of(1 << 20);
    let mut members = Members { folder: folder.to_owned(), bytes, faults: Vec::new() };
    let host = Host::start(&HostOptions::default()).context("starting io_uring")?;
    let array = make_array(&host, &mut members, story)?;
    let mut store = open_store(&host, &array, folder, worker)?;
    story.tell(format!("{} on it", store.describe()));
    story.check()?;
    copy_and_break(&mut *store, &tree, &members, story)?;
    story.check()?;
    store.verify(&tree, story)?;
    ensure!(degraded(&host, &array) == 1, "the dead member should have been dropped");
    story.tell(format!("degraded [U_UUU], and all {} checksums are right", tree.files.len()));
    repair(&host, &array, &mut members, story)?;
    store.verify(&tree, story)?;
    story.tell("checksums are right after the rebuild");
    scrub(&host, &array, story)?;
    store.close()?;
    drop(store);
    let stopping = array.clone();
    host.block_on(async move { stopping.stop().await })?;
    drop(array);
    drop(host);
    story.tell("stopped");
    examine_with_mdadm(&members, story)
}

fn make_array(host: &Host, members: &mut Members, story: &Story) -> anyhow::Result<Array> {
    let devices = (0..MEMBERS).map(|_| members.add()).collect::<anyhow::Result<Vec<_>>>()?;
    story.tell(format!(
        "{MEMBERS} file members of {} in {}",
        format_size(members.bytes),
        members.folder.display()
    ));
    let mut options = CreateOptions::named("demo", Level::Raid5);
    // New sparse files are zeroes, and zeroes have zero parity.
    options.assume_clean = true;
    let array = host.create(devices, options)?;
    let size = format_size(array.geometry().capacity_bytes());
    story.tell(format!("a level 5 array of {size}, 4 data + 1 parity, chunk 64 KiB"));
    Ok(array)
}

/// A file system on a block device if that can be had, else the array over NBD.
fn open_store<'a>(
    host: &Host,
    array: &Array,
    folder: &Path,
    worker: &'a mut FileWorker,
) -> anyhow::Result<Box<dyn Store + 'a>> {
    match OnFileSystem::open(host, array, folder, worker) {
        Ok(store) => Ok(Box::new(store)),
        Err(error) => {
            note!("         (no file system here: {}; going over NBD instead)", errors::line(&error));
            Ok(Box::new(OverNbd::open(host, array, folder)?))
        }
    }
}

fn copy_and_break(
    store: &mut dyn Store,
    tree: &Tree,
    members: &Members,
    story: &Story,
) -> anyhow::Result<()> {
    story.tell(format!("copying {} files, {}", tree.files.len(), format_size(tree.bytes())));
    let mut kill = || {
        members.faults[VICTIM].set_gone(true);
        story.tell(format!("member {VICTIM} dies in the middle of it: every I/O to it fails from now on"));
    };
    store.copy_in(tree, story, &mut kill)?;
    story.tell("the copy has ended all the same");
    Ok(())
}

fn degraded(host: &Host, array: &Array) -> usize {
    let array = array.clone();
    host.block_on(async move { array.report().await }).degraded()
}

fn repair(host: &Host, array: &Array, members: &mut Members, story: &Story) -> anyhow::Result<()> {
    let dead = members.path(VICTIM);
    let new = members.add()?;
    let (adding, name) = (array.clone(), std::fs::canonicalize(&dead).unwrap_or(dead));
    let name = name.display().to_string();
    host.block_on(async move {
        let _ = adding.remove(&name).await;
        adding.add(new).await
    })?;
    story.tell("a new member takes its place");
    let job = wait_for_job(host, array, story)?;
    story.tell(format!("rebuilt {} of it", format_size(job.done_stripes * job.chunk_bytes)));
    ensure!(degraded(host, array) == 0, "the array should be whole again");
    Ok(())
}

fn scrub(host: &Host, array: &Array, story: &Story) -> anyhow::Result<()> {
    array.start_scrub(false)?;
    let job = wait_for_job(host, array, story)?;
    ensure!(job.mismatched_rows == 0, "the scrub found {} rows that disagree", job.mismatched_rows);
    story.tell(format!("scrubbed {} stripes: mismatch_cnt 0", job.total_stripes));
    Ok(())
}

/// Waits for the jobs that are due, with a bar. The last job must have succeeded.
fn wait_for_job(host: &Host, array: &Array, story: &Story) -> anyhow::Result<JobReport> {
    let bar = bytes_bar(0, "job");
    let done = Arc::new(AtomicBool::new(false));
    let (waiting, flag) = (array.clone(), done.clone());
    array.env().spawn(Box::pin(async move {
        waiting.wait_for_jobs().await;
        flag.store(true, std::sync::atomic::Ordering::Release);
    }));
    while !done.load(std::sync::atomic::Ordering::Acquire) {
        story.check()?;
        if let Some(job) = array.job() {
            bar.set_message(job.kind.name());
            bar.set_length(job.total_stripes * job.chunk_bytes);
            bar.set_position(job.done_stripes * job.chunk_bytes);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    bar.finish_and_clear();
    let _ = host;
    match array.last_job() {
        Some(job) if job.outcome == Some(JobOutcome::Done) => Ok(job),
        other => bail!("the job did not end well: {other:?}"),
    }
}

/// Shows that mdadm knows the members, if mdadm is installed.
fn examine_with_mdadm(members: &Members, story: &Story) -> anyhow::Result<()> {
    let output = match Command::new("mdadm").arg("--examine").arg(members.path(0)).output() {
        Ok(output) if output.status.success() => output,
        _ => return Ok(()),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let field = |name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{name} : ")));
        line.and_then(|line| line.split_once(" : "))
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let (state, checksum) = (field("State"), field("Checksum"));
    ensure!(state == "clean" && checksum.contains("correct"), "mdadm does not like the members:\n{text}");
    story.tell(format!("mdadm --examine: {}, state clean, checksum correct", field("Raid Level")));
    Ok(())
}
