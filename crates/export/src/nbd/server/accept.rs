//! Accepting: connections are spread over the workers, and kept in a list so that a stop reaches them.

use std::{
    collections::HashSet,
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
    idle,
    pool::Pool,
    stats::Counters,
};
use crate::{
    nbd::{
        Limits,
        limits::{CONNECTION_RESERVE_BYTES, SOCKET_BUFFER_BYTES},
        mailbox::Mailbox,
        proto::ExportFacts,
    },
    seldom::Seldom,
};

/// How long to wait when the system has no descriptors or memory for a connection; doubled each time in a
/// row.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(5);
/// A peer that vanished silently is noticed after this and a few probes more.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// The state that all tasks of one server share.
pub(super) struct Shared {
    exports: Vec<Export>,
    facts: Arc<[ExportFacts]>,
    limits: Limits,
    /// The memory that requests of all connections may hold together.
    pool: Arc<Pool>,
    env: EnvHandle,
    counters: Counters,
    told: Told,
    stopping: AtomicBool,
    open: Mutex<Open>,
    /// New connections, one mailbox for each worker.
    doors: Vec<Mailbox<Arc<Connection>>>,
}

/// Rate-limited messages about clients.
#[derive(Default)]
pub(super) struct Told {
    pub(super) ended: Seldom,
    turned_away: Seldom,
    not_accepted: Seldom,
    cut_off: Seldom,
}

#[derive(Default)]
struct Open {
    connections: Slab<Arc<Connection>>,
    /// Places of those connections that were told to leave.
    leaving: HashSet<usize>,
    /// How many connections each worker has.
    on_worker: Vec<usize>,
    /// The worker after the one chosen last.
    next_worker: usize,
    /// The most that ended connections held.
    ended: Held,
    /// Tasks that wait for the last connection to end.
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
        let pool = Pool::new(limits.in_flight_bytes);
        Ok(Arc::new(Self {
            exports,
            facts,
            limits,
            pool,
            env,
            counters: Counters::default(),
            told: Told::default(),
            stopping: AtomicBool::new(false),
            open,
            doors,
        }))
    }

    pub(super) fn now_ns(&self) -> u64 {
        // Never 0, which stands for no time.
        self.env.now().0.max(1)
    }

    pub(super) fn told(&self) -> &Told {
        &self.told
    }

    pub(super) fn each_connection(&self, look: impl FnMut(&Arc<Connection>)) {
        self.open.lock().connections.iter().map(|(_, connection)| connection).for_each(look);
    }

    /// Closes the connections whose clients have stalled in the middle of a transfer, and frees what they
    /// hold.
    pub(super) fn cut_off_stalled(&self, stall: Duration) {
        self.each_connection(|connection| {
            let holds = connection.held().bytes;
            if connection.stalled_for() < stall || holds <= CONNECTION_RESERVE_BYTES {
                return;
            }
            if connection.give_up()
                && let Some(untold) = self.told.cut_off.count()
            {
                let id = connection.id();
                tracing::warn!(
                    id,
                    holds,
                    untold,
                    "connection closed: it does not go on, and others wait for its memory"
                );
            }
        });
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
        let Told { ended, turned_away, not_accepted, cut_off } = &self.told;
        let untold: u64 = [ended, turned_away, not_accepted, cut_off].map(Seldom::rest).iter().sum();
        if untold > 0 {
            tracing::info!(
                untold,
                "the server ends; so many more connections ended or were refused than was told"
            );
        }
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
        if self.is_stopping() || !open.has_place(&self.limits) {
            return None;
        }
        prepare(&fd);
        let Limits { connection_in_flight_bytes, connection_requests, .. } = self.limits;
        let budget = Budget::new(connection_in_flight_bytes, connection_requests, self.pool.clone());
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
            open.leaving.remove(&id);
            open.on_worker[connection.worker()] -= 1;
            open.ended = open.ended.max(connection.held());
            if open.connections.is_empty() { open.waiting.take() } else { Vec::new() }
        };
        wake_all(waiting);
    }
}

impl Open {
    /// Whether one more connection may come; an expendable one may have to leave for that.
    fn has_place(&mut self, limits: &Limits) -> bool {
        if self.connections.len() - self.leaving.len() < limits.connections {
            return true;
        }
        let staying = self.connections.iter().filter(|(place, _)| !self.leaving.contains(place));
        let Some(connection) = idle::expendable(staying.map(|(_, connection)| connection), limits.handshake)
        else {
            return false;
        };
        connection.cut_off();
        self.leaving.insert(connection.id());
        true
    }

    /// The worker with the fewest connections; among equals, the next in turn.
    fn choose_worker(&mut self) -> usize {
        let count = self.on_worker.len();
        let in_turn = (0..count).map(|step| (self.next_worker + step) % count);
        let worker = in_turn.min_by_key(|worker| self.on_worker[*worker]).unwrap_or(0);
        self.on_worker[worker] += 1;
        self.next_worker = worker + 1;
        worker
    }
}

/// Socket options. None is essential: TCP ones do not apply to unix sockets, and nothing breaks without them.
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
    if let Some(limit) = shared.limits.idle {
        idle::watch(shared, limit);
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
    let mut pause = ACCEPT_PAUSE;
    while !shared.is_stopping() {
        match listener.accept().await {
            Ok(fd) => {
                pause = ACCEPT_PAUSE;
                take_in(shared, fd);
            }
            Err(_) if shared.is_stopping() => break,
            // Out of descriptors, or a client that left before it was accepted: neither ends the server.
            Err(error) => {
                if let Some(untold) = shared.told.not_accepted.count() {
                    tracing::warn!(%error, untold, ?pause, "could not accept a connection");
                }
                shared.env.sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
}

fn take_in(shared: &Arc<Shared>, fd: OwnedFd) {
    let Some(connection) = shared.admit(fd) else {
        shared.counters.count_turned_away();
        if let Some(untold) = shared.told.turned_away.count() {
            tracing::warn!(limit = shared.limits.connections, untold, "connection turned away: too many");
        }
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
