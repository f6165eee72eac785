//! How a daemon exports its array: as a block device, and over NBD.
//!
//! One command at a time changes the exports (`held`). It may take long: an unmount writes out what is
//! cached. A description of the exports can be read at any time (`told`). Nothing here knows the daemon's
//! state, so nothing here asks for it while a lock is held.

mod again;
mod held;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::anyhow;
use parking_lot::{Mutex, MutexGuard};
use stripewise::{Array, ArrayDevice, internals::uring::Runtime};
use stripewise_wire::{AttachChoice, DiscardChoice, Notes, ServeLimits};

use self::{
    again::{AttachSpec, ServeSpec},
    held::{Held, parse_endpoint},
};
use super::{end::Asked, patience::Deadline};

/// What is exported now.
pub(crate) struct Exports {
    source: Source,
    held: Mutex<Held>,
    told: Mutex<Told>,
}

/// The array to export, and what its exports need.
struct Source {
    name: String,
    array: Array,
    runtime: Arc<Runtime>,
    asked: Asked,
}

impl Source {
    /// The array as a device, and whether it takes discards.
    fn device(&self, discard: DiscardChoice) -> (ArrayDevice, bool) {
        let device = self.array.device();
        match discard {
            DiscardChoice::Auto => (device, self.array.unmaps()),
            DiscardChoice::On => (device.always_discarding(), true),
            DiscardChoice::Off => (device, false),
        }
    }
}

/// The exports, for commands that only ask.
#[derive(Debug, Clone, Default)]
struct Told {
    /// The path to tell users, and the block device itself.
    attached: Option<(String, PathBuf)>,
    addresses: Vec<String>,
}

/// What to do about the users of a block device that is being taken away, from the mildest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Users {
    /// They keep it; the command fails.
    Refuse,
    /// File systems are unmounted; other users keep it.
    Unmount,
    /// It is taken from them.
    Force,
}

impl Exports {
    pub(super) fn new(name: String, array: Array, runtime: Arc<Runtime>, asked: Asked) -> Self {
        let source = Source { name, array, runtime, asked };
        Self { source, held: Mutex::default(), told: Mutex::default() }
    }

    /// Locks the exports for a command that changes them. Another such command may take long.
    fn held(&self, deadline: Deadline) -> anyhow::Result<MutexGuard<'_, Held>> {
        self.held.try_lock_until(deadline.instant()).ok_or_else(|| {
            anyhow!("another command (attach, detach, serve or stop) is still under way; try again when it is done")
        })
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock()
    }

    /// Carries out a change, then updates `told`, even if the change failed half-way.
    fn change<T>(
        &self,
        deadline: Deadline,
        change: impl FnOnce(&mut Held, &Source) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut held = self.held(deadline)?;
        let result = change(&mut held, &self.source);
        *self.told() = held.told(&self.source);
        result
    }

    /// Makes a block device, if `allowed`, and returns its path.
    pub(super) fn attach(
        &self,
        method: Option<AttachChoice>,
        sector_bytes: Option<u32>,
        discard: DiscardChoice,
        deadline: Deadline,
        allowed: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        self.change(deadline, |held, source| {
            allowed()?;
            held.attach(source, AttachSpec { method, sector_bytes, discard }, deadline)
        })
    }

    /// Takes the block device away, with or without its users' consent.
    pub(super) fn detach(&self, users: Users, deadline: Deadline) -> anyhow::Result<Notes> {
        self.change(deadline, |held, source| held.detach(source, users, deadline))
    }

    /// Starts an NBD server, if `allowed`, and returns its address.
    pub(super) fn serve(
        &self,
        address: &str,
        read_only: bool,
        discard: DiscardChoice,
        limits: &ServeLimits,
        deadline: Deadline,
        allowed: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        self.change(deadline, |held, source| {
            allowed()?;
            let (endpoint, limits) = (parse_endpoint(address)?, limits.clone());
            held.serve(source, ServeSpec { endpoint, read_only, discard, limits })
        })
    }

    /// Stops the server at an address, or all.
    pub(super) fn unserve(&self, address: Option<&str>, deadline: Deadline) -> anyhow::Result<Notes> {
        self.change(deadline, |held, source| held.unserve(source, address, Users::Refuse, deadline))
    }

    /// Ends every export, for good.
    pub(super) fn end_all(&self, users: Users, deadline: Deadline) -> anyhow::Result<Notes> {
        self.change(deadline, |held, source| held.end_all(source, users, deadline))
    }

    /// The array is not stopped after all: there may be exports again, and with `restore` there are those that were closed. Returns
    /// what became of them, for people.
    pub(super) fn reopen(&self, restore: bool, deadline: Deadline) -> anyhow::Result<Notes> {
        self.change(deadline, |held, source| Ok(held.reopen(source, restore, deadline)))
    }

    /// Begins something that must have the array to itself, under the lock, so that no export comes in
    /// between.
    pub(super) fn while_unused<T>(
        &self,
        deadline: Deadline,
        begin: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let held = self.held(deadline)?;
        held.check_unused()?;
        begin()
    }

    /// Begins something that must have the array to itself, and without exports, under the lock.
    pub(super) fn while_free<T>(
        &self,
        deadline: Deadline,
        begin: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let held = self.held(deadline)?;
        held.check_free(&self.source)?;
        begin()
    }

    pub(super) fn attached(&self) -> Option<String> {
        self.told().attached.as_ref().map(|(path, _)| path.clone())
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.told().addresses.clone()
    }

    /// Whether a device is this array's own block device. As its own member, the array would wait for itself.
    pub(super) fn is_own(&self, device: &Path) -> bool {
        let Some((_, block)) = self.told().attached.clone() else { return false };
        // A partition's node begins with its disk's.
        device.canonicalize().is_ok_and(|node| {
            let rest = node.as_os_str().as_encoded_bytes().strip_prefix(block.as_os_str().as_encoded_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"p"))
        })
    }
}
