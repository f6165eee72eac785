//! The host: this process's runtime, and members opened on it.

use std::{future::Future, io, path::Path, sync::Arc};

use stripewise_device::{
    Device, EnvHandle,
    file::{FileDevice, FileOptions, OpenError},
    uring::{Runtime, RuntimeOptions},
};
use stripewise_engine::{Array, AssembleError, AssembleOptions, CreateError, CreateOptions, assemble};
use thiserror::Error;

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostOptions {
    /// Workers and their rings.
    pub runtime: RuntimeOptions,
}

/// Why an array could not be made or opened.
#[derive(Debug, Error)]
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

    /// As [`Host::open_member`], for a caller that inspects the open file before it becomes a member.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<FileDevice, OpenError> {
        let path = path.as_ref();
        // A path that cannot be resolved cannot be opened either; the opening names the reason.
        let canonical = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        FileDevice::open(&canonical, FileOptions::default())
    }

    /// Makes an array of devices; everything on them is lost.
    ///
    /// # Errors
    /// [`HostError::Create`].
    pub fn create(&self, options: CreateOptions) -> Result<Array, HostError> {
        let env = self.env();
        Ok(self.block_on(async move { Array::create(env, options).await })?)
    }

    /// Opens an array from its members, in any order.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn assemble<P: AsRef<Path>>(
        &self,
        members: impl IntoIterator<Item = P>,
        options: AssembleOptions,
    ) -> Result<Array, HostError> {
        let devices =
            members.into_iter().map(|path| self.open_member(path)).collect::<Result<Vec<_>, _>>()?;
        let env = self.env();
        Ok(self.block_on(async move { assemble(env, devices, &options).await })?)
    }
}
