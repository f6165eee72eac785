//! A disk model as a `Device` in a simulated world.

use std::{
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use slab::Slab;
use stripewise_device::{
    Completion, Device, DeviceInfo, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, Timestamp, WriteBufs,
    WriteFlags, ZeroFlags, bufs_len,
};

use super::{
    DiskModel, ModelCounters, ModelOp, ModelRequest,
    contents::{Contents, Pages},
};
use crate::{executor::Executor, timers::EventSource};

/// How a modelled disk is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskOptions {
    /// What is kept of what is written.
    pub contents: Contents,
    /// Only the first so many bytes, as a partition; all if not given.
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
/// Contents change when a request completes. A power failure of the world forgets requests under way and keeps all
/// that had completed: for what real disks lose then, there is [`SimMember`](crate::SimMember).
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
    requests: Slab<Request>,
    /// Grows with each power failure; what the model says of requests of an earlier life means nothing.
    life: u32,
    /// Room for what completes at one time.
    done: Vec<(u64, Timestamp)>,
    wakers: Vec<Waker>,
}

/// A request from its call until its future has been told.
struct Request {
    offset_bytes: u64,
    len_bytes: u64,
    data: Data,
    progress: Progress,
}

enum Data {
    None,
    Read(ReadBufs),
    Write(WriteBufs),
    Zero,
}

enum Progress {
    /// Under way; whoever waits is woken.
    UnderWay(Option<Waker>),
    /// Under way, and nobody will ask.
    Abandoned,
    Done,
}

impl ModelledDisk {
    pub(crate) fn add(
        name: String,
        model: impl DiskModel,
        options: DiskOptions,
        executor: &Arc<Executor>,
    ) -> Arc<Self> {
        let capacity_bytes = model.capacity_bytes();
        let info = DeviceInfo {
            name,
            size_bytes: options.size_bytes.unwrap_or(capacity_bytes).min(capacity_bytes),
            logical_block_bytes: options.logical_block_bytes,
            media: model.media(),
        };
        let state = State {
            model: Box::new(model),
            pages: Pages::new(options.contents),
            requests: Slab::new(),
            life: 0,
            done: Vec::new(),
            wakers: Vec::new(),
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
        let requests = {
            let mut state = self.state.lock();
            state.life += 1;
            std::mem::take(&mut state.requests)
        };
        drop(requests);
    }

    fn check(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
        let block = u64::from(self.info.logical_block_bytes);
        let inside = offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.info.size_bytes);
        if !inside {
            return Err(IoError::new(IoErrorKind::Truncated));
        }
        if !offset_bytes.is_multiple_of(block) || !len_bytes.is_multiple_of(block) {
            return Err(IoError::new(IoErrorKind::Refused));
        }
        Ok(())
    }

    fn submit<T>(&self, op: ModelOp, offset_bytes: u64, len_bytes: u64, data: Data) -> Pending<T> {
        let now = self.executor.now();
        let mut state = self.state.lock();
        let progress = Progress::UnderWay(None);
        let slot = state.requests.insert(Request { offset_bytes, len_bytes, data, progress });
        let life = state.life;
        let id = u64::from(life) << 32 | slot as u64;
        state.model.submit(now, ModelRequest { id, op, offset_bytes, len_bytes });
        let next = state.model.next_event();
        drop(state);
        self.executor.arm(self.source, next, &[now.0, trace_word(op, offset_bytes, len_bytes)]);
        let disk = self.me.upgrade().expect("a disk that is asked exists");
        Pending { disk, slot, life, told: false, result: PhantomData }
    }

    fn submit_plain(&self, op: ModelOp, offset_bytes: u64, len_bytes: u64, data: Data) -> Completion {
        match self.check(offset_bytes, len_bytes) {
            Ok(()) => IoFuture::boxed(self.submit::<Result<(), IoError>>(op, offset_bytes, len_bytes, data)),
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
    fn fire(&self, now: Timestamp) {
        let mut state = self.state.lock();
        let mut done = std::mem::take(&mut state.done);
        let mut wakers = std::mem::take(&mut state.wakers);
        state.model.advance(now, &mut done);
        wakers.extend(done.iter().filter_map(|(id, _)| state.complete(*id)));
        let (next, last) = (state.model.next_event(), done.last().map_or(0, |(id, _)| *id));
        drop(state);
        self.executor.arm(self.source, next, &[now.0, last]);
        wakers.drain(..).for_each(Waker::wake);
        done.clear();
        let mut state = self.state.lock();
        (state.done, state.wakers) = (done, wakers);
    }
}

impl State {
    /// A request takes effect. Returns who waits for it.
    fn complete(&mut self, id: u64) -> Option<Waker> {
        if (id >> 32) as u32 != self.life {
            return None;
        }
        let slot = id as u32 as usize;
        let request = &mut self.requests[slot];
        request.take_effect(&mut self.pages);
        match std::mem::replace(&mut request.progress, Progress::Done) {
            Progress::UnderWay(waker) => waker,
            Progress::Abandoned => {
                self.requests.remove(slot);
                None
            }
            Progress::Done => unreachable!("a model completes each request once"),
        }
    }
}

impl Request {
    fn take_effect(&mut self, pages: &mut Pages) {
        let mut at = self.offset_bytes;
        match &mut self.data {
            Data::None => {}
            Data::Zero => pages.zero(at, self.len_bytes),
            Data::Read(bufs) => {
                for buf in bufs {
                    pages.read(at, buf);
                    at += buf.len() as u64;
                }
            }
            Data::Write(bufs) => {
                for buf in std::mem::take(bufs) {
                    pages.write(at, &buf);
                    at += buf.len() as u64;
                }
            }
        }
    }
}

/// A request of which somebody wants to hear.
struct Pending<T> {
    disk: Arc<ModelledDisk>,
    slot: usize,
    life: u32,
    /// The caller has the result, and the slot may be another request's.
    told: bool,
    result: PhantomData<fn() -> T>,
}

/// What a finished request gives to its caller.
trait Outcome {
    fn of(request: Request) -> Self;
}

impl Outcome for ReadDone {
    fn of(request: Request) -> Self {
        let Data::Read(bufs) = request.data else { unreachable!("a read keeps its buffers") };
        Self { result: Ok(()), bufs }
    }
}

impl Outcome for Result<(), IoError> {
    fn of(_: Request) -> Self {
        Ok(())
    }
}

impl<T: Outcome> Future for Pending<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { disk, slot, life, told, .. } = self.get_mut();
        let mut state = disk.state.lock();
        if state.life != *life {
            return Poll::Pending;
        }
        match &mut state.requests[*slot].progress {
            Progress::UnderWay(Some(waker)) if waker.will_wake(cx.waker()) => Poll::Pending,
            Progress::UnderWay(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Progress::Done => {
                *told = true;
                Poll::Ready(T::of(state.requests.remove(*slot)))
            }
            Progress::Abandoned => unreachable!("only a dropped future abandons its request"),
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        let mut state = self.disk.state.lock();
        if state.life != self.life {
            return;
        }
        let progress = &mut state.requests[self.slot].progress;
        let before = std::mem::replace(progress, Progress::Abandoned);
        let request = matches!(before, Progress::Done).then(|| state.requests.remove(self.slot));
        drop(state);
        drop((before, request));
    }
}

impl Device for ModelledDisk {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        let len_bytes = bufs_len(&into) as u64;
        match self.check(offset_bytes, len_bytes) {
            Ok(()) => IoFuture::boxed(self.submit::<ReadDone>(
                ModelOp::Read,
                offset_bytes,
                len_bytes,
                Data::Read(into),
            )),
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

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, _: ZeroFlags) -> Completion {
        self.submit_plain(ModelOp::Write { fua: false }, offset_bytes, len_bytes, Data::Zero)
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        self.submit_plain(ModelOp::Discard, offset_bytes, len_bytes, Data::Zero)
    }
}
