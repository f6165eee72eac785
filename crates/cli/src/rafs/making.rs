//! Makes a file system.

use std::{
    ops::Range,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use smallvec::smallvec;
use stripewise::{
    Device, IoBuf, IoErrorKind, MediaKind, WriteFlags, ZeroFlags,
    internals::format::rafs::superblock::{SlotOrder, Superblock},
};
use stripewise_mount::{
    rafs::{
        fs::Fs,
        shape::{Geometry, Order, StripeNo},
        store::MakeOptions,
        volume::Volume,
    },
    target,
};
use stripewise_wire::{MadeStatus, MkfsSpec, OrderChoice};
use uuid::Uuid;

/// The block of the file system.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// What a target holds if only the last superblock counts.
pub(crate) const RAFS_WITHOUT_FIRST: &str = "a RAFS file system whose first stripe is lost";
/// What is zeroed at both ends of a target at least, so that nothing of what it held is recognised there any more.
const WIPED_BYTES: u64 = 1 << 20;

/// What is discarded at a time.
const DISCARDED_BYTES: u64 = 1 << 30;

/// What is drawn at random.
pub(crate) struct Random {
    uuid: Uuid,
    hash_seed: u64,
}

impl Random {
    /// Drawn from this source.
    pub(crate) fn of(draw: impl Fn() -> u64) -> Self {
        let bytes = (u128::from(draw()) << 64 | u128::from(draw())).to_le_bytes();
        Self { uuid: uuid::Builder::from_random_bytes(bytes).into_uuid(), hash_seed: draw() }
    }

    /// For what is not made.
    pub(crate) fn fixed() -> Self {
        Self { uuid: Uuid::nil(), hash_seed: 0 }
    }
}

/// The file system's own options for what a command asks for.
///
/// # Errors
/// If the UUID is none.
pub(crate) fn make_options(
    spec: &MkfsSpec,
    stripe_bytes: u64,
    media: MediaKind,
    random: &Random,
) -> anyhow::Result<MakeOptions> {
    let order = match spec.order {
        Some(OrderChoice::Rows) => Order::Rows,
        Some(OrderChoice::Columns) => Order::Columns,
        None if media == MediaKind::Hdd => Order::Columns,
        None => Order::Rows,
    };
    let given = spec.uuid.as_deref().map(str::parse).transpose().context("--uuid")?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(MakeOptions {
        uuid: given.unwrap_or(random.uuid),
        label: spec.label.clone(),
        created_us: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
        order,
        journal_stripes: spec.journal_bytes.map(|bytes| bytes.div_ceil(stripe_bytes.max(1))),
        hash_seed: random.hash_seed,
    })
}

/// Tells a volume that nothing of what it holds is needed. `tell` gets the bytes that were discarded so far, and all bytes. A volume that
/// cannot discard keeps what it has.
async fn discard(volume: &dyn Volume, tell: impl Fn(u64, u64)) {
    let geometry = volume.geometry();
    let at_once = (DISCARDED_BYTES / geometry.stripe_bytes()).max(1);
    let mut first = 0;
    while first < geometry.stripes() {
        let end = geometry.stripes().min(first + at_once);
        if let Err(error) = volume.discard(StripeNo(first)..StripeNo(end)).await {
            tracing::info!("not discarded: {error}");
            return;
        }
        tell(end * geometry.stripe_bytes(), geometry.stripes() * geometry.stripe_bytes());
        first = end;
    }
}

/// Discards what a volume holds, unless that is to be kept, wipes the ends of the device under it, and makes a file system.
///
/// # Errors
/// If it cannot be written, or no file system fits.
pub(crate) async fn write(
    device: Arc<dyn Device>,
    volume: Arc<dyn Volume>,
    options: MakeOptions,
    spec: &MkfsSpec,
    tell: impl Fn(u64, u64),
) -> anyhow::Result<Superblock> {
    if !spec.keep_blocks {
        discard(&*volume, tell).await;
    }
    wipe(&*device, volume.geometry()).await?;
    Ok(Fs::make(&volume, &options, spec.owner).await?)
}

/// Wipes the ends of a device, and all places where the superblock of an earlier file system, of stripes of another length, would count if the
/// new first one is lost.
async fn wipe(device: &dyn Device, geometry: Geometry) -> anyhow::Result<()> {
    let end = device.info().size_bytes / BLOCK_BYTES * BLOCK_BYTES;
    let last = (geometry.stripes() - 1) * geometry.stripe_bytes();
    let ends = [0..WIPED_BYTES.min(end), last.min(end.saturating_sub(WIPED_BYTES))..end];
    let places = target::places().map(|place| place..place + BLOCK_BYTES);
    let behind = places.filter(|block| WIPED_BYTES <= block.start && block.end <= end);
    for range in ends.into_iter().chain(behind) {
        match device.write_zeroes(range.start, range.end - range.start, ZeroFlags::default()).await {
            // As in tmpfs.
            Err(error) if error.kind == IoErrorKind::Refused => write_zeroes(device, range).await?,
            zeroed => zeroed?,
        }
    }
    Ok(device.flush().await?)
}

async fn write_zeroes(device: &dyn Device, range: Range<u64>) -> anyhow::Result<()> {
    for start in range.clone().step_by(WIPED_BYTES as usize) {
        let len = WIPED_BYTES.min(range.end - start) as usize;
        device.write(start, smallvec![IoBuf::zeroed(len).freeze()], WriteFlags::default()).await?;
    }
    Ok(())
}

/// A file system that was made, or would be.
pub(crate) fn describe(target: &str, shape_from: &str, size_bytes: u64, made: &Superblock) -> MadeStatus {
    MadeStatus {
        target: target.to_owned(),
        uuid: made.uuid.to_string(),
        label: made.label.clone(),
        size_bytes,
        data_columns: made.data_columns,
        chunk_bytes: u64::from(made.rows) * BLOCK_BYTES,
        shape_from: shape_from.to_owned(),
        order: match made.order {
            SlotOrder::Rows => "rows",
            SlotOrder::Columns => "columns",
        }
        .to_owned(),
        stripes: made.stripes,
        group_stripes: made.group_stripes,
        journal_bytes: made.journal_stripes * u64::from(made.stripe_blocks()) * BLOCK_BYTES,
    }
}
