//! Opens a daemon's array.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, anyhow};
use stripewise::{
    Array, AssembleOptions, CacheSettings, CreateOptions, Device, Host, HostOptions, ParityPlace, Preview,
    file::{FileDevice, FileOptions},
    geometry::Level,
    internals::{
        format::extension::MapKind, locking::Preset, plan::selection::policy, uring::RuntimeOptions,
    },
};
use stripewise_wire::{Notes, Reply};

use super::{
    measuring::{Benches, STEP},
    members,
    spec::{CreateSpec, DaemonSpec, Opening},
    state::{DaemonState, member_name},
};
use crate::{
    errors,
    reports::{changed_cache, member_class},
    room,
};

/// What is told of an array that was killed, or lost its power, with a cache.
const LOST_CACHE: &str =
    "it was not stopped, and had a cache: what was written to it after the last flush may be lost";

/// Tells the command that waits how far measuring members has come.
type Tell<'a> = dyn Fn(&Reply) + 'a;

/// Opens the members and the array. Returns notes for the command.
pub(super) fn open(spec: &DaemonSpec, tell: &Tell<'_>) -> anyhow::Result<(Arc<DaemonState>, Notes)> {
    let host = start_host(spec.workers.runtime_options())?;
    let (array, unopened, notes) = match &spec.opening {
        Opening::Create(create) => {
            let (array, notes) = make(&host, &spec.name, create, tell)?;
            (array, Vec::new(), notes)
        }
        Opening::Assemble { devices, run, force, read_only } => {
            let options = AssembleOptions::default().run(*run).force(*force).read_only(*read_only);
            let options = options.memory_bytes(room::memory_bytes());
            let (array, unopened) = assemble(&host, devices, options)?;
            let notes = array.has_lost_its_cache().then(|| LOST_CACHE.to_owned()).into_iter().collect();
            (array, unopened, notes)
        }
    };
    Ok((DaemonState::new(spec.name.clone(), host, array, unopened), notes))
}

/// Opens an array from its members. With `--run` or `--force`, leaves out those that cannot be opened, and
/// returns them with the reason.
fn assemble(host: &Host, paths: &[String], options: AssembleOptions) -> anyhow::Result<(Array, Vec<String>)> {
    let may_lack = options.run || options.force;
    let (mut devices, mut unopened) = (Vec::new(), Vec::new());
    let deadline = members::opening_deadline();
    for path in paths {
        match members::open(host, path, deadline) {
            Ok(device) => devices.push(Arc::new(device) as Arc<dyn Device>),
            // A device in use is not left out: its holder may be writing to it, and an array that lacks it on
            // purpose would be a second one.
            Err(error) if may_lack && members::is_absent(&error) => unopened.push(errors::line(&error)),
            Err(error) if members::is_absent(&error) => {
                return Err(error.context("--run starts the array without a member that cannot be opened"));
            }
            Err(error) => return Err(error),
        }
    }
    let env = host.env();
    let array = host.block_on(async move { stripewise::assemble(env, devices, &options).await })?;
    Ok((array, unopened))
}

pub(crate) fn start_host(runtime: RuntimeOptions) -> anyhow::Result<Host> {
    Host::start(&HostOptions::default().runtime(runtime)).context(
        "io_uring cannot be used here (see /proc/sys/kernel/io_uring_disabled, seccomp filters and locked memory)",
    )
}

fn make(host: &Host, name: &str, spec: &CreateSpec, tell: &Tell<'_>) -> anyhow::Result<(Array, Notes)> {
    let (opened, notes) = members::open_all(host, spec.devices(), &spec.looked_at, spec.force)?;
    let mut opened: BTreeMap<_, _> =
        opened.into_iter().map(|(path, device)| (path, Arc::new(device))).collect();
    let mut take = |path: &String| -> anyhow::Result<Arc<dyn Device>> {
        let device =
            opened.remove(path).with_context(|| format!("{path} is given twice; give every device once"))?;
        Ok(device)
    };
    let (env, options) = (host.env(), create_options(name, spec, &mut take)?);
    let mut benches = Benches { benches: options.benches.clone(), ..Benches::default() };
    let making = host.runtime().begin(async move { Array::create(env, options).await });
    loop {
        if let Some(made) = making.wait_for(STEP) {
            return Ok((made?, notes));
        }
        benches.step().iter().for_each(tell);
    }
}

/// What creating an array would come to. Only reads the members.
pub(crate) fn preview(name: &str, spec: &CreateSpec) -> anyhow::Result<Preview> {
    let host = start_host(RuntimeOptions::default())?;
    let mut open = |path: &String| -> anyhow::Result<Arc<dyn Device>> {
        Ok(Arc::new(FileDevice::open(member_name(path), FileOptions::default().read_only(true))?))
    };
    let options = create_options(name, spec, &mut open)?;
    let env = host.env();
    Ok(host.block_on(async move { stripewise::preview(env, options).await })?)
}

fn create_options(
    name: &str,
    spec: &CreateSpec,
    open: &mut dyn FnMut(&String) -> anyhow::Result<Arc<dyn Device>>,
) -> anyhow::Result<CreateOptions> {
    let level = Level::from_number(spec.level).ok_or_else(|| anyhow!("level {} is not known", spec.level))?;
    let members =
        spec.members.iter().map(|m| m.as_ref().map(&mut *open).transpose()).collect::<Result<Vec<_>, _>>()?;
    let spares = spec.spares.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let uuid = spec.uuid.as_deref().map(str::parse).transpose().context("--uuid")?;
    let parity = match spec.parity_on_fastest {
        None => ParityPlace::Auto,
        Some(true) => ParityPlace::Fastest,
        Some(false) => ParityPlace::Last,
    };
    let classes = spec.classes.iter().map(|(path, class)| (member_name(path), member_class(*class)));
    let full = full_name(spec.kept_name.as_deref().unwrap_or(name));
    let mut options = CreateOptions::named(full, level);
    options.chunk_bytes = spec.chunk_bytes;
    options.members = members;
    options.spares = spares;
    options.assume_clean = spec.assume_clean;
    options.member_bytes = spec.member_bytes;
    options.uuid = uuid;
    options.region_bytes = spec.region_bytes;
    options.map = spec.distributed.map(|yes| if yes { MapKind::Distributed } else { MapKind::Linear });
    options.preset = Preset::numbered(spec.preset);
    options.policy = spec.policy.as_deref().map(policy).transpose()?;
    if spec.cache.kind.is_some() {
        options.cache = Some(changed_cache(CacheSettings::default(), &spec.cache)?);
    }
    options.memory_bytes = room::memory_bytes();
    options.classes = classes.collect();
    options.measure = spec.measure;
    options.parity = parity;
    Ok(options)
}

/// md's convention: `host:name`, or the bare name if both do not fit the superblock's 32 bytes.
fn full_name(name: &str) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let full = format!("{host}:{name}");
    if full.len() <= 32 && !host.is_empty() { full } else { name.to_owned() }
}
