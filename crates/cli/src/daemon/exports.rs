//! How a daemon exports its array: as a block device, and over NBD.
//!
//! One command at a time changes the exports (`held`). It may take long: an unmount writes out what is
//! cached. A description of the exports can be read at any time (`told`). Nothing here knows the daemon's
//! state, so nothing here asks for it while a lock is held.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use parking_lot::{Mutex, MutexGuard};
use stripewise::{
    Array, ArrayDevice,
    export::{
        attach::{
            self, AttachError, AttachMethod, AttachOptions, Attachment, BlockUser, BlockUsers, DetachMode,
        },
        nbd::{Endpoint, Export, Limits, NbdAddress, Server},
    },
    internals::uring::Runtime,
};
use stripewise_wire::{AttachChoice, DiscardChoice, Notes, ServeLimits};

use super::{
    end::Asked,
    limits::limits_of,
    link, mounts,
    patience::{Deadline, Patience},
    remains::{self, DeadDevice},
    room,
};
use crate::rundir::run_dir;

/// How long a server's last requests may take, beyond the time that its clients have to take their replies.
const SERVER_END: Duration = Duration::from_secs(20);
/// How long cached data is written out before a device is taken from its users by force.
const FORCED_WRITE_OUT: Duration = Duration::from_secs(30);
/// The longest that nbd devices and FUSE mounts take to go, once nothing is left to write out.
const RELEASE_WAIT: Duration = Duration::from_secs(30);

/// The least time that an array has to answer the kernel's first reads, even if another command used up the
/// time.
const ANSWER_WAIT_MIN: Duration = Duration::from_secs(5);

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

#[derive(Default)]
struct Held {
    attached: Option<Attached>,
    servers: Vec<Server>,
    /// The array is being stopped: there will be no more exports.
    closed: bool,
}

/// The exports, for commands that only ask.
#[derive(Debug, Clone, Default)]
struct Told {
    /// The path to tell users, and the block device itself.
    attached: Option<(String, PathBuf)>,
    addresses: Vec<String>,
}

/// What to do about the users of a block device that is being taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// They keep it; the command fails.
    Refuse,
    /// File systems are unmounted; other users keep it.
    Unmount,
    /// It is taken from them.
    Force,
}

struct Attached {
    attachment: Attachment,
    /// The link under `/dev/stripewise`, if it could be made.
    link: Option<PathBuf>,
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
            held.attach(source, method, sector_bytes, discard, deadline)
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
            held.serve(source, address, read_only, discard, limits)
        })
    }

    /// Stops the server at an address, or all.
    pub(super) fn unserve(&self, address: Option<&str>, deadline: Deadline) -> anyhow::Result<Notes> {
        self.change(deadline, |held, source| held.unserve(source, address, deadline))
    }

    /// Ends every export, for good.
    pub(super) fn end_all(&self, users: Users, deadline: Deadline) -> anyhow::Result<Notes> {
        self.change(deadline, |held, source| held.end_all(source, users, deadline))
    }

    /// The array is not stopped after all: there may be exports again.
    pub(super) fn reopen(&self, deadline: Deadline) -> anyhow::Result<()> {
        self.held(deadline)?.closed = false;
        Ok(())
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
    pub(super) fn while_free(
        &self,
        deadline: Deadline,
        begin: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
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

impl Held {
    fn told(&self, source: &Source) -> Told {
        let attached = self.attached.as_ref();
        Told {
            attached: attached.map(|a| (a.path(), a.attachment.block_path().to_owned())),
            addresses: self.servers.iter().map(|server| uri_of(server, &source.name)).collect(),
        }
    }

    fn check_open(&self) -> anyhow::Result<()> {
        ensure!(!self.closed, "the array is being stopped; `stripewise stop` waits for that");
        Ok(())
    }

    fn attach(
        &mut self,
        source: &Source,
        method: Option<AttachChoice>,
        sector_bytes: Option<u32>,
        discard: DiscardChoice,
        deadline: Deadline,
    ) -> anyhow::Result<String> {
        self.check_open()?;
        if let Some(attached) = &self.attached {
            bail!("it is attached already, at {}", attached.path());
        }
        let mut options = AttachOptions::new(run_dir(), &source.name);
        options.method = method.map(method_of);
        options.read_only = source.array.is_read_only();
        options.block_bytes = sector_bytes;
        options.answer_wait = deadline.within(options.answer_wait).max(ANSWER_WAIT_MIN);
        let (device, discards) = source.device(discard);
        options.discard = discards;
        options.slow_discard = discard == DiscardChoice::On;
        let attachment = attach::attach(Arc::new(device), &source.runtime, &options)?;
        let link = link::make(&source.name, attachment.block_path());
        let attached = self.attached.insert(Attached { attachment, link });
        Ok(attached.path())
    }

    fn detach(&mut self, source: &Source, users: Users, deadline: Deadline) -> anyhow::Result<Notes> {
        let Some(attached) = &mut self.attached else { bail!("it is not attached") };
        let device = DeadDevice::at(attached.attachment.block_path());
        attached.let_go(source, users, deadline).map_err(|error| match error {
            AttachError::InUse { .. } if users == Users::Refuse => anyhow!(
                "{error}, or give --force to take it from them: what they have not written out is lost then"
            ),
            other if users == Users::Refuse => anyhow!(
                "{other}; --force lets go of the device all the same, and what is not written out is lost then"
            ),
            other => other.into(),
        })?;
        if attached.link.is_some() {
            link::remove(&source.name);
        }
        self.attached = None;
        Ok(remains::take_note(&source.name, device))
    }

    fn serve(
        &mut self,
        source: &Source,
        address: &str,
        read_only: bool,
        discard: DiscardChoice,
        limits: &ServeLimits,
    ) -> anyhow::Result<String> {
        self.check_open()?;
        let endpoint = parse_endpoint(address)?;
        let (device, discards) = source.device(discard);
        let mut export = Export::new(source.name.clone(), Arc::new(device));
        export.discard = discards;
        export.read_only = read_only || source.array.is_read_only();
        let server =
            Server::start(&source.runtime, &endpoint, vec![export], limits_of(limits, room::left_bytes())?)?;
        let uri = uri_of(&server, &source.name);
        self.servers.push(server);
        Ok(uri)
    }

    fn unserve(
        &mut self,
        source: &Source,
        address: Option<&str>,
        deadline: Deadline,
    ) -> anyhow::Result<Notes> {
        let endpoint = address.map(parse_endpoint).transpose()?;
        let all = std::mem::take(&mut self.servers);
        let (stopping, staying): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|server| endpoint.as_ref().is_none_or(|e| server.endpoint() == e));
        self.servers = staying;
        if stopping.is_empty() {
            bail!("it is not served{}", if address.is_some() { " there" } else { "" });
        }
        // Stops all at once, so that several servers that hang are waited for no longer than one.
        let deadline = deadline.or_after(Limits::default().stop_grace + SERVER_END);
        let begin = |server: Server| {
            let uri = uri_of(&server, &source.name);
            (uri, source.runtime.begin(async move { server.stop().await }))
        };
        let ending: Vec<_> = stopping.into_iter().map(begin).collect();
        let hang = ending.into_iter().filter(|(_, end)| end.wait_for(deadline.left()).is_none());
        Ok(hang
            .map(|(uri, _)| format!("{uri} is served no more, but some of its last requests do not end"))
            .collect())
    }

    fn end_all(&mut self, source: &Source, users: Users, deadline: Deadline) -> anyhow::Result<Notes> {
        let mut notes = match self.attached {
            Some(_) => self.detach(source, users, deadline)?,
            None => Notes::new(),
        };
        if !self.servers.is_empty() {
            notes.extend(self.unserve(source, None, deadline)?);
        }
        self.closed = true;
        Ok(notes)
    }

    /// Refuses what must be alone on the array.
    fn check_free(&self, source: &Source) -> anyhow::Result<()> {
        self.check_open()?;
        let name = &source.name;
        if let Some(attached) = &self.attached {
            bail!("it is attached at {}; `stripewise detach {name}` first", attached.path());
        }
        if let Some(server) = self.servers.first() {
            bail!("it is served at {}; `stripewise serve {name} --stop` first", uri_of(server, name));
        }
        Ok(())
    }

    /// Refuses to overwrite an array that is in use, through the block device or over NBD.
    fn check_unused(&self) -> anyhow::Result<()> {
        let clients: u64 = self.servers.iter().map(|server| server.stats().connections).sum();
        ensure!(clients == 0, "clients are connected to its NBD servers ({clients}); stop that first");
        let Some(attached) = &self.attached else { return Ok(()) };
        let BlockUsers { found, is_complete, .. } = attached.attachment.users();
        check_nobody(&attached.path(), &found, is_complete)
    }
}

/// Refuses a device that is in use, or that may be.
fn check_nobody(path: &str, found: &[BlockUser], is_complete: bool) -> anyhow::Result<()> {
    let told: Vec<_> = found.iter().map(ToString::to_string).collect();
    ensure!(found.is_empty(), "{path} is in use: {}; stop that first", told.join(", "));
    ensure!(
        is_complete,
        "cannot tell who uses {path}, as a process hangs; detach it first, with --force if need be"
    );
    Ok(())
}

impl Attached {
    /// The link's path if there is a link, as it names the array.
    fn path(&self) -> String {
        self.link.as_deref().unwrap_or_else(|| self.attachment.block_path()).display().to_string()
    }

    /// Takes the device away. Cached data is written out first, for a while.
    fn let_go(&mut self, source: &Source, users: Users, deadline: Deadline) -> Result<(), AttachError> {
        let written = || source.array.stats().report().written_bytes;
        let is_hurried = || users == Users::Unmount && source.asked.is_hurried();
        let limit = deadline.or_after(write_out_limit(users, deadline.left()));
        let patience = Patience { is_over: &is_hurried, ..Patience::while_written(&written, limit) };
        if users == Users::Unmount {
            mounts::unmount_all(|| self.attachment.users().found, &[], patience);
        }
        let mut watch = patience.watch();
        let result = self.attachment.detach_while(DetachMode::Refuse, &mut || watch.goes_on());
        let Err(error) = result else { return Ok(()) };
        if matches!(error, AttachError::NotWrittenOut { .. }) {
            tracing::warn!("{error}");
        }
        if users != Users::Force {
            return Err(error);
        }
        // What hung a moment ago would hang again.
        if !matches!(error, AttachError::NotWrittenOut { .. }) {
            mounts::write_out(self.attachment.block_path(), &self.attachment.users().found, patience);
        }
        self.attachment.detach(DetachMode::Force)
    }
}

/// How long writing out may take. It leaves time for the release that follows. With force, it is cut short.
fn write_out_limit(users: Users, left: Duration) -> Duration {
    let limit = left.saturating_sub(RELEASE_WAIT);
    if users == Users::Force { limit.min(FORCED_WRITE_OUT) } else { limit }
}

fn uri_of(server: &Server, name: &str) -> String {
    NbdAddress { endpoint: server.endpoint().clone(), export: name.to_owned() }.to_string()
}

fn method_of(choice: AttachChoice) -> AttachMethod {
    match choice {
        AttachChoice::Nbd => AttachMethod::KernelNbd,
        AttachChoice::Fuse => AttachMethod::FuseLoop,
    }
}

/// A path is a unix socket; anything else is HOST:PORT.
fn parse_endpoint(address: &str) -> anyhow::Result<Endpoint> {
    if address.starts_with('/') {
        return Ok(Endpoint::Unix(address.into()));
    }
    let (host, port) = address.rsplit_once(':').with_context(|| format!("'{address}' is not HOST:PORT"))?;
    let port = port.parse().with_context(|| format!("'{port}' is not a port"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Endpoint::Tcp { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_out_leaves_the_time_that_the_release_may_take_by_force_too() {
        let limit = |users, left_s| write_out_limit(users, Duration::from_secs(left_s)).as_secs();
        assert_eq!(
            (limit(Users::Force, 100), limit(Users::Refuse, 100), limit(Users::Unmount, 100)),
            (30, 70, 70)
        );
        assert_eq!((limit(Users::Force, 40), limit(Users::Refuse, 40)), (10, 10));
        assert_eq!((limit(Users::Force, 20), limit(Users::Refuse, 20)), (0, 0));
    }

    #[test]
    fn what_somebody_may_use_is_not_taken_for_unused() {
        assert!(check_nobody("/dev/x", &[], true).is_ok());
        let said = |found: &[BlockUser], is_complete| check_nobody("/dev/x", found, is_complete).unwrap_err();
        assert!(said(&[], false).to_string().contains("cannot tell who uses /dev/x"));
        assert!(said(&[BlockUser::Swap], false).to_string().contains("used as swap"));
    }
}
