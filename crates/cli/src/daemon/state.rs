//! A daemon's state: its array, the exports, and what goes on for commands.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::{Context, anyhow};
use parking_lot::Mutex;
use stripewise::{Array, ArrayError, ArrayReport, Host};
use stripewise_wire::Notes;

use super::{
    adding::Adding,
    emptying::Emptied,
    end::{Asked, End},
    exports::{Exports, Users},
    filesystem::{FileSystem, Working},
    load::Loading,
    measuring::Measuring,
    patience::Deadline,
    slow::Slow,
    stopping::Stopping,
    trace::Tracing,
};
use crate::{errors, reports::cached_bytes, sizes::format_size};

/// How long a question and a command to the array may take. A command waits for members. A member that hangs
/// must not keep the user waiting for ever.
pub(super) const QUESTION_WAIT: Duration = Duration::from_secs(10);
pub(super) const COMMAND_WAIT: Duration = Duration::from_secs(60);

/// A daemon's array and its exports.
pub(crate) struct DaemonState {
    pub(crate) name: String,
    pub(super) host: Host,
    pub(super) array: Array,
    pub(super) slow: Slow,
    pub(super) exports: Exports,
    pub(super) file_system: Arc<FileSystem>,
    /// What goes on with the file system for a command.
    pub(super) working: Working,
    pub(super) end: End,
    pub(super) asked: Asked,
    /// Members that could not be opened, with the reason.
    pub(super) unopened: Vec<String>,
    pub(super) tracing: Tracing,
    pub(super) loading: Loading,
    pub(super) measuring: Measuring,
    pub(super) adding: Adding,
    /// What is written out of the cache, for a change of it or after its block device was taken away.
    pub(super) emptied: Mutex<Option<Emptied>>,
    /// How far stopping has come. Locked while the array is being stopped.
    pub(super) stopping: Mutex<Stopping>,
    /// A thread looks whether a stop is [forsaken](DaemonState::end_forsaken_stop).
    pub(super) stop_is_watched: AtomicBool,
}

impl DaemonState {
    pub(super) fn new(name: String, host: Host, array: Array, unopened: Vec<String>) -> Arc<Self> {
        let asked = Asked::default();
        let exports = Exports::new(name.clone(), array.clone(), host.runtime().clone(), asked.clone());
        Arc::new(Self {
            name,
            slow: Slow::watch(host.runtime()),
            host,
            array,
            exports,
            file_system: Arc::default(),
            working: Working::default(),
            end: End::default(),
            asked,
            unopened,
            tracing: Tracing::default(),
            loading: Loading::default(),
            measuring: Measuring::default(),
            adding: Adding::default(),
            emptied: Mutex::default(),
            stopping: Mutex::default(),
            stop_is_watched: AtomicBool::default(),
        })
    }

    /// What is in the cache only.
    pub(super) fn cached_bytes(&self) -> u64 {
        cached_bytes(&self.array)
    }

    /// What is in the cache only, where that may be lost; empty if nothing is.
    pub(super) fn at_stake(&self) -> String {
        match self.cached_bytes() {
            0 => String::new(),
            bytes => format!("; {} are in the cache only", format_size(bytes)),
        }
    }

    /// An error with what a stop by force may lose.
    pub(super) fn with_stake(&self, refused: anyhow::Error) -> anyhow::Error {
        match self.at_stake() {
            stake if stake.is_empty() => refused,
            stake => anyhow!(
                "{}{stake}, and a stop by force loses what members do not take of that",
                errors::line(&refused)
            ),
        }
    }

    pub(super) fn on_array<F>(
        &self,
        deadline: Deadline,
        command: impl FnOnce(Array) -> F,
    ) -> anyhow::Result<Notes>
    where
        F: Future<Output = Result<(), ArrayError>> + Send + 'static,
    {
        self.wait_for(command(self.array.clone()), deadline.within(COMMAND_WAIT))??;
        Ok(Notes::new())
    }

    /// The result of a question or a command, in bounded time: a member may hang.
    pub(super) fn wait_for<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        limit: Duration,
    ) -> anyhow::Result<T> {
        self.host.runtime().block_on_for(future, limit).with_context(|| self.slow.hangs_and_goes_on())
    }

    pub(super) fn report_of_array(&self) -> anyhow::Result<ArrayReport> {
        let array = self.array.clone();
        self.wait_for(async move { array.report().await }, QUESTION_WAIT)
    }
}

pub(super) fn users_for(force: bool) -> Users {
    if force { Users::Force } else { Users::Refuse }
}

/// Members are known by their canonical paths.
pub(super) fn member_name(path: &str) -> String {
    std::fs::canonicalize(path).map_or_else(|_| path.to_owned(), |p| p.display().to_string())
}
