//! The array daemon: one process per open array, with a control socket.
//!
//! The command that opens an array starts this process, hands it a [`DaemonSpec`] on standard input and waits for
//! one line of JSON on standard output: the array's status, or the error. From then on the daemon is on its own; it
//! ends on a `stop` command, SIGTERM or SIGINT, and leaves the array clean.

mod control;
mod exports;
mod open;
mod signals;
mod spec;
mod state;

use std::{
    fs::File,
    io::{self, Write},
    os::unix::net::UnixListener,
    path::Path,
    sync::Arc,
};

use anyhow::{Context, bail};

pub(crate) use spec::{CreateSpec, DaemonSpec, Opening, start_daemon};
use state::DaemonState;

use crate::{
    protocol::Reply,
    rundir::{make_run_dir, restrict, socket_path},
};

/// Runs the daemon to its end: the body of the hidden `daemon` command.
pub(crate) fn run() -> anyhow::Result<()> {
    // Away from the terminal that started it.
    let _ = rustix::process::setsid();
    let spec: DaemonSpec =
        serde_json::from_reader(io::stdin()).context("the daemon is started by other commands")?;
    match start(&spec) {
        Ok((state, listener, _lock)) => {
            answer(&Reply::Status(Box::new(state.status())))?;
            serve(&state, listener)
        }
        Err(error) => answer(&Reply::Error(format!("{error:#}"))),
    }
}

/// One line for the command that waits; it may have gone meanwhile.
fn answer(reply: &Reply) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(reply)?;
    line.push('\n');
    let mut out = io::stdout();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    Ok(())
}

fn start(spec: &DaemonSpec) -> anyhow::Result<(Arc<DaemonState>, UnixListener, File)> {
    let dir = make_run_dir()?;
    let lock = lock_name(&dir, &spec.name)?;
    let path = socket_path(&spec.name);
    // The lock says that no daemon lives behind an old socket.
    let _ = std::fs::remove_file(&path);
    exports::clean_stale(&dir, &spec.name);
    let state = open::open(spec)?;
    let listener = UnixListener::bind(&path).with_context(|| format!("{}: cannot bind", path.display()))?;
    restrict(&path)?;
    Ok((state, listener, lock))
}

/// Holds the array's name as long as this process lives.
fn lock_name(dir: &Path, name: &str) -> anyhow::Result<File> {
    let path = dir.join(format!("{name}.lock"));
    let file = File::create(&path).with_context(|| format!("{}: cannot create", path.display()))?;
    restrict(&path)?;
    if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("an array named '{name}' is running already; choose another name or stop that one");
    }
    Ok(file)
}

fn serve(state: &Arc<DaemonState>, listener: UnixListener) -> anyhow::Result<()> {
    signals::watch(state)?;
    control::listen(state, listener)?;
    state.wait_for_end();
    let _ = std::fs::remove_file(socket_path(&state.name));
    Ok(())
}
