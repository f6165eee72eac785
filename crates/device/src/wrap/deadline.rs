//! A limit of time for every request: a member that falls silent fails, rather than hold its callers for
//! ever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::future::{Either, select};

use crate::{
    Completion, Device, DeviceInfo, EnvHandle, Extent, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone,
    WriteBufs, WriteFlags, ZeroFlags,
};

/// A layer that waits for each request so long and no longer. A request that is late ends with
/// [`IoErrorKind::Silent`], and so does every one after it, without being made.
///
/// The member may still do what it was asked for: a late read keeps its buffers, and a late write may reach
/// the medium at any time. So a member that was silent is not to be used again before whatever carried its
/// requests (a connection, a file) is closed.
pub struct Deadline<D> {
    inner: D,
    env: EnvHandle,
    limit: Duration,
    is_silent: Arc<AtomicBool>,
}

const SILENT: IoError = IoError::new(IoErrorKind::Silent);

impl<D> Deadline<D> {
    /// Wraps a member, each request of which must be done `limit` after it was made.
    pub fn new(inner: D, env: EnvHandle, limit: Duration) -> Self {
        Self { inner, env, limit, is_silent: Arc::default() }
    }

    /// Whether a request was late.
    pub fn is_silent(&self) -> bool {
        self.is_silent.load(Relaxed)
    }

    fn in_time<T: Unpin + Send + 'static>(
        &self,
        request: impl FnOnce(&D) -> IoFuture<T>,
        late: fn() -> T,
    ) -> IoFuture<T> {
        if self.is_silent() {
            return IoFuture::ready(late());
        }
        let request = match request(&self.inner).try_ready() {
            Ok(done) => return IoFuture::ready(done),
            Err(waits) => waits,
        };
        let (end, is_silent) = (self.env.sleep(self.limit), self.is_silent.clone());
        IoFuture::boxed(async move {
            match select(request, end).await {
                Either::Left((done, _)) => done,
                Either::Right(_) => {
                    is_silent.store(true, Relaxed);
                    late()
                }
            }
        })
    }
}

/// The outcome of a change that is late.
fn late<T>() -> Result<T, IoError> {
    Err(SILENT)
}

impl<D: Device> Device for Deadline<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        let late = || ReadDone { result: late(), bufs: ReadBufs::new() };
        self.in_time(|inner| inner.read(offset_bytes, into), late)
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.in_time(|inner| inner.write(offset_bytes, from, flags), late)
    }

    fn write_uncached(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.in_time(|inner| inner.write_uncached(offset_bytes, from, flags), late)
    }

    fn flush(&self) -> Completion {
        self.in_time(D::flush, late)
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.in_time(|inner| inner.write_zeroes(offset_bytes, len_bytes, flags), late)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        self.in_time(|inner| inner.discard(offset_bytes, len_bytes), late)
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        self.in_time(|inner| inner.extents(offset_bytes, len_bytes), late)
    }
}
