//! Load that a daemon puts on its own array, for one command at a time: what is measured has no socket, kernel or
//! cache in between.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::{Context, bail, ensure};
use stripewise::{Array, Device, Host, StatsReport};
use stripewise_lab::load::{Control, run_controlled};

use super::{
    attention::{Attention, PATIENCE},
    state::Notes,
};
use crate::{
    bench::{LoadFigures, LoadSpec, Spread},
    protocol::LoadStatus,
};

/// Who loads it, and with what.
#[derive(Default)]
pub(super) struct Loading {
    attention: Attention,
    running: Mutex<Option<Arc<Running>>>,
}

#[derive(Default)]
struct Running {
    control: Arc<Control>,
    writes: bool,
    /// Once it is over.
    figures: Mutex<Option<LoadFigures>>,
}

impl Running {
    fn figures(&self) -> MutexGuard<'_, Option<LoadFigures>> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loading {
    fn running(&self) -> MutexGuard<'_, Option<Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a load.
    pub(super) fn start(&self, host: &Host, array: &Array, spec: LoadSpec) -> anyhow::Result<Notes> {
        let device: Arc<dyn Device> = Arc::new(array.device());
        let load = spec.load(device.info())?;
        ensure!(!spec.writes() || !array.is_read_only(), "the array is read-only");
        let control = Arc::new(Control::until_error());
        let running =
            Arc::new(Running { control: control.clone(), writes: spec.writes(), ..Running::default() });
        let unwatched = control.clone();
        let begun = self.attention.begin(move || {
            unwatched.end();
            tracing::info!("nobody asks for the load any more");
        })?;
        ensure!(begun, "another command loads it; wait for that");
        *self.running() = Some(running.clone());
        let (runtime, array) = (host.runtime().clone(), array.clone());
        let env = Spread::over(&runtime);
        let work = move || {
            let before = array.stats().report();
            let report = runtime.block_on(async move { run_controlled(env, device, load, control).await });
            let added = added(&before, &array.stats().report());
            *running.figures() = Some(LoadFigures::new(spec, &report, Some(added)));
        };
        thread::Builder::new().name("stripewise-load".into()).spawn(work).context("starting the load")?;
        Ok(Notes::new())
    }

    /// How it stands; with its figures, it is over.
    pub(super) fn status(&self) -> anyhow::Result<LoadStatus> {
        let running = self.running().clone();
        let Some(running) = running.filter(|_| self.attention.ask()) else {
            bail!("it is not being loaded any more: nobody had asked for {} s", PATIENCE.as_secs());
        };
        let figures = running.figures().clone();
        if figures.is_some() {
            self.attention.end();
        }
        Ok(LoadStatus { done_bytes: running.control.done_bytes(), figures: figures.map(Box::new) })
    }

    /// Whether one is under way that overwrites the array.
    pub(super) fn is_writing(&self) -> bool {
        self.running().as_ref().is_some_and(|running| running.writes && running.figures().is_none())
    }

    /// Ends it before its time.
    pub(super) fn cut_short(&self) {
        if let Some(running) = &*self.running() {
            running.control.end();
        }
    }
}

fn added(before: &StatsReport, after: &StatsReport) -> BTreeMap<String, u64> {
    let grown = after.fields().into_iter().zip(before.fields());
    grown.map(|((name, now), (_, then))| (name.to_owned(), now - then)).collect()
}
