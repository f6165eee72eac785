//! How an array leaves its daemon: as a block device, and over NBD.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use stripewise::export::{
    attach::{self, AttachError, AttachMethod, AttachOptions, Attachment, DetachMode},
    nbd::{Endpoint, Export, Limits, NbdAddress, Server},
};

use super::{
    mounts::{self, Patience},
    remains::{self, DeadDevice},
    state::{DaemonState, Notes},
};
use crate::{
    protocol::AttachChoice,
    rundir::{link_dir, run_dir},
};

/// What is exported now.
#[derive(Default)]
pub(crate) struct Exports {
    attached: Option<Attached>,
    servers: Vec<Server>,
    /// The array is being stopped: there will be no more exports.
    closed: bool,
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
    /// Makes a block device and returns its path.
    pub(super) fn attach(
        &mut self,
        state: &DaemonState,
        method: Option<AttachChoice>,
    ) -> anyhow::Result<String> {
        self.check_open()?;
        if let Some(attached) = &self.attached {
            bail!("it is attached already, at {}", attached.path());
        }
        let mut options = AttachOptions::new(run_dir(), &state.name);
        options.method = method.map(method_of);
        options.read_only = state.array_is_read_only();
        let attachment = attach::attach(state.device(), state.host.runtime(), &options)?;
        let link = make_link(&state.name, attachment.block_path());
        let attached = self.attached.insert(Attached { attachment, link });
        Ok(attached.path())
    }

    fn check_open(&self) -> anyhow::Result<()> {
        ensure!(!self.closed, "the array is being stopped");
        Ok(())
    }

    /// Takes the block device away, with or without its users' consent.
    pub(super) fn detach(&mut self, state: &DaemonState, users: Users) -> anyhow::Result<Notes> {
        let Some(attached) = &mut self.attached else { bail!("it is not attached") };
        let written = || state.array.stats().report().written_bytes;
        let patience = Patience::while_written(&written);
        if users == Users::Unmount {
            let patience = Patience { is_over: &|| state.is_hurried(), ..patience };
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
            remove_link(&state.name);
        }
        self.attached = None;
        Ok(remains::take_note(&state.name, device))
    }

    /// Starts an NBD server and returns its address.
    pub(super) fn serve(
        &mut self,
        state: &DaemonState,
        address: &str,
        read_only: bool,
    ) -> anyhow::Result<String> {
        self.check_open()?;
        let endpoint = parse_endpoint(address)?;
        let mut export = Export::new(state.name.clone(), state.device());
        export.read_only = read_only || state.array_is_read_only();
        let server = Server::start(state.host.runtime(), &endpoint, vec![export], Limits::default())?;
        let uri = uri_of(&server, &state.name);
        self.servers.push(server);
        Ok(uri)
    }

    /// Stops the server at an address, or all.
    pub(super) fn unserve(&mut self, state: &DaemonState, address: Option<&str>) -> anyhow::Result<Notes> {
        let endpoint = address.map(parse_endpoint).transpose()?;
        let all = std::mem::take(&mut self.servers);
        let (stopping, staying): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|server| endpoint.as_ref().is_none_or(|e| server.endpoint() == e));
        self.servers = staying;
        if stopping.is_empty() {
            bail!("it is not served{}", if address.is_some() { " there" } else { "" });
        }
        for server in stopping {
            state.host.block_on(async move { server.stop().await });
        }
        Ok(Notes::new())
    }

    /// Ends every export, for good.
    pub(super) fn end_all(&mut self, state: &DaemonState, users: Users) -> anyhow::Result<Notes> {
        let notes = match self.attached {
            Some(_) => self.detach(state, users)?,
            None => Notes::new(),
        };
        if !self.servers.is_empty() {
            self.unserve(state, None)?;
        }
        self.closed = true;
        Ok(notes)
    }

    /// Refuses to overwrite what somebody uses, through the block device or over NBD.
    pub(super) fn check_unused(&self) -> anyhow::Result<()> {
        let clients: u64 = self.servers.iter().map(|server| server.stats().connections).sum();
        ensure!(clients == 0, "clients are connected to its NBD servers ({clients}); stop that first");
        let Some(attached) = &self.attached else { return Ok(()) };
        let users = attached.attachment.users();
        let told: Vec<_> = users.iter().map(ToString::to_string).collect();
        ensure!(users.is_empty(), "{} is in use: {}; stop that first", attached.path(), told.join(", "));
        Ok(())
    }

    pub(super) fn attached(&self) -> Option<String> {
        self.attached.as_ref().map(Attached::path)
    }

    /// Whether a device is this array's own block device: as its member it would wait for itself.
    pub(super) fn is_own(&self, device: &Path) -> bool {
        let Some(attached) = &self.attached else { return false };
        // A partition's node begins with its disk's.
        let disk = attached.attachment.block_path().as_os_str().as_encoded_bytes();
        device.canonicalize().is_ok_and(|node| {
            let rest = node.as_os_str().as_encoded_bytes().strip_prefix(disk);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"p"))
        })
    }

    pub(super) fn addresses(&self, name: &str) -> Vec<String> {
        self.servers.iter().map(|server| uri_of(server, name)).collect()
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
