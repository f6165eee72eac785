//! An operator beside the clients, who stays within what the level tolerates.

use std::{sync::Arc, thread, time::Duration};

use fastrand::Rng;
use stripewise_device::{Device, uring::Runtime};
use stripewise_engine::{Array, ArrayError, ArrayReport, MemberState, plan::selection::POLICIES};

use super::{member::StressMember, new_member, within};
use crate::{
    check::{Checker, Violation},
    story::{Shape, draw_settings},
};

/// Pauses between commands, in milliseconds at most.
const PAUSE_MAX_MS: u64 = 20;

pub(super) struct Operator<'a> {
    runtime: &'a Runtime,
    array: Array,
    shape: Shape,
    rng: Rng,
    next_number: usize,
    /// Devices that were added.
    pub(super) spares: Vec<Arc<StressMember>>,
    pub(super) commands: u64,
}

impl<'a> Operator<'a> {
    pub(super) fn new(runtime: &'a Runtime, array: Array, shape: Shape, seed: u64, members: usize) -> Self {
        let (rng, spares) = (Rng::with_seed(seed), Vec::new());
        Self { runtime, array, shape, rng, next_number: members, spares, commands: 0 }
    }

    /// One command, and a pause.
    pub(super) fn act(&mut self) -> Result<(), Violation> {
        thread::sleep(Duration::from_millis(self.rng.u64(..PAUSE_MAX_MS)));
        match self.rng.u8(..8) {
            0 => self.lose_a_member(),
            1 => self.replace_a_member(),
            2 => {
                self.settle()?;
                let mend = self.rng.bool();
                self.command("scrub", move |array| async move { array.start_scrub(mend) })
            }
            3 if self.shape.level.has_parity() => {
                let policy = POLICIES[self.rng.usize(..POLICIES.len())];
                self.command("policy", move |array| async move { array.set_policy(policy).await })
            }
            4 if self.shape.level.has_parity() => self.change_cache(),
            _ => Ok(()),
        }
    }

    /// Another cache, or other settings of it, or none: while clients work.
    fn change_cache(&mut self) -> Result<(), Violation> {
        let mut settings = draw_settings(&self.shape, &mut self.rng);
        if self.rng.bool() {
            // What is changed without another cache.
            let now = self.array.cache_settings();
            (settings.kind, settings.size_bytes) = (now.kind, now.size_bytes);
        }
        self.command("another cache", move |array| async move { array.set_cache(settings).await })
    }

    /// Waits until everything that was begun has ended.
    pub(super) fn settle(&self) -> Result<(), Violation> {
        let array = self.array.clone();
        within(self.runtime, async move { array.wait_for_jobs().await }, "the jobs")
    }

    /// A member fails and is removed, and another takes its place.
    fn lose_a_member(&mut self) -> Result<(), Violation> {
        self.settle()?;
        let name = self.any_member()?;
        let spare = self.new_spare();
        self.command("fail, remove, add", move |array| async move {
            array.fail(&name).await?;
            array.remove(&name).await?;
            array.add(spare).await
        })?;
        self.settle()
    }

    /// A member is replaced while it serves.
    fn replace_a_member(&mut self) -> Result<(), Violation> {
        self.settle()?;
        let (name, spare) = (self.any_member()?, self.new_spare());
        let spare_name = spare.info().name.clone();
        self.command("add, replace", move |array| async move {
            array.add(spare).await?;
            array.replace(&name, &spare_name).await
        })?;
        self.settle()?;
        // The replaced member is faulty, and in no one's way once it is removed.
        for faulty in self.names(MemberState::Faulty)? {
            self.command("remove", move |array| async move { array.remove(&faulty).await })?;
        }
        Ok(())
    }

    fn any_member(&mut self) -> Result<String, Violation> {
        let mut names = self.names(MemberState::InSync)?;
        Ok(names.swap_remove(self.rng.usize(..names.len())))
    }

    /// The members in a state.
    fn names(&self, state: MemberState) -> Result<Vec<String>, Violation> {
        let members = self.report()?.members.into_iter().filter(|member| member.state == state);
        Ok(members.map(|member| member.name).collect())
    }

    /// All devices of the array now; removed ones no longer matter.
    pub(super) fn attached(&self) -> Result<Vec<String>, Violation> {
        Ok(self.report()?.members.into_iter().map(|member| member.name).collect())
    }

    fn report(&self) -> Result<ArrayReport, Violation> {
        let array = self.array.clone();
        within(self.runtime, async move { array.report().await }, "a report")
    }

    fn new_spare(&mut self) -> Arc<dyn Device> {
        let spare = new_member(&self.shape, self.next_number, &self.runtime.env());
        self.next_number += 1;
        self.spares.push(spare.clone());
        spare
    }

    fn command<F>(&mut self, what: &str, command: impl FnOnce(Array) -> F) -> Result<(), Violation>
    where
        F: Future<Output = Result<(), ArrayError>> + Send + 'static,
    {
        self.commands += 1;
        let done = within(self.runtime, command(self.array.clone()), what)?;
        done.map_err(|error| Checker::Service.violation(format!("{what}: {error}")))
    }
}
