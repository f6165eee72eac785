//! The kernel's nbd driver, over unix sockets to an NBD server, here one of this process.
//!
//! It uses ioctls, not netlink: the device then lives exactly as long as the thread that runs it, so nothing
//! stays behind when the daemon is killed.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::io::Errno;

use super::{
    AttachError,
    blockdev::{self, GoesOn},
    flusher,
    handshake::{self, ExportFacts},
    ioctl,
};

// Of the protocol's transmission flags: NBD_FLAG_READ_ONLY, NBD_FLAG_SEND_TRIM, NBD_FLAG_CAN_MULTI_CONN.
const FLAG_READ_ONLY: u16 = 1 << 1;
const FLAG_SEND_TRIM: u16 = 1 << 5;
const FLAG_MULTI_CONN: u16 = 1 << 8;
/// The server is part of this process; silence for this long means that it is stuck.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// How long the kernel may take to start a device.
const START_WAIT: Duration = Duration::from_secs(10);

/// The settings of an nbd device.
pub(super) struct NbdSettings {
    pub(super) export: String,
    pub(super) block_bytes: u32,
    pub(super) connections: usize,
    pub(super) read_only: bool,
    pub(super) discard: bool,
}

/// A running nbd device.
pub(super) struct KernelNbd {
    node: PathBuf,
    runner: Option<JoinHandle<()>>,
}

/// Whether the driver is there, after requesting its module.
pub(super) fn probe() -> Result<(), AttachError> {
    let node = Path::new("/dev/nbd0");
    if !node.exists() {
        let null = || Stdio::null();
        let _ = Command::new("modprobe").arg("nbd").stdin(null()).stdout(null()).stderr(null()).status();
    }
    let opened = File::open(node).map(drop);
    opened.map_err(|source| AttachError::Missing {
        node: node.to_owned(),
        remedy: "this kernel has no nbd driver, or its module is not installed (`modprobe nbd`)",
        source,
    })
}

impl KernelNbd {
    /// Connects a free nbd device with the server to which `dial` opens connections.
    pub(super) fn start(
        settings: NbdSettings,
        dial: impl Fn() -> io::Result<UnixStream>,
    ) -> Result<Self, AttachError> {
        let (facts, sockets) = connect(&settings, &dial)?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let run = move || run(&settings, facts, &sockets, &sender);
        let thread = thread::Builder::new().name("stripewise-nbd".into());
        let runner = flusher::on_flusher_thread(|| thread.spawn(run))
            .map_err(AttachError::system("start the thread of", "an nbd device"))?;
        let node =
            receiver.recv().unwrap_or(Err(AttachError::Handshake("the device's thread died".into())))?;
        let mut device = Self { node, runner: Some(runner) };
        device.wait_until_running()?;
        Ok(device)
    }

    pub(super) fn node(&self) -> &Path {
        &self.node
    }

    /// Moves the device to a new value; this one then has nothing to release.
    pub(super) fn take(&mut self) -> Self {
        Self { node: self.node.clone(), runner: self.runner.take() }
    }

    fn wait_until_running(&mut self) -> Result<(), AttachError> {
        let deadline = Instant::now() + START_WAIT;
        while !is_running(&self.node) {
            let ended = self.runner.as_ref().is_none_or(JoinHandle::is_finished);
            if ended || Instant::now() >= deadline {
                self.abort();
                return Err(AttachError::Handshake(
                    "the kernel did not start the device; see its log".into(),
                ));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Writes out the cached data and disconnects, unless the device is in use.
    pub(super) fn release(&mut self, goes_on: GoesOn<'_>) -> Result<(), AttachError> {
        if self.runner.is_none() {
            return Ok(());
        }
        // The running thread holds the device open.
        let claimed = blockdev::claim_written_out(&self.node, 1, goes_on)?;
        ioctl::nbd_disconnect(&claimed).map_err(AttachError::system("disconnect", &self.node))?;
        drop(claimed);
        self.join();
        blockdev::wait_gone(&self.node, || !is_running(&self.node))
    }

    /// Disconnects at once; every request fails from now on.
    pub(super) fn abort(&mut self) {
        if let Ok(device) = File::open(&self.node) {
            let _ = ioctl::nbd_clear_sockets(&device);
        }
        self.join();
    }

    fn join(&mut self) {
        if let Some(runner) = self.runner.take() {
            let _ = runner.join();
        }
    }
}

fn is_running(node: &Path) -> bool {
    blockdev::sysfs(node).join("pid").exists()
}

/// Opens the connections and negotiates each.
fn connect(
    settings: &NbdSettings,
    dial: &impl Fn() -> io::Result<UnixStream>,
) -> Result<(ExportFacts, Vec<OwnedFd>), AttachError> {
    let (facts, first) = connect_one(settings, dial)?;
    let mut sockets = vec![first];
    let wanted = if facts.flags & FLAG_MULTI_CONN == 0 { 1 } else { settings.connections.max(1) };
    while sockets.len() < wanted {
        sockets.push(connect_one(settings, dial)?.1);
    }
    Ok((facts, sockets))
}

fn connect_one(
    settings: &NbdSettings,
    dial: &impl Fn() -> io::Result<UnixStream>,
) -> Result<(ExportFacts, OwnedFd), AttachError> {
    let failed = |error| AttachError::system("connect to", "the NBD server")(error);
    let mut stream = dial().map_err(failed)?;
    stream.set_read_timeout(Some(HANDSHAKE_WAIT)).map_err(failed)?;
    let facts = handshake::negotiate(&mut stream, &settings.export)?;
    // The kernel uses the socket's own timeouts, and an idle device is no error.
    stream.set_read_timeout(None).map_err(failed)?;
    Ok((facts, stream.into()))
}

/// The life of an nbd device: the kernel ties its set-up to one thread.
fn run(
    settings: &NbdSettings,
    facts: ExportFacts,
    sockets: &[OwnedFd],
    started: &mpsc::SyncSender<Result<PathBuf, AttachError>>,
) {
    // A signal handled on this thread would end the device.
    if let Err(error) = nix::sys::signal::SigSet::all().thread_block() {
        tracing::warn!(%error, "cannot block signals: a signal may end the nbd device");
    }
    let (node, device) = match set_up(settings, facts, sockets) {
        Ok(ready) => ready,
        Err(error) => return drop(started.send(Err(error))),
    };
    let _ = started.send(Ok(node.clone()));
    if let Err(error) = ioctl::nbd_do_it(&device) {
        tracing::warn!(device = %node.display(), %error, "the nbd device ended with an error");
    }
    let _ = ioctl::nbd_clear_sockets(&device);
}

fn set_up(
    settings: &NbdSettings,
    facts: ExportFacts,
    sockets: &[OwnedFd],
) -> Result<(PathBuf, File), AttachError> {
    for node in free_nodes() {
        let Ok(device) = OpenOptions::new().read(true).write(true).open(&node) else { continue };
        match ioctl::nbd_add_socket(&device, sockets[0].as_fd()) {
            Ok(()) => {}
            // Another process took it meanwhile.
            Err(Errno::BUSY) => continue,
            Err(error) => return Err(AttachError::system("give a socket to", node)(error)),
        }
        let result = finish_set_up(&device, settings, facts, &sockets[1..]);
        return match result {
            Ok(()) => Ok((node, device)),
            Err(error) => {
                let _ = ioctl::nbd_clear_sockets(&device);
                Err(AttachError::system("set up", node)(error))
            }
        };
    }
    Err(AttachError::NoFreeDevice { kind: "nbd", remedy: "load the module with nbds_max=64" })
}

fn finish_set_up(
    device: &File,
    settings: &NbdSettings,
    facts: ExportFacts,
    more_sockets: &[OwnedFd],
) -> rustix::io::Result<()> {
    more_sockets.iter().try_for_each(|socket| ioctl::nbd_add_socket(device, socket.as_fd()))?;
    ioctl::nbd_set_size(device, settings.block_bytes, facts.size_bytes / u64::from(settings.block_bytes))?;
    // For ever: a degraded array that retries is slow, not dead.
    ioctl::nbd_set_timeout(device, 0)?;
    let added = if settings.read_only { FLAG_READ_ONLY } else { 0 };
    let removed = if settings.discard { 0 } else { FLAG_SEND_TRIM };
    ioctl::nbd_set_flags(device, (facts.flags | added) & !removed)
}

/// Devices that are not running, by number.
fn free_nodes() -> Vec<PathBuf> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("nbd")?.parse::<u32>().ok();
    let mut numbers: Vec<_> =
        fs::read_dir("/sys/block").into_iter().flatten().flatten().filter_map(number).collect();
    numbers.sort_unstable();
    let nodes = numbers.into_iter().map(|number| PathBuf::from(format!("/dev/nbd{number}")));
    nodes.filter(|node| !is_running(node)).collect()
}
