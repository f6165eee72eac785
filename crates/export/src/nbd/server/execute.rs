//! From granted work to a reply: calls the device, and turns its results into answers.

use std::{future::Future, ops::Range, sync::Arc};

use smallvec::smallvec;
use stripewise_device::{
    Device, Extent, IoBuf, IoError, IoErrorKind, IoFuture, ReadDone, SharedBuf, WriteBufs, WriteFlags,
    ZeroFlags, sync::yield_now,
};

use super::{budget::Ticket, connection::Connection};
use crate::nbd::{
    limits::{STATUS_EXTENTS_MAX, ZEROES_STEP_BYTES},
    proto::{
        Chunk, Cookie, Head, NbdErrno, Refusal, SLOW_ZEROES, Session, StatusExtent, Work,
        codes::{BASE_ALLOCATION_ID, STATE_HOLE, STATE_ZERO},
    },
};

/// A request under way.
pub(super) struct Job {
    pub(super) connection: Arc<Connection>,
    pub(super) session: Session,
    pub(super) cookie: Cookie,
    pub(super) ticket: Ticket,
}

impl Job {
    fn device(&self) -> &dyn Device {
        self.connection.device(&self.session)
    }

    fn succeed(mut self) {
        self.ticket.release_bytes();
        self.connection.reply(Head::simple(self.cookie, None), WriteBufs::new(), self.ticket);
    }

    /// Succeeds without content: with structured replies, READ needs a chunk that says so.
    fn succeed_empty(self) {
        let structured = self.session.structured;
        let head = if structured { Head::done_chunk(self.cookie) } else { Head::simple(self.cookie, None) };
        self.connection.reply(head, WriteBufs::new(), self.ticket);
    }

    fn fail(self, error: IoError) {
        tracing::debug!(export = self.session.export, %error, "a request failed in the device");
        self.refuse(refusal(error));
    }

    fn refuse(self, refusal: Refusal) {
        self.connection.refuse(&self.session, self.cookie, refusal, self.ticket);
    }

    fn finish(self, result: Result<(), IoError>) {
        match result {
            Ok(()) => self.succeed(),
            Err(error) => self.fail(error),
        }
    }
}

/// The protocol's error number for a device's error.
fn refusal(error: IoError) -> Refusal {
    let (errno, reason) = match error.kind {
        IoErrorKind::Medium | IoErrorKind::BadBlock => (NbdErrno::Io, "the medium failed here"),
        IoErrorKind::Gone | IoErrorKind::NoRuntime => (NbdErrno::Shutdown, "the device is gone"),
        IoErrorKind::Silent => (NbdErrno::Io, "the device does not answer"),
        IoErrorKind::Truncated => (NbdErrno::Io, "the device ends before its size"),
        IoErrorKind::NoSpace => (NbdErrno::NoSpace, "the store under the device is full"),
        IoErrorKind::Refused => (NbdErrno::Invalid, "the device refused the request"),
        IoErrorKind::Other => (NbdErrno::Io, "I/O error"),
    };
    Refusal { errno, reason }
}

/// Starts a request. If the device answers at once, the reply is queued here; else a task of this worker does
/// that.
pub(super) fn start(job: Job, work: Work, asked_offset_bytes: u64, payload: Option<SharedBuf>) {
    match work {
        Work::Read { offset_bytes, len_bytes, skip_bytes, take_bytes } => {
            let buf = IoBuf::with_len(len_bytes as usize);
            let read = job.device().read(offset_bytes, smallvec![buf]);
            let part = skip_bytes as usize..(skip_bytes + take_bytes) as usize;
            drive(job, read, move |job, done| finish_read(job, done, part, asked_offset_bytes));
        }
        Work::Write { offset_bytes, len_bytes, fua } => {
            job.connection.shared().counters().count_write(u64::from(len_bytes));
            let write = job.device().write(offset_bytes, payload.into_iter().collect(), WriteFlags { fua });
            drive(job, write, Job::finish);
        }
        Work::Flush => {
            let flush = job.device().flush();
            drive(job, flush, Job::finish);
        }
        Work::Trim { offset_bytes, len_bytes, fua: false } => {
            let trim = job.device().discard(offset_bytes, len_bytes);
            drive(job, trim, Job::finish);
        }
        Work::Trim { offset_bytes, len_bytes, fua: true } => spawn(&job.connection.clone(), async move {
            let result = trim_durably(job.device(), offset_bytes, len_bytes).await;
            job.finish(result);
        }),
        Work::Zeroes { offset_bytes, len_bytes, may_unmap, fast_only, fua } => {
            spawn(&job.connection.clone(), async move {
                let flags = ZeroFlags { may_unmap, fast_only };
                match zero(job.device(), offset_bytes, len_bytes, flags, fua).await {
                    Err(error) if fast_only && error.kind == IoErrorKind::Refused => {
                        job.refuse(SLOW_ZEROES);
                    }
                    result => job.finish(result),
                }
            })
        }
        Work::Status { offset_bytes, len_bytes, skip_bytes, take_bytes, one } => {
            let extents = job.device().extents(offset_bytes, len_bytes);
            let count_max = if one { 1 } else { STATUS_EXTENTS_MAX };
            drive(job, extents, move |job, found| {
                finish_status(job, found, skip_bytes, take_bytes, count_max)
            });
        }
        Work::Nothing | Work::Disconnect => job.succeed_empty(),
    }
}

/// Finishes a ready request now, else leaves a task that does.
fn drive<T: Unpin + Send + 'static>(
    job: Job,
    future: IoFuture<T>,
    finish: impl FnOnce(Job, T) + Send + 'static,
) {
    match future.try_ready() {
        Ok(value) => finish(job, value),
        Err(future) => spawn(&job.connection.clone(), async move { finish(job, future.await) }),
    }
}

fn spawn(connection: &Connection, task: impl Future<Output = ()> + Send + 'static) {
    connection.shared().env().spawn(Box::pin(task));
}

async fn trim_durably(device: &dyn Device, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
    device.discard(offset_bytes, len_bytes).await?;
    device.flush().await
}

/// Zeroes in steps, so that a request for 4 GiB does not keep a device busy with one call, nor the worker if
/// the device is done at once.
async fn zero(
    device: &dyn Device,
    offset_bytes: u64,
    len_bytes: u64,
    flags: ZeroFlags,
    fua: bool,
) -> Result<(), IoError> {
    let mut done = 0;
    while done < len_bytes {
        let now = ZEROES_STEP_BYTES.min(len_bytes - done);
        device.write_zeroes(offset_bytes + done, now, flags).await?;
        done += now;
        if done < len_bytes {
            yield_now().await;
        }
    }
    if fua { device.flush().await } else { Ok(()) }
}

fn finish_read(job: Job, done: ReadDone, part: Range<usize>, asked_offset_bytes: u64) {
    let buf = match done.into_one() {
        Ok(buf) => buf.freeze(),
        Err(error) => return job.fail(error),
    };
    job.connection.shared().counters().count_read(part.len() as u64);
    let head = if job.session.structured {
        Head::data_chunk(job.cookie, asked_offset_bytes, part.len() as u32)
    } else {
        Head::simple(job.cookie, None)
    };
    job.connection.reply(head, smallvec![buf.slice(part)], job.ticket);
}

fn finish_status(
    job: Job,
    found: Result<Vec<Extent>, IoError>,
    skip_bytes: u32,
    take_bytes: u32,
    count_max: usize,
) {
    match found {
        Ok(found) => {
            let extents = status_extents(&found, skip_bytes, take_bytes, count_max);
            let chunk = Chunk::BlockStatus { context: BASE_ALLOCATION_ID, extents };
            job.connection.reply_chunk(job.cookie, &chunk, job.ticket);
        }
        Err(error) => job.fail(error),
    }
}

/// Cuts the device's extents of the enclosing blocks down to the requested part, and joins equal neighbours.
/// Never empty: if the device reported nothing about the requested part, that part counts as "stored", which
/// promises nothing.
fn status_extents(found: &[Extent], skip_bytes: u32, take_bytes: u32, count_max: usize) -> Vec<StatusExtent> {
    let (mut skip, mut left) = (u64::from(skip_bytes), u64::from(take_bytes));
    let mut extents: Vec<StatusExtent> = Vec::new();
    for extent in found {
        let skipped = skip.min(extent.len_bytes);
        skip -= skipped;
        let len = (extent.len_bytes - skipped).min(left) as u32;
        let status = if extent.is_hole { STATE_HOLE | STATE_ZERO } else { 0 };
        let full = extents.len() == count_max;
        match extents.last_mut() {
            _ if len == 0 => continue,
            Some(last) if last.status == status => last.len_bytes += len,
            _ if full => break,
            _ => extents.push(StatusExtent { len_bytes: len, status }),
        }
        left -= u64::from(len);
    }
    if extents.is_empty() {
        extents.push(StatusExtent { len_bytes: take_bytes, status: 0 });
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(len_bytes: u64, is_hole: bool) -> Extent {
        Extent { len_bytes, is_hole }
    }

    fn status(len_bytes: u32, status: u32) -> StatusExtent {
        StatusExtent { len_bytes, status }
    }

    #[test]
    fn extents_are_cut_to_the_request_and_joined() {
        let found = [extent(4096, false), extent(4096, false), extent(4096, true), extent(8192, true)];
        let all = status_extents(&found, 1000, 20_000, 10);
        assert_eq!(all, [status(7192, 0), status(12_288, 3)]);
        assert_eq!(status_extents(&found, 0, 9000, 10), [status(8192, 0), status(808, 3)]);
        assert_eq!(status_extents(&found, 0, 20_000, 1), [status(8192, 0)], "one extent only, joined first");
    }

    #[test]
    fn a_device_that_tells_nothing_is_stored_everywhere() {
        assert_eq!(status_extents(&[], 0, 512, 10), [status(512, 0)]);
        assert_eq!(status_extents(&[extent(512, true)], 512, 512, 10), [status(512, 0)]);
    }
}
