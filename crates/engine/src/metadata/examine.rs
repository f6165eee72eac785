//! What lies on a device: superblock, extension header, and whether they fit together.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use smallvec::smallvec;
use stripewise_device::{Device, EnvHandle, IoBuf, IoError};
use stripewise_format::{
    extension::{CopyState, ExtensionError, ExtensionLayout, Header, HeaderCopy, SuperblockOrigin, choose},
    md::{BadBlockLog, Features, OtherVersion, SUPERBLOCK_SECTOR, Superblock, SuperblockError},
    media::{BLOCK_BYTES, BLOCK_LEN, Block, SECTOR_BYTES},
};
use thiserror::Error;

use super::ledger::as_block;
use crate::{
    error::is_member_gone,
    members::bad_blocks,
    mutants::{Mutant, lives},
};

/// Stands for an unreadable copy of a block that has two copies. It counts as damaged.
pub(crate) const UNREAD: [u8; BLOCK_LEN] = [0xff; BLOCK_LEN];

/// How long reading a device's metadata may take. A disk that has to spin up first takes ten seconds or so.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Why a device has no usable superblock.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExamineError {
    /// It could not be read.
    #[error("{name}: its metadata cannot be read: {error}")]
    Io {
        /// The device.
        name: String,
        /// The device's error.
        error: IoError,
    },
    /// It did not answer.
    #[error(
        "{name}: its metadata cannot be read: no answer for {waited_s} s. It is left alone; see what it hangs on (the system's \
         log, the file system or server below it)"
    )]
    Silent {
        /// The device.
        name: String,
        /// How long the wait lasted, in seconds.
        waited_s: u64,
    },
    /// There is none, or it is damaged.
    #[error("{name}: {error}")]
    Superblock {
        /// The device.
        name: String,
        /// What is wrong.
        error: SuperblockError,
    },
    /// It is a member of an array with other metadata.
    #[error(
        "{name}: it has md metadata {version}, and Stripewise runs 1.2 only, which lies 4 KiB into a member; run the array with \
         mdadm"
    )]
    OtherVersion {
        /// The device.
        name: String,
        /// The version, as mdadm's `--metadata` takes it.
        version: &'static str,
    },
}

impl ExamineError {
    /// The device.
    pub fn name(&self) -> &str {
        match self {
            Self::Io { name, .. }
            | Self::Silent { name, .. }
            | Self::Superblock { name, .. }
            | Self::OtherVersion { name, .. } => name,
        }
    }

    /// What is wrong, without the device's name: for a list that names each device itself.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        let reason = text.strip_prefix(self.name()).and_then(|rest| rest.strip_prefix(": "));
        reason.map(str::to_owned).unwrap_or(text)
    }
}

/// A device's metadata.
#[derive(Clone)]
pub struct Examination {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its md superblock.
    pub superblock: Superblock,
    /// The extension header, and the state of its copies.
    pub extension: Result<(Header, CopyState), ExtensionError>,
    /// md's bad-block log, empty unless the superblock says that it is in use. None where the member has no
    /// room for one.
    pub bad_blocks: Option<BadBlockLog>,
    /// Whether Stripewise wrote the superblock last. Foreign if there is no header to tell.
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
    let superblock = match Superblock::decode(&block, SUPERBLOCK_SECTOR) {
        Ok(superblock) => superblock,
        Err(error) => {
            // A damaged superblock is still of this version. Anything at another version's place is left from
            // an older array.
            let other = match error {
                SuperblockError::NoMagic { .. } => other_version(&device).await,
                _ => None,
            };
            return Err(match other {
                Some(other) => ExamineError::OtherVersion { name, version: other.number() },
                None => ExamineError::Superblock { name, error },
            });
        }
    };
    let extension = match ExtensionLayout::for_superblock(&superblock) {
        None => Err(ExtensionError::Absent),
        Some(layout) => read_header(&device, layout, &superblock).await.map_err(io)?,
    };
    let origin = extension.as_ref().map_or(SuperblockOrigin::Foreign, |(header, _)| {
        // Only as many sectors as the superblock fills are ours; the rest of the block may hold anything.
        header.superblock_origin(&superblock.encode())
    });
    let bad_blocks = read_bad_blocks(&device, &superblock).await.map_err(io)?;
    Ok(Examination { device, superblock, extension, bad_blocks, origin })
}

/// As [`examine`], for a device that may hang: an array must not wait for it forever.
///
/// # Errors
/// As [`examine`]; [`ExamineError::Silent`] if the device does not answer in time.
pub(crate) async fn examine_in_time(
    env: &EnvHandle,
    device: Arc<dyn Device>,
) -> Result<Examination, ExamineError> {
    let name = device.info().name.clone();
    match select(pin!(examine(device)), env.sleep(SILENCE_MAX)).await {
        Either::Left((examined, _)) => examined,
        Either::Right(_) => Err(ExamineError::Silent { name, waited_s: SILENCE_MAX.as_secs() }),
    }
}

async fn read_bad_blocks(
    device: &Arc<dyn Device>,
    superblock: &Superblock,
) -> Result<Option<BadBlockLog>, IoError> {
    if !superblock.features.contains(Features::BAD_BLOCKS) {
        return Ok(bad_blocks::empty_log(superblock, device));
    }
    let place = superblock.bad_block_place(device.info().logical_block_bytes);
    let Some(place) = place else { return Ok(None) };
    let buf = IoBuf::with_len((place.end - place.start) as usize);
    let log = device.read(place.start, smallvec![buf]).await.into_one()?;
    Ok(BadBlockLog::decode(&log, &superblock.bad_blocks))
}

/// The metadata version of a device that has no superblock at 4 KiB, if it has one elsewhere.
async fn other_version(device: &Arc<dyn Device>) -> Option<OtherVersion> {
    for version in OtherVersion::ALL {
        let Some(at) = version.superblock_offset_bytes(device.info().size_bytes) else { continue };
        let block = at - at % BLOCK_BYTES;
        let found = read_block(device, block).await;
        if found.is_ok_and(|bytes| version.begins(&bytes[(at - block) as usize..])) {
            return Some(version);
        }
    }
    None
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
    let copies = match (read(HeaderCopy::A).await, read(HeaderCopy::B).await) {
        (a, b) if lives(Mutant::BothHeadersNeeded) => (Ok(a?), Ok(b?)),
        (Err(error), Err(_)) => return Err(error),
        (Err(error), _) | (_, Err(error)) if is_member_gone(&error) => return Err(error),
        // Even an older copy will do: a superblock that it does not name is written only after both copies.
        copies => copies,
    };
    // A copy that cannot be read has no bytes, and so is damaged.
    let bytes = |copy: &Result<Block, IoError>| copy.map_or(Vec::new(), Vec::from);
    let found = choose(&bytes(&copies.0), &bytes(&copies.1));
    // A header of another array or member is left over from an earlier use of the device.
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
