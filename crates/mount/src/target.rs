//! Finds the file system of a device. Its superblock says which shape its stripes have.

use std::sync::Arc;

use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, IoError};
use stripewise_format::rafs::{
    block::BlockError,
    superblock::{STRIPE_BLOCKS_MAX, Superblock, SuperblockError},
};
use stripewise_rafs::{
    shape::BLOCK_BYTES,
    volume::{DeviceVolume, Volume, VolumeError},
};
use thiserror::Error;

/// Why a device has no file system that can be opened.
#[derive(Debug, Error)]
pub enum TargetError {
    /// It cannot be read.
    #[error("{name}: cannot be read ({source}); see to the device, then try again")]
    Io {
        /// The device.
        name: String,
        /// Why not.
        source: IoError,
    },
    /// It is too short.
    #[error("{name}: it is too short for a file system; make one with `stripewise mkfs`")]
    TooShort {
        /// The device.
        name: String,
    },
    /// No superblock counts.
    #[error("{name}: no RAFS file system ({})", found_instead(source))]
    None {
        /// The device.
        name: String,
        /// What is wrong with the first one.
        source: SuperblockError,
    },
    /// The device does not fit what the superblock says.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// What a device has where the first superblock would be.
#[must_use]
pub fn found_instead(source: &SuperblockError) -> String {
    match source {
        SuperblockError::Block(BlockError::NoMagic { .. }) => "its first block is no superblock".to_owned(),
        damaged => damaged.to_string(),
    }
}

/// A file system, found.
pub struct Found {
    /// Its superblock.
    pub superblock: Superblock,
    /// The device, in its stripes.
    pub volume: Arc<dyn Volume>,
}

/// Looks for a file system. Each column of the first stripe begins with a copy of the superblock; if the first copy is
/// damaged, the second column's is looked for behind chunks of all lengths that are a power of two.
///
/// # Errors
/// [`TargetError`].
pub async fn find(device: Arc<dyn Device>) -> Result<Found, TargetError> {
    let superblock = superblock(&*device).await?;
    let volume = Arc::new(DeviceVolume::new(device, superblock.data_columns, superblock.rows)?);
    Ok(Found { superblock, volume })
}

/// As [`find`]. If the first stripe has no copy of the superblock that counts, the last one is looked for, from the end on.
///
/// # Errors
/// [`TargetError`]: what is wrong with the first one.
pub async fn find_damaged(device: Arc<dyn Device>) -> Result<Found, TargetError> {
    let error = match find(device.clone()).await {
        Err(error @ (TargetError::None { .. } | TargetError::Io { .. })) => error,
        other => return other,
    };
    let Some(superblock) = last_superblock(&*device).await else { return Err(error) };
    let volume = Arc::new(DeviceVolume::new(device, superblock.data_columns, superblock.rows)?);
    Ok(Found { superblock, volume })
}

/// The last superblock: the last stripe begins with it, and at least a stripe of the longest kind may lie behind that.
async fn last_superblock(device: &dyn Device) -> Option<Superblock> {
    let blocks = device.info().size_bytes / BLOCK_BYTES as u64;
    let first = blocks.saturating_sub(2 * u64::from(STRIPE_BLOCKS_MAX));
    for block in (first..blocks).rev() {
        let offset_bytes = block * BLOCK_BYTES as u64;
        if let Ok(Ok(superblock)) = read(device, offset_bytes).await {
            // The copies of other columns lie behind the one that is meant, and tell the same.
            return Some(superblock);
        }
    }
    None
}

/// The superblock of a device.
///
/// # Errors
/// [`TargetError`].
pub async fn superblock(device: &dyn Device) -> Result<Superblock, TargetError> {
    let info = device.info();
    if info.size_bytes < BLOCK_BYTES as u64 {
        return Err(TargetError::TooShort { name: info.name.clone() });
    }
    let mut first = None;
    for offset_bytes in places().take_while(|place| place + BLOCK_BYTES as u64 <= info.size_bytes) {
        let name = info.name.clone();
        let error = match read(device, offset_bytes).await {
            Ok(Ok(superblock)) => return Ok(superblock),
            Ok(Err(source)) => TargetError::None { name, source },
            Err(source) => TargetError::Io { name, source },
        };
        first.get_or_insert(error);
    }
    Err(first.unwrap_or(TargetError::TooShort { name: info.name.clone() }))
}

/// Where a first column, or a second one, may begin, in bytes.
fn places() -> impl Iterator<Item = u64> {
    let chunks = (0..=STRIPE_BLOCKS_MAX.ilog2()).map(|power| (BLOCK_BYTES as u64) << power);
    [0].into_iter().chain(chunks)
}

async fn read(
    device: &dyn Device,
    offset_bytes: u64,
) -> Result<Result<Superblock, SuperblockError>, IoError> {
    let read = device.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_BYTES)]).await.into_one()?;
    Ok(Superblock::decode(&read).map(|(superblock, _)| superblock))
}
