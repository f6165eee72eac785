//! How an array leaves its daemon: as a block device, and over NBD.
//!
//! One command at a time changes what is exported (`held`), and may take long: an unmount writes out what is cached. What
//! there is can be read at any time (`told`). Nothing here knows the daemon's state, so that nothing asks it while a lock is
//! held.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use stripewise::{
    Array, ArrayDevice,
    export::{
        attach::{self, AttachError, AttachMethod, AttachOptions, Attachment, DetachMode},
        nbd::{Endpoint, Export, Limits, NbdAddress, Server},
    },
    uring::Runtime,
};

use super::{
    end::Asked,
    mounts::{self, Patience},
    remains::{self, DeadDevice},
    state::Notes,
};
use crate::{
    protocol::{AttachChoice, DiscardChoice, ServeLimits},
    rundir::{link_dir, run_dir},
};

/// How long a server's last requests may take, beyond what its clients are given to take their replies.
const SERVER_END: Duration = Duration::from_secs(20);

/// What is exported now.
pub(crate) struct Exports {
    source: Source,
    held: Mutex<Held>,
    told: Mutex<Told>,
}

/// What is exported, and what serves it.
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

/// What there is, for commands that only ask.
#[derive(Debug, Clone, Default)]
struct Told {
    /// Where the array is, and the block device itself.
    attached: Option<(String, PathBuf)>,
    addresses: Vec<String>,
}

/// What to do about users of a block device that is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// They keep it; the command fails.
    Refuse,
    /// File systems are unmounted; whoever else uses it keeps it.
    Unmount,
    /// It is taken from them.
    Force,
}

struct Attached {
    attachment: Attachment,
    /// The link under `/dev/stripewise`, if it could be made.
    link: Option<PathBuf>,
}

/// The link by which an array's block device is known.
fn link_path(name: &str) -> PathBuf {
    link_dir().join(name)
}

/// Where that link leads.
pub(super) fn linked_node(name: &str) -> Option<PathBuf> {
    std::fs::read_link(link_path(name)).ok()
}

pub(super) fn remove_link(name: &str) {
    let link = link_path(name);
    if link.is_symlink() {
        let _ = std::fs::remove_file(link);
        // Goes with its last link.
        let _ = std::fs::remove_dir(link_dir());
    }
}

impl Exports {
    pub(super) fn new(name: String, array: Array, runtime: Arc<Runtime>, asked: Asked) -> Self {
        let source = Source { name, array, runtime, asked };
        Self { source, held: Mutex::default(), told: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a change, and tells what there is afterwards, also if it failed half-way.
    fn change<T>(&self, change: impl FnOnce(&mut Held, &Source) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut held = self.held();
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
        allowed: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        self.change(|held, source| {
            allowed()?;
            held.attach(source, method, sector_bytes, discard)
        })
    }

    /// Takes the block device away, with or without its users' consent.
    pub(super) fn detach(&self, users: Users) -> anyhow::Result<Notes> {
        self.change(|held, source| held.detach(source, users))
    }

    /// Starts an NBD server, if `allowed`, and returns its address.
    pub(super) fn serve(
        &self,
        address: &str,
        read_only: bool,
        discard: DiscardChoice,
        limits: &ServeLimits,
        allowed: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        self.change(|held, source| {
            allowed()?;
            held.serve(source, address, read_only, discard, limits)
        })
    }

    /// Stops the server at an address, or all.
    pub(super) fn unserve(&self, address: Option<&str>) -> anyhow::Result<Notes> {
        self.change(|held, source| held.unserve(source, address))
    }

    /// Ends every export, for good.
    pub(super) fn end_all(&self, users: Users) -> anyhow::Result<Notes> {
        self.change(|held, source| held.end_all(source, users))
    }

    /// Begins something that must have the array to itself, while nothing can come in between.
    pub(super) fn while_unused<T>(&self, begin: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let held = self.held();
        held.check_unused()?;
        begin()
    }

    pub(super) fn attached(&self) -> Option<String> {
        self.told().attached.as_ref().map(|(path, _)| path.clone())
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.told().addresses.clone()
    }

    /// Whether a device is this array's own block device: as its member it would wait for itself.
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
        ensure!(!self.closed, "the array is being stopped");
        Ok(())
    }

    fn attach(
        &mut self,
        source: &Source,
        method: Option<AttachChoice>,
        sector_bytes: Option<u32>,
        discard: DiscardChoice,
    ) -> anyhow::Result<String> {
        self.check_open()?;
        if let Some(attached) = &self.attached {
            bail!("it is attached already, at {}", attached.path());
        }
        let mut options = AttachOptions::new(run_dir(), &source.name);
        options.method = method.map(method_of);
        options.read_only = source.array.is_read_only();
        options.block_bytes = sector_bytes;
        let (device, discards) = source.device(discard);
        options.discard = discards;
        let attachment = attach::attach(Arc::new(device), &source.runtime, &options)?;
        let link = make_link(&source.name, attachment.block_path());
        let attached = self.attached.insert(Attached { attachment, link });
        Ok(attached.path())
    }

    fn detach(&mut self, source: &Source, users: Users) -> anyhow::Result<Notes> {
        let Some(attached) = &mut self.attached else { bail!("it is not attached") };
        let written = || source.array.stats().report().written_bytes;
        let patience = Patience::while_written(&written);
        if users == Users::Unmount {
            let patience = Patience { is_over: &|| source.asked.is_hurried(), ..patience };
            mounts::unmount_all(|| attached.attachment.users(), &[], patience);
        }
        let device = DeadDevice::at(attached.attachment.block_path());
        let mut result = attached.attachment.detach(DetachMode::Refuse);
        if result.is_err() && users == Users::Force {
            mounts::write_out(attached.attachment.block_path(), &attached.attachment.users(), patience);
            result = attached.attachment.detach(DetachMode::Force);
        }
        result.map_err(|error| match error {
            AttachError::InUse { .. } if users == Users::Refuse => anyhow!(
                "{error}, or give --force to take it from them: what they have not written out is lost then"
            ),
            other if users == Users::Refuse => anyhow!(
                "{other}; --force lets go of the device all the same, and what is not written out is lost then"
            ),
            other => other.into(),
        })?;
        if attached.link.is_some() {
            remove_link(&source.name);
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
        let server = Server::start(&source.runtime, &endpoint, vec![export], limits_of(limits))?;
        let uri = uri_of(&server, &source.name);
        self.servers.push(server);
        Ok(uri)
    }

    fn unserve(&mut self, source: &Source, address: Option<&str>) -> anyhow::Result<Notes> {
        let endpoint = address.map(parse_endpoint).transpose()?;
        let all = std::mem::take(&mut self.servers);
        let (stopping, staying): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|server| endpoint.as_ref().is_none_or(|e| server.endpoint() == e));
        self.servers = staying;
        if stopping.is_empty() {
            bail!("it is not served{}", if address.is_some() { " there" } else { "" });
        }
        let limit = Limits::default().stop_grace + SERVER_END;
        let ended = stopping.into_iter().filter_map(|server| {
            let uri = uri_of(&server, &source.name);
            let ended = source.runtime.block_on_for(async move { server.stop().await }, limit);
            ended
                .is_none()
                .then(|| format!("{uri} is served no more, but some of its last requests do not end"))
        });
        Ok(ended.collect())
    }

    fn end_all(&mut self, source: &Source, users: Users) -> anyhow::Result<Notes> {
        let mut notes = match self.attached {
            Some(_) => self.detach(source, users)?,
            None => Notes::new(),
        };
        if !self.servers.is_empty() {
            notes.extend(self.unserve(source, None)?);
        }
        self.closed = true;
        Ok(notes)
    }

    /// Refuses to overwrite what somebody uses, through the block device or over NBD.
    fn check_unused(&self) -> anyhow::Result<()> {
        let clients: u64 = self.servers.iter().map(|server| server.stats().connections).sum();
        ensure!(clients == 0, "clients are connected to its NBD servers ({clients}); stop that first");
        let Some(attached) = &self.attached else { return Ok(()) };
        let users = attached.attachment.users();
        let told: Vec<_> = users.iter().map(ToString::to_string).collect();
        ensure!(users.is_empty(), "{} is in use: {}; stop that first", attached.path(), told.join(", "));
        Ok(())
    }
}

impl Attached {
    /// The link's path where there is one, as it says what it is.
    fn path(&self) -> String {
        self.link.as_deref().unwrap_or_else(|| self.attachment.block_path()).display().to_string()
    }
}

fn uri_of(server: &Server, name: &str) -> String {
    NbdAddress { endpoint: server.endpoint().clone(), export: name.to_owned() }.to_string()
}

fn make_link(name: &str, block_path: &Path) -> Option<PathBuf> {
    let link = link_path(name);
    remove_link(name);
    let make = || {
        std::fs::create_dir_all(link_dir())?;
        std::os::unix::fs::symlink(block_path, &link)
    };
    // Another array's last link may take the folder away in between.
    let made = make().or_else(|_| make());
    made.ok().map(|()| link)
}

fn method_of(choice: AttachChoice) -> AttachMethod {
    match choice {
        AttachChoice::Nbd => AttachMethod::KernelNbd,
        AttachChoice::Fuse => AttachMethod::FuseLoop,
    }
}

fn limits_of(asked: &ServeLimits) -> Limits {
    let ServeLimits { connections, in_flight_bytes, connection_in_flight_bytes, idle_ms } = *asked;
    let limits = Limits::default();
    Limits {
        connections: connections.unwrap_or(limits.connections),
        in_flight_bytes: in_flight_bytes.unwrap_or(limits.in_flight_bytes),
        connection_in_flight_bytes: connection_in_flight_bytes.unwrap_or(limits.connection_in_flight_bytes),
        idle: idle_ms.map(Duration::from_millis),
        ..limits
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
