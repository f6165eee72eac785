//! An array is itself a device: it can be served, attached, or be a member of another array.

use std::future::Future;

use futures_util::FutureExt;
use stripewise_device::{
    Completion, Device, DeviceInfo, Extent, IoBuf, IoError, IoFuture, MediaKind, ReadBufs, ReadDone,
    WriteBufs, WriteFlags, ZeroFlags, bufs_len,
};

use stripewise_format::extension::MemberClass;

use super::Array;
use crate::{
    compute::Data,
    error::ArrayError,
    life::detached::{Detached, Ended},
};

/// An array as a [`Device`].
pub struct ArrayDevice {
    array: Array,
    info: DeviceInfo,
    always_discards: bool,
}

impl Array {
    /// The array as a device, for exports and stacking. Requests that change anything complete even if their
    /// future is dropped. [`Array::stop`] waits until a read's future is polled to completion or dropped.
    pub fn device(&self) -> ArrayDevice {
        let geometry = self.geometry();
        let info = DeviceInfo {
            name: self.name(),
            size_bytes: geometry.capacity_bytes(),
            logical_block_bytes: geometry.logical_block_bytes(),
            media: self.media(),
            unmaps: Some(self.unmaps()),
        };
        ArrayDevice { array: self.clone(), info, always_discards: false }
    }

    /// Rotating if any member in sync is, as it was detected, measured, or given by an operator.
    fn media(&self) -> MediaKind {
        let topology = self.parts.roster.topology();
        let classes: Vec<_> = topology.primaries().map(|member| member.class()).collect();
        if classes.contains(&MemberClass::Hdd) {
            MediaKind::Hdd
        } else if classes.iter().all(|class| *class == MemberClass::Ssd) {
            MediaKind::Ssd
        } else {
            MediaKind::Unknown
        }
    }
}

impl ArrayDevice {
    /// The same device, but a discard is carried out even if zeroes must be written to members
    /// ([`Array::unmaps`]).
    #[must_use]
    pub fn always_discarding(self) -> Self {
        Self { always_discards: true, ..self }
    }

    fn run<T: Ended + Send + Unpin + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> IoFuture<T> {
        when_done(Detached::start(self.array.env(), request))
    }

    fn read_one(&self, offset_bytes: u64, mut into: ReadBufs) -> IoFuture<ReadDone> {
        let buf = into.pop().expect("there is one");
        let len = buf.len();
        let done = move |read: Result<IoBuf, ArrayError>| match read {
            Ok(buf) => ReadDone { result: Ok(()), bufs: ReadBufs::from_iter([buf]) },
            Err(error) => {
                ReadDone { result: Err(error.into()), bufs: ReadBufs::from_iter([IoBuf::with_len(len)]) }
            }
        };
        match self.array.parts.stripes.start_read(offset_bytes, buf).try_done() {
            Ok(read) => IoFuture::ready(done(read)),
            Err(reading) => IoFuture::boxed(reading.map(done)),
        }
    }
}

/// The future of a request that is done or runs as a task.
fn when_done<T: Send + Unpin + 'static>(request: Detached<T>) -> IoFuture<T> {
    match request.try_done() {
        Ok(value) => IoFuture::ready(value),
        Err(running) => IoFuture::boxed(running),
    }
}

impl Device for ArrayDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        if into.len() == 1 {
            return self.read_one(offset_bytes, into);
        }
        let array = self.array.clone();
        self.run(async move { read_all(&array, offset_bytes, into).await })
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.array.parts.stripes.start_write(offset_bytes, Data::of(from, offset_bytes), flags).into_io()
    }

    fn flush(&self) -> Completion {
        let array = self.array.clone();
        self.run(async move { array.parts.stripes.flush_request().await.map_err(IoError::from) })
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        let array = self.array.clone();
        self.run(async move {
            array
                .parts
                .stripes
                .write_zeroes_request(offset_bytes, len_bytes, flags)
                .await
                .map_err(IoError::from)
        })
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        let array = self.array.clone();
        let always = self.always_discards;
        self.run(async move {
            array.parts.stripes.discard_request(offset_bytes, len_bytes, always).await.map_err(IoError::from)
        })
    }

    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        let array = self.array.clone();
        self.run(async move { array.parts.stripes.extents(offset_bytes, len_bytes).await })
    }
}

/// Fills several buffers with consecutive bytes of the array, in one read.
async fn read_all(array: &Array, offset_bytes: u64, mut into: ReadBufs) -> ReadDone {
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
