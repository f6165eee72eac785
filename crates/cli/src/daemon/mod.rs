//! The array daemon: one process per open array, with a control socket.
//!
//! The command that opens an array starts this process, hands it a [`DaemonSpec`] on standard input and waits
//! for a line of JSON on standard output: the array's status, or the error. Before that come lines that tell
//! how far members have been measured. From then on the daemon is on its own; it ends on a `stop` command,
//! SIGTERM or SIGINT, and leaves the array clean.

mod adding;
mod answers;
mod attention;
mod caller;
mod control;
mod doorman;
mod emptying;
mod end;
mod exports;
mod filesystem;
mod jobs;
mod limits;
mod link;
mod load;
mod log;
mod measuring;
mod members;
mod mounts;
mod name;
mod open;
mod patience;
mod remains;
mod report;
mod session;
mod signals;
mod slow;
mod spec;
mod state;
mod stopping;
mod trace;

use std::{
    io::{self, Write},
    os::unix::net::UnixListener,
    sync::Arc,
};

use anyhow::Context;

pub(crate) use caller::{keep_descriptors, let_go};
use doorman::Doorman;
use log::Log;
pub(crate) use members::{LookedAt, check_contents, holding, open_exclusively, open_to_read};
use name::NameLock;
pub(crate) use name::taken;
pub(crate) use open::{preview, start_host};
pub(crate) use remains::{are_listed as remains_are_listed, clear as clear_remains};
use signal_hook::iterator::Signals;
pub(crate) use spec::{CreateSpec, DaemonSpec, Opening, WorkerSpec, start_daemon};
use state::DaemonState;
use stripewise_wire::{ArrayStatus, Notes, Reply};

use crate::{
    errors,
    rundir::{make_run_dir, socket_path},
};

/// Runs the daemon to its end: the body of the hidden `daemon` command.
pub(crate) fn run() -> anyhow::Result<()> {
    // Leaves the terminal that started this process.
    let _ = rustix::process::setsid();
    // Signals that come while the array is being opened take effect once it is open.
    let signals = signals::catch()?;
    let spec: DaemonSpec =
        serde_json::from_reader(io::stdin()).context("the daemon is started by other commands")?;
    match start(&spec) {
        Ok(started) => {
            let state = &started.state;
            answer(&first_word(&state.name, state.status(), started.notes))?;
            let_go().context("letting go of the caller")?;
            serve(&started.state, signals, started.listener)
        }
        Err(error) => answer(&Reply::Error(errors::line(&error))),
    }
}

/// An array that is open but not yet served.
struct Started {
    state: Arc<DaemonState>,
    listener: UnixListener,
    /// Notes on what an earlier daemon left, and on the opening.
    notes: Notes,
    _name: NameLock,
}

/// What to tell about an array that is open. One that does not answer yet may answer in a moment, so the
/// daemon goes on.
fn first_word(name: &str, status: anyhow::Result<ArrayStatus>, mut notes: Notes) -> Reply {
    let status = status.unwrap_or_else(|error| {
        let why = errors::line(&error);
        tracing::warn!(why, "the array is open, and does not answer yet");
        notes.push(format!("it is open, but: {why}. `stripewise status {name}` tells when it answers"));
        ArrayStatus { name: name.to_owned(), pid: std::process::id(), ..ArrayStatus::default() }
    });
    Reply::Opened { status: Box::new(status), notes }
}

/// Sends one line to the command that waits. The command may be gone by now.
fn answer(reply: &Reply) -> anyhow::Result<()> {
    let line = reply.line()?;
    let mut out = io::stdout();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    Ok(())
}

fn start(spec: &DaemonSpec) -> anyhow::Result<Started> {
    let name = NameLock::take(&make_run_dir()?, &spec.name)?;
    let log = Log::begin(&spec.name)?;
    // This process holds the name, so no other daemon is behind anything found of it.
    let mut notes = remains::clear_under_lock(&spec.name);
    let socket = socket_path(&spec.name);
    // If the socket cannot be made, that must show before anything is written to a device.
    let listener = control::bind(&socket).inspect_err(|_| log.forget())?;
    let doorman = Doorman::begin(&spec.name, &listener)?;
    // The command may be gone by now, and the array is made all the same.
    let tell = |step: &Reply| _ = answer(step);
    let (state, told) = open::open(spec, &tell).inspect_err(|_| {
        let _ = std::fs::remove_file(&socket);
        log.forget();
    })?;
    drop(doorman);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_that_does_not_answer_at_once_is_open_all_the_same() {
        let word = first_word("a", Err(anyhow::anyhow!("a member hangs")), vec!["before".to_owned()]);
        let Reply::Opened { status, notes } = word else { panic!("the daemon goes on: {word:?}") };
        assert_eq!((status.name.as_str(), status.is_known()), ("a", false));
        assert!(notes[0] == "before" && notes[1].contains("a member hangs"), "{notes:?}");
        let known = ArrayStatus { raid_devices: 3, in_sync: vec![true; 3], ..ArrayStatus::default() };
        assert!(
            matches!(first_word("a", Ok(known), Notes::new()), Reply::Opened { status, .. } if status.is_known())
        );
    }
}
