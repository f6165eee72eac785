//! Stopping an array: in steps while what is cached is written, by force, or to its end when nobody asks any more.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use stripewise::{ArrayError, internals::uring::Started};
use stripewise_wire::Notes;

use super::{
    emptying::EMPTYING_STEP,
    exports::Users,
    patience::{Deadline, Patience},
    state::{DaemonState, HANGS},
};

/// How long an array may take to stop. A stop by force waits only a short time, as requests under way may
/// never end.
const STOP_WAIT: Duration = Duration::from_secs(60);
const FORCED_STOP_WAIT: Duration = Duration::from_secs(10);
/// The longest that members may take nothing of what is cached, and while the array is stopped by force: longer than a disk
/// takes to give a request up.
const EMPTYING_STILL_MAX: Duration = Duration::from_secs(60);
const FORCED_EMPTYING_STILL_MAX: Duration = Duration::from_secs(20);
/// A command that has not asked for so long no longer waits for the stop.
const STOP_FORSAKEN: Duration = Duration::from_secs(2);

const HANGS_UNCLEAN: &str = "a request to one of its members does not end; what was being written is resynced when the array is \
                             next assembled";

/// How far stopping has come.
#[derive(Default)]
pub(super) enum Stopping {
    #[default]
    No,
    /// Nothing is exported any more, and the array has been told to stop.
    Told {
        ends: Started<Result<(), ArrayError>>,
        notes: Notes,
        emptying: Emptying,
        /// By force once a command has asked for that, whether it still waits or not.
        users: Users,
        /// When a command asked last.
        asked: Instant,
    },
    Stopped(Stopped),
}

/// How far a stop has come.
pub(super) enum StopStep {
    Stopped(Stopped),
    /// What is cached is being written to members.
    Emptying {
        left_bytes: u64,
    },
}

/// Whether what is cached becomes less.
#[derive(Default)]
pub(super) struct Emptying(Option<(u64, Instant)>);

impl Emptying {
    /// Whether something is left, and was written lately.
    fn goes_on(&mut self, left_bytes: u64, users: Users) -> bool {
        let (least, since) = self.0.get_or_insert((u64::MAX, Instant::now()));
        if left_bytes < *least {
            (*least, *since) = (left_bytes, Instant::now());
        }
        let still_max = if users == Users::Force { FORCED_EMPTYING_STILL_MAX } else { EMPTYING_STILL_MAX };
        left_bytes > 0 && since.elapsed() < still_max
    }
}

/// How an array stopped.
#[derive(Debug, Clone)]
pub(super) struct Stopped {
    /// Why it is not clean.
    pub(super) unclean: Option<String>,
    /// What is left of its exports, for people.
    pub(super) notes: Notes,
}

impl DaemonState {
    /// Ends the exports and stops the array. A caller that asks while this is under way waits for it and gets
    /// the same answer. By force, a daemon whose array does not stop ends without it. In steps, a caller does not wait
    /// for long while what is cached is written.
    pub(super) fn stop(&self, users: Users, deadline: Deadline, in_steps: bool) -> anyhow::Result<StopStep> {
        let stopping = self.stopping.try_lock_until(deadline.instant());
        let mut stopping = stopping
            .ok_or_else(|| anyhow!("it is being stopped already, and that takes long; see its log"))?;
        if let Stopping::No = &*stopping {
            self.check_can_be_emptied(users)?;
            let notes = self.end_uses(users, deadline)?;
            self.loading.cut_short();
            let array = self.array.clone();
            let ends = self.host.runtime().begin(async move {
                if users == Users::Force { array.stop_by_force().await } else { array.stop().await }
            });
            let (emptying, asked) = (Emptying::default(), Instant::now());
            *stopping = Stopping::Told { ends, notes, emptying, users, asked };
        }
        if let Stopping::Told { users: told, asked, .. } = &mut *stopping {
            *asked = Instant::now();
            if users == Users::Force {
                *told = users;
            }
        }
        self.go_on_stopping(&mut stopping, deadline, in_steps)
    }

    /// Ends the file system's mount, then the exports.
    fn end_uses(&self, users: Users, deadline: Deadline) -> anyhow::Result<Notes> {
        let written = || self.array.stats().report().written_bytes;
        let is_hurried = || users == Users::Unmount && self.asked.is_hurried();
        let patience = Patience { is_over: &is_hurried, ..Patience::while_written(&written, deadline) };
        let mut notes = self.file_system.end(users, patience).map_err(|refused| self.with_stake(refused))?;
        let ended = self.exports.end_all(users, deadline).inspect_err(|_| self.file_system.reopen());
        notes.extend(ended.map_err(|refused| self.with_stake(refused))?);
        Ok(notes)
    }

    /// Ends a stop whose command asks no more. Returns whether there is nothing left to end.
    pub(super) fn end_forsaken_stop(&self) -> anyhow::Result<bool> {
        let Some(mut stopping) = self.stopping.try_lock() else { return Ok(false) };
        match &*stopping {
            Stopping::Told { asked, .. } if asked.elapsed() < STOP_FORSAKEN => Ok(false),
            Stopping::Told { .. } => {
                let step = self.go_on_stopping(&mut stopping, Deadline::of_command(), true)?;
                Ok(matches!(step, StopStep::Stopped(_)))
            }
            Stopping::No | Stopping::Stopped(_) => Ok(true),
        }
    }

    /// Whether it is being stopped.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.try_lock().is_none_or(|stopping| !matches!(*stopping, Stopping::No))
    }

    fn go_on_stopping(
        &self,
        stopping: &mut Stopping,
        deadline: Deadline,
        in_steps: bool,
    ) -> anyhow::Result<StopStep> {
        let (ends, notes, emptying, users) = match stopping {
            Stopping::Stopped(stopped) => return Ok(StopStep::Stopped(stopped.clone())),
            Stopping::Told { ends, notes, emptying, users, .. } => (ends, notes.clone(), emptying, *users),
            Stopping::No => bail!("it could not be told to stop"),
        };
        let unclean = loop {
            let is_emptied = emptying.goes_on(self.cached_bytes(), users);
            let patience = if is_emptied { EMPTYING_STEP } else { patience_for(users) };
            match ends.wait_for(deadline.within(patience)) {
                Some(Err(unwritten @ ArrayError::Unwritten { .. })) => {
                    *stopping = Stopping::No;
                    // What is cached can be copied off.
                    self.file_system.reopen();
                    self.exports.reopen(deadline)?;
                    return Err(unwritten.into());
                }
                Some(result) => break result.err().map(why_unclean),
                None if is_emptied && in_steps => {
                    return Ok(StopStep::Emptying { left_bytes: self.cached_bytes() });
                }
                None if is_emptied && !deadline.is_over() => {}
                None if is_emptied => bail!("what is cached is still being written; ask again"),
                None if users == Users::Force => break Some(format!("{HANGS_UNCLEAN}{}", self.at_stake())),
                None => bail!("{HANGS}; `stop --force` ends its daemon all the same, as a crash would"),
            }
        };
        // Before the daemon may end: its command may be gone.
        unclean.iter().for_each(|why| tracing::error!("it has stopped, but is not clean: {why}"));
        notes.iter().for_each(|note| tracing::warn!("it has stopped; {note}"));
        self.end.stopped();
        let stopped = Stopped { unclean, notes };
        *stopping = Stopping::Stopped(stopped.clone());
        Ok(StopStep::Stopped(stopped))
    }

    /// Refuses to stop an array that cannot write out what it has cached, before its clients are cut off: they can read
    /// that.
    fn check_can_be_emptied(&self, users: Users) -> anyhow::Result<()> {
        let bytes = self.cached_bytes();
        if users != Users::Force && bytes > 0 && self.array.has_failed() {
            return Err(ArrayError::Unwritten { bytes, why: Box::new(ArrayError::Failed) }.into());
        }
        Ok(())
    }
}

/// Why a stopped array is not clean. The engine's own words are for an array that still runs.
fn why_unclean(error: ArrayError) -> String {
    match error {
        ArrayError::Failed => "it had lost more members than its level tolerates; bring them back and assemble it \
                               again, or accept with `assemble --force` that what was written since they left is lost"
            .to_owned(),
        other => other.to_string(),
    }
}

fn patience_for(users: Users) -> Duration {
    if users == Users::Force { FORCED_STOP_WAIT } else { STOP_WAIT }
}
