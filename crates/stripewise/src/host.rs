//! The host: this process's runtime, and members opened on it.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use stripewise_device::{
    Device, EnvHandle,
    file::{FileDevice, FileOptions, OpenError},
    uring::{Runtime, RuntimeOptions},
};
use stripewise_engine::{Array, AssembleError, AssembleOptions, CreateError, CreateOptions, assemble};
use thiserror::Error;

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HostOptions {
    /// Workers and their rings.
    pub runtime: RuntimeOptions,
}

impl HostOptions {
    /// Sets the workers and their rings.
    #[must_use]
    pub fn runtime(self, runtime: RuntimeOptions) -> Self {
        Self { runtime, ..self }
    }
}

/// Why an array could not be made or opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HostError {
    /// A member could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The array could not be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The array could not be opened.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

/// Where a member comes from.
pub enum MemberSource {
    /// A file or a block device, which is opened exclusively.
    Path(PathBuf),
    /// A device that is open.
    Device(Arc<dyn Device>),
}

impl<P: AsRef<Path> + ?Sized> From<&P> for MemberSource {
    fn from(path: &P) -> Self {
        Self::Path(path.as_ref().to_owned())
    }
}

impl From<PathBuf> for MemberSource {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<String> for MemberSource {
    fn from(path: String) -> Self {
        Self::Path(path.into())
    }
}

impl From<Arc<dyn Device>> for MemberSource {
    fn from(device: Arc<dyn Device>) -> Self {
        Self::Device(device)
    }
}

/// An io_uring runtime, and the arrays and members on it.
pub struct Host {
    runtime: Arc<Runtime>,
}

impl Host {
    /// Starts the runtime.
    ///
    /// # Errors
    /// If io_uring is not available.
    pub fn start(options: &HostOptions) -> io::Result<Self> {
        Ok(Self { runtime: Arc::new(Runtime::start(&options.runtime)?) })
    }

    /// The environment that arrays on this host run in.
    pub fn env(&self) -> EnvHandle {
        self.runtime.env()
    }

    /// The runtime itself, for exports.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Runs a future on a worker and waits for it. Do not call it on a worker.
    pub fn block_on<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.block_on(future)
    }

    /// Opens a member exclusively. Its name is the canonical path. Waits a moment for a member that is in
    /// use.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_member(&self, path: impl AsRef<Path>) -> Result<Arc<dyn Device>, OpenError> {
        Ok(Arc::new(self.open_file(path)?))
    }

    fn open_all<M: Into<MemberSource>>(
        &self,
        members: impl IntoIterator<Item = M>,
    ) -> Result<Vec<Arc<dyn Device>>, OpenError> {
        let open = |member: M| match member.into() {
            MemberSource::Path(path) => self.open_member(path),
            MemberSource::Device(device) => Ok(device),
        };
        members.into_iter().map(open).collect()
    }

    /// As [`Host::open_member`], for a caller that inspects the open file before it becomes a member.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<FileDevice, OpenError> {
        open_canonical(path.as_ref(), FileOptions::default())
    }

    /// Opens what is only read, and claims it as a member is claimed: it may be on a medium that cannot be written.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_file_to_read(&self, path: impl AsRef<Path>) -> Result<FileDevice, OpenError> {
        open_canonical(path.as_ref(), FileOptions::default().read_only(true).claimed(true))
    }

    /// Makes an array of members, by role behind those that the options name; everything on them is lost.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn create<M: Into<MemberSource>>(
        &self,
        members: impl IntoIterator<Item = M>,
        mut options: CreateOptions,
    ) -> Result<Array, HostError> {
        options.members.extend(self.open_all(members)?.into_iter().map(Some));
        let env = self.env();
        Ok(self.block_on(async move { Array::create(env, options).await })?)
    }

    /// Opens an array from its members, in any order.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn assemble<M: Into<MemberSource>>(
        &self,
        members: impl IntoIterator<Item = M>,
        options: AssembleOptions,
    ) -> Result<Array, HostError> {
        let devices = self.open_all(members)?;
        let env = self.env();
        Ok(self.block_on(async move { assemble(env, devices, &options).await })?)
    }
}

/// Opens a file or block device where its path leads to.
fn open_canonical(path: &Path, options: FileOptions) -> Result<FileDevice, OpenError> {
    // A path that cannot be resolved cannot be opened either; the opening names the reason.
    let canonical = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    FileDevice::open(&canonical, options)
}
