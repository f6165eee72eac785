//! The block device and the servers themselves, for the command that changes them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, anyhow, bail, ensure};
use stripewise::{
    export::{
        attach::{
            self, AttachError, AttachMethod, AttachOptions, Attachment, BlockUser, BlockUsers, DetachMode,
        },
        nbd::{Endpoint, Export, Limits, NbdAddress, Server},
    },
    internals::uring::Started,
};
use stripewise_wire::{AttachChoice, DiscardChoice, Notes};

use super::{
    super::{
        limits::limits_of,
        link, mounts,
        patience::{Deadline, Patience},
        remains::{self, DeadDevice},
    },
    Source, Told, Users,
    again::{AttachSpec, Closed, ServeSpec},
};
use crate::{room, rundir::run_dir};

/// How long a server's last requests may take, beyond the time that its clients have to take their replies.
const SERVER_END: Duration = Duration::from_secs(20);
/// How often it is looked meanwhile whether an operator waits no longer.
const HURRY_POLL: Duration = Duration::from_millis(100);
/// How long cached data is written out before a device is taken from its users by force.
const FORCED_WRITE_OUT: Duration = Duration::from_secs(30);
/// The longest that nbd devices and FUSE mounts take to go, once nothing is left to write out.
const RELEASE_WAIT: Duration = Duration::from_secs(30);

/// The least time that an array has to answer the kernel's first reads, even if another command used up the
/// time.
const ANSWER_WAIT_MIN: Duration = Duration::from_secs(5);

/// What is exported.
#[derive(Default)]
pub(super) struct Held {
    attached: Option<Attached>,
    servers: Vec<Served>,
    /// The array is being stopped: there are no exports, and will be no more. What there was.
    closed: Option<Closed>,
}

struct Served {
    server: Server,
    spec: ServeSpec,
}

struct Attached {
    attachment: Attachment,
    spec: AttachSpec,
    /// The link under `/dev/stripewise`, if it could be made.
    link: Option<PathBuf>,
}

impl Held {
    pub(super) fn told(&self, source: &Source) -> Told {
        let attached = self.attached.as_ref();
        Told {
            attached: attached.map(|a| (a.path(), a.attachment.block_path().to_owned())),
            addresses: self.servers.iter().map(|served| uri_of(&served.server, &source.name)).collect(),
        }
    }

    fn check_open(&self) -> anyhow::Result<()> {
        ensure!(self.closed.is_none(), "the array is being stopped; `stripewise stop` waits for that");
        Ok(())
    }

    pub(super) fn attach(
        &mut self,
        source: &Source,
        spec: AttachSpec,
        deadline: Deadline,
    ) -> anyhow::Result<String> {
        self.check_open()?;
        if let Some(attached) = &self.attached {
            bail!("it is attached already, at {}", attached.path());
        }
        let AttachSpec { method, sector_bytes, discard } = spec;
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
        let attached = self.attached.insert(Attached { attachment, spec, link });
        Ok(attached.path())
    }

    pub(super) fn detach(
        &mut self,
        source: &Source,
        users: Users,
        deadline: Deadline,
    ) -> anyhow::Result<Notes> {
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

    /// Starts a server. If it is to choose the port, the spec that is kept has the one that it chose.
    pub(super) fn serve(&mut self, source: &Source, spec: ServeSpec) -> anyhow::Result<String> {
        self.check_open()?;
        let ServeSpec { endpoint, read_only, discard, limits } = &spec;
        let (device, discards) = source.device(*discard);
        let mut export = Export::new(source.name.clone(), Arc::new(device));
        export.discard = discards;
        export.read_only = *read_only || source.array.is_read_only();
        let limits = limits_of(limits, room::left_bytes())?;
        let server = Server::start(&source.runtime, endpoint, vec![export], limits)?;
        let uri = uri_of(&server, &source.name);
        let spec = ServeSpec { endpoint: server.endpoint().clone(), ..spec };
        self.servers.push(Served { server, spec });
        Ok(uri)
    }

    pub(super) fn unserve(
        &mut self,
        source: &Source,
        address: Option<&str>,
        users: Users,
        deadline: Deadline,
    ) -> anyhow::Result<Notes> {
        let endpoint = address.map(parse_endpoint).transpose()?;
        let all = std::mem::take(&mut self.servers);
        let is_meant = |served: &Served| endpoint.as_ref().is_none_or(|e| served.server.endpoint() == e);
        let (stopping, staying): (Vec<_>, Vec<_>) = all.into_iter().partition(is_meant);
        self.servers = staying;
        if stopping.is_empty() {
            bail!("it is not served{}", if address.is_some() { " there" } else { "" });
        }
        // Stops all at once, so that several servers that hang are waited for no longer than one.
        let deadline = deadline.or_after(Limits::default().stop_grace + SERVER_END);
        let begin = |Served { server, .. }: Served| {
            let uri = uri_of(&server, &source.name);
            (uri, source.runtime.begin(async move { server.stop().await }))
        };
        let ending: Vec<_> = stopping.into_iter().map(begin).collect();
        let is_hurried = || source.asked.cuts_short(users);
        let hangs = |end: &Started<()>| {
            while end.wait_for(deadline.within(HURRY_POLL)).is_none() {
                if deadline.is_over() || is_hurried() {
                    return true;
                }
            }
            false
        };
        let hang = ending.into_iter().filter(|(_, end)| hangs(end));
        Ok(hang
            .map(|(uri, _)| format!("{uri} is served no more, but some of its last requests do not end"))
            .collect())
    }

    pub(super) fn end_all(
        &mut self,
        source: &Source,
        users: Users,
        deadline: Deadline,
    ) -> anyhow::Result<Notes> {
        let attached = self.attached.as_ref().map(|attached| attached.spec);
        let served = self.servers.iter().map(|served| served.spec.clone()).collect();
        let mut notes = match attached {
            Some(_) => self.detach(source, users, deadline)?,
            None => Notes::new(),
        };
        if !self.servers.is_empty() {
            notes.extend(self.unserve(source, None, users, deadline)?);
        }
        self.closed = Some(Closed { attached, served });
        Ok(notes)
    }

    /// The array is not stopped after all: there may be exports again, and with `restore` there are those that were closed.
    /// Returns what became of them.
    pub(super) fn reopen(&mut self, source: &Source, restore: bool, deadline: Deadline) -> Notes {
        match self.closed.take() {
            Some(closed) if restore => closed.open(self, source, deadline),
            _ => Notes::new(),
        }
    }

    /// Refuses what must be alone on the array.
    pub(super) fn check_free(&self, source: &Source) -> anyhow::Result<()> {
        self.check_open()?;
        let name = &source.name;
        if let Some(attached) = &self.attached {
            bail!("it is attached at {}; `stripewise detach {name}` first", attached.path());
        }
        if let Some(served) = self.servers.first() {
            bail!("it is served at {}; `stripewise serve {name} --stop` first", uri_of(&served.server, name));
        }
        Ok(())
    }

    /// Refuses to overwrite an array that is in use, through the block device or over NBD.
    pub(super) fn check_unused(&self) -> anyhow::Result<()> {
        let clients: u64 = self.servers.iter().map(|served| served.server.stats().connections).sum();
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
        let is_hurried = || source.asked.cuts_short(users);
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
pub(super) fn parse_endpoint(address: &str) -> anyhow::Result<Endpoint> {
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
