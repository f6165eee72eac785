//! A mount from its beginning to its end.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::uring::Runtime;
use stripewise_export::attach::{LoopAnchor, mark_workers, on_flusher_thread};
use stripewise_fuse::{
    Mount, MountOptions as FuseOptions, Session, SessionError, Unmount, Wishes, mount::BlockMount,
};
use stripewise_rafs::{
    fs::{Fs, FsError, MountError, MountOptions},
    journal::ReplayError,
    shape::BLOCK_BYTES,
    volume::Volume,
};
use thiserror::Error;

use crate::{
    report::Identity,
    server::{Rafs, Requests},
};

/// Threads that read requests from the kernel. They only hand them on.
const READERS: usize = 2;

/// Why a file system is not mounted, or was not ended well.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The file system.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// It could not be written out.
    #[error("what was written could not all be written out: {0}")]
    End(#[from] FsError),
    /// It took too long to be written out.
    #[error("what was written could not all be written out in time")]
    Late,
    /// The mount.
    #[error(transparent)]
    Fuse(#[from] stripewise_fuse::MountError),
    /// The session.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// How a file system is mounted.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The file system's own.
    pub fs: MountOptions,
    /// The kernel's. Whether it may be changed, and the block device, come from elsewhere.
    pub fuse: FuseOptions,
    /// A file or device that a loop device is put over, so that the kernel takes the mount for a block device's. Then
    /// sync(2) reaches the file system, and umount(2) waits until all is written out. Without it, or without loop
    /// devices, it is a plain mount.
    pub anchor: Option<PathBuf>,
}

/// A mounted file system.
pub struct Served {
    session: Session,
    rafs: Arc<Rafs>,
    runtime: Arc<Runtime>,
    is_block: bool,
}

impl Served {
    /// Mounts on the folder `point`. `on_end` is called when the kernel has let go of the mount, by whatever way.
    ///
    /// It must not be called on a worker of the runtime, and neither may anything else here.
    ///
    /// # Errors
    /// [`ServeError`]. Nothing stays behind.
    pub fn start(
        runtime: &Arc<Runtime>,
        volume: Arc<dyn Volume>,
        identity: Identity,
        point: &Path,
        options: ServeOptions,
        on_end: impl FnOnce() + Send + 'static,
    ) -> Result<Self, ServeError> {
        mark_workers(runtime);
        let (env, of_fs) = (runtime.env(), options.fs);
        let fs = runtime.block_on(async move { Fs::mount(env, volume, of_fs).await })?;
        let rafs = Arc::new(Rafs::new(fs, runtime.env(), identity));
        match start_session(&rafs, point, &options, Box::new(on_end)) {
            Ok((session, is_block)) => Ok(Self { session, rafs, runtime: runtime.clone(), is_block }),
            Err(error) => {
                runtime.block_on(async move { rafs.end_or_abandon().await })?;
                Err(error)
            }
        }
    }

    /// The folder that it is mounted on, absolute and without symbolic links.
    #[must_use]
    pub fn point(&self) -> &Path {
        self.session.point()
    }

    /// Why a mount for reading does not have all that the journal has: see [`Fs::rotten_record`].
    #[must_use]
    pub fn rotten_record(&self) -> Option<ReplayError> {
        self.rafs.fs.rotten_record()
    }

    /// Whether the kernel takes it for a block device's: see [`ServeOptions::anchor`].
    #[must_use]
    pub fn is_block(&self) -> bool {
        self.is_block
    }

    /// Takes the mount out of the tree, as umount(8) does.
    ///
    /// # Errors
    /// If it is in use, with [`Unmount::Now`].
    pub fn unmount(&mut self, how: Unmount) -> Result<(), ServeError> {
        Ok(self.session.unmount(how)?)
    }

    /// Refuses all requests from now on, and writes out what is left, for a limited time. The kernel may keep the mount.
    ///
    /// # Errors
    /// [`ServeError::End`] and [`ServeError::Late`]. What was synced before is safe in any case.
    pub fn end_now(&self, limit: Duration) -> Result<(), ServeError> {
        self.rafs.close();
        let rafs = self.rafs.clone();
        let ended = self.runtime.block_on_for(async move { rafs.end_or_abandon().await }, limit);
        Ok(ended.ok_or(ServeError::Late)??)
    }

    /// Waits until the kernel has let go of the mount, and writes out all that is left. Nothing of the file system is under way
    /// on the volume when this returns.
    ///
    /// # Errors
    /// [`ServeError`]. What could not be written out is lost then, unless it was synced before.
    pub fn wait(self) -> Result<(), ServeError> {
        let joined = self.session.join();
        let rafs = self.rafs;
        self.runtime.block_on(async move { rafs.end_or_abandon().await })?;
        Ok(joined?)
    }
}

fn start_session(
    rafs: &Arc<Rafs>,
    point: &Path,
    options: &ServeOptions,
    on_end: Box<dyn FnOnce() + Send>,
) -> Result<(Session, bool), ServeError> {
    let requests = Arc::new(Requests { rafs: rafs.clone(), on_end: Mutex::new(None) });
    let read_only = options.fs.is_read_only;
    let mut fuse = FuseOptions { read_only, block: None, ..options.fuse.clone() };
    let anchor = options.anchor.as_deref().and_then(|backing| anchor(backing, read_only));
    fuse.block = anchor
        .as_ref()
        .map(|anchor| BlockMount { device: anchor.node().to_owned(), block_bytes: Some(BLOCK_BYTES as u32) });
    let mount = match Mount::new(point, &fuse) {
        Err(error) if fuse.block.is_some() => {
            tracing::info!(%error, "no mount as a block device's; a plain one follows");
            fuse.block = None;
            Mount::new(point, &fuse)?
        }
        mounted => mounted?,
    };
    // From here on the mount keeps the loop device.
    drop(anchor);
    let started = requests.clone();
    let session = on_flusher_thread(move || Session::start(mount, &Wishes::default(), started, READERS))?;
    *requests.on_end.lock() = Some(on_end);
    Ok((session, fuse.block.is_some()))
}

fn anchor(backing: &Path, read_only: bool) -> Option<LoopAnchor> {
    LoopAnchor::over(backing, BLOCK_BYTES as u32, read_only)
        .inspect_err(|error| tracing::info!(%error, "no loop device for the mount; a plain one follows"))
        .ok()
}
