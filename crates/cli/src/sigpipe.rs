//! Writing to a pipe that nobody reads any more. Rust's runtime ignores SIGPIPE, so `println!` panics. A
//! command in a pipe should rather end silently. A daemon that has gone must be reported, though.

use std::{
    io,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// Whether SIGPIPE ends this process.
static ENDS: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on SIGPIPE ends this process.
pub(crate) fn end_on_it() -> io::Result<()> {
    signal_hook::flag::register_conditional_default(signal_hook::consts::SIGPIPE, ENDS.clone())?;
    ENDS.store(true, Ordering::SeqCst);
    Ok(())
}

/// Runs a write to another process. If that process has gone, the write returns an error.
pub(crate) fn survived<T>(write: impl FnOnce() -> T) -> T {
    let ends = ENDS.swap(false, Ordering::SeqCst);
    let result = write();
    ENDS.store(ends, Ordering::SeqCst);
    result
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_daemon_that_has_gone_is_an_error_and_not_the_end() {
        end_on_it().unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let error = survived(|| ours.write_all(b"{}")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        // SIGPIPE must not end the test harness.
        ENDS.store(false, Ordering::SeqCst);
    }
}
