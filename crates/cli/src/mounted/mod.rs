//! The process that serves a mounted file system.
//!
//! `mount` starts it, hands it a [`MountSpec`] on standard input and waits for a line of JSON on standard output: what was
//! mounted, or the error. It ends when the kernel has let go of the mount and all is written out. SIGTERM and SIGINT unmount; a
//! second one detaches, if the mount is in use.

mod end;
mod lost;
mod spec;

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{Arc, mpsc},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use signal_hook::iterator::Signals;
use stripewise::RuntimeOptions;
use stripewise_mount::{report::Identity, served::Served};
use stripewise_wire::MountedStatus;

use self::end::{Event, catch, wait, watch};
pub(crate) use self::{
    lost::taken as lost,
    spec::{MountSpec, start},
};
use crate::{
    daemon, errors, logging,
    rafs::{find, mounted_status, serve_options},
    rundir::{log_path, make_run_dir},
};

/// What the process tells the command that has started it.
#[derive(Debug, Serialize, Deserialize)]
enum FirstWord {
    Mounted(MountedStatus),
    Error(String),
}

/// Runs the process to its end: the body of the hidden `mount-daemon` command.
pub(crate) fn run() -> anyhow::Result<()> {
    // Leaves the terminal that started this process.
    let _ = rustix::process::setsid();
    let signals = catch()?;
    let spec: MountSpec =
        serde_json::from_reader(io::stdin()).context("this process is started by `stripewise mount`")?;
    let log = make_run_dir().and_then(|_| {
        let log = log_path(&spec.name());
        logging::send_to(&log).with_context(|| format!("{}: cannot open the log", log.display()))?;
        Ok(log)
    });
    match log.and_then(|log| begin(&spec, signals).map(|begun| (log, begun))) {
        Ok((log, begun)) => {
            if !answer(&FirstWord::Mounted(begun.mounted.clone()))? {
                tracing::warn!("the command that asked for this mount was interrupted: it is unmounted");
                begun.ask_end();
            }
            daemon::let_go().context("letting go of the caller")?;
            begun.wait().inspect_err(|error| tracing::error!("{}", errors::line(error)))?;
            // Nothing happened that anybody would look up.
            if std::fs::metadata(&log).is_ok_and(|metadata| metadata.len() == 0) {
                let _ = std::fs::remove_file(log);
            }
            Ok(())
        }
        Err(error) => answer(&FirstWord::Error(errors::line(&error))).map(|_| ()),
    }
}

/// Serves a mount in this process, until it ends.
pub(crate) fn serve(
    spec: &MountSpec,
    tell: impl FnOnce(&MountedStatus) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let begun = begin(spec, catch()?)?;
    tell(&begun.mounted)?;
    io::stdout().flush()?;
    begun.wait()
}

/// A mount that is served.
struct Begun {
    served: Served,
    mounted: MountedStatus,
    tell: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
}

impl Begun {
    /// Has [`Begun::wait`] unmount it, as a signal does.
    fn ask_end(&self) {
        let _ = self.tell.send(Event::Asked);
    }

    fn wait(self) -> anyhow::Result<()> {
        let leave = |error: &anyhow::Error| lost::leave(&self.mounted.point, errors::line(error));
        wait(self.served, &self.events).inspect_err(leave)
    }
}

fn begin(spec: &MountSpec, signals: Signals) -> anyhow::Result<Begun> {
    let host = daemon::start_host(RuntimeOptions::default().threads(spec.threads))?;
    let open = if spec.choice.read_only { daemon::open_to_read } else { daemon::open_exclusively };
    let device = Arc::new(open(&host, &spec.target)?);
    let found = find(&host, &spec.target, device)?;
    let identity = Identity::new(spec.target.clone(), &found.superblock);
    let (tell, events) = mpsc::channel();
    let on_end = tell.clone();
    let anchor = spec.choice.has_loop.then(|| PathBuf::from(&spec.target));
    let options = serve_options(&spec.choice, &spec.target, anchor)?;
    let ended = move || _ = on_end.send(Event::Ended);
    let (runtime, point) = (host.runtime(), &spec.choice.point);
    let served = Served::start(runtime, found.volume, identity.clone(), point, options, ended)?;
    watch(signals, tell.clone())?;
    lost::clear(point);
    let mounted = mounted_status(&identity, &served, &spec.choice);
    Ok(Begun { served, mounted, tell, events })
}

/// Sends a line to the command that waits. False if the command has gone.
fn answer(word: &FirstWord) -> anyhow::Result<bool> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    let mut out = io::stdout();
    Ok(out.write_all(&line).and_then(|()| out.flush()).is_ok())
}
