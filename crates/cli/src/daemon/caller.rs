//! A daemon must not keep open what it inherits from the command that starts it. Otherwise the caller's
//! files, pipes and locks would stay open, and `stripewise create ... | cat`, or a script under flock(1),
//! would never end.

#![allow(unsafe_code)]

use std::{fs::File, io};

/// The first descriptor after standard input, output and error.
const FIRST_OTHER: libc::c_uint = 3;

/// Keeps the programs that this process starts from inheriting any but the standard descriptors.
pub(crate) fn keep_descriptors() -> io::Result<()> {
    // SAFETY: no memory is passed, and no descriptor is closed: they are marked to be closed on exec, which
    // is what Rust does with all that it opens.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST_OTHER,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes the pipes to the command, which has its answer.
pub(crate) fn let_go() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(rustix::stdio::dup2_stdout(&null)?)
}
