//! A layer over a member that measures how long it had requests under way: what `iostat` calls utilisation.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::{
    Completion, Device, DeviceInfo, EnvHandle, IoFuture, ReadBufs, ReadDone, Timestamp, WriteBufs,
    WriteFlags, ZeroFlags,
};

/// A watched member.
pub(super) struct Probe<D> {
    inner: D,
    watch: Arc<Watch>,
}

/// The probe's measurements.
pub(super) struct Watch {
    env: EnvHandle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: u32,
    /// When the current busy time began, if there is a request under way.
    since: Timestamp,
    busy: Duration,
}

impl Watch {
    /// How long requests were under way, up to now.
    pub(super) fn busy(&self) -> Duration {
        let state = self.state.lock();
        let open = if state.under_way > 0 { self.env.now().since(state.since) } else { Duration::ZERO };
        state.busy + open
    }

    fn begin(&self) {
        let mut state = self.state.lock();
        if state.under_way == 0 {
            state.since = self.env.now();
        }
        state.under_way += 1;
    }

    fn end(&self) {
        let mut state = self.state.lock();
        state.under_way -= 1;
        if state.under_way == 0 {
            let busy = self.env.now().since(state.since);
            state.busy += busy;
        }
    }
}

impl<D> Probe<D> {
    /// A probe around a member of this world.
    pub(super) fn new(inner: D, env: EnvHandle) -> Self {
        Self { inner, watch: Arc::new(Watch { env, state: Mutex::default() }) }
    }

    pub(super) fn watch(&self) -> Arc<Watch> {
        self.watch.clone()
    }

    /// A task of its own waits for the request: the caller may look at other requests first.
    fn watched<T: Send + Unpin + 'static>(&self, io: IoFuture<T>) -> IoFuture<T> {
        let (watch, answer) =
            (self.watch.clone(), Arc::new(Mutex::new(Answer { result: None, waker: None })));
        watch.begin();
        let given = answer.clone();
        self.watch.env.spawn(Box::pin(async move {
            let result = io.await;
            watch.end();
            let waker = {
                let mut given = given.lock();
                given.result = Some(result);
                given.waker.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }));
        IoFuture::boxed(poll_fn(move |cx| {
            let mut answer = answer.lock();
            match answer.result.take() {
                Some(result) => Poll::Ready(result),
                None => {
                    answer.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}

struct Answer<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

impl<D: Device> Device for Probe<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.watched(self.inner.read(offset_bytes, into))
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.watched(self.inner.write(offset_bytes, from, flags))
    }

    fn flush(&self) -> Completion {
        self.watched(self.inner.flush())
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        self.watched(self.inner.write_zeroes(offset_bytes, len_bytes, flags))
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        self.watched(self.inner.discard(offset_bytes, len_bytes))
    }
}
