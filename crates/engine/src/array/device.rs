//! An array is itself a device: it can be served, attached, or be a member of another array.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::task::noop_waker_ref;
use smallvec::SmallVec;
use stripewise_device::{
    BoxFuture, Completion, Device, DeviceInfo, EnvHandle, Extent, IoBuf, IoError, IoFuture, MediaKind,
    ReadBufs, ReadDone, SharedBuf, WriteBufs, WriteFlags, ZeroFlags, bufs_len,
};

use super::Array;
use crate::error::ArrayError;

/// A request that goes to its end whatever its caller does: started at once, and handed to a task of its own if it is
/// dropped before it is done.
struct Detached<T: Send + 'static> {
    request: Option<BoxFuture<T>>,
    done: Option<T>,
    env: EnvHandle,
}

impl<T: Send + Unpin + 'static> Detached<T> {
    fn start(env: EnvHandle, request: impl Future<Output = T> + Send + 'static) -> Self {
        let mut request: BoxFuture<T> = Box::pin(request);
        // The waker of this first step goes nowhere; whoever awaits polls again with their own.
        match request.as_mut().poll(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(value) => Self { request: None, done: Some(value), env },
            Poll::Pending => Self { request: Some(request), done: None, env },
        }
    }
}

impl<T: Send + Unpin + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if let Some(value) = self.done.take() {
            return Poll::Ready(value);
        }
        let request = self.request.as_mut().expect("a request is polled until it is done");
        let poll = request.as_mut().poll(cx);
        if poll.is_ready() {
            self.request = None;
        }
        poll
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.env.spawn(Box::pin(async move {
                request.await;
            }));
        }
    }
}

/// An array as a [`Device`].
pub struct ArrayDevice {
    array: Array,
    info: DeviceInfo,
}

impl Array {
    /// The array as a device, for exports and stacking. Requests go to their end even if their future is dropped.
    pub fn device(&self) -> ArrayDevice {
        let geometry = self.geometry();
        let info = DeviceInfo {
            name: self.name(),
            size_bytes: geometry.capacity_bytes(),
            logical_block_bytes: geometry.logical_block_bytes(),
            media: self.media(),
        };
        ArrayDevice { array: self.clone(), info }
    }

    /// Rotating if any data member is.
    fn media(&self) -> MediaKind {
        let topology = self.shared.topology.load();
        let kinds: Vec<_> = topology.primaries().map(|member| member.device.info().media).collect();
        if kinds.contains(&MediaKind::Hdd) {
            MediaKind::Hdd
        } else if kinds.iter().all(|kind| *kind == MediaKind::Ssd) {
            MediaKind::Ssd
        } else {
            MediaKind::Unknown
        }
    }

    /// Writes as [`Array::write`] does, and to the end even if the future is dropped.
    pub fn write_detached(
        &self,
        offset_bytes: u64,
        data: SharedBuf,
        flags: WriteFlags,
    ) -> impl Future<Output = Result<(), ArrayError>> + Send + use<> {
        let array = self.clone();
        Detached::start(self.env().clone(), async move { array.write(offset_bytes, data, flags).await })
    }
}

impl ArrayDevice {
    fn run<T: Send + Unpin + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> IoFuture<T> {
        let detached = Detached::start(self.array.env().clone(), request);
        IoFuture::boxed(detached)
    }
}

impl Device for ArrayDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        let array = self.array.clone();
        self.run(async move { read_all(&array, offset_bytes, into).await })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        let array = self.array.clone();
        self.run(async move {
            let data = into_one(from);
            array.write(offset_bytes, data, flags).await.map_err(IoError::from)
        })
    }

    fn flush(&self) -> Completion {
        let array = self.array.clone();
        self.run(async move { array.flush().await.map_err(IoError::from) })
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        let array = self.array.clone();
        self.run(
            async move { array.write_zeroes(offset_bytes, len_bytes, flags).await.map_err(IoError::from) },
        )
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        let array = self.array.clone();
        self.run(async move { array.discard(offset_bytes, len_bytes).await.map_err(IoError::from) })
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        let array = self.array.clone();
        self.run(async move {
            array.shared.check_request(offset_bytes, len_bytes)?;
            array.shared.extents(offset_bytes, len_bytes).await
        })
    }
}

/// Reads into several buffers, one after another in the array but all at once on the members.
async fn read_all(array: &Array, offset_bytes: u64, mut into: ReadBufs) -> ReadDone {
    if into.len() == 1 {
        let buf = into.pop().expect("there is one");
        let len = buf.len();
        return match array.read(offset_bytes, buf).await {
            Ok(buf) => ReadDone { result: Ok(()), bufs: ReadBufs::from_iter([buf]) },
            Err(error) => {
                ReadDone { result: Err(error.into()), bufs: ReadBufs::from_iter([IoBuf::with_len(len)]) }
            }
        };
    }
    let whole = IoBuf::with_len(bufs_len(&into));
    let mut at = 0;
    match array.read(offset_bytes, whole).await {
        Ok(whole) => {
            for buf in &mut into {
                let len = buf.len();
                buf.copy_from_slice(&whole[at..at + len]);
                at += len;
            }
            ReadDone { result: Ok(()), bufs: into }
        }
        Err(error) => ReadDone { result: Err(error.into()), bufs: into },
    }
}

/// The data of a gather write in one piece; only several pieces cost a copy.
fn into_one(mut from: WriteBufs) -> SharedBuf {
    if from.len() == 1 {
        return from.pop().expect("there is one");
    }
    let parts: SmallVec<[&[u8]; 4]> = from.iter().map(|buf| &**buf).collect();
    let mut whole = IoBuf::with_len(bufs_len(&from));
    let mut at = 0;
    for part in parts {
        whole[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    whole.freeze()
}
