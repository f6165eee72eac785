//! Commands that go on until they are interrupted, and have something to tell then: the first signal asks for
//! the end, a second one of its kind is the end.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

/// Whether a signal has asked for the end.
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on these signals only ask. SIGHUP is left alone: who ignores it does so on purpose.
    pub(crate) fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the flag is looked at before it is set.
            flag::register_conditional_default(signal, asked.clone())?;
            flag::register(signal, asked.clone())?;
        }
        Ok(Self(asked))
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn a_signal_asks_for_the_end() {
        let interrupt = Interrupt::watch().unwrap();
        assert!(!interrupt.is_asked());
        kill_process(getpid(), Signal::TERM).unwrap();
        while !interrupt.is_asked() {
            std::thread::yield_now();
        }
    }
}
