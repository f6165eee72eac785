//! The requests that a modelled disk has accepted, from the call until the caller knows the outcome.

use std::task::Waker;

use slab::Slab;
use stripewise_device::{IoError, ReadBufs, ReadDone, WriteBufs};

use super::contents::Pages;

/// A request's name for the model: the disk's life in the upper half, a slot in the lower.
pub(super) type RequestId = u64;

/// Requests by slot.
#[derive(Default)]
pub(super) struct Requests {
    slots: Slab<Request>,
    /// Grows with each power failure; the model's completions of an earlier life's requests are ignored.
    life: u32,
}

/// One request.
pub(super) struct Request {
    offset_bytes: u64,
    len_bytes: u64,
    data: Data,
    progress: Progress,
}

/// The data of a request: its destination or its content.
pub(super) enum Data {
    None,
    Read(ReadBufs),
    Write(WriteBufs),
    Zero,
}

enum Progress {
    /// Under way; the waker of the waiting task.
    UnderWay(Option<Waker>),
    /// Under way, and no caller will ask.
    Abandoned,
    Done,
}

impl Requests {
    pub(super) fn add(&mut self, offset_bytes: u64, len_bytes: u64, data: Data) -> RequestId {
        let progress = Progress::UnderWay(None);
        let slot = self.slots.insert(Request { offset_bytes, len_bytes, data, progress });
        u64::from(self.life) << 32 | slot as u64
    }

    /// The slot of a request of this life.
    fn slot(&self, id: RequestId) -> Option<usize> {
        ((id >> 32) as u32 == self.life).then_some(id as u32 as usize)
    }

    /// A request takes effect. Returns the waker of the task that waits for it.
    pub(super) fn complete(&mut self, id: RequestId, pages: &mut Pages) -> Option<Waker> {
        let slot = self.slot(id)?;
        let request = &mut self.slots[slot];
        request.take_effect(pages);
        match std::mem::replace(&mut request.progress, Progress::Done) {
            Progress::UnderWay(waker) => waker,
            Progress::Abandoned => {
                self.slots.remove(slot);
                None
            }
            Progress::Done => unreachable!("a model completes each request once"),
        }
    }

    /// Takes out a request that is done; else keeps `waker` until it is. A request of an earlier life never
    /// is.
    pub(super) fn poll(&mut self, id: RequestId, waker: &Waker) -> Option<Request> {
        let slot = self.slot(id)?;
        match &mut self.slots[slot].progress {
            Progress::Done => Some(self.slots.remove(slot)),
            Progress::UnderWay(Some(own)) if own.will_wake(waker) => None,
            Progress::UnderWay(own) => {
                *own = Some(waker.clone());
                None
            }
            Progress::Abandoned => unreachable!("only a dropped future abandons its request"),
        }
    }

    /// No caller will ask for the request any more. Returns what can be dropped, outside of locks.
    pub(super) fn abandon(&mut self, id: RequestId) -> Option<(Option<Waker>, Option<Request>)> {
        let slot = self.slot(id)?;
        match std::mem::replace(&mut self.slots[slot].progress, Progress::Abandoned) {
            Progress::UnderWay(waker) => Some((waker, None)),
            _ => Some((None, Some(self.slots.remove(slot)))),
        }
    }

    /// A power failure: none of these requests ever completes.
    pub(super) fn forget_all(&mut self) -> Slab<Request> {
        self.life += 1;
        std::mem::take(&mut self.slots)
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

/// The outcome of a finished request for its caller.
pub(super) trait Outcome: 'static {
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
