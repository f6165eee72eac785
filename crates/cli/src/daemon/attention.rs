//! Work that a daemon does for one command at a time, and only while it goes on asking how it stands.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;

/// How long the work goes on for a command that asks no more.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Whether a command still asks.
#[derive(Default)]
pub(super) struct Attention(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// When it last asked; none while nobody does.
    asked: Mutex<Option<Instant>>,
    ended: Condvar,
}

impl Shared {
    fn asked(&self) -> MutexGuard<'_, Option<Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it has ended, or the command has asked no more for a while: then `on_silence` ends the work.
    fn watch(&self, on_silence: impl FnOnce()) {
        let mut asked = self.asked();
        while let Some(last) = *asked {
            let left = PATIENCE.saturating_sub(last.elapsed());
            if left.is_zero() {
                *asked = None;
                on_silence();
                return;
            }
            asked = self.ended.wait_timeout(asked, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Attention {
    /// Begins work, which `on_silence` ends. False if it is under way for another command.
    pub(super) fn begin(&self, on_silence: impl FnOnce() + Send + 'static) -> anyhow::Result<bool> {
        let mut asked = self.0.asked();
        if asked.is_some() {
            return Ok(false);
        }
        let shared = self.0.clone();
        let thread = thread::Builder::new().name("stripewise-watch".into());
        thread.spawn(move || shared.watch(on_silence)).context("watching the command that asks")?;
        *asked = Some(Instant::now());
        Ok(true)
    }

    /// The command asks. False if the work has ended.
    pub(super) fn ask(&self) -> bool {
        let mut asked = self.0.asked();
        let goes_on = asked.is_some();
        *asked = asked.map(|_| Instant::now());
        goes_on
    }

    /// The work has ended.
    pub(super) fn end(&self) {
        *self.0.asked() = None;
        self.0.ended.notify_all();
    }
}
