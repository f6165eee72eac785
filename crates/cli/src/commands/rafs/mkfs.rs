//! `stripewise mkfs`.

use std::{fs::File, path::Path, process::ExitCode, sync::Arc};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use stripewise::{
    Device, Host, MediaKind, RuntimeOptions, ZeroFlags,
    file::{FileDevice, FileOptions},
    internals::format::rafs::superblock::{SlotOrder, Superblock},
};
use stripewise_mount::rafs::{
    fs::Fs,
    shape::{Geometry, Order},
    store::{self, MakeOptions},
    volume::{DeviceVolume, Volume},
};
use uuid::Uuid;

use super::{
    args::{BLOCK_BYTES, Columns, parse_columns},
    geometry::{Shape, shape_for},
};
use crate::{
    daemon::{self, LookedAt, holding},
    given::absolute_path,
    printable::printable,
    said::{note, print_json, say},
    sizes::{format_size, parse_size},
};

/// What is zeroed at both ends of a target, so that nothing of what it held is recognised there any more.
const WIPED_BYTES: u64 = 1 << 20;

/// In which order the blocks of a stripe are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderChoice {
    /// Row by row: for flash.
    Rows,
    /// Column by column, so that a small file stays on one disk: for disks that rotate.
    Columns,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct MkfsArgs {
    /// A block device or a file.
    target: String,
    /// Data columns of a stripe and their chunk, as 4x64K. If left out: what the array under the device has; 4x64K for a
    /// file.
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
    #[arg(long)]
    order: Option<OrderChoice>,
    /// Only say what would be made.
    #[arg(long)]
    dry_run: bool,
    /// Overwrite what is there.
    #[arg(long, short)]
    force: bool,
}

/// What was made, or would be.
#[derive(Debug, Serialize)]
struct Made {
    target: String,
    uuid: String,
    label: String,
    size_bytes: u64,
    data_columns: u32,
    chunk_bytes: u64,
    /// Where the shape was found.
    shape_from: &'static str,
    order: &'static str,
    stripes: u64,
    group_stripes: u32,
    journal_bytes: u64,
}

pub(crate) fn mkfs(args: &MkfsArgs, json: bool) -> anyhow::Result<ExitCode> {
    let path = absolute_path(&args.target)?;
    let shape = match args.geometry {
        Some(columns) => Shape { columns, from: "--geometry" },
        None => shape_for(&path),
    };
    let is_new = is_new(&path, args.size)?;
    if args.dry_run {
        let (size_bytes, media) = looked_up(&path, args.size.filter(|_| is_new))?;
        let options = options(args, shape.columns, media, &Random::fixed());
        let made = store::plan(geometry(&path, shape.columns, size_bytes)?, &options)?;
        return tell(&describe(&path, &shape, size_bytes, &made), "would make", json);
    }
    let made_file = is_new.then(|| NewFile::make(&path, args.size.unwrap_or(0))).transpose()?;
    let made = make(args, &path, &shape)?;
    made_file.into_iter().for_each(NewFile::keep);
    tell(&made, "made", json)
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

fn make(args: &MkfsArgs, path: &str, shape: &Shape) -> anyhow::Result<Made> {
    let looked_at =
        LookedAt::look(Path::new(path)).with_context(|| format!("{path}: cannot be looked at"))?;
    let found = looked_at.map(|seen| seen.found).unwrap_or_default();
    ensure!(
        args.force || found.is_empty(),
        "{}; give --force to overwrite it",
        printable(&holding(path, &found))
    );
    let host = daemon::start_host(RuntimeOptions::default())?;
    let device = Arc::new(daemon::open_exclusively(&host, path)?);
    for overwritten in daemon::check_contents(path, &device, args.force, &[])? {
        note!("stripewise: {}", printable(&overwritten));
    }
    let size_bytes = device.info().size_bytes;
    let options = options(args, shape.columns, device.info().media, &Random::of(&host));
    // Looked at before anything is written.
    store::plan(geometry(path, shape.columns, size_bytes)?, &options)?;
    let superblock = host.block_on(written(device, shape.columns, options, owner()))?;
    Ok(describe(path, shape, size_bytes, &superblock))
}

async fn written(
    device: Arc<FileDevice>,
    columns: Columns,
    options: MakeOptions,
    owner: (u32, u32),
) -> anyhow::Result<Superblock> {
    wipe(&device).await?;
    let volume: Arc<dyn Volume> = Arc::new(DeviceVolume::new(device, columns.data_columns, columns.rows())?);
    Ok(Fs::make(&volume, &options, owner).await?)
}

async fn wipe(device: &FileDevice) -> anyhow::Result<()> {
    let size_bytes = device.info().size_bytes;
    let wiped = WIPED_BYTES.min(size_bytes) / BLOCK_BYTES * BLOCK_BYTES;
    let last = (size_bytes - wiped) / BLOCK_BYTES * BLOCK_BYTES;
    for offset_bytes in [0, last] {
        device.write_zeroes(offset_bytes, wiped, ZeroFlags::default()).await?;
    }
    Ok(device.flush().await?)
}

/// Who makes a file system owns its root.
fn owner() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
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
    let stripe_bytes = u64::from(columns.data_columns).checked_mul(columns.chunk_bytes);
    let stripes = stripe_bytes.and_then(|bytes| size_bytes.checked_div(bytes)).unwrap_or(0);
    Geometry::new(columns.data_columns, columns.rows(), stripes).with_context(|| {
        let (size, chunk) = (format_size(size_bytes), format_size(columns.chunk_bytes));
        format!(
            "{path}: {size} are no stripes of {} chunks of {chunk}; give another --geometry",
            columns.data_columns
        )
    })
}

/// What is drawn at random.
struct Random {
    uuid: Uuid,
    hash_seed: u64,
}

impl Random {
    fn of(host: &Host) -> Self {
        let env = host.env();
        let bytes = (u128::from(env.random_u64()) << 64 | u128::from(env.random_u64())).to_le_bytes();
        Self { uuid: uuid::Builder::from_random_bytes(bytes).into_uuid(), hash_seed: env.random_u64() }
    }

    /// For what is not made.
    fn fixed() -> Self {
        Self { uuid: Uuid::nil(), hash_seed: 0 }
    }
}

fn options(args: &MkfsArgs, columns: Columns, media: MediaKind, random: &Random) -> MakeOptions {
    let order = match args.order {
        Some(OrderChoice::Rows) => Order::Rows,
        Some(OrderChoice::Columns) => Order::Columns,
        None if media == MediaKind::Hdd => Order::Columns,
        None => Order::Rows,
    };
    let stripe_bytes = u64::from(columns.data_columns).saturating_mul(columns.chunk_bytes);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    MakeOptions {
        uuid: args.uuid.unwrap_or(random.uuid),
        label: args.label.clone(),
        created_us: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
        order,
        journal_stripes: args.journal_size.map(|bytes| bytes.div_ceil(stripe_bytes.max(1))),
        hash_seed: random.hash_seed,
    }
}

fn describe(path: &str, shape: &Shape, size_bytes: u64, made: &Superblock) -> Made {
    let stripe_bytes = u64::from(made.stripe_blocks()) * BLOCK_BYTES;
    Made {
        target: path.to_owned(),
        uuid: made.uuid.to_string(),
        label: made.label.clone(),
        size_bytes,
        data_columns: made.data_columns,
        chunk_bytes: shape.columns.chunk_bytes,
        shape_from: shape.from,
        order: match made.order {
            SlotOrder::Rows => "rows",
            SlotOrder::Columns => "columns",
        },
        stripes: made.stripes,
        group_stripes: made.group_stripes,
        journal_bytes: made.journal_stripes * stripe_bytes,
    }
}

fn tell(made: &Made, what: &str, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print_json(made)?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("{what} a file system of {} on {}", format_size(made.size_bytes), printable(&made.target));
    if what == "made" {
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
    Ok(ExitCode::SUCCESS)
}
