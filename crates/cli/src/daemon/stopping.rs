//! Stopping an array: in steps while what is cached is written, by force, or to its end when nobody asks any more.

use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use stripewise::{ArrayError, internals::uring::Started};
use stripewise_wire::Notes;

use super::{
    emptying::EMPTYING_STEP,
    exports::Users,
    patience::{Deadline, Patience},
    state::DaemonState,
};
use crate::{errors, sizes::format_size};

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

/// How long one wait for the array takes at most: in between, it is seen what has changed.
const LOOK_EVERY: Duration = EMPTYING_STEP;

/// How far stopping has come.
#[derive(Default)]
pub(super) enum Stopping {
    #[default]
    No,
    Told(Told),
    Stopped(Stopped),
}

/// Nothing is exported any more, and the array has been told to stop.
pub(super) struct Told {
    ends: Started<Result<(), ArrayError>>,
    notes: Notes,
    emptying: Emptying,
    still: Still,
    /// The least mild that a command or a signal has asked for, whether it still waits or not.
    users: Users,
    /// When a command asked last.
    asked: Instant,
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

/// How long the array has been waited for since nothing was cached, or nothing of it was written. It goes on from one look to the
/// next, and a command begins it anew.
#[derive(Default)]
struct Still(Option<Instant>);

impl Still {
    /// Whether the array is not waited for any longer.
    fn is_over(&mut self, is_emptied: bool, users: Users) -> bool {
        if is_emptied {
            self.0 = None;
            return false;
        }
        self.0.get_or_insert_with(Instant::now).elapsed() >= patience_for(users)
    }
}

/// What one look at a stop finds.
enum Look {
    Stopped(Stopped),
    /// What is cached is being written to members.
    Emptying,
    /// The last requests are under way.
    Ending,
}

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
            let (ends, asked) = (self.begin_stop(users), Instant::now());
            let (emptying, still) = (Emptying::default(), Still::default());
            *stopping = Stopping::Told(Told { ends, notes, emptying, still, users, asked });
        }
        if let Stopping::Told(told) = &mut *stopping {
            (told.asked, told.still) = (Instant::now(), Still::default());
            told.users = told.users.max(users);
        }
        self.go_on_stopping(&mut stopping, deadline, in_steps)
    }

    fn begin_stop(&self, users: Users) -> Started<Result<(), ArrayError>> {
        let array = self.array.clone();
        self.host.runtime().begin(async move {
            if users == Users::Force { array.stop_by_force().await } else { array.stop().await }
        })
    }

    /// Ends the file system's mount, then the exports.
    fn end_uses(&self, users: Users, deadline: Deadline) -> anyhow::Result<Notes> {
        let written = || self.array.stats().report().written_bytes;
        let is_hurried = || self.asked.cuts_short(users);
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
            Stopping::Told(told) if told.asked.elapsed() < STOP_FORSAKEN => Ok(false),
            // Where a member hangs, a later command waits for this one look and no longer.
            Stopping::Told(_) => {
                Ok(matches!(self.look(&mut stopping, Deadline::of_command())?, Look::Stopped(_)))
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
        loop {
            match self.look(stopping, deadline)? {
                Look::Stopped(stopped) => return Ok(StopStep::Stopped(stopped)),
                Look::Emptying if in_steps => {
                    return Ok(StopStep::Emptying { left_bytes: self.cached_bytes() });
                }
                Look::Emptying if deadline.is_over() => {
                    bail!("what is cached is still being written; ask again")
                }
                Look::Emptying | Look::Ending => {}
            }
        }
    }

    /// Waits for the array for a moment. One that stands still for too long, or at the deadline, is given up.
    fn look(&self, stopping: &mut Stopping, deadline: Deadline) -> anyhow::Result<Look> {
        let told = match stopping {
            Stopping::Told(told) => told,
            Stopping::Stopped(stopped) => return Ok(Look::Stopped(stopped.clone())),
            Stopping::No => bail!("it could not be told to stop"),
        };
        if self.asked.cuts_short(told.users) {
            told.users = Users::Force;
        }
        let users = told.users;
        let is_emptied = told.emptying.goes_on(self.cached_bytes(), users);
        let is_over = told.still.is_over(is_emptied, users) || (deadline.is_over() && !is_emptied);
        let unclean = match told.ends.wait_for(deadline.within(LOOK_EVERY)) {
            // What was asked for before, without force, gives nothing up.
            Some(Err(ArrayError::Unwritten { .. })) if users == Users::Force => {
                told.ends = self.begin_stop(users);
                return Ok(Look::Ending);
            }
            Some(Err(unwritten @ ArrayError::Unwritten { .. })) => {
                *stopping = Stopping::No;
                return Err(self.not_stopped(&unwritten, users, deadline));
            }
            Some(result) => self.why_unclean(result.err(), users),
            None if is_emptied => return Ok(Look::Emptying),
            None if !is_over => return Ok(Look::Ending),
            None if users == Users::Force => Some(self.hangs_unclean()),
            None => bail!(
                "the array does not stop: {}; its exports are closed, and it ends by itself once that request has ended. \
                 `stop --force` ends its daemon all the same, as a crash would",
                self.slow.what_hangs()
            ),
        };
        let stopped = self.stopped(unclean, std::mem::take(&mut told.notes));
        *stopping = Stopping::Stopped(stopped.clone());
        Ok(Look::Stopped(stopped))
    }

    /// Notes that the array has stopped, or is given up.
    fn stopped(&self, unclean: Option<String>, notes: Notes) -> Stopped {
        // Before the daemon may end: its command may be gone.
        unclean.iter().for_each(|why| tracing::error!("it has stopped, but is not clean: {why}"));
        notes.iter().for_each(|note| tracing::warn!("it has stopped; {note}"));
        self.end.stopped();
        Stopped { unclean, notes }
    }

    /// What is told of an array that goes on, since it could not write out what it has cached: that can be copied off. Its exports
    /// are there again, unless a signal asked for the stop: then that is tried again.
    fn not_stopped(&self, unwritten: &ArrayError, users: Users, deadline: Deadline) -> anyhow::Error {
        self.file_system.reopen();
        let reopened = self.exports.reopen(users == Users::Refuse, deadline);
        let exports = reopened.unwrap_or_else(|error| vec![errors::line(&error)]);
        anyhow!([vec![unwritten.to_string()], exports].concat().join("; "))
    }

    /// Why a stopped array is not clean, if it is not. The engine's own words are for an array that still runs.
    fn why_unclean(&self, error: Option<ArrayError>, users: Users) -> Option<String> {
        let why = error.map(|error| match error {
            ArrayError::Failed => "it had lost more members than its level tolerates; bring them back and assemble it again, or \
                                   accept with `assemble --force` that what was written since they left is lost"
                .to_owned(),
            other => other.to_string(),
        });
        let lost = if users == Users::Force { self.lost() } else { None };
        let all: Vec<_> = why.into_iter().chain(lost).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Why an array that did not stop is not clean.
    fn hangs_unclean(&self) -> String {
        let hangs = format!(
            "{}; what was being written is resynced when the array is next assembled",
            self.slow.what_hangs()
        );
        [vec![hangs], self.lost().into_iter().collect()].concat().join("; ")
    }

    /// What of the cache is lost, of an array that stops as it is.
    fn lost(&self) -> Option<String> {
        let bytes = self.cached_bytes();
        (bytes > 0).then(|| {
            format!(
                "lost: {} of writes that were acknowledged, and were in the cache only, as members did not take them",
                format_size(bytes)
            )
        })
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

fn patience_for(users: Users) -> Duration {
    if users == Users::Force { FORCED_STOP_WAIT } else { STOP_WAIT }
}
