//! Work that a daemon does for one command at a time.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether a command has the daemon's attention.
#[derive(Default)]
pub(super) struct Attention(Arc<AtomicBool>);

/// The daemon's attention, held by one command. No other command can end it. Dropping it frees it for the
/// next command.
pub(super) struct Held(Arc<AtomicBool>);

impl Attention {
    /// None while another command has it.
    pub(super) fn take(&self) -> Option<Held> {
        let is_taken = self.0.swap(true, Ordering::AcqRel);
        (!is_taken).then(|| Held(self.0.clone()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_has_it_until_it_lets_go() {
        let attention = Attention::default();
        let first = attention.take();
        assert!(first.is_some() && attention.take().is_none());
        assert!(attention.take().is_none(), "who was refused ends nothing");
        drop(first);
        assert!(attention.take().is_some());
    }
}
