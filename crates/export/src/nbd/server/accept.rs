//! Accepting: connections are spread over the workers, and kept in a list so that a stop reaches them.

use std::{
    future::poll_fn,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use parking_lot::Mutex;
use slab::Slab;
use stripewise_device::{
    EnvHandle,
    sync::{WaitList, wake_all},
    uring::{
        Runtime,
        net::{Listener, Stream},
    },
};

use super::{
    Export, ServerError, ServerStats,
    budget::{Budget, Held},
    connection::{self, Connection},
    stats::Counters,
};
use crate::nbd::{Limits, limits::SOCKET_BUFFER_BYTES, mailbox::Mailbox, proto::ExportFacts};

/// How long to wait when the system has no descriptors or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A peer that vanished without a word is noticed after this and a few probes more.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// What all tasks of one server share.
pub(super) struct Shared {
    exports: Vec<Export>,
    facts: Arc<[ExportFacts]>,
    limits: Limits,
    env: EnvHandle,
    counters: Counters,
    stopping: AtomicBool,
    open: Mutex<Open>,
    /// New connections, one mailbox for each worker.
    doors: Vec<Mailbox<Arc<Connection>>>,
}

#[derive(Default)]
struct Open {
    connections: Slab<Arc<Connection>>,
    /// How many of them each worker has.
    on_worker: Vec<usize>,
    /// The worker behind the one that was chosen last.
    next_worker: usize,
    /// The most that those which have ended held.
    ended: Held,
    /// Those who wait for the last connection to end.
    waiting: WaitList,
}

impl Shared {
    pub(super) fn new(
        exports: Vec<Export>,
        limits: Limits,
        env: EnvHandle,
        workers: usize,
    ) -> Result<Arc<Self>, ServerError> {
        let facts: Arc<[_]> = exports.iter().map(Export::facts).collect::<Result<Vec<_>, _>>()?.into();
        for (index, export) in exports.iter().enumerate() {
            if exports[..index].iter().any(|earlier| earlier.name == export.name) {
                return Err(ServerError::DuplicateName(export.name.clone()));
            }
        }
        let doors = (0..workers).map(|_| Mailbox::default()).collect();
        let open = Mutex::new(Open { on_worker: vec![0; workers], ..Open::default() });
        let (counters, stopping) = (Counters::default(), AtomicBool::new(false));
        Ok(Arc::new(Self { exports, facts, limits, env, counters, stopping, open, doors }))
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn env(&self) -> &EnvHandle {
        &self.env
    }

    pub(super) fn export(&self, index: usize) -> &Export {
        &self.exports[index]
    }

    pub(super) fn facts(&self) -> Arc<[ExportFacts]> {
        self.facts.clone()
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn stats(&self) -> ServerStats {
        let open = self.open.lock();
        self.counters.snapshot(open.connections.iter().map(|(_, connection)| connection.held()), open.ended)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Tells every connection that no more requests are taken.
    pub(super) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.open.lock().connections.iter().for_each(|(_, connection)| connection.stop_receiving());
        self.doors.iter().for_each(Mailbox::close);
    }

    /// Closes every connection, whatever it still has to send.
    pub(super) fn cut_off(&self) {
        self.open.lock().connections.iter().for_each(|(_, connection)| connection.cut_off());
    }

    /// Waits until there is no connection.
    pub(super) async fn ended(&self) {
        poll_fn(|cx| {
            let mut open = self.open.lock();
            if open.connections.is_empty() {
                return Poll::Ready(());
            }
            open.waiting.add(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Registers a connection, if one more is allowed.
    fn admit(self: &Arc<Self>, fd: OwnedFd) -> Option<Arc<Connection>> {
        let mut open = self.open.lock();
        if open.connections.len() >= self.limits.connections || self.is_stopping() {
            return None;
        }
        prepare(&fd);
        let budget = Budget::new(self.limits.connection_in_flight_bytes, self.limits.connection_requests);
        let worker = open.choose_worker();
        let place = open.connections.vacant_entry();
        let connection = Connection::new(place.key(), worker, Stream::new(fd), budget, self.clone());
        Some(place.insert(Arc::new(connection)).clone())
    }

    /// Forgets a connection that has ended.
    pub(super) fn leave(&self, id: usize) {
        let waiting = {
            let mut open = self.open.lock();
            let connection = open.connections.remove(id);
            open.on_worker[connection.worker()] -= 1;
            open.ended = open.ended.max(connection.held());
            if open.connections.is_empty() { open.waiting.take() } else { Vec::new() }
        };
        wake_all(waiting);
    }
}

impl Open {
    /// The worker with the fewest connections; of several, the next in turn.
    fn choose_worker(&mut self) -> usize {
        let count = self.on_worker.len();
        let in_turn = (0..count).map(|step| (self.next_worker + step) % count);
        let worker = in_turn.min_by_key(|worker| self.on_worker[*worker]).unwrap_or(0);
        self.on_worker[worker] += 1;
        self.next_worker = worker + 1;
        worker
    }
}

/// Socket options. All are wishes: TCP ones do not apply to unix sockets, and nothing breaks without them.
fn prepare(fd: &OwnedFd) {
    use rustix::net::sockopt;
    let _ = sockopt::set_tcp_nodelay(fd, true);
    let _ = sockopt::set_socket_keepalive(fd, true);
    let _ = sockopt::set_tcp_keepidle(fd, KEEPALIVE_IDLE);
    let _ = sockopt::set_socket_send_buffer_size(fd, SOCKET_BUFFER_BYTES);
}

/// Starts the accepting task on the first worker, and on every worker a task that starts its connections.
pub(super) fn start(shared: &Arc<Shared>, listener: &Listener, runtime: &Runtime) {
    for worker in 0..runtime.workers() {
        let shared = shared.clone();
        runtime.spawn_on(worker, Box::pin(async move { welcome(&shared, worker).await }));
    }
    let (shared, listener) = (shared.clone(), listener.clone());
    runtime.spawn_on(0, Box::pin(async move { accept_all(&shared, &listener).await }));
}

async fn welcome(shared: &Arc<Shared>, worker: usize) {
    let mut batch = Vec::new();
    while shared.doors[worker].receive(&mut batch, |_, _| true).await {
        for connection in batch.drain(..) {
            shared.env.spawn(Box::pin(connection::serve(connection)));
        }
    }
}

async fn accept_all(shared: &Arc<Shared>, listener: &Listener) {
    while !shared.is_stopping() {
        match listener.accept().await {
            Ok(fd) => take_in(shared, fd),
            Err(_) if shared.is_stopping() => break,
            // Out of descriptors, or a client that left before it was accepted: neither ends the server.
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                shared.env.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn take_in(shared: &Arc<Shared>, fd: OwnedFd) {
    let Some(connection) = shared.admit(fd) else {
        shared.counters.count_turned_away();
        tracing::warn!(limit = shared.limits.connections, "connection turned away: too many");
        return;
    };
    shared.counters.count_accepted();
    if let Err(connection) = shared.doors[connection.worker()].push(connection) {
        shared.leave(connection.id());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_goes_to_the_worker_with_the_fewest() {
        let mut open = Open { on_worker: vec![0; 3], ..Open::default() };
        let chosen: Vec<_> = (0..6).map(|_| open.choose_worker()).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1, 2]);
        open.on_worker[1] -= 1;
        assert_eq!((open.choose_worker(), open.on_worker), (1, vec![2, 2, 2]));
    }
}
