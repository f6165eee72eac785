//! An array without futures: each call waits on its own thread.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use stripewise_device::{SharedBuf, WriteFlags, ZeroFlags};
use stripewise_engine::{Array, ArrayError};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread for a future that needs no runtime of its own, as the requests of an array. Do not
/// call it on a worker of a [`Host`](crate::Host): the worker would wait for itself.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// An array whose calls wait until they are done. Threads share it by reference, or have a clone each; their
/// requests spread over the host's workers.
#[derive(Clone)]
pub struct Blocking(Array);

impl Blocking {
    /// The same array, for threads that wait.
    pub fn of(array: &Array) -> Self {
        Self(array.clone())
    }

    /// The array itself.
    pub fn array(&self) -> &Array {
        &self.0
    }

    /// Fills `into` from `offset_bytes`.
    ///
    /// # Errors
    /// As [`Array::read`]. All calls here are [`ArrayError::OnWorker`] on a worker of the array's host, which
    /// would wait for itself.
    pub fn read_at(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), ArrayError> {
        self.wait(|array| array.read_into(offset_bytes, into))
    }

    /// Writes `data` at `offset_bytes`.
    ///
    /// # Errors
    /// As [`Array::write`].
    pub fn write_at(
        &self,
        offset_bytes: u64,
        data: impl Into<SharedBuf>,
        flags: WriteFlags,
    ) -> Result<(), ArrayError> {
        self.wait(|array| array.write(offset_bytes, data.into(), flags))
    }

    /// Makes every write acknowledged before this call durable.
    ///
    /// # Errors
    /// As [`Array::flush`].
    pub fn flush(&self) -> Result<(), ArrayError> {
        self.wait(|array| array.flush())
    }

    /// Makes the range read as zeroes.
    ///
    /// # Errors
    /// As [`Array::write_zeroes`].
    pub fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        flags: ZeroFlags,
    ) -> Result<(), ArrayError> {
        self.wait(|array| array.write_zeroes(offset_bytes, len_bytes, flags))
    }

    /// Tells that the range's content is no longer needed.
    ///
    /// # Errors
    /// As [`Array::discard`].
    pub fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), ArrayError> {
        self.wait(|array| array.discard(offset_bytes, len_bytes))
    }

    /// Stops the array.
    ///
    /// # Errors
    /// As [`Array::stop`].
    pub fn stop(&self) -> Result<(), ArrayError> {
        self.wait(|array| array.stop())
    }

    /// Makes a request and waits for it, where that can be.
    fn wait<'a, T, F>(&'a self, request: impl FnOnce(&'a Array) -> F) -> Result<T, ArrayError>
    where
        F: Future<Output = Result<T, ArrayError>>,
    {
        match self.0.env().is_here() {
            true => Err(ArrayError::OnWorker),
            false => wait(request(&self.0)),
        }
    }
}
