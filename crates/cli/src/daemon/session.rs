//! What a daemon does for a command as long as that keeps its connection: it ends with the connection,
//! however that ends, and nobody else can end it.

use anyhow::Context;

use super::{load::OwnLoad, trace::OwnTrace};

/// What goes on for one connection.
#[derive(Default)]
pub(super) struct Session {
    pub(super) trace: Option<OwnTrace>,
    pub(super) load: Option<OwnLoad>,
}

impl Session {
    /// Whether nothing goes on.
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
