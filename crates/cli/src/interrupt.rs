//! Commands that run until they are interrupted and then have something to tell. The first signal asks for
//! the end; a second one ends the process at once.

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
    /// From now on, the first of these signals only asks. SIGHUP is left alone: a process that ignores it
    /// does so on purpose.
    pub(crate) fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order, so that the flag is checked before it is set.
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
