//! The NBD server: any device, on a unix or TCP socket, on the io_uring runtime.
//!
//! Each connection lives on one worker, the one with the fewest connections when it came, and has two tasks:
//! one receives and starts requests, one sends replies. They take turns: some requests are started, then all
//! ready replies are sent in one message. A request whose device answers at once is answered without a task
//! of its own; the others run as tasks of the same worker, in any number up to the limit. A WRITE's data is
//! received into the buffer that goes to the device (small ones come with the requests before them and are
//! copied there), a READ's reply sends the buffer that came from it. The figures are in `docs/design/nbd.md`.
//!
//! Whatever a client does, it costs no more memory than [`limits`](super::limits) says, ends at most its own
//! connection, and delays others only by its share of the device and the processor. The server stops reading
//! from a client that does not read its replies. Any client may change the data: NBD has no users. Access is
//! that of the socket file (mode 0600) or of the network; bind TCP to loopback or a private network.
//!
//! Stopping: [`Server::stop`] ends listening, answers the requests under way, refuses later ones with
//! ESHUTDOWN, and closes. Dropping the server begins the same without waiting.

mod accept;
mod budget;
mod connection;
mod execute;
mod export;
mod idle;
mod listen;
mod payload;
mod pool;
mod stats;

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use stripewise_device::{
    EnvHandle,
    uring::{Runtime, net::Listener},
};
use thiserror::Error;

pub use export::Export;
pub use stats::ServerStats;

use self::{accept::Shared, listen::SocketFile};
use super::{Endpoint, Limits};

/// Why a server could not be started.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The socket could not be made.
    #[error("cannot listen on {endpoint}: {source}")]
    Listen {
        /// Where.
        endpoint: String,
        /// The system's error.
        source: io::Error,
    },
    /// Another server answers on the socket.
    #[error("{0} is in use by a running server; stop it or choose another path")]
    InUse(PathBuf),
    /// The socket's place is taken by something else, which is left there.
    #[error("{0} exists and is not a socket; remove it or choose another path")]
    NotASocket(PathBuf),
    /// A name or description the protocol cannot carry.
    #[error("export name {0:?} or its description is too long (over 4096 bytes) or has control characters")]
    BadName(String),
    /// Two exports under one name.
    #[error("two exports are named {0:?}; give each its own name")]
    DuplicateName(String),
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    /// Held for its drop: before the socket closes, as then another file could take over the file's identity.
    _file: Option<SocketFile>,
    listener: Listener,
    env: EnvHandle,
    endpoint: Endpoint,
}

impl Server {
    /// Listens and serves on all workers of `runtime`, which must outlive the server. A client that asks for
    /// the empty name gets the export of that name, else the first.
    ///
    /// # Errors
    /// If the socket cannot be made or the exports' names are not valid.
    pub fn start(
        runtime: &Runtime,
        endpoint: &Endpoint,
        exports: Vec<Export>,
        limits: Limits,
    ) -> Result<Self, ServerError> {
        let shared = Shared::new(exports, limits.sane(), runtime.env(), runtime.workers())?;
        let bound = listen::listen(endpoint)?;
        let listener = Listener::new(bound.fd);
        accept::start(&shared, &listener, runtime);
        let (env, endpoint) = (runtime.env(), bound.endpoint);
        Ok(Self { shared, listener, env, endpoint, _file: bound.file })
    }

    /// Where it listens; with port 0, the port that was chosen.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Counters since the start.
    pub fn stats(&self) -> ServerStats {
        self.shared.stats()
    }

    /// Stops: no new connections; requests under way are answered, later ones refused, connections closed.
    /// Returns when all have ended, so that the devices are no longer used. Clients that do not take their
    /// replies are cut off after [`Limits::stop_grace`]. Await it on the server's runtime.
    pub async fn stop(&self) {
        self.begin_stop();
        let grace: Duration = self.shared.limits().stop_grace;
        let ended = std::pin::pin!(self.shared.ended());
        if let Either::Right((_, ended)) = select(ended, self.env.sleep(grace)).await {
            self.shared.cut_off();
            ended.await;
        }
    }

    fn begin_stop(&self) {
        self.shared.begin_stop();
        self.listener.shutdown();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.begin_stop();
    }
}
