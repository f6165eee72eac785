//! What a daemon does for a command while the command keeps its connection. It ends with the connection,
//! however that ends, and no other command can end it.

use anyhow::Context;

use super::{load::OwnLoad, trace::OwnTrace};

/// What the daemon does for one connection.
#[derive(Default)]
pub(super) struct Session {
    pub(super) trace: Option<OwnTrace>,
    pub(super) load: Option<OwnLoad>,
}

impl Session {
    /// Whether the daemon does nothing for the connection.
    pub(super) fn is_idle(&self) -> bool {
        self.trace.is_none() && self.load.is_none()
    }

    pub(super) fn trace(&self) -> anyhow::Result<&OwnTrace> {
        self.trace.as_ref().context("nothing is traced for this connection")
    }

    pub(super) fn load(&self) -> anyhow::Result<&OwnLoad> {
        self.load.as_ref().context("nothing is loaded for this connection")
    }
}
