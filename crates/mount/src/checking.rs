//! A look at a mounted file system, asked for by extended attributes of its root: reading one begins a look, and reading the other tells how
//! far it has come, or what was found.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    thread,
};

use futures_executor::block_on;
use parking_lot::Mutex;
use stripewise_device::{
    Completion, EnvHandle, IoBuf, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, SharedBuf, sync::Event,
};
use stripewise_fuse::{Errno, request::Caller};
use stripewise_rafs::{
    check::{Progress, check_mounted},
    fs::Fs,
    shape::{Cell, Geometry, StripeNo},
    volume::Volume,
};

use crate::{
    answer,
    report::{Look, LookStep},
    server::Rafs,
};

/// The newest look; none before the first.
pub(crate) type Newest = Mutex<Option<Arc<UnderWay>>>;

/// A look under way, or ended.
pub(crate) struct UnderWay {
    step: Mutex<LookStep>,
    found: OnceLock<Look>,
}

impl UnderWay {
    fn told(&self) -> Look {
        self.found.get().cloned().unwrap_or_else(|| Look::UnderWay(self.step.lock().clone()))
    }
}

impl Rafs {
    /// Begins a look, on a thread of its own: it takes the processor for seconds at a time.
    pub(crate) fn begin_look(&self, caller: Caller) -> answer::Result<Vec<u8>> {
        self.check_owner(caller)?;
        let mut newest = self.look.lock();
        if newest.as_ref().is_some_and(|look| look.found.get().is_none()) {
            return Err(Errno::BUSY);
        }
        let look = Arc::new(UnderWay { step: Mutex::default(), found: OnceLock::new() });
        let (fs, env, shown) = (self.fs.clone(), self.env.clone(), look.clone());
        let run = move || {
            let looked = catch_unwind(AssertUnwindSafe(|| look_at(&fs, &env, &shown)));
            let ended = || Look::Failed("the look has ended by itself; see the log of this mount".to_owned());
            // Another value is never set.
            let _ = shown.found.set(looked.unwrap_or_else(|_| ended()));
        };
        let started = thread::Builder::new().name("stripewise-look".into()).spawn(run);
        started.map_err(|error| {
            tracing::warn!("no thread for a look at the file system: {error}");
            Errno::AGAIN
        })?;
        *newest = Some(look.clone());
        in_json(&look.told())
    }

    /// How far the newest look has come, in JSON.
    pub(crate) fn look_told(&self, caller: Caller) -> answer::Result<Vec<u8>> {
        self.check_owner(caller)?;
        let look = self.look.lock().clone().ok_or(Errno::NODATA)?;
        in_json(&look.told())
    }
}

fn in_json(look: &Look) -> answer::Result<Vec<u8>> {
    serde_json::to_vec(look).map_err(|_| Errno::IO)
}

fn look_at(fs: &Fs, env: &EnvHandle, shown: &Arc<UnderWay>) -> Look {
    let step = shown.clone();
    let progress = Progress::new(move |what, done, all| {
        *step.step.lock() = LookStep { what: what.to_owned(), done, all };
    });
    let through = |volume| Arc::new(ByTasks { volume, env: env.clone() }) as Arc<dyn Volume>;
    match block_on(check_mounted(fs, through, &progress)) {
        Ok(report) => Look::found(&report),
        Err(error) => Look::Failed(error.to_string()),
    }
}

/// A volume that is read by tasks of the runtime: its requests cannot begin on other threads. Nothing else is asked of it.
struct ByTasks {
    volume: Arc<dyn Volume>,
    env: EnvHandle,
}

impl ByTasks {
    fn by_task<T: Send + Unpin + 'static>(
        &self,
        begin: impl FnOnce(&dyn Volume) -> IoFuture<T> + Send + 'static,
    ) -> IoFuture<T> {
        let (volume, ended, told) = (self.volume.clone(), Event::default(), Arc::new(Mutex::new(None)));
        let (end, tell) = (Ends(ended.clone()), told.clone());
        self.env.spawn(Box::pin(async move {
            let result = begin(&*volume).await;
            *tell.lock() = Some(result);
            drop(end);
        }));
        IoFuture::boxed(async move {
            ended.wait().await;
            told.lock().take().expect("the runtime runs tasks to their end")
        })
    }

    fn refused() -> Completion {
        IoFuture::ready(Err(IoError::new(IoErrorKind::Refused)))
    }
}

/// Tells the end of a task, also if it is dropped.
struct Ends(Event<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.set(());
    }
}

impl Volume for ByTasks {
    fn geometry(&self) -> Geometry {
        self.volume.geometry()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.by_task(move |volume| volume.read(offset_bytes, into))
    }

    fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>> {
        self.by_task(move |volume| volume.read_rows(stripe, rows))
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
        self.by_task(move |volume| volume.read_otherwise(way, column, stripe, rows))
    }

    fn write_rows(&self, _stripe: StripeNo, _first: u32, _blocks: &[SharedBuf]) -> Completion {
        Self::refused()
    }

    fn write_blocks(&self, _stripe: StripeNo, _blocks: &[(Cell, SharedBuf)]) -> Completion {
        Self::refused()
    }

    fn flush(&self) -> Completion {
        Self::refused()
    }

    fn discard(&self, _stripes: Range<StripeNo>) -> Completion {
        Self::refused()
    }
}
