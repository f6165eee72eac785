//! Injects errors: by operation, by range, a given number of times; or makes the whole member vanish.

use std::{ops::Range, sync::Arc};

use parking_lot::Mutex;

use crate::{
    Completion, Device, DeviceInfo, Extent, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, WriteBufs,
    WriteFlags, ZeroFlags, bufs_len,
};

/// The operations that a rule can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes and zero-writes.
    Write,
    /// Flushes (their range is empty; any rule for flushes applies).
    Flush,
}

/// One fault to inject.
#[derive(Debug, Clone)]
pub struct FaultRule {
    /// Which operation fails.
    pub operation: Operation,
    /// Which bytes fail; a request fails if it touches any of them.
    pub range_bytes: Range<u64>,
    /// The error returned.
    pub kind: IoErrorKind,
    /// How many times, until the rule is spent; `u32::MAX` for always.
    pub times: u32,
    /// A write that touches the range heals it: later reads succeed, as a disk remaps a sector.
    pub healed_by_write: bool,
}

impl FaultRule {
    /// Whether this rule makes such a request fail.
    fn applies(&self, operation: Operation, range_bytes: &Range<u64>) -> bool {
        let touches = operation == Operation::Flush || self.touches(range_bytes);
        self.operation == operation && self.times > 0 && touches
    }

    fn touches(&self, range_bytes: &Range<u64>) -> bool {
        self.range_bytes.start < range_bytes.end && range_bytes.start < self.range_bytes.end
    }
}

/// The live set of faults of one member, shared with the code that injects them.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    gone: bool,
    rules: Vec<FaultRule>,
    /// Requests that failed.
    failed: u64,
}

impl Faults {
    /// Adds a fault.
    pub fn add(&self, rule: FaultRule) {
        self.state.lock().rules.push(rule);
    }

    /// Makes every request fail as on a vanished device, or brings the device back.
    pub fn set_gone(&self, gone: bool) {
        self.state.lock().gone = gone;
    }

    /// Whether no fault is left to inject.
    pub fn is_quiet(&self) -> bool {
        let state = self.state.lock();
        !state.gone && state.rules.iter().all(|rule| rule.times == 0)
    }

    /// Whether the member is gone.
    pub fn is_gone(&self) -> bool {
        self.state.lock().gone
    }

    /// Whether a rule would fail some request of this kind to these bytes, if the member is not gone. Flushes
    /// touch all.
    pub fn may_fail(&self, operation: Operation, range_bytes: Range<u64>) -> bool {
        self.state.lock().rules.iter().any(|rule| rule.applies(operation, &range_bytes))
    }

    /// Requests that a rule has failed since the faults were last cleared.
    pub fn failed(&self) -> u64 {
        self.state.lock().failed
    }

    /// Clears all faults; a vanished device is back.
    pub fn clear(&self) {
        *self.state.lock() = State::default();
    }

    fn check(&self, operation: Operation, offset_bytes: u64, len_bytes: u64) -> Result<(), IoError> {
        let mut state = self.state.lock();
        if state.gone {
            return Err(IoError::from_errno(libc::ENODEV));
        }
        let range_bytes = offset_bytes..offset_bytes + len_bytes;
        if let Some(rule) = state.rules.iter_mut().find(|rule| rule.applies(operation, &range_bytes)) {
            rule.times -= u32::from(rule.times != u32::MAX);
            let errno = if rule.kind == IoErrorKind::NoSpace { libc::ENOSPC } else { libc::EIO };
            let kind = rule.kind;
            state.failed += 1;
            return Err(IoError { kind, errno });
        }
        if operation == Operation::Write {
            state.rules.retain(|rule| !(rule.healed_by_write && rule.touches(&range_bytes)));
        }
        Ok(())
    }
}

/// A layer that injects faults.
pub struct Fault<D> {
    inner: D,
    faults: Arc<Faults>,
}

impl<D> Fault<D> {
    /// Wraps a member; faults are added through the returned handle.
    pub fn new(inner: D) -> (Self, Arc<Faults>) {
        let faults = Arc::<Faults>::default();
        (Self { inner, faults: faults.clone() }, faults)
    }
}

impl<D: Device> Device for Fault<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        match self.faults.check(Operation::Read, offset_bytes, bufs_len(&into) as u64) {
            Ok(()) => self.inner.read(offset_bytes, into),
            Err(error) => IoFuture::ready(ReadDone { result: Err(error), bufs: into }),
        }
    }

    fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        match self.faults.check(Operation::Write, offset_bytes, bufs_len(&from) as u64) {
            Ok(()) => self.inner.write(offset_bytes, from, flags),
            Err(error) => IoFuture::ready(Err(error)),
        }
    }

    fn flush(&self) -> Completion {
        match self.faults.check(Operation::Flush, 0, 0) {
            Ok(()) => self.inner.flush(),
            Err(error) => IoFuture::ready(Err(error)),
        }
    }

    fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        match self.faults.check(Operation::Write, offset_bytes, len_bytes) {
            Ok(()) => self.inner.write_zeroes(offset_bytes, len_bytes, flags),
            Err(error) => IoFuture::ready(Err(error)),
        }
    }

    /// Fails only if the member is gone: a discard heals nothing, and no rule names it.
    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Completion {
        match self.faults.is_gone() {
            false => self.inner.discard(offset_bytes, len_bytes),
            true => IoFuture::ready(Err(IoError::from_errno(libc::ENODEV))),
        }
    }

    /// Fails only if the member is gone: the call reads no medium.
    fn extents(&self, offset_bytes: u64, len_bytes: u64) -> IoFuture<Result<Vec<Extent>, IoError>> {
        match self.faults.is_gone() {
            false => self.inner.extents(offset_bytes, len_bytes),
            true => IoFuture::ready(Err(IoError::from_errno(libc::ENODEV))),
        }
    }
}
