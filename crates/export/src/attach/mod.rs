//! Makes any device a block device of this machine, without a kernel module of our own.
//!
//! [`attach`] takes the best method that works, by [`best_method`]:
//! 1. ublk: has its place in the order, but is not built yet;
//! 2. the kernel's nbd driver, on unix sockets to an NBD server in this process;
//! 3. a file served over FUSE, under a loop device with direct I/O.
//!
//! Either way requests run as tasks on the device's io_uring [`Runtime`]. The calls of this module block:
//! they mount, open and wait for the kernel, which sends requests of its own. Never make them on a worker of
//! that runtime, which could not answer meanwhile.
//!
//! On a loop device a discarded range reads as zeroes afterwards, so a discard costs a zeroing: the kernel's
//! loop driver does not distinguish a discard from a write of zeroes that may unmap. Over nbd it is
//! [`Device::discard`].
//!
//! After a daemon was killed, [`clean_stale`] removes its remains.

mod anchor;
mod blockdev;
mod diskfile;
mod error;
mod flusher;
mod fuse;
mod handshake;
mod ioctl;
mod kernel_nbd;
mod loopdev;
mod mounts;
mod options;
mod probe;
mod stale;
mod users;

use std::{
    fmt, fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, SendError},
    },
    thread,
    time::{Duration, Instant},
};

use stripewise_device::{Device, uring::Runtime};

use crate::nbd::{Endpoint, Export, Limits, Server};

pub use self::{
    anchor::LoopAnchor,
    blockdev::{sequence_of, sysfs},
    error::{AttachError, Reasons},
    flusher::{mark_workers, on_flusher_thread},
    ioctl::LoopBacking,
    loopdev::loop_backing,
    options::AttachOptions,
    probe::{AttachMethod, best_method},
    stale::{Cleaned, clean_stale, clean_stale_of},
    users::{BlockUser, BlockUsers, users_of},
};
use self::{
    blockdev::GoesOn,
    diskfile::{Access, DiskFile},
    fuse::FuseDisk,
    kernel_nbd::{KernelNbd, NbdSettings},
    loopdev::{LoopDevice, LoopSettings},
};

/// How often a lazy detach of an nbd device checks whether its users are gone.
const LAZY_POLL: Duration = Duration::from_secs(1);

/// How long the last requests of an nbd device may take.
const SERVER_WAIT: Duration = Duration::from_secs(20);
/// How long the kernel may take to bind a loop device on whose file every request fails.
const ABORT_WAIT: Duration = Duration::from_secs(10);
/// How long writing out may take if the caller does not say.
const WRITE_OUT_WAIT: Duration = Duration::from_secs(600);

/// What to do about users of a block device that is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DetachMode {
    /// Refuse, and name them.
    #[default]
    Refuse,
    /// Let them finish: this process serves the device until its last user is gone.
    Lazy,
    /// Fail their requests from now on. They lose all data that they have not written out.
    Force,
}

/// Makes a block device of `device`, whose I/O runs on `runtime`.
///
/// # Errors
/// The missing or refused facility; nothing is left behind.
pub fn attach(
    device: Arc<dyn Device>,
    runtime: &Arc<Runtime>,
    options: &AttachOptions,
) -> Result<Attachment, AttachError> {
    let block_bytes = options.check(device.info())?;
    let media = device.info().media;
    let method = choose(options)?;
    mark_workers(runtime);
    let backend = match method {
        AttachMethod::Ublk => return Err(AttachError::NotBuilt(method)),
        AttachMethod::KernelNbd => attach_nbd(device, runtime, block_bytes, options)?,
        AttachMethod::FuseLoop => attach_loop(device, runtime, block_bytes, options)?,
    };
    let block_path = backend.node().to_owned();
    blockdev::tune(&block_path, media);
    Ok(Attachment { block_path, method, backend: Some(backend), runtime: runtime.clone() })
}

fn choose(options: &AttachOptions) -> Result<AttachMethod, AttachError> {
    match options.method {
        Some(method) => method.probe().map(|()| method),
        None => best_method(),
    }
}

fn attach_nbd(
    device: Arc<dyn Device>,
    runtime: &Runtime,
    block_bytes: u32,
    options: &AttachOptions,
) -> Result<Backend, AttachError> {
    let socket = options.socket();
    fs::create_dir_all(&options.runtime_dir).map_err(AttachError::system("make", &options.runtime_dir))?;
    let mut export = Export::new(options.name.clone(), device);
    export.read_only = options.read_only;
    // The kernel reads its replies, and is the socket's only client.
    let limits = Limits::unshared(options.nbd_connections);
    let server = Server::start(runtime, &Endpoint::Unix(socket.clone()), vec![export], limits)?;
    let settings = NbdSettings {
        export: options.name.clone(),
        block_bytes,
        connections: options.nbd_connections,
        read_only: options.read_only,
        discard: options.discard,
    };
    let device = KernelNbd::start(settings, || UnixStream::connect(&socket))?;
    Ok(Backend::Nbd { device, server: Some(server) })
}

fn attach_loop(
    device: Arc<dyn Device>,
    runtime: &Arc<Runtime>,
    block_bytes: u32,
    options: &AttachOptions,
) -> Result<Backend, AttachError> {
    let AttachOptions { read_only, discard, slow_discard, .. } = *options;
    let file = DiskFile::new(device, Access { read_only, discard, slow_discard });
    let mut fuse = FuseDisk::mount(file, runtime.env(), &options.mount_point(), options.fuse_threads)?;
    let settings =
        LoopSettings { block_bytes, read_only: options.read_only, partition_scan: options.partition_scan };
    match bind_in_time(&mut fuse, settings, options.answer_wait, runtime) {
        Ok(device) => Ok(Backend::Loop { device, fuse }),
        Err(error) => {
            let _ = fuse.unmount();
            Err(error)
        }
    }
}

/// Binds a loop device to the file, on a thread: the kernel looks for partitions before it is done, and hangs
/// if the device does.
fn bind_in_time(
    fuse: &mut FuseDisk,
    settings: LoopSettings,
    limit: Duration,
    runtime: &Arc<Runtime>,
) -> Result<LoopDevice, AttachError> {
    let file = fuse.file();
    let (tell, told) = mpsc::channel();
    let bind = move || {
        // The receiver has given up: remove the binding if it was made all the same.
        if let Err(SendError(Ok(device))) = tell.send(LoopDevice::bind(&file, &settings)) {
            release_dead(&device);
        }
    };
    let thread = thread::Builder::new().name("stripewise-bind".into()).spawn(bind);
    thread.map_err(AttachError::system("start a thread for", fuse.file()))?;
    if let Ok(bound) = told.recv_timeout(limit) {
        return bound;
    }
    // Every request fails from now on, so the kernel's bind ends.
    serve_to_the_end(fuse.detach(true)?, runtime);
    if let Ok(Ok(device)) = told.recv_timeout(ABORT_WAIT) {
        release_dead(&device);
    }
    Err(AttachError::Unanswered { waited_s: limit.as_secs() })
}

/// Unbinds a loop device on whose file every request fails.
fn release_dead(device: &LoopDevice) {
    if let Err(error) = device.release_at_last_close() {
        tracing::warn!(device = %device.node().display(), %error, "a loop device that came too late stays");
    }
}

/// The parts behind an attachment. They are released one by one, so that a detach that failed half-way can be
/// tried again.
enum Backend {
    Loop { device: LoopDevice, fuse: FuseDisk },
    Nbd { device: KernelNbd, server: Option<Server> },
}

impl Backend {
    fn node(&self) -> &Path {
        match self {
            Self::Loop { device, .. } => device.node(),
            Self::Nbd { device, .. } => device.node(),
        }
    }

    fn release(&mut self, runtime: &Arc<Runtime>, goes_on: GoesOn<'_>) -> Result<(), AttachError> {
        match self {
            Self::Loop { device, fuse } => {
                device.release(goes_on)?;
                serve_to_the_end(fuse.unmount()?, runtime);
                Ok(())
            }
            Self::Nbd { device, server } => {
                device.release(goes_on)?;
                stop(server.take(), runtime);
                Ok(())
            }
        }
    }

    fn force(&mut self, runtime: &Arc<Runtime>) -> Result<(), AttachError> {
        match self {
            Self::Loop { device, fuse } => {
                // First end all requests: closing the loop device may wait for some.
                serve_to_the_end(fuse.detach(true)?, runtime);
                device.release_at_last_close()?;
            }
            Self::Nbd { device, server } => {
                device.abort();
                stop(server.take(), runtime);
            }
        }
        Ok(())
    }

    /// Releases the device, and keeps serving on a thread of its own while it has users.
    fn release_lazily(&mut self, runtime: &Arc<Runtime>) -> Result<(), AttachError> {
        match self {
            Self::Loop { device, fuse } => {
                device.release_at_last_close()?;
                serve_to_the_end(fuse.detach(false)?, runtime);
            }
            Self::Nbd { device, server } => {
                let (mut device, server, runtime) = (device.take(), server.take(), runtime.clone());
                linger(move || {
                    while let Err(AttachError::InUse { .. } | AttachError::UsersUnknown { .. }) =
                        device.release(&mut || true)
                    {
                        thread::sleep(LAZY_POLL);
                    }
                    stop(server, &runtime);
                });
            }
        }
        Ok(())
    }
}

/// Stops the server behind an nbd device, so that the device below is no longer used, unless that hangs.
fn stop(server: Option<Server>, runtime: &Runtime) {
    if let Some(server) = server
        && runtime.block_on_for(async move { server.stop().await }, SERVER_WAIT).is_none()
    {
        tracing::warn!("requests to what an nbd device was made of do not end, and are left to themselves");
    }
}

/// Keeps the runtime alive for a file system that still has users.
fn serve_to_the_end(lingering: Option<fuse::Lingering>, runtime: &Arc<Runtime>) {
    if let Some(lingering) = lingering {
        let runtime = runtime.clone();
        linger(move || {
            lingering.join();
            drop(runtime);
        });
    }
}

fn linger(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name("stripewise-linger".into()).spawn(work) {
        tracing::warn!(%error, "cannot watch a lazily detached device");
    }
}

/// A device that is a block device for as long as this value lives. It keeps the runtime alive.
///
/// Dropping it detaches as well as possible: at once if the block device has no users, else lazily.
pub struct Attachment {
    block_path: PathBuf,
    method: AttachMethod,
    /// None once detached.
    backend: Option<Backend>,
    runtime: Arc<Runtime>,
}

impl Attachment {
    /// The block device's node, such as `/dev/loop0`.
    pub fn block_path(&self) -> &Path {
        &self.block_path
    }

    /// The method that made it.
    pub fn method(&self) -> AttachMethod {
        self.method
    }

    /// The users of the block device or its partitions.
    pub fn users(&self) -> BlockUsers {
        let mut users = users_of(&self.block_path);
        // The nbd driver runs on a thread of ours that holds the device open.
        let driver = usize::from(self.method == AttachMethod::KernelNbd && !self.is_detached());
        if users::own_descriptors(&self.block_path) == driver {
            users
                .found
                .retain(|user| !matches!(user, BlockUser::Process { pid, .. } if *pid == std::process::id()));
        }
        users
    }

    /// Whether it is detached.
    pub fn is_detached(&self) -> bool {
        self.backend.is_none()
    }

    /// Removes the block device. Writes out its cached data first, unless by force. Does nothing if it is
    /// removed already; after an error it can be called again, in any mode.
    ///
    /// # Errors [`AttachError::InUse`] or [`AttachError::UsersUnknown`] in [`DetachMode::Refuse`]; in any
    /// mode the kernel's refusals.
    pub fn detach(&mut self, mode: DetachMode) -> Result<(), AttachError> {
        let deadline = Instant::now() + WRITE_OUT_WAIT;
        self.detach_while(mode, &mut || Instant::now() < deadline)
    }

    /// As [`Attachment::detach`]. Writing out may take long, or hang; `goes_on` is called now and then to
    /// decide whether to wait on.
    ///
    /// # Errors As [`Attachment::detach`]; [`AttachError::NotWrittenOut`] if the wait was in vain. The device
    /// stays then.
    pub fn detach_while(&mut self, mode: DetachMode, goes_on: GoesOn<'_>) -> Result<(), AttachError> {
        let Some(backend) = &mut self.backend else { return Ok(()) };
        if mode == DetachMode::Force {
            backend.force(&self.runtime)?;
        } else {
            match backend.release(&self.runtime, goes_on) {
                Err(
                    AttachError::InUse { .. }
                    | AttachError::UsersUnknown { .. }
                    | AttachError::NotWrittenOut { .. },
                ) if mode == DetachMode::Lazy => {
                    backend.release_lazily(&self.runtime)?;
                }
                result => result?,
            }
        }
        self.backend = None;
        blockdev::untune(&self.block_path);
        Ok(())
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("block_path", &self.block_path)
            .field("method", &self.method)
            .field("detached", &self.is_detached())
            .finish_non_exhaustive()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Err(error) = self.detach(DetachMode::Lazy) {
            tracing::warn!(device = %self.block_path.display(), %error, "not detached: clean_stale will after our end");
        }
    }
}
