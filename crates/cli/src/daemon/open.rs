//! Opening the array that a daemon is for.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use stripewise::{
    Array, AssembleOptions, CreateOptions, Device, Host, HostOptions, ParityPlace, Preview,
    file::{FileDevice, FileOptions},
    format::extension::MapKind,
    geometry::Level,
    locking::Preset,
    plan::selection::policy,
    uring::RuntimeOptions,
};

use super::{
    spec::{CreateSpec, DaemonSpec, Opening},
    state::{DaemonState, member_name},
};

/// Opens members and array.
pub(super) fn open(spec: &DaemonSpec) -> anyhow::Result<Arc<DaemonState>> {
    let host = start_host(spec.workers.runtime_options())?;
    let array = match &spec.opening {
        Opening::Create(create) => make(&host, &spec.name, create)?,
        Opening::Assemble { devices, run, force, read_only } => {
            let options = AssembleOptions {
                run: *run,
                force: *force,
                read_only: *read_only,
                ..AssembleOptions::default()
            };
            host.assemble(devices, options)?
        }
    };
    Ok(DaemonState::new(spec.name.clone(), host, array))
}

fn start_host(runtime: RuntimeOptions) -> anyhow::Result<Host> {
    Host::start(&HostOptions { runtime }).context(
        "io_uring cannot be used here (see /proc/sys/kernel/io_uring_disabled, seccomp filters and locked memory)",
    )
}

fn make(host: &Host, name: &str, spec: &CreateSpec) -> anyhow::Result<Array> {
    let open = |path: &String| -> anyhow::Result<Arc<dyn Device>> { Ok(host.open_member(path)?) };
    Ok(host.create(create_options(name, spec, open)?)?)
}

/// What making an array would come to. Members are only read.
pub(crate) fn preview(name: &str, spec: &CreateSpec) -> anyhow::Result<Preview> {
    let host = start_host(RuntimeOptions::default())?;
    let open = |path: &String| -> anyhow::Result<Arc<dyn Device>> {
        Ok(Arc::new(FileDevice::open(
            member_name(path),
            FileOptions { read_only: true, ..FileOptions::default() },
        )?))
    };
    let options = create_options(name, spec, open)?;
    let env = host.env();
    Ok(host.block_on(async move { stripewise::preview(env, options).await })?)
}

fn create_options(
    name: &str,
    spec: &CreateSpec,
    open: impl Fn(&String) -> anyhow::Result<Arc<dyn Device>>,
) -> anyhow::Result<CreateOptions> {
    let level = Level::from_number(spec.level).ok_or_else(|| anyhow!("level {} is not known", spec.level))?;
    let members =
        spec.members.iter().map(|m| m.as_ref().map(&open).transpose()).collect::<Result<Vec<_>, _>>()?;
    let spares = spec.spares.iter().map(&open).collect::<Result<Vec<_>, _>>()?;
    let uuid = spec.uuid.as_deref().map(str::parse).transpose().context("--uuid")?;
    let parity = match spec.parity_on_fastest {
        None => ParityPlace::Auto,
        Some(true) => ParityPlace::Fastest,
        Some(false) => ParityPlace::Last,
    };
    let classes = spec.classes.iter().map(|(path, class)| (member_name(path), (*class).into()));
    Ok(CreateOptions {
        chunk_bytes: spec.chunk_bytes,
        members,
        spares,
        assume_clean: spec.assume_clean,
        member_bytes: spec.member_bytes,
        uuid,
        region_bytes: spec.region_bytes,
        map: spec.distributed.map(|yes| if yes { MapKind::Distributed } else { MapKind::Linear }),
        preset: Preset::numbered(spec.preset),
        policy: spec.policy.as_deref().map(policy).transpose()?,
        classes: classes.collect(),
        measure: spec.measure,
        parity,
        ..CreateOptions::new(full_name(name), level, Vec::new())
    })
}

/// md's custom: `host:name`, or the bare name where both do not fit the superblock's 32 bytes.
fn full_name(name: &str) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let full = format!("{host}:{name}");
    if full.len() <= 32 && !host.is_empty() { full } else { name.to_owned() }
}
