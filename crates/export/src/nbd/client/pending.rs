//! Requests that wait for their replies, and the way of the answers to their callers.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Poll, Waker},
};

use parking_lot::Mutex;
use slab::Slab;
use stripewise_device::{IoError, IoErrorKind, ReadBufs, ReadDone, bufs_len};

use crate::nbd::proto::{Cookie, StatusExtent};

struct Slot<T> {
    value: Option<T>,
    waiting: Option<Waker>,
}

/// A value that is set once and fetched once, on any threads.
pub(super) struct Answer<T>(Arc<Mutex<Slot<T>>>);

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Slot { value: None, waiting: None })))
    }
}

impl<T> Answer<T> {
    pub(super) fn set(&self, value: T) {
        let waiting = {
            let mut slot = self.0.lock();
            slot.value = Some(value);
            slot.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(super) async fn wait(self) -> T {
        poll_fn(|cx| {
            let mut slot = self.0.lock();
            if let Some(value) = slot.value.take() {
                return Poll::Ready(value);
            }
            slot.waiting = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// A read whose data arrives in chunks, in any order.
pub(super) struct ReadInto {
    pub(super) offset_bytes: u64,
    len_bytes: u64,
    pub(super) bufs: ReadBufs,
    /// Start and end of what has arrived, neighbours joined.
    arrived: BTreeMap<u64, u64>,
    answer: Answer<ReadDone>,
}

/// Only a server that abuses our memory sends more separate runs of data than this.
const RUNS_MAX: usize = 4096;

impl ReadInto {
    pub(super) fn new(offset_bytes: u64, bufs: ReadBufs, answer: Answer<ReadDone>) -> Self {
        let len_bytes = bufs_len(&bufs) as u64;
        Self { offset_bytes, len_bytes, bufs, arrived: BTreeMap::new(), answer }
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Notes that a chunk arrives and returns where it starts in the buffers. None: it is not part of this
    /// request, or overlaps earlier data, so the reply means nothing.
    pub(super) fn claim(&mut self, offset_bytes: u64, len_bytes: u64) -> Option<u64> {
        let start = offset_bytes.checked_sub(self.offset_bytes)?;
        let end = start.checked_add(len_bytes).filter(|end| *end <= self.len_bytes)?;
        let before = self.arrived.range(..end).next_back().map(|(start, end)| (*start, *end));
        let (mut from, mut to) = (start, end);
        if let Some((before_start, before_end)) = before {
            if before_end > start {
                return None;
            }
            if before_end == start {
                from = before_start;
            }
        }
        if let Some(after_end) = self.arrived.remove(&end) {
            to = after_end;
        }
        self.arrived.insert(from, to);
        (self.arrived.len() <= RUNS_MAX).then_some(start)
    }

    fn is_complete(&self) -> bool {
        self.len_bytes == 0 || self.arrived.get(&0) == Some(&self.len_bytes)
    }

    /// Answers. False: the server reported success without all data.
    pub(super) fn finish(self, result: Result<(), IoError>) -> bool {
        let honest = result.is_err() || self.is_complete();
        let result = if honest { result } else { Err(IoError::new(IoErrorKind::Gone)) };
        self.answer.set(ReadDone { result, bufs: self.bufs });
        honest
    }
}

/// One request under way.
pub(super) enum Pending {
    /// Success or not.
    Plain(Answer<Result<(), IoError>>),
    /// Data.
    Read(ReadInto),
    /// Extents, gathered until the last chunk.
    Status(Vec<StatusExtent>, Answer<Result<Vec<StatusExtent>, IoError>>),
}

impl Pending {
    /// Answers. False: success without the data that success must bring.
    pub(super) fn finish(self, result: Result<(), IoError>) -> bool {
        match self {
            Self::Plain(answer) => {
                answer.set(result);
                true
            }
            Self::Read(read) => read.finish(result),
            Self::Status(extents, answer) => {
                let honest = result.is_err() || !extents.is_empty();
                let result = if honest { result } else { Err(IoError::new(IoErrorKind::Gone)) };
                answer.set(result.map(|()| extents));
                honest
            }
        }
    }
}

struct Waiting {
    cookie: Cookie,
    /// The first error chunk of a reply that is not over.
    error: Option<IoError>,
    /// None while the receiver has it.
    pending: Option<Pending>,
}

/// All requests under way.
#[derive(Default)]
pub(super) struct Requests {
    waiting: Mutex<Slab<Waiting>>,
    sequence: AtomicU32,
    pub(super) gone: AtomicBool,
}

impl Requests {
    /// Registers a request under a new cookie: a place in the list, and a number that distinguishes late
    /// replies from new ones. None: the connection is gone, and the request has failed.
    pub(super) fn insert(&self, pending: Pending) -> Option<Cookie> {
        let mut waiting = self.waiting.lock();
        // Checked under the lock, so that no request enters after `lose` has emptied the list.
        if self.gone.load(Ordering::SeqCst) {
            drop(waiting);
            pending.finish(Err(IoError::new(IoErrorKind::Gone)));
            return None;
        }
        let sequence = u64::from(self.sequence.fetch_add(1, Ordering::Relaxed));
        let place = waiting.vacant_entry();
        let cookie = Cookie(sequence << 32 | place.key() as u64 & 0xffff_ffff);
        place.insert(Waiting { cookie, error: None, pending: Some(pending) });
        Some(cookie)
    }

    fn with<R>(&self, cookie: Cookie, f: impl FnOnce(&mut Waiting) -> R) -> Option<R> {
        let mut waiting = self.waiting.lock();
        let found = waiting.get_mut((cookie.0 & 0xffff_ffff) as usize)?;
        (found.cookie == cookie).then(|| f(found))
    }

    /// Lends the request to the receiver, which gives it back or finishes it. None: no such request.
    pub(super) fn take(&self, cookie: Cookie) -> Option<Pending> {
        self.with(cookie, |waiting| waiting.pending.take())?
    }

    /// Takes the request back: more chunks will come. If the connection was lost meanwhile, fails the
    /// request.
    pub(super) fn give_back(&self, cookie: Cookie, pending: Pending) {
        let mut pending = Some(pending);
        self.with(cookie, |waiting| waiting.pending = pending.take());
        if let Some(orphan) = pending {
            orphan.finish(Err(IoError::new(IoErrorKind::Gone)));
        }
    }

    /// Remembers the first error of a reply.
    pub(super) fn note_error(&self, cookie: Cookie, error: IoError) {
        self.with(cookie, |waiting| *waiting.error.get_or_insert(error));
    }

    /// Forgets the request and returns the error noted for it.
    pub(super) fn remove(&self, cookie: Cookie) -> Result<(), IoError> {
        let mut waiting = self.waiting.lock();
        let index = (cookie.0 & 0xffff_ffff) as usize;
        if waiting.get(index).is_some_and(|found| found.cookie == cookie) {
            return waiting.remove(index).error.map_or(Ok(()), Err);
        }
        Err(IoError::new(IoErrorKind::Gone))
    }

    /// Ends one request with an error.
    pub(super) fn fail(&self, cookie: Cookie, error: IoError) {
        let pending = self.take(cookie);
        let _ = self.remove(cookie);
        if let Some(pending) = pending {
            pending.finish(Err(error));
        }
    }

    /// Ends all requests, and later ones.
    pub(super) fn lose(&self) {
        let lost = {
            let mut waiting = self.waiting.lock();
            self.gone.store(true, Ordering::SeqCst);
            std::mem::take(&mut *waiting)
        };
        for pending in lost.into_iter().filter_map(|(_, waiting)| waiting.pending) {
            pending.finish(Err(IoError::new(IoErrorKind::Gone)));
        }
    }
}

#[cfg(test)]
mod tests {
    use stripewise_device::IoBuf;

    use super::*;

    fn read(len: usize) -> ReadInto {
        ReadInto::new(1000, smallvec::smallvec![IoBuf::with_len(len)], Answer::default())
    }

    #[test]
    fn chunks_in_any_order_complete_a_read() {
        let mut into = read(100);
        assert_eq!(into.claim(1050, 50), Some(50));
        assert!(!into.is_complete());
        assert_eq!(into.claim(1000, 20), Some(0));
        assert_eq!(into.claim(1020, 30), Some(20));
        assert!(into.is_complete());
    }

    #[test]
    fn foreign_and_overlapping_chunks_are_noticed() {
        assert_eq!(read(100).claim(999, 10), None);
        assert_eq!(read(100).claim(1090, 11), None);
        assert_eq!(read(100).claim(u64::MAX, u64::MAX), None);
        let mut into = read(100);
        into.claim(1010, 20);
        assert_eq!(into.claim(1000, 11), None);
        assert_eq!(into.claim(1029, 10), None);
        assert_eq!(into.claim(1015, 5), None);
        assert_eq!(into.claim(1005, 50), None);
        assert_eq!(into.claim(1000, 10), Some(0));
    }

    #[test]
    fn success_without_the_data_is_a_lie() {
        assert!(!read(100).finish(Ok(())));
        assert!(read(100).finish(Err(IoError::new(IoErrorKind::Medium))));
    }
}
