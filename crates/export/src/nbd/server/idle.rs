//! Idle connections: which of them are closed, and when.
//!
//! A client that has sent a request is left alone, however long it is silent, unless the operator set a
//! limit: a disk that is idle over night is no fault. A client that never sent one must leave when another
//! wants its place.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use super::{accept::Shared, connection::Connection};

/// How often to look for idle connections, as a fraction of the time that they may be idle.
const LOOKS: u32 = 4;
/// The longest time between looks.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// The connection that makes room for another: the oldest of those that have sent no request for this long
/// since they came.
pub(super) fn expendable<'a>(
    connections: impl Iterator<Item = &'a Arc<Connection>>,
    silent: Duration,
) -> Option<&'a Arc<Connection>> {
    let asked_nothing =
        connections.filter(|connection| !connection.has_asked() && connection.idle_for() >= silent);
    asked_nothing.max_by_key(|connection| connection.idle_for())
}

/// Closes connections that have been idle for too long, as long as the server exists.
pub(super) fn watch(shared: &Arc<Shared>, limit: Duration) {
    let (env, watched) = (shared.env().clone(), Arc::downgrade(shared));
    let look = (limit / LOOKS).min(LOOK_MAX);
    shared.env().spawn(Box::pin(async move {
        while close_idle(&watched, limit) {
            env.sleep(look).await;
        }
    }));
}

/// Whether the server is still there.
fn close_idle(shared: &Weak<Shared>, limit: Duration) -> bool {
    let Some(shared) = shared.upgrade().filter(|shared| !shared.is_stopping()) else { return false };
    shared.each_connection(|connection| {
        if connection.held().requests == 0 && connection.idle_for() >= limit {
            tracing::debug!(id = connection.id(), "idle connection closed");
            connection.cut_off();
        }
    });
    true
}
