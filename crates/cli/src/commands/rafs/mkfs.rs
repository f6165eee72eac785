//! `stripewise mkfs`.

use std::{fs::File, path::Path, process::ExitCode, sync::Arc};

use anyhow::{Context, bail, ensure};
use clap::{Args, builder::TypedValueParser};
use stripewise::{
    Device, MediaKind, RuntimeOptions,
    file::{FileDevice, FileOptions},
};
use stripewise_mount::{
    rafs::{
        fs::{BUFFERED_STRIPES_MIN, MountOptions},
        shape::Geometry,
        store,
        volume::DeviceVolume,
    },
    target::{self, TargetError},
};
use stripewise_wire::{MadeStatus, MkfsSpec, OrderChoice, Reply, Request};
use uuid::Uuid;

use super::{
    args::{Columns, parse_columns},
    geometry::{Shape, shape_for},
    place::{Target, target_of},
    worked,
};
use crate::{
    choices::one_of,
    daemon::{self, LookedAt, holding},
    given::absolute_path,
    printable::printable,
    probe::RAFS,
    progress::StepsBar,
    rafs::{BLOCK_BYTES, RAFS_WITHOUT_FIRST, Random, describe, make_options, write},
    said::{note, print_json, say},
    sizes::{format_size, parse_size},
};

fn order_parser() -> impl TypedValueParser<Value = OrderChoice> {
    one_of(OrderChoice::ALL, OrderChoice::name, |order| match order {
        OrderChoice::Rows => "Row by row: for flash",
        OrderChoice::Columns => {
            "Column by column, so that a small file stays on one disk: for disks that rotate"
        }
    })
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MkfsArgs {
    /// A running array, a block device or a file.
    target: String,
    /// Data columns of a stripe and their chunk, as 4x64K. If left out: what the array under the device has; 4x64K for a
    /// file. An array has its own.
    #[arg(long, value_name = "COLUMNSxCHUNK", value_parser = parse_columns)]
    geometry: Option<Columns>,
    /// A label of up to 64 bytes.
    #[arg(long, default_value = "")]
    label: String,
    /// The UUID; a random one, if left out.
    #[arg(long)]
    uuid: Option<Uuid>,
    /// Make the file first, with this size.
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// The journal's size; a 64th of the target and at most 256M, if left out.
    #[arg(long, value_parser = parse_size)]
    journal_size: Option<u64>,
    /// In which order the blocks of a stripe are filled; by columns if the device rotates, if left out.
    #[arg(long, value_parser = order_parser())]
    order: Option<OrderChoice>,
    /// Do not discard (TRIM) what the target holds.
    #[arg(long, short = 'K')]
    no_discard: bool,
    /// Only say what would be made.
    #[arg(long)]
    dry_run: bool,
    /// Overwrite what is there.
    #[arg(long, short)]
    force: bool,
}

pub(crate) fn mkfs(args: &MkfsArgs, json: bool) -> anyhow::Result<ExitCode> {
    let path = match args.size {
        Some(_) => absolute_path(&args.target)?,
        None => match target_of(&args.target) {
            Ok(Target::Array(name)) => return on_array(args, &name, json),
            Ok(Target::Path(path)) => path,
            Err(error) => return Err(error.context("--size makes a file")),
        },
    };
    let shape = match args.geometry {
        Some(columns) => Shape { columns, from: "--geometry", askew: None },
        None => shape_for(&path),
    };
    let is_new = is_new(&path, args.size)?;
    let spec = spec_of(args);
    shape.askew.iter().for_each(|askew| note!("stripewise: {}: {askew}", printable(&path)));
    if !is_new {
        check_looks_free(&spec, &path)?;
    }
    if args.dry_run {
        let (size_bytes, media) = looked_up(&path, args.size.filter(|_| is_new))?;
        let options = make_options(&spec, shape.columns.stripe_bytes(), media, &Random::fixed())?;
        let made = store::plan(geometry(&path, shape.columns, size_bytes)?, &options)?;
        return tell(&describe(&path, shape.from, size_bytes, &made), args, json);
    }
    let made_file = is_new.then(|| NewFile::make(&path, args.size.unwrap_or(0))).transpose()?;
    let made = make(&spec, &path, &shape)?;
    made_file.into_iter().for_each(NewFile::keep);
    tell(&made, args, json)
}

/// Has the array's daemon make it.
fn on_array(args: &MkfsArgs, name: &str, json: bool) -> anyhow::Result<ExitCode> {
    ensure!(args.geometry.is_none(), "{name}: an array has its own geometry; leave out --geometry");
    match worked(name, &Request::Mkfs { spec: spec_of(args) }, "mkfs")? {
        Reply::Made(made) => tell(&made, args, json),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
}

fn spec_of(args: &MkfsArgs) -> MkfsSpec {
    MkfsSpec {
        label: args.label.clone(),
        uuid: args.uuid.map(|uuid| uuid.to_string()),
        journal_bytes: args.journal_size,
        order: args.order,
        // The root belongs to the user who makes the file system.
        owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        force: args.force,
        dry_run: args.dry_run,
        keep_blocks: args.no_discard,
    }
}

/// Whether the target is a file that is to be made.
fn is_new(path: &str, size: Option<u64>) -> anyhow::Result<bool> {
    match (Path::new(path).exists(), size) {
        (false, None) => bail!("{path}: there is no such file or device; --size makes a file"),
        (true, Some(_)) => bail!("{path}: it exists, so leave out --size"),
        (exists, _) => Ok(!exists),
    }
}

/// A file that goes again unless a file system was made in it.
struct NewFile(String);

impl NewFile {
    fn make(path: &str, size_bytes: u64) -> anyhow::Result<Self> {
        let file = File::create_new(path).with_context(|| path.to_owned())?;
        let made = Self(path.to_owned());
        file.set_len(size_bytes).with_context(|| format!("{path}: cannot get {size_bytes} bytes"))?;
        Ok(made)
    }

    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A first look, at what is there already.
fn check_looks_free(spec: &MkfsSpec, path: &str) -> anyhow::Result<()> {
    let looked_at =
        LookedAt::look(Path::new(path)).with_context(|| format!("{path}: cannot be looked at"))?;
    check_free(spec, path, &looked_at.map(|seen| seen.found).unwrap_or_default())
}

fn check_free(spec: &MkfsSpec, path: &str, found: &[String]) -> anyhow::Result<()> {
    let is_free = spec.force || found.is_empty();
    ensure!(is_free, "{}; give --force to overwrite it", printable(&holding(path, found)));
    Ok(())
}

fn make(spec: &MkfsSpec, path: &str, shape: &Shape) -> anyhow::Result<MadeStatus> {
    let host = daemon::start_host(RuntimeOptions::default())?;
    let device = Arc::new(daemon::open_exclusively(&host, path)?);
    let overwritten = daemon::check_contents(path, &device, spec.force, &[])?;
    if overwritten.is_empty() {
        let looked = device.clone();
        let unrecognised = match host.block_on(async move { target::find(looked).await }) {
            Ok(_) => vec![RAFS.to_owned()],
            Err(TargetError::FirstLost { .. }) => vec![RAFS_WITHOUT_FIRST.to_owned()],
            Err(_) => Vec::new(),
        };
        check_free(spec, path, &unrecognised)?;
    }
    for overwritten in overwritten {
        note!("stripewise: {}", printable(&overwritten));
    }
    let (size_bytes, media, columns) = (device.info().size_bytes, device.info().media, shape.columns);
    let env = host.env();
    let options = make_options(spec, columns.stripe_bytes(), media, &Random::of(|| env.random_u64()))?;
    // Looked at before anything is written.
    store::plan(geometry(path, columns, size_bytes)?, &options)?;
    let volume = Arc::new(DeviceVolume::new(device.clone(), columns.data_columns, columns.rows())?);
    let (spec, bar) = (spec.clone(), StepsBar::new());
    let made = host.block_on(async move {
        let made = write(device, volume, options, &spec, |done, all| bar.show("discard", done, all)).await;
        bar.clear();
        made
    });
    let superblock = made?;
    Ok(describe(path, shape.from, size_bytes, &superblock))
}

/// Size and kind of what is there, or is to be made.
fn looked_up(path: &str, size: Option<u64>) -> anyhow::Result<(u64, MediaKind)> {
    if let Some(size_bytes) = size {
        return Ok((size_bytes, MediaKind::Unknown));
    }
    let device = FileDevice::open(path, FileOptions::default().read_only(true))?;
    Ok((device.info().size_bytes, device.info().media))
}

fn geometry(path: &str, columns: Columns, size_bytes: u64) -> anyhow::Result<Geometry> {
    let stripes = size_bytes.checked_div(columns.stripe_bytes()).unwrap_or(0);
    Geometry::new(columns.data_columns, columns.rows(), stripes).with_context(|| {
        let (size, chunk) = (format_size(size_bytes), format_size(columns.chunk_bytes));
        format!(
            "{path}: {size} are no stripes of {} chunks of {chunk}; give another --geometry",
            columns.data_columns
        )
    })
}

fn tell(made: &MadeStatus, args: &MkfsArgs, json: bool) -> anyhow::Result<ExitCode> {
    let what = if args.dry_run { "would make" } else { "made" };
    if json {
        print_json(made)?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("{what} a file system of {} on {}", format_size(made.size_bytes), printable(&made.target));
    if !args.dry_run {
        say!("UUID {}", made.uuid);
    }
    say!(
        "{} stripes of {} data columns with chunks of {} ({}), filled by {}; journal {}",
        made.stripes,
        made.data_columns,
        format_size(made.chunk_bytes),
        made.shape_from,
        made.order,
        format_size(made.journal_bytes)
    );
    let least_bytes = BUFFERED_STRIPES_MIN * u64::from(made.data_columns) * made.chunk_bytes;
    if least_bytes > MountOptions::default().buffer_blocks * BLOCK_BYTES {
        note!("stripewise: such stripes are long: mount it with --buffer {}M", least_bytes.div_ceil(1 << 20));
    }
    Ok(ExitCode::SUCCESS)
}
