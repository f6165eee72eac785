//! The servers that are compared, each a process of its own that ends with this one.

use crate::said::note;
use std::{
    io::ErrorKind,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::ValueEnum;
use stripewise::{
    Host,
    export::nbd::{Endpoint, NbdAddress, NbdClient},
};
use tempfile::NamedTempFile;

use super::client;

/// How long a server may take until it listens: ours writes all its memory first.
const START_WAIT: Duration = Duration::from_secs(60);
const START_POLL: Duration = Duration::from_millis(5);
/// The folder whose files are in memory.
const MEMORY_FOLDER: &str = "/dev/shm";
/// More connections than the benchmark opens.
const QEMU_CLIENTS_MAX: &str = "1024";

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// An array of this program: level 5, four members of data and one of parity in memory, with its bitmap.
    Stripewise,
    /// `nbdkit memory`: one disk in memory.
    Nbdkit,
    /// `qemu-nbd` of a file in memory (tmpfs), which it reads and writes with threads.
    QemuNbd,
}

impl Kind {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What to do if a server is not installed.
    fn remedy(self) -> &'static str {
        match self {
            Self::Stripewise => "this program's own file has gone; install it again",
            Self::Nbdkit => "it is in the package nbdkit, which scripts/install-test-tools installs",
            Self::QemuNbd => "it is in the package qemu-utils, which scripts/install-test-tools installs",
        }
    }
}

/// A running server. It is killed when this is dropped.
pub(super) struct Server {
    pub(super) kind: Kind,
    pub(super) address: NbdAddress,
    child: Child,
    /// For `qemu-nbd`, which ends with its last connection: a connection that keeps it running, and that ends
    /// with this process.
    held: Option<Arc<NbdClient>>,
}

impl Server {
    /// Starts a server and waits until it listens. Returns None, and says so, if the server is not installed.
    pub(super) fn start(
        kind: Kind,
        size_bytes: u64,
        threads: usize,
        folder: &Path,
        client: &Host,
    ) -> anyhow::Result<Option<Self>> {
        let socket = folder.join(kind.name());
        let size = size_bytes.to_string();
        let address = NbdAddress { endpoint: Endpoint::Unix(socket.clone()), export: String::new() };
        // Loses its name on return, when the server has it open.
        let mut image = None;
        let mut command = match kind {
            Kind::Stripewise => ours(&socket, &size, threads)?,
            Kind::Nbdkit => nbdkit(&socket, &size),
            Kind::QemuNbd => qemu_nbd(&socket, image.insert(new_image(size_bytes)?).path()),
        };
        let child = match command.process_group(0).stdout(Stdio::null()).spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                note!("stripewise: {} is left out: not found; {}", kind.name(), kind.remedy());
                return Ok(None);
            }
            child => child.with_context(|| format!("cannot start {}", kind.name()))?,
        };
        let mut server = Self { kind, address, child, held: None };
        let connection = server.first_connection(client)?;
        server.held = Some(connection).filter(|_| kind == Kind::QemuNbd);
        Ok(Some(server))
    }

    /// Connects as soon as the server listens.
    fn first_connection(&mut self, client: &Host) -> anyhow::Result<Arc<NbdClient>> {
        let deadline = Instant::now() + START_WAIT;
        loop {
            match client::connect(client, &self.address, 0) {
                Err(_) if Instant::now() < deadline => thread::sleep(START_POLL),
                result => return result,
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended before it listened: {status}", self.kind.name());
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.held = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our server. It ends when its standard input does.
fn ours(socket: &Path, size: &str, threads: usize) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("finding this program's own path")?;
    let mut command = Command::new(program);
    command.args(["bench", "nbd-server"]).arg(socket).args([size, &threads.to_string()]);
    command.stdin(Stdio::piped());
    Ok(command)
}

fn nbdkit(socket: &Path, size: &str) -> Command {
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--exit-with-parent", "--unix"]).arg(socket).args(["memory", size]);
    command.stdin(Stdio::null());
    command
}

fn new_image(size_bytes: u64) -> anyhow::Result<NamedTempFile> {
    let image = tempfile::Builder::new().prefix("stripewise-bench-").tempfile_in(MEMORY_FOLDER);
    let image = image.with_context(|| format!("{MEMORY_FOLDER}: no file can be made there"))?;
    image.as_file().set_len(size_bytes)?;
    Ok(image)
}

fn qemu_nbd(socket: &Path, image: &Path) -> Command {
    let mut command = Command::new("qemu-nbd");
    command.args(["--format=raw", "--cache=writeback", "--aio=threads", "--discard=unmap"]);
    command.args(["--shared", QEMU_CLIENTS_MAX, "--socket"]).arg(socket).arg(image).stdin(Stdio::null());
    command
}
