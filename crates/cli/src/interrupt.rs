//! Commands that run until they are interrupted and then have something to tell. The first signal asks for
//! the end; a second one ends the process at once.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use signal_hook::{
    SigId,
    consts::{SIGINT, SIGTERM},
    flag,
    low_level::{pipe, unregister},
};

/// The signals that ask. SIGHUP is left alone: a process that ignores it does so on purpose.
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// Whether a signal has asked for the end. It is readable, for poll(2), once one has.
pub(crate) struct Interrupt {
    // Fields drop in this order: a signal must find no action whose socket is closed, as that would raise SIGPIPE.
    _watched: Watched,
    _actions: Actions,
    asked: Arc<AtomicBool>,
    wakes: UnixStream,
}

impl Interrupt {
    /// From now on, the first of these signals only asks. Once this is dropped, a signal ends the process again.
    pub(crate) fn watch() -> io::Result<Self> {
        Self::watch_after(|| {})
    }

    /// As [`Interrupt::watch`]. Tests have `first` done where signals have lost their default effect and have no other yet.
    fn watch_after(first: impl FnOnce()) -> io::Result<Self> {
        let _others_wait = BEGINNING.lock();
        // Its action goes first: one that came after the flag would be carried out while the waiting thread, which has seen the flag,
        // drops this.
        let watched = Watched::begin()?;
        first();
        let asked = Arc::new(AtomicBool::new(false));
        let (wakes, told) = UnixStream::pair()?;
        let mut actions = Actions::default();
        for signal in SIGNALS {
            // In this order, so that the flag is checked before it is set.
            actions.0.push(flag::register_conditional_default(signal, asked.clone())?);
            actions.0.push(flag::register(signal, asked.clone())?);
            actions.0.push(pipe::register(signal, told.try_clone()?)?);
        }
        // One that came before these actions were there.
        if HEARD.load(Ordering::SeqCst) {
            asked.store(true, Ordering::SeqCst);
            (&told).write_all(&[0])?;
        }
        Ok(Self { _watched: watched, _actions: actions, asked, wakes })
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The next signal asks again, and only the one after it ends the process.
    pub(crate) fn hear_again(&self) -> io::Result<()> {
        self.wakes.set_nonblocking(true)?;
        // The socket before the flag: a signal in between is still readable.
        while (&self.wakes).read(&mut [0; 16]).is_ok_and(|read| read > 0) {}
        self.asked.store(false, Ordering::SeqCst);
        Ok(())
    }
}

/// What is done at a signal, until this is dropped.
#[derive(Default)]
struct Actions(Vec<SigId>);

impl Drop for Actions {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|action| _ = unregister(action));
    }
}

/// Whether signals have their default effect. A handler stays once it is installed, and would swallow them.
static IS_UNWATCHED: AtomicBool = AtomicBool::new(false);
/// Whether a signal has come since the last [`Watched`] began.
static HEARD: AtomicBool = AtomicBool::new(false);
/// Held while an [`Interrupt`] begins: another one must not take its signal.
static BEGINNING: Mutex<()> = Mutex::new(());
/// How many [`Watched`] there are; none before the first.
static WATCHED: Mutex<Option<usize>> = Mutex::new(None);

/// Keeps signals from having their default effect.
struct Watched;

impl Watched {
    fn begin() -> io::Result<Self> {
        let mut watched = WATCHED.lock();
        HEARD.store(false, Ordering::SeqCst);
        if watched.is_none() {
            for signal in SIGNALS {
                flag::register(signal, &HEARD)?;
                flag::register_conditional_default(signal, &IS_UNWATCHED)?;
            }
        }
        *watched = Some(watched.unwrap_or(0) + 1);
        IS_UNWATCHED.store(false, Ordering::SeqCst);
        Ok(Self)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watched = WATCHED.lock();
        let left = watched.unwrap_or(0).saturating_sub(1);
        *watched = Some(left);
        IS_UNWATCHED.store(left == 0, Ordering::SeqCst);
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
    use signal_hook::low_level::raise;

    use super::*;

    /// One test only, and one that watches: a second signal that is not waited for would end the process, tests beside this one included.
    #[test]
    fn a_signal_asks_the_one_that_watches_and_again_once_it_was_heard() {
        let interrupt = Interrupt::watch().unwrap();
        assert!(!interrupt.is_asked());
        let early = Interrupt::watch_after(|| raise(SIGTERM).unwrap()).unwrap();
        assert!(early.is_asked(), "no signal is lost while it begins");
        assert!((&early.wakes).read(&mut [0]).is_ok());
        drop(early);
        interrupt.hear_again().unwrap();
        for _ in 0..3 {
            assert!(!interrupt.is_asked());
            kill_process(getpid(), Signal::TERM).unwrap();
            while !interrupt.is_asked() {
                std::thread::yield_now();
            }
            // The thread that handles the signal writes a moment later.
            while (&interrupt.wakes).read(&mut [0]).is_err() {
                std::thread::yield_now();
            }
            interrupt.hear_again().unwrap();
        }
    }
}
