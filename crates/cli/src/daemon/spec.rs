//! What a daemon opens, and how a command starts it.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use serde::{Deserialize, Serialize};
use stripewise::internals::uring::RuntimeOptions;
use stripewise_wire::{ArrayStatus, CacheChange, ClassChoice, Reply, WireError};

use super::{caller, members::LookedAt};
use crate::{
    printable::printable_list,
    progress::MeasuringBar,
    rundir::{RUN_DIR_VARIABLE, log_path, named_run_dir},
    said::tell_notes,
    sigpipe,
};

/// Everything a daemon needs to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DaemonSpec {
    pub(crate) name: String,
    pub(crate) workers: WorkerSpec,
    pub(crate) opening: Opening,
}

/// A daemon's workers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WorkerSpec {
    pub(crate) threads: usize,
    pub(crate) sq_poll_idle: Option<Duration>,
    pub(crate) io_poll: bool,
}

impl WorkerSpec {
    pub(super) fn runtime_options(&self) -> RuntimeOptions {
        let Self { threads, sq_poll_idle, io_poll } = *self;
        RuntimeOptions::default().threads(threads).sq_poll_idle(sq_poll_idle).io_poll(io_poll)
    }
}

/// How the daemon gets its array.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Opening {
    Create(Box<CreateSpec>),
    Assemble { devices: Vec<String>, run: bool, force: bool, read_only: bool },
}

/// A new array. A member given as `missing` is None.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CreateSpec {
    pub(crate) level: i32,
    pub(crate) chunk_bytes: u32,
    pub(crate) members: Vec<Option<String>>,
    pub(crate) spares: Vec<String>,
    pub(crate) assume_clean: bool,
    pub(crate) member_bytes: Option<u64>,
    pub(crate) region_bytes: Option<u64>,
    /// Whether regions are distributed. None leaves that to the preset.
    pub(crate) distributed: Option<bool>,
    /// The number of the lock preset.
    pub(crate) preset: u8,
    pub(crate) uuid: Option<String>,
    /// The name on the members, if it is not the array's.
    #[serde(default)]
    pub(crate) kept_name: Option<String>,
    /// None for the default.
    pub(crate) policy: Option<String>,
    /// The cache.
    #[serde(default)]
    pub(crate) cache: CacheChange,
    /// The classes that were given, and are not detected, by path.
    pub(crate) classes: BTreeMap<String, ClassChoice>,
    pub(crate) measure: bool,
    /// Level 4: whether the fastest member gets the last role. None leaves that to the engine.
    pub(crate) parity_on_fastest: Option<bool>,
    /// Overwrite what is found.
    pub(crate) force: bool,
    /// What the command saw on the devices and its user agreed to lose, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) looked_at: BTreeMap<String, LookedAt>,
}

impl CreateSpec {
    /// All devices given, members first.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &String> {
        self.members.iter().flatten().chain(&self.spares)
    }
}

/// What a new daemon says in the end. Shows how far its members have been measured.
fn last_word(name: &str, out: &mut impl BufRead) -> io::Result<Result<Reply, WireError>> {
    let mut bar = MeasuringBar::default();
    loop {
        let mut line = String::new();
        out.read_line(&mut line)?;
        match Reply::read(&line) {
            Ok(Reply::Measuring { passed_s, most_s }) => bar.show(name, passed_s, most_s),
            other => return Ok(other),
        }
    }
}

/// Starts a daemon in the background, waits until its array is open, and prints the daemon's notes.
pub(crate) fn start_daemon(spec: &DaemonSpec) -> anyhow::Result<ArrayStatus> {
    caller::keep_descriptors().context("keeping this command's files from the daemon")?;
    let mut command = Command::new(std::env::current_exe().context("finding this program's own path")?);
    if let Some(dir) = named_run_dir() {
        command.env(RUN_DIR_VARIABLE, dir);
    }
    let mut child = command
        // The name shows in lists of processes; the daemon itself reads it from its specification.
        .args(["daemon", &spec.name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .current_dir("/")
        .spawn()
        .context("starting the daemon")?;
    let mut stdin = child.stdin.take().ok_or_else(|| anyhow!("the daemon has no standard input"))?;
    // A daemon that cannot be written to has ended; the code below finds that out.
    let _ = sigpipe::survived(|| stdin.write_all(&serde_json::to_vec(spec)?));
    drop(stdin);
    let stdout = child.stdout.take().ok_or_else(|| anyhow!("the daemon has no standard output"))?;
    match last_word(&spec.name, &mut BufReader::new(stdout))? {
        Ok(Reply::Opened { status, notes }) => {
            tell_notes(&spec.name, &notes);
            Ok(*status)
        }
        Ok(Reply::Error(message)) => bail!("{}: {}", spec.name, printable_list(&message)),
        _ => {
            let (end, log) = (child.wait()?, log_path(&spec.name));
            bail!("the daemon ended before the array was open ({end}); see {}", log.display())
        }
    }
}
