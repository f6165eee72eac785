//! Finds the file system of a device. Its superblock says which shape its stripes have.

use std::{ops::Range, sync::Arc};

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

/// Blocks that are read at once where a superblock is looked for.
const READ_BLOCKS: u64 = 256;

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
    /// Only the last superblock counts. The device may also hold something else by now, which has left the last stripe alone.
    #[error("{name}: {}", first_lost(name))]
    FirstLost {
        /// The device.
        name: String,
        /// The last superblock.
        last: Box<Superblock>,
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

/// What to do where only the last superblock counts.
#[must_use]
pub fn first_lost(name: &str) -> String {
    format!(
        "the first stripe of its RAFS file system is lost; `stripewise fsck -y {name}` makes it again, from the last one"
    )
}

/// A superblock, found.
#[derive(Debug)]
pub struct Seen {
    /// What it says.
    pub superblock: Superblock,
    /// Whether the device begins with it. Another column's copy may also be what something else has left that lies there now.
    pub is_first: bool,
}

/// A file system, found.
pub struct Found {
    /// Its superblock.
    pub superblock: Superblock,
    /// As [`Seen::is_first`].
    pub is_first: bool,
    /// The device, in its stripes.
    pub volume: Arc<dyn Volume>,
}

/// Looks for a file system. Each column of the first stripe begins with a copy of the superblock; if the first copy is
/// damaged, the second column's is looked for behind chunks of all lengths that are a power of two. If none of them counts, the last
/// superblock is looked for, from the end on.
///
/// # Errors
/// [`TargetError`].
pub async fn find(device: Arc<dyn Device>) -> Result<Found, TargetError> {
    match superblock(&*device).await {
        Ok(seen) => found(device, seen),
        Err(error) => match lost_first(&error, &*device).await {
            Some(last) => {
                Err(TargetError::FirstLost { name: device.info().name.clone(), last: Box::new(last) })
            }
            None => Err(error),
        },
    }
}

/// The file system of a device that has this superblock.
///
/// # Errors
/// [`TargetError::Volume`].
pub fn found(device: Arc<dyn Device>, seen: Seen) -> Result<Found, TargetError> {
    let Seen { superblock, is_first } = seen;
    let volume = DeviceVolume::new(device, superblock.data_columns, superblock.rows)?;
    let volume = Arc::new(volume.of_stripes(superblock.stripes));
    Ok(Found { superblock, is_first, volume })
}

/// The last superblock, where this is wrong with the first one.
async fn lost_first(error: &TargetError, device: &dyn Device) -> Option<Superblock> {
    match error {
        TargetError::None { .. } | TargetError::Io { .. } => last_superblock(device).await,
        _ => None,
    }
}

/// The last superblock: the last stripe begins with it, and at least a stripe of the longest kind may lie behind that.
async fn last_superblock(device: &dyn Device) -> Option<Superblock> {
    let blocks = device.info().size_bytes / BLOCK_BYTES as u64;
    let first = blocks.saturating_sub(2 * u64::from(STRIPE_BLOCKS_MAX));
    let mut end = blocks;
    while end > first {
        let start = end.saturating_sub(READ_BLOCKS).max(first);
        let found = match read_blocks(device, start..end).await {
            Ok(read) => last_in(&read, start),
            // Some of them may be read.
            Err(_) => last_one_by_one(device, start..end).await,
        };
        if found.is_some() {
            return found;
        }
        end = start;
    }
    None
}

async fn last_one_by_one(device: &dyn Device, blocks: Range<u64>) -> Option<Superblock> {
    for block in blocks.rev() {
        if let Some(found) =
            read_blocks(device, block..block + 1).await.ok().and_then(|read| last_in(&read, block))
        {
            return Some(found);
        }
    }
    None
}

/// The last superblock among blocks that were read from `start` on. One that does not lie in its own last stripe is a copy that somebody
/// has made, as in a file that holds an image. Those of other columns lie behind the one that is meant, and tell the same.
fn last_in(read: &[u8], start: u64) -> Option<Superblock> {
    read.chunks_exact(BLOCK_BYTES).enumerate().rev().find_map(|(number, bytes)| {
        let (superblock, _) = Superblock::decode(bytes).ok()?;
        let of_stripe = u64::from(superblock.stripe_blocks());
        ((start + number as u64) / of_stripe == superblock.stripes - 1).then_some(superblock)
    })
}

/// The superblock of a device's first stripe.
///
/// # Errors
/// [`TargetError`].
pub async fn superblock(device: &dyn Device) -> Result<Seen, TargetError> {
    let info = device.info();
    if info.size_bytes < BLOCK_BYTES as u64 {
        return Err(TargetError::TooShort { name: info.name.clone() });
    }
    let mut first = None;
    for offset_bytes in places().take_while(|place| place + BLOCK_BYTES as u64 <= info.size_bytes) {
        let name = info.name.clone();
        let error = match read(device, offset_bytes).await {
            Ok(Ok(superblock)) if !is_of_column(&superblock, offset_bytes) => continue,
            Ok(Ok(superblock)) => return Ok(Seen { superblock, is_first: offset_bytes == 0 }),
            Ok(Err(source)) => TargetError::None { name, source },
            Err(source) => TargetError::Io { name, source },
        };
        first.get_or_insert(error);
    }
    Err(first.unwrap_or(TargetError::TooShort { name: info.name.clone() }))
}

/// Whether a column of this superblock's first stripe begins there; one that does not is what is left of another file system.
fn is_of_column(superblock: &Superblock, offset_bytes: u64) -> bool {
    offset_bytes == 0 || offset_bytes == u64::from(superblock.rows) * BLOCK_BYTES as u64
}

/// Where a first column, or a second one, may begin, in bytes: where a superblock is looked for.
pub fn places() -> impl Iterator<Item = u64> {
    let chunks = (0..=STRIPE_BLOCKS_MAX.ilog2()).map(|power| (BLOCK_BYTES as u64) << power);
    [0].into_iter().chain(chunks)
}

async fn read(
    device: &dyn Device,
    offset_bytes: u64,
) -> Result<Result<Superblock, SuperblockError>, IoError> {
    let block = offset_bytes / BLOCK_BYTES as u64;
    let read = read_blocks(device, block..block + 1).await?;
    Ok(Superblock::decode(&read).map(|(superblock, _)| superblock))
}

async fn read_blocks(device: &dyn Device, blocks: Range<u64>) -> Result<IoBuf, IoError> {
    let len = (blocks.end - blocks.start) as usize * BLOCK_BYTES;
    device.read(blocks.start * BLOCK_BYTES as u64, smallvec![IoBuf::with_len(len)]).await.into_one()
}
