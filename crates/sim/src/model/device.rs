//! A disk model as a `Device` in a simulated world.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use parking_lot::Mutex;
use stripewise_device::{
    Completion, Device, DeviceInfo, IoError, IoErrorKind, IoFuture, MediaKind, ReadBufs, ReadDone,
    RequestKeeper, Timestamp, WriteBufs, WriteFlags, ZeroFlags, bufs_len,
};

use super::{
    DiskModel, ModelCounters, ModelOp, ModelRequest,
    contents::{Contents, Pages},
    requests::{Data, Outcome, RequestId, Requests},
};
use crate::{
    executor::Executor,
    timers::{EventSource, Fired, Wakers},
};

/// How a modelled disk is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskOptions {
    /// What is kept of what is written.
    pub contents: Contents,
    /// Only the first so many bytes, as a partition, down to whole logical blocks; all if not given.
    pub size_bytes: Option<u64>,
    /// 512 or 4096.
    pub logical_block_bytes: u32,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self { contents: Contents::Sparse, size_bytes: None, logical_block_bytes: 512 }
    }
}

/// A device that takes the time its model says.
///
/// Contents change when a request completes. A power failure of the world forgets requests under way and
/// keeps all that had completed: for what real disks lose then, there is [`SimMember`](crate::SimMember). The
/// drive itself goes on with what it was doing. Zeroes are written like any data, over the wire and onto the
/// medium; what is discarded reads as zeroes.
pub struct ModelledDisk {
    info: DeviceInfo,
    executor: Arc<Executor>,
    /// Its number among the executor's sources.
    source: usize,
    me: Weak<Self>,
    state: Mutex<State>,
}

struct State {
    model: Box<dyn DiskModel>,
    pages: Pages,
    requests: Requests,
    /// Room for what completes at one time.
    done: Vec<(u64, Timestamp)>,
}

impl ModelledDisk {
    pub(crate) fn add(
        name: String,
        model: impl DiskModel,
        options: DiskOptions,
        executor: &Arc<Executor>,
    ) -> Arc<Self> {
        let capacity_bytes = model.capacity_bytes();
        let size_bytes = options.size_bytes.unwrap_or(capacity_bytes).min(capacity_bytes);
        let block_bytes = u64::from(options.logical_block_bytes);
        let info = DeviceInfo {
            name,
            size_bytes: size_bytes - size_bytes % block_bytes,
            logical_block_bytes: options.logical_block_bytes,
            media: model.media(),
            unmaps: Some(model.media() == MediaKind::Ssd),
        };
        let state = State {
            model: Box::new(model),
            pages: Pages::new(options.contents),
            requests: Requests::default(),
            done: Vec::new(),
        };
        let mut added = None;
        executor.add_source(|source| {
            let disk = Arc::new_cyclic(|me| Self {
                info,
                executor: executor.clone(),
                source,
                me: me.clone(),
                state: Mutex::new(state),
            });
            added = Some(disk.clone());
            disk
        });
        added.expect("a source is made when it is added")
    }

    /// What the model has counted.
    pub fn counters(&self) -> ModelCounters {
        self.state.lock().model.counters()
    }

    /// Requests under way end without effect.
    pub(crate) fn lose_power(&self) {
        let requests = self.state.lock().requests.forget_all();
        drop(requests);
    }

    fn check(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
        let block = u64::from(self.info.logical_block_bytes);
        let inside = offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.info.size_bytes);
        if !inside {
            return Err(IoError::new(IoErrorKind::Truncated));
        }
        if !(offset_bytes | len_bytes).is_multiple_of(block) {
            return Err(IoError::new(IoErrorKind::Refused));
        }
        Ok(())
    }

    fn submit<T: Outcome>(&self, op: ModelOp, offset_bytes: u64, len_bytes: u64, data: Data) -> IoFuture<T> {
        let now = self.executor.now();
        let mut state = self.state.lock();
        let id = state.requests.add(offset_bytes, len_bytes, data);
        state.model.submit(now, ModelRequest { id, op, offset_bytes, len_bytes });
        let next = state.model.next_event();
        drop(state);
        self.executor.arm(self.source, next, trace_word(op, offset_bytes, len_bytes));
        let disk = self.me.upgrade().expect("a disk that is asked exists");
        IoFuture::kept(disk, id)
    }

    fn submit_plain(&self, op: ModelOp, offset_bytes: u64, len_bytes: u64, data: Data) -> Completion {
        match self.check(offset_bytes, len_bytes) {
            Ok(()) => self.submit(op, offset_bytes, len_bytes, data),
            Err(error) => IoFuture::ready(Err(error)),
        }
    }
}

fn trace_word(op: ModelOp, offset_bytes: u64, len_bytes: u64) -> u64 {
    let kind = match op {
        ModelOp::Read => 1,
        ModelOp::Write { fua: false } => 2,
        ModelOp::Write { fua: true } => 3,
        ModelOp::Flush => 4,
        ModelOp::Discard => 5,
    };
    kind << 60 ^ offset_bytes.rotate_left(8) ^ len_bytes
}

impl EventSource for ModelledDisk {
    fn fire(&self, now: Timestamp, wakers: &mut Wakers) -> Fired {
        let mut state = self.state.lock();
        let State { model, pages, requests, done } = &mut *state;
        model.advance(now, done);
        let event = done.last().map_or(0, |(id, _)| *id);
        for (id, _) in done.drain(..) {
            if let Some(waker) = requests.complete(id, pages) {
                wakers.push(waker);
            }
        }
        Fired { event, next: model.next_event() }
    }
}

impl<T: Outcome> RequestKeeper<T> for ModelledDisk {
    fn poll_request(&self, id: RequestId, cx: &mut Context<'_>) -> Poll<T> {
        let done = self.state.lock().requests.poll(id, cx.waker());
        done.map_or(Poll::Pending, |request| Poll::Ready(T::of(request)))
    }

    fn abandon(&self, id: RequestId) {
        let rest = self.state.lock().requests.abandon(id);
        drop(rest);
    }
}

impl Device for ModelledDisk {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        let len_bytes = bufs_len(&into) as u64;
        match self.check(offset_bytes, len_bytes) {
            Ok(()) => self.submit(ModelOp::Read, offset_bytes, len_bytes, Data::Read(into)),
            Err(error) => IoFuture::ready(ReadDone { result: Err(error), bufs: into }),
        }
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        let len_bytes = bufs_len(&from) as u64;
        self.submit_plain(ModelOp::Write { fua: flags.fua }, offset_bytes, len_bytes, Data::Write(from))
    }

    fn flush(&self) -> Completion {
        self.submit_plain(ModelOp::Flush, 0, 0, Data::None)
    }

    /// An SSD unmaps what may be unmapped, and reads zeroes there; a hard disk writes.
    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        let unmaps = flags.may_unmap && self.info.unmaps == Some(true);
        if flags.fast_only && !unmaps {
            return IoFuture::ready(Err(IoError::new(IoErrorKind::Refused)));
        }
        let op = if unmaps { ModelOp::Discard } else { ModelOp::Write { fua: false } };
        self.submit_plain(op, offset_bytes, len_bytes, Data::Zero)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        self.submit_plain(ModelOp::Discard, offset_bytes, len_bytes, Data::Zero)
    }
}
