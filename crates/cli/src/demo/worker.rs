//! A separate process for the demo's work on files.
//!
//! The demo's process serves the block device under its file system. If that process were killed while one of
//! its threads waits for the file system, the thread could never end: the kernel would hold the FUSE
//! connection open for the thread, and so never fail what it waits for. So another process waits. It outlives
//! a killed demo, so it also clears away what the demo leaves.

use std::{
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail, ensure};
use stripewise::export::attach;

use super::{MOUNT_POINT, place::is_a_demos, tree::checksum_of};

/// How long the kernel may take to release what a killed demo had.
const CLEAR_WAIT: Duration = Duration::from_secs(20);
const CLEAR_POLL: Duration = Duration::from_millis(50);

/// The process, as the demo sees it. It ends when this is dropped.
pub(super) struct FileWorker {
    child: Child,
    /// None at the end. A request is two paths, each ended by NUL: the file to read and the file to write. An
    /// empty second path asks for the checksum.
    requests: Option<ChildStdin>,
    /// One line for each request.
    answers: BufReader<ChildStdout>,
}

impl FileWorker {
    pub(super) fn start(folder: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program's own path")?;
        let mut child = Command::new(program)
            .arg("demo-worker")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("starting the process that works on files")?;
        let requests = child.stdin.take();
        let answers = child.stdout.take().ok_or_else(|| anyhow!("the process has no standard output"))?;
        Ok(Self { child, requests, answers: BufReader::new(answers) })
    }

    /// Copies a file, and makes the folder for it.
    pub(super) fn copy(&mut self, from: &Path, to: &Path) -> anyhow::Result<()> {
        self.ask(from, to).map(drop)
    }

    /// Length and XXH3-128 of a file.
    pub(super) fn checksum(&mut self, path: &Path) -> anyhow::Result<(u64, u128)> {
        let answer = self.ask(path, Path::new(""))?;
        let (bytes, checksum) = answer.split_once(' ').context("a checksum without a length")?;
        Ok((bytes.parse()?, u128::from_str_radix(checksum, 16)?))
    }

    fn ask(&mut self, from: &Path, to: &Path) -> anyhow::Result<String> {
        let requests = self.requests.as_mut().context("it has ended")?;
        let [from, to] = [from, to].map(|path| path.as_os_str().as_bytes());
        requests.write_all(&[from, b"\0", to, b"\0"].concat()).context("the process for files has ended")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        match answer.trim_end().split_once(' ') {
            Some(("done", rest)) => Ok(rest.to_owned()),
            Some(("error", rest)) => bail!("{rest}"),
            _ => bail!("the process for files has ended"),
        }
    }
}

impl Drop for FileWorker {
    fn drop(&mut self) {
        self.requests = None;
        let _ = self.child.wait();
    }
}

/// The body of the hidden `demo-worker` command: works until the demo ends or closes its end, then clears
/// away what the demo left, which is nothing unless it was killed.
pub(crate) fn work(folder: &Path) -> anyhow::Result<()> {
    // A user may call the command with any folder. It clears away only a demo's own.
    ensure!(is_a_demos(folder), "{}: not the folder of a demo", folder.display());
    if let Err(error) = answer_all(io::stdin().lock(), io::stdout()) {
        tracing::debug!(%error, "the demo has gone");
    }
    clear(folder)
}

fn answer_all(mut requests: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    loop {
        let (mut from, mut to) = (Vec::new(), Vec::new());
        requests.read_until(0, &mut from)?;
        requests.read_until(0, &mut to)?;
        // The input may end in the middle of a request.
        if from.pop() != Some(0) || to.pop() != Some(0) {
            return Ok(());
        }
        let path = |bytes| Path::new(OsStr::from_bytes(bytes));
        let answer = match answer(path(&from), path(&to)) {
            Ok(answer) => format!("done {answer}\n"),
            Err(error) => format!("error {error}\n"),
        };
        answers.write_all(answer.as_bytes())?;
        answers.flush()?;
    }
}

fn answer(from: &Path, to: &Path) -> io::Result<String> {
    let Some(folder) = to.parent() else {
        return checksum_of(from).map(|(bytes, checksum)| format!("{bytes} {checksum:x}"));
    };
    fs::create_dir_all(folder)?;
    fs::copy(from, to).map(|bytes| bytes.to_string())
}

/// Unmounts what is mounted below the folder, and removes the folder.
fn clear(folder: &Path) -> anyhow::Result<()> {
    let deadline = Instant::now() + CLEAR_WAIT;
    while folder.exists() {
        // Lazily, as nothing can be written to the file system any more.
        let mounted = folder.join(MOUNT_POINT);
        let _ =
            Command::new("umount").args(["--quiet", "--lazy"]).arg(mounted).stderr(Stdio::null()).status();
        let cleared = attach::clean_stale(folder)
            .map_err(anyhow::Error::from)
            .and_then(|_| Ok(fs::remove_dir_all(folder)?));
        match cleared {
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context(format!("{}: cannot be cleared away", folder.display())));
            }
            _ => thread::sleep(CLEAR_POLL),
        }
    }
    Ok(())
}
