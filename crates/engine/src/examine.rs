//! What lies on a device: superblock, extension header, and whether they fit together.

use std::sync::Arc;

use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, IoError};
use stripewise_format::{
    extension::{CopyState, ExtensionError, ExtensionLayout, Header, HeaderCopy, SuperblockOrigin, choose},
    md::{SUPERBLOCK_SECTOR, Superblock, SuperblockError},
    media::{BLOCK_BYTES, BLOCK_LEN, SECTOR_BYTES},
};
use thiserror::Error;

use crate::{
    array::is_member_gone,
    ledger::as_block,
    mutants::{Mutant, lives},
};

/// What stands for a block that cannot be read, and of which there are two: a damaged one.
pub(crate) const UNREAD: [u8; BLOCK_LEN] = [0xff; BLOCK_LEN];

/// Why a device has no usable superblock.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExamineError {
    /// It could not be read.
    #[error("{name}: its metadata cannot be read: {error}")]
    Io {
        /// The device.
        name: String,
        /// What it said.
        error: IoError,
    },
    /// There is none, or it is damaged.
    #[error("{name}: {error}")]
    Superblock {
        /// The device.
        name: String,
        /// What is wrong.
        error: SuperblockError,
    },
}

/// A device's metadata.
#[derive(Clone)]
pub struct Examination {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its md superblock.
    pub superblock: Superblock,
    /// The extension header, and how its copies are.
    pub extension: Result<(Header, CopyState), ExtensionError>,
    /// Whether Stripewise wrote the superblock last. Foreign where there is no header to tell.
    pub origin: SuperblockOrigin,
}

/// Reads a device's metadata.
///
/// # Errors
/// [`ExamineError`] when it has no valid superblock. A damaged extension area is part of the result.
pub async fn examine(device: Arc<dyn Device>) -> Result<Examination, ExamineError> {
    let name = device.info().name.clone();
    let io = |error| ExamineError::Io { name: name.clone(), error };
    let block = read_block(&device, SUPERBLOCK_SECTOR * SECTOR_BYTES).await.map_err(io)?;
    let superblock = Superblock::decode(&block, SUPERBLOCK_SECTOR)
        .map_err(|error| ExamineError::Superblock { name: name.clone(), error })?;
    let extension = match ExtensionLayout::for_superblock(&superblock) {
        None => Err(ExtensionError::Absent),
        Some(layout) => read_header(&device, layout, &superblock).await.map_err(io)?,
    };
    let origin = extension.as_ref().map_or(SuperblockOrigin::Foreign, |(header, _)| {
        // Only as many sectors as the superblock fills are ours; the rest of the block may hold anything.
        header.superblock_origin(&superblock.encode())
    });
    Ok(Examination { device, superblock, extension, origin })
}

async fn read_header(
    device: &Arc<dyn Device>,
    layout: ExtensionLayout,
    superblock: &Superblock,
) -> Result<Result<(Header, CopyState), ExtensionError>, IoError> {
    let fits = layout.header_offset_bytes(HeaderCopy::B) + BLOCK_BYTES <= device.info().size_bytes;
    if !fits {
        return Ok(Err(ExtensionError::Absent));
    }
    let read = async |copy| read_block(device, layout.header_offset_bytes(copy)).await;
    let (a, b) = match (read(HeaderCopy::A).await, read(HeaderCopy::B).await) {
        (Ok(a), Ok(b)) => (a, b),
        (a, b) if lives(Mutant::BothHeadersNeeded) => (a?, b?),
        (Err(error), Err(_)) => return Err(error),
        (Err(error), _) | (_, Err(error)) if is_member_gone(&error) => return Err(error),
        // Even an older copy will do: the superblock that it does not name is written after both.
        (a, b) => {
            tracing::warn!(member = device.info().name, "a copy of its extension header cannot be read");
            (a.unwrap_or(UNREAD), b.unwrap_or(UNREAD))
        }
    };
    let found = choose(&a, &b);
    // A header of another array or member was left by an earlier use of the device.
    Ok(found.and_then(|(header, state)| {
        let ours = header.array_uuid == superblock.array_uuid && header.device_uuid == superblock.device_uuid;
        if ours && layout.check(&header).is_ok() { Ok((header, state)) } else { Err(ExtensionError::Absent) }
    }))
}

/// Reads one block of metadata.
pub(crate) async fn read_block(
    device: &Arc<dyn Device>,
    offset_bytes: u64,
) -> Result<[u8; BLOCK_LEN], IoError> {
    let buf = device.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_LEN)]).await.into_one()?;
    Ok(*as_block(&buf))
}
