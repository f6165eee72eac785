//! Stopping arrays, and clearing away what killed daemons left of them.

use std::{
    os::fd::{AsFd, OwnedFd},
    process::ExitCode,
    time::Duration,
};

use anyhow::{bail, ensure};
use rustix::process::{PidfdFlags, pidfd_open};
use stripewise_wire::{Notes, Reply, Request};

use super::{
    AFTER_DEATH, Connection,
    attended::{Attended, Interrupted},
    is_dead,
};
use crate::{
    daemon, errors,
    printable::printable,
    progress::EmptyingBar,
    rundir::{check_run_dir, socket_path},
    said::{note, tell_notes},
};

/// How often, and how many times, to check whether a daemon that failed to answer is dead.
const DEATH_POLL: Duration = Duration::from_millis(20);
const DEATH_POLLS: usize = 10;
/// The longest a daemon may take to end after it has answered that it stopped.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// How an array has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// As it was asked for.
    AsAsked,
    /// Not clean, as was told, although it was to be.
    Unclean,
}

/// Stops all these arrays, and calls `tell` for each that has stopped as was asked. One that cannot be stopped does not
/// keep the others from stopping.
pub(crate) fn stop_all(names: &[String], force: bool, tell: impl Fn(&str)) -> anyhow::Result<ExitCode> {
    let (mut code, mut failed) = (ExitCode::SUCCESS, Vec::new());
    for (index, name) in names.iter().enumerate() {
        let error = match stop(name, force) {
            Ok(Left::AsAsked) => {
                tell(name);
                continue;
            }
            Ok(Left::Unclean) => {
                code = ExitCode::FAILURE;
                continue;
            }
            Err(error) => error,
        };
        let is_interrupted = error.is::<Interrupted>();
        failed.push(errors::line(&error));
        if is_interrupted {
            let left = names[index + 1..]
                .iter()
                .map(|name| format!("{name}: not stopped, as the command was interrupted"));
            failed.extend(left);
            break;
        }
    }
    match failed.into_iter().reduce(|all, one| format!("{all}\nstripewise: {one}")) {
        None => Ok(code),
        Some(text) => bail!(text),
    }
}

/// Stops an array, or clears away what is left of one.
fn stop(name: &str, force: bool) -> anyhow::Result<Left> {
    check_run_dir()?;
    let cleared = |()| Left::AsAsked;
    if is_dead(name) {
        return stop_dead(name, force).map(cleared);
    }
    if !socket_path(name).exists() && daemon::remains_are_listed(name) {
        return clear_remains(name, force).map(cleared);
    }
    match stop_daemon(name, force) {
        Err(error) if !error.is::<Interrupted>() && dies(name) => stop_dead(name, force).map(cleared),
        result => result,
    }
}

/// Clears away what is left of an array whose daemon has died.
fn stop_dead(name: &str, force: bool) -> anyhow::Result<()> {
    note!("stripewise: {name}: its daemon had died; {AFTER_DEATH}");
    clear_remains(name, force)
}

/// Whether a daemon that failed a request is about to be dead: a killed daemon may still get requests while
/// it ends.
fn dies(name: &str) -> bool {
    (0..DEATH_POLLS).any(|_| {
        std::thread::sleep(DEATH_POLL);
        is_dead(name)
    })
}

/// Clears away what an array left behind.
fn clear_remains(name: &str, force: bool) -> anyhow::Result<()> {
    let kept = daemon::clear_remains(name, force)?;
    if kept.is_empty() {
        return Ok(());
    }
    let hint = if force { "" } else { "; --force unmounts what can be" };
    bail!("{name}: unmount or close what is left of it{hint}: {}", kept.join("; "))
}

/// Stops an array and waits until its daemon ends: until then, the name and the members are taken.
fn stop_daemon(name: &str, force: bool) -> anyhow::Result<Left> {
    let connection = Connection::open(name)?;
    // Taken before the stop, so that it cannot be another process. None if this process cannot see the
    // daemon's.
    let daemon = connection.daemon_pid().and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut attended = Attended::new(name)?;
    let (unclean, notes) = ask_to_stop(&mut attended, connection, force)?;
    tell_notes(name, &notes);
    // Before the wait: a signal may end that, and only this command was told.
    if let Some(why) = &unclean {
        note!("stripewise: {}", printable(&format!("{name}: it has stopped, but is not clean: {why}")));
    }
    if let Some(daemon) = daemon {
        wait_for_end(&mut attended, &daemon)?;
    }
    // `force` is for arrays that cannot be left clean, so that this is no failure.
    Ok(if unclean.is_some() && !force { Left::Unclean } else { Left::AsAsked })
}

/// Asks until the array has stopped: with a bar while what is cached is written.
fn ask_to_stop(
    attended: &mut Attended,
    connection: Connection,
    force: bool,
) -> anyhow::Result<(Option<String>, Notes)> {
    let mut bar = EmptyingBar::default();
    let goes_on = if force {
        "it is stopped all the same: what members still take of what is cached is written, and what they do not is lost, as --force \
         says"
    } else {
        "it is stopped all the same: requests under way end, what is cached is written, and then its daemon ends. The same command \
         waits for that again; `stop --force` loses what members do not take"
    };
    let mut connection = Some(connection);
    loop {
        // A daemon answers one request on each.
        let mut on = connection.take().map_or_else(|| attended.open(goes_on), Ok)?;
        match attended.ask_on(&mut on, &Request::Stop { force, steps: true }, goes_on)? {
            Reply::Stopped { unclean, notes } => {
                bar.clear();
                return Ok((unclean, notes));
            }
            Reply::Emptying { left_bytes } => bar.show(attended.name(), left_bytes),
            other => bail!("{}: unexpected answer {other:?}", attended.name()),
        }
    }
}

/// Waits until the daemon has ended.
fn wait_for_end(attended: &mut Attended, daemon: &OwnedFd) -> anyhow::Result<()> {
    let (name, limit_s) = (attended.name().to_owned(), END_TIMEOUT.as_secs());
    let goes_on = "it has stopped, and its daemon ends once all that it has asked of members is done";
    ensure!(
        attended.wait_for(daemon.as_fd(), END_TIMEOUT, goes_on)?,
        "{name}: it was stopped, but its daemon is still there after {limit_s} s; see its log"
    );
    Ok(())
}
