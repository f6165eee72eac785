//! The volume of a story: it tells how it was written, and has faults.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::{
    Completion, EnvHandle, IoBuf, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, SharedBuf,
};
use stripewise_rafs::{
    shape::{BLOCK_BYTES, Cell, Geometry, StripeNo},
    volume::Volume,
};

use super::doubts::Doubts;

/// One in so many reads takes longer.
const SLOW_READS: u64 = 24;
/// How long at most, in milliseconds.
const SLOW_MS: u64 = 4000;

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A write: nothing arrives.
    Write,
    /// A write that arrives all the same.
    WriteDone,
    /// A flush: nothing is durable.
    Flush,
    /// A flush that has made everything durable all the same.
    FlushDone,
}

impl Fault {
    pub(super) const ALL: [Self; 4] = [Self::Write, Self::WriteDone, Self::Flush, Self::FlushDone];
}

/// A volume that tells whether blocks were written beside others, and not flushed: such a write may hurt these if a member is missing in a
/// crash. Now and then it takes long to read, and a write or a flush fails when a client wants that.
pub(super) struct Watched {
    env: EnvHandle,
    volume: Arc<dyn Volume>,
    doubts: Arc<Doubts>,
    fault: Mutex<Option<Fault>>,
    faults: AtomicU64,
}

impl Watched {
    pub(super) fn new(env: EnvHandle, volume: Arc<dyn Volume>) -> Self {
        Self { env, volume, doubts: Arc::default(), fault: Mutex::new(None), faults: AtomicU64::new(0) }
    }

    /// What a crash may tear.
    pub(super) fn doubts(&self) -> &Doubts {
        &self.doubts
    }

    /// A write, which is in doubt until a flush.
    fn write(&self, is_beside: bool, write: impl FnOnce() -> Completion) -> Completion {
        let (doubts, number) = (self.doubts.clone(), self.doubts.begin(is_beside));
        let done = self.with_faults([Fault::Write, Fault::WriteDone], write);
        IoFuture::boxed(async move {
            let result = done.await;
            doubts.end(number);
            result
        })
    }

    /// The next request to which this can happen has this fault.
    pub(super) fn fail(&self, fault: Fault) {
        *self.fault.lock() = Some(fault);
    }

    /// Whether there was a fault.
    pub(super) fn has_failed(&self) -> bool {
        self.faults.load(Ordering::Relaxed) > 0
    }

    /// The fault that is due, if it is one of these.
    fn take_fault(&self, wanted: [Fault; 2]) -> Option<Fault> {
        let mut fault = self.fault.lock();
        fault.filter(|fault| wanted.contains(fault))?;
        self.faults.fetch_add(1, Ordering::Relaxed);
        fault.take()
    }

    fn with_faults(&self, wanted: [Fault; 2], begin: impl FnOnce() -> Completion) -> Completion {
        match self.take_fault(wanted) {
            None => begin(),
            Some(fault) => {
                let arrives = matches!(fault, Fault::WriteDone | Fault::FlushDone);
                let done = arrives.then(begin);
                IoFuture::boxed(async move {
                    if let Some(done) = done {
                        done.await?;
                    }
                    Err(IoError::new(IoErrorKind::Medium))
                })
            }
        }
    }

    /// How long a read waits before it begins.
    fn rest(&self) -> Option<Duration> {
        let is_slow = self.env.random_u64().is_multiple_of(SLOW_READS);
        is_slow.then(|| Duration::from_millis(self.env.random_u64() % SLOW_MS))
    }
}

impl Volume for Watched {
    fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }

    fn may_overwrite(&self) -> bool {
        self.volume.may_overwrite()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        let Some(rest) = self.rest() else { return self.volume.read(offset_bytes, into) };
        let (env, volume) = (self.env.clone(), self.volume.clone());
        IoFuture::boxed(async move {
            env.sleep(rest).await;
            volume.read(offset_bytes, into).await
        })
    }

    fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>> {
        self.volume.read_rows(stripe, rows)
    }

    fn write_rows(&self, stripe: StripeNo, first: u32, blocks: &[SharedBuf]) -> Completion {
        self.write(false, || self.volume.write_rows(stripe, first, blocks))
    }

    fn write_blocks(&self, stripe: StripeNo, blocks: &[(Cell, SharedBuf)]) -> Completion {
        self.write(true, || self.volume.write_blocks(stripe, blocks))
    }

    fn other_ways(&self) -> u32 {
        self.volume.other_ways()
    }

    fn read_otherwise(
        &self,
        way: u32,
        column: u32,
        stripe: StripeNo,
        rows: Range<u32>,
    ) -> IoFuture<Result<Option<Vec<IoBuf>>, IoError>> {
        self.volume.read_otherwise(way, column, stripe, rows)
    }

    fn heal(
        &self,
        way: u32,
        stripe: StripeNo,
        cell: Cell,
        block: SharedBuf,
    ) -> IoFuture<Result<bool, IoError>> {
        self.volume.heal(way, stripe, cell, block)
    }

    fn flush(&self) -> Completion {
        let (doubts, ended) = (self.doubts.clone(), self.doubts.ended());
        let done = self.with_faults([Fault::Flush, Fault::FlushDone], || self.volume.flush());
        IoFuture::boxed(async move {
            done.await?;
            doubts.flushed(&ended);
            Ok(())
        })
    }

    /// What it reads as afterwards is not defined, so it is something that nobody has written.
    fn discard(&self, stripes: Range<StripeNo>) -> Completion {
        let (env, volume, rest) = (self.env.clone(), self.volume.clone(), self.rest());
        let blocks = volume.geometry().stripe_blocks() as usize;
        let junk = IoBuf::copy_of(&[0xDB; BLOCK_BYTES]).freeze();
        IoFuture::boxed(async move {
            if let Some(rest) = rest {
                env.sleep(rest).await;
            }
            for stripe in stripes.start.0..stripes.end.0 {
                volume.write_rows(StripeNo(stripe), 0, &vec![junk.clone(); blocks]).await?;
            }
            Ok(())
        })
    }
}
