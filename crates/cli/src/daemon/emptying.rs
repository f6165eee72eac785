//! Commands that write out what is cached: a change of the cache, and detaching.

use std::time::Duration;

use anyhow::{Context, bail};
use stripewise::{ArrayError, CacheKind, internals::uring::Started};
use stripewise_wire::{CacheChange, Notes, Reply};

use super::{
    patience::Deadline,
    state::{DaemonState, QUESTION_WAIT, users_for},
};
use crate::reports::{changed_cache, stride_limits};

/// How long a caller waits for a cache to be emptied before it is told how much is left.
pub(super) const EMPTYING_STEP: Duration = Duration::from_millis(300);

/// A request that ends when what was cached is on the members.
pub(super) struct Emptied {
    ends: Started<Result<(), ArrayError>>,
    /// What is told then.
    notes: Notes,
    what_for: WhatFor,
}

/// Why what is cached is written to the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhatFor {
    Change,
    Detach,
}

impl WhatFor {
    /// What is told if it fails.
    fn failed(self) -> &'static str {
        match self {
            Self::Change => "the change of the cache failed",
            Self::Detach => "it is detached, and what is cached could not be written",
        }
    }
}

/// The request that empties the cache now. One that has ended, and whose command was interrupted before, is forgotten.
fn under_way(emptied: &mut Option<Emptied>) -> Option<&mut Emptied> {
    if let Some(ended) = emptied.as_ref().and_then(|before| before.ends.wait_for(Duration::ZERO)) {
        if let Err(error) = ended {
            tracing::warn!(%error, "an earlier command, which was interrupted, could not write what is cached");
        }
        *emptied = None;
    }
    emptied.as_mut()
}

impl DaemonState {
    /// Begins to change the cache. What changes at once is waited for as any command is.
    pub(super) fn change_cache(&self, change: &CacheChange, deadline: Deadline) -> anyhow::Result<Reply> {
        let notes = self.notes_of_gaps(change, deadline)?;
        // All is judged before any of it is done.
        self.array.check_cache(&changed_cache(self.array.cache_settings(), change)?)?;
        self.check_not_emptied(&mut self.emptied.lock())?;
        if let Some(limits) = stride_limits(change) {
            self.on_array(deadline, move |array| async move { array.limit_strides(limits).await })?;
        }
        let settings = {
            let mut emptied = self.emptied.lock();
            self.check_not_emptied(&mut emptied)?;
            let (array, settings) = (self.array.clone(), changed_cache(self.array.cache_settings(), change)?);
            let is_replaced = change.kind.is_some() || change.size_bytes.is_some();
            if is_replaced {
                let ends = self.host.runtime().begin(async move { array.set_cache(settings).await });
                *emptied = Some(Emptied { ends, notes, what_for: WhatFor::Change });
            }
            (!is_replaced).then_some(settings)
        };
        let Some(settings) = settings else { return self.emptied(deadline) };
        self.on_array(deadline, move |array| async move { array.set_cache(settings).await }).map(Reply::Done)
    }

    /// Refuses to change a cache that is being emptied.
    fn check_not_emptied(&self, emptied: &mut Option<Emptied>) -> anyhow::Result<()> {
        if under_way(emptied).is_some() {
            bail!(
                "what is cached is being written, for an earlier command; wait for that, and see whether a member hangs \
                 (`stripewise detail {}`)",
                self.name
            );
        }
        Ok(())
    }

    /// What an operator must know who chooses to have gaps filled.
    fn notes_of_gaps(&self, change: &CacheChange, deadline: Deadline) -> anyhow::Result<Notes> {
        let fills = |kind: &CacheKind| kind.fills_gaps() && change.kind.as_deref() == Some(kind.name());
        if !CacheKind::ALL.iter().any(fills) {
            return Ok(Notes::new());
        }
        let array = self.array.clone();
        let report = self.wait_for(async move { array.report().await }, deadline.within(QUESTION_WAIT))?;
        let is_known = report
            .members
            .iter()
            .any(|member| member.strides.read.s_max > 0 || member.strides.write.s_max > 0);
        let unknown = format!(
            "no member's strides are known, so that no gap is filled: `stripewise cache {} --measure`",
            self.name
        );
        Ok(if is_known { Notes::new() } else { vec![unknown] })
    }

    /// Takes the block device away, and begins to write out what is cached.
    pub(super) fn detach(&self, force: bool, deadline: Deadline) -> anyhow::Result<Reply> {
        let is_attached = self.exports.attached().is_some();
        let notes = self.exports.detach(users_for(force), deadline);
        let notes = notes.map_err(|refused| if is_attached { self.with_stake(refused) } else { refused })?;
        {
            let mut emptied = self.emptied.lock();
            if let Some(before) = under_way(&mut emptied) {
                before.notes.extend(notes);
            } else if self.cached_bytes() == 0 {
                return Ok(Reply::Done(notes));
            } else {
                let array = self.array.clone();
                let ends = self.host.runtime().begin(async move { array.flush().await });
                *emptied = Some(Emptied { ends, notes, what_for: WhatFor::Detach });
            }
        }
        self.emptied(deadline)
    }

    /// How far the cache is emptied.
    pub(super) fn emptied(&self, deadline: Deadline) -> anyhow::Result<Reply> {
        let mut emptied = self.emptied.lock();
        let Some(Emptied { ends, what_for, .. }) = &*emptied else { return Ok(Reply::Done(Notes::new())) };
        let what_for = *what_for;
        let Some(result) = ends.wait_for(deadline.within(EMPTYING_STEP)) else {
            return Ok(Reply::Emptying { left_bytes: self.cached_bytes() });
        };
        let notes = emptied.take().map(|emptied| emptied.notes).unwrap_or_default();
        drop(emptied);
        match result.context(what_for.failed()) {
            Err(refused) if what_for == WhatFor::Detach => Err(self.with_stake(refused)),
            result => result.map(|()| Reply::Done(notes)),
        }
    }
}
