//! Commands that run until they are interrupted and then have something to tell. The first signal asks for
//! the end; a second one ends the process at once.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
    low_level::pipe,
};

/// Whether a signal has asked for the end. It is readable, for poll(2), once one has.
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    wakes: UnixStream,
}

impl Interrupt {
    /// From now on, the first of these signals only asks. SIGHUP is left alone: a process that ignores it
    /// does so on purpose.
    pub(crate) fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let (wakes, told) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            // In this order, so that the flag is checked before it is set.
            flag::register_conditional_default(signal, asked.clone())?;
            flag::register(signal, asked.clone())?;
            pipe::register(signal, told.try_clone()?)?;
        }
        Ok(Self { asked, wakes })
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
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
