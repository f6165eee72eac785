//! Where a load runs: in this process over a device or file, or in an array's daemon.

use std::{sync::Arc, thread, time::Duration};

use anyhow::{Context, bail};
use stripewise::{
    Device, Host, HostOptions,
    file::{FileDevice, FileOptions},
};
use stripewise_load::{Control, run_controlled};
use stripewise_wire::{LoadFigures, LoadSpec, LoadStatus, Reply, Request};

use crate::{
    client::Connection,
    interrupt::Interrupt,
    load::{figures_of, load_on},
    progress::{self, LoadBar},
    sizes::format_size,
};

/// How often to poll the progress.
const POLL: Duration = Duration::from_millis(50);

/// Runs the load in this process.
pub(super) fn on_device(path: &str, spec: &LoadSpec) -> anyhow::Result<LoadFigures> {
    let host = Host::start(&HostOptions::default())?;
    let device: Arc<dyn Device> =
        Arc::new(FileDevice::open(path, FileOptions::default().read_only(!spec.writes()))?);
    let load = load_on(device.info(), spec)?;
    let interrupt = Interrupt::watch()?;
    let control = Arc::new(Control::until_error());
    let (env, steered) = (host.env(), control.clone());
    let bar = bar_for(spec);
    let report = thread::scope(|scope| {
        let work =
            scope.spawn(|| host.block_on(async move { run_controlled(env, device, load, steered).await }));
        while !work.is_finished() {
            if interrupt.is_asked() {
                control.end();
            }
            bar.show(control.done_bytes());
            thread::sleep(POLL);
        }
        work.join()
    });
    bar.finish();
    let Ok(report) = report else { bail!("{path}: the load ended before its time") };
    Ok(figures_of(spec.clone(), &report, &control))
}

/// Has an array's daemon run the load.
pub(super) fn on_array(name: &str, spec: &LoadSpec) -> anyhow::Result<LoadFigures> {
    let mut daemon = Connection::open(name)?;
    let interrupt = Interrupt::watch()?;
    daemon.command(&Request::Load { load: spec.clone() })?;
    let bar = bar_for(spec);
    let (mut done, mut is_ended) = (0, false);
    loop {
        thread::sleep(POLL);
        let asked = if interrupt.is_asked() && !is_ended {
            is_ended = true;
            daemon.command(&Request::LoadEnd)
        } else {
            Ok(())
        };
        let status = asked.and_then(|()| ask(&mut daemon, name));
        let LoadStatus { done_bytes, figures } = status
            .with_context(|| format!("the load is over before its time, after {}", format_size(done)))?;
        done = done_bytes;
        bar.show(done);
        if let Some(figures) = figures {
            bar.finish();
            return Ok(*figures);
        }
    }
}

fn ask(daemon: &mut Connection, name: &str) -> anyhow::Result<LoadStatus> {
    match daemon.ask(&Request::LoadStatus)? {
        Reply::Load(status) => Ok(status),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
}

fn bar_for(spec: &LoadSpec) -> LoadBar {
    progress::load_bar(spec.total_bytes(), spec.runtime_ms.map(Duration::from_millis))
}
