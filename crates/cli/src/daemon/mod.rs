//! The array daemon: one process per open array, with a control socket.
//!
//! The command that opens an array starts this process, hands it a [`DaemonSpec`] on standard input and waits for
//! one line of JSON on standard output: the array's status, or the error. From then on the daemon is on its own; it
//! ends on a `stop` command, SIGTERM or SIGINT, and leaves the array clean.

mod attention;
mod caller;
mod control;
mod end;
mod exports;
mod load;
mod log;
mod members;
mod mounts;
mod name;
mod open;
mod remains;
mod report;
mod session;
mod signals;
mod spec;
mod state;
mod trace;

use std::{
    io::{self, Write},
    os::unix::net::UnixListener,
    sync::Arc,
};

use anyhow::Context;

use log::Log;
pub(crate) use members::{LookedAt, holding};
use name::NameLock;
pub(crate) use name::taken;
pub(crate) use open::preview;
pub(crate) use remains::{are_listed as remains_are_listed, clear as clear_remains};
use signal_hook::iterator::Signals;
pub(crate) use spec::{CreateSpec, DaemonSpec, Opening, WorkerSpec, start_daemon};
use state::{DaemonState, Notes};

use crate::{
    errors,
    protocol::Reply,
    rundir::{make_run_dir, socket_path},
};

/// Runs the daemon to its end: the body of the hidden `daemon` command.
pub(crate) fn run() -> anyhow::Result<()> {
    // Away from the terminal that started it.
    let _ = rustix::process::setsid();
    // Those that come while the array is opened are heeded once it is open.
    let signals = signals::catch()?;
    let spec: DaemonSpec =
        serde_json::from_reader(io::stdin()).context("the daemon is started by other commands")?;
    match start(&spec) {
        Ok(started) => {
            let status = Box::new(started.state.status()?);
            answer(&Reply::Opened { status, notes: started.notes })?;
            caller::let_go().context("letting go of the caller")?;
            serve(&started.state, signals, started.listener)
        }
        Err(error) => answer(&Reply::Error(errors::line(&error))),
    }
}

/// An array that is open, not yet served.
struct Started {
    state: Arc<DaemonState>,
    listener: UnixListener,
    /// What is left of an earlier daemon.
    notes: Notes,
    _name: NameLock,
}

/// One line for the command that waits; it may have gone meanwhile.
fn answer(reply: &Reply) -> anyhow::Result<()> {
    let line = reply.line()?;
    let mut out = io::stdout();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    Ok(())
}

fn start(spec: &DaemonSpec) -> anyhow::Result<Started> {
    let name = NameLock::take(&make_run_dir()?, &spec.name)?;
    let log = Log::begin(&spec.name)?;
    // The name says that no daemon lives behind what is found of it.
    let mut notes = remains::clear_under_lock(&spec.name);
    let socket = socket_path(&spec.name);
    // A socket that cannot be is found out before anything is written to a device; commands wait until it is served.
    let listener = control::bind(&socket).inspect_err(|_| log.forget())?;
    let (state, told) = open::open(spec).inspect_err(|_| {
        let _ = std::fs::remove_file(&socket);
        log.forget();
    })?;
    notes.extend(told);
    Ok(Started { state, listener, notes, _name: name })
}

fn serve(state: &Arc<DaemonState>, signals: Signals, listener: UnixListener) -> anyhow::Result<()> {
    signals::watch(state, signals)?;
    control::listen(state, listener)?;
    state.end.wait();
    let _ = std::fs::remove_file(socket_path(&state.name));
    Ok(())
}
