//! Superblocks and anchors on a volume.

use smallvec::smallvec;
use stripewise_device::{IoBuf, IoError, IoErrorKind, SharedBuf};
use stripewise_format::rafs::{
    anchor::{Anchor, AnchorError, NoAnchor},
    superblock::{Superblock, SuperblockError},
};
use thiserror::Error;

use crate::{
    shape::{BLOCK_BYTES, BlockNo, Geometry, Order},
    volume::{Volume, is_lost},
};

/// What is found on a volume before its tree is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Ground {
    /// The superblock.
    pub superblock: Superblock,
    /// The newest anchor, and at which of its two places it is.
    pub anchor: (usize, Anchor),
    /// What is wrong with the other one, if it does not count. It may have been newer.
    pub lost_anchor: Option<AnchorError>,
}

/// Why a volume has no file system that can be opened.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum GroundError {
    /// It cannot be read.
    #[error("the volume cannot be read: {0}; see to its members, then try again")]
    Io(#[from] IoError),
    /// Neither superblock counts.
    #[error("no file system here (first superblock: {first}; last: {last})")]
    NoSuperblock {
        /// What is wrong with the first one.
        first: SuperblockError,
        /// What is wrong with the last one.
        last: SuperblockError,
    },
    /// The superblock has another shape than the volume.
    #[error(
        "the file system is of {stripes} stripes of {columns} times {rows} blocks, and the volume of {volume_stripes} of \
         {volume_columns} times {volume_rows}; give the shape that it was made with"
    )]
    Shape {
        /// Stripes of the file system.
        stripes: u64,
        /// Its data columns.
        columns: u32,
        /// Its rows.
        rows: u32,
        /// Stripes of the volume.
        volume_stripes: u64,
        /// Its data columns.
        volume_columns: u32,
        /// Its rows.
        volume_rows: u32,
    },
    /// It has features with which it may only be read.
    #[error(
        "the file system has features with which this program may only read it ({bits:#x}); mount it with `-o ro`, or use a \
         later program"
    )]
    ReadOnly {
        /// The unknown ones.
        bits: u64,
    },
    /// No anchor counts.
    #[error(transparent)]
    NoAnchor(#[from] NoAnchor),
}

impl Ground {
    /// Reads it.
    ///
    /// # Errors
    /// [`GroundError`].
    pub async fn read(volume: &dyn Volume) -> Result<Self, GroundError> {
        let geometry = volume.geometry();
        let superblock = read_superblock(volume).await?;
        check_shape(&superblock, geometry)?;
        let mut anchors = Vec::new();
        for place in superblock.anchor_places() {
            anchors.push(read_anchor(volume, &superblock, place).await?);
        }
        let lost_anchor = anchors.iter().find_map(|anchor| anchor.err());
        Ok(Self { superblock, anchor: Anchor::newest([anchors[0], anchors[1]])?, lost_anchor })
    }
}

/// The superblock of a volume: that of the first stripe, or of the last one if no copy of the first one counts.
///
/// # Errors
/// [`GroundError::NoSuperblock`]; [`GroundError::Io`].
pub async fn read_superblock(volume: &dyn Volume) -> Result<Superblock, GroundError> {
    let geometry = volume.geometry();
    let (mut errors, mut unread) = (Vec::new(), None);
    for stripe in [0, geometry.stripes() - 1] {
        let place = stripe * u64::from(geometry.stripe_blocks());
        match first_copy(volume, place, Superblock::decode).await {
            Ok(Ok((superblock, _))) => return Ok(superblock),
            Ok(Err(error)) => errors.push(error),
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    match (errors.as_slice(), unread) {
        ([first, last], _) => Err(GroundError::NoSuperblock { first: first.clone(), last: last.clone() }),
        (_, unread) => Err(GroundError::Io(unread.unwrap_or(IoError::new(IoErrorKind::Truncated)))),
    }
}

/// The anchor at a place, or why it is lost.
pub(crate) async fn read_anchor(
    volume: &dyn Volume,
    superblock: &Superblock,
    place: u64,
) -> Result<Result<Anchor, AnchorError>, IoError> {
    let decode = |bytes: &[u8]| Anchor::decode(bytes, place, superblock.uuid);
    match first_copy(volume, place, decode).await {
        Err(error) if is_lost(&error) => Ok(Err(AnchorError::Unread)),
        read => read,
    }
}

/// Of the copies in a row, the first one that can be read and counts, or one that redundancy has; else what is wrong with the first one
/// that can be read.
pub(crate) async fn first_copy<T, E>(
    volume: &dyn Volume,
    place: u64,
    decode: impl Fn(&[u8]) -> Result<T, E>,
) -> Result<Result<T, E>, IoError> {
    let geometry = volume.geometry();
    let (mut wrong, mut unread) = (None, None);
    for column in 0..geometry.data_columns() {
        match read_copy(volume, place, column).await.map(|bytes| decode(&bytes)) {
            Ok(Ok(found)) => return Ok(Ok(found)),
            Ok(Err(error)) => wrong = wrong.or(Some(error)),
            // An error that may pass tells more than one that does not.
            Err(error) => unread = unread.filter(|one| !is_lost(one)).or(Some(error)),
        }
    }
    if let Some(found) = copy_otherwise(volume, place, &decode).await {
        return Ok(Ok(found));
    }
    match (wrong, unread) {
        (Some(wrong), unread) if unread.is_none_or(|error| is_lost(&error)) => Ok(Err(wrong)),
        (_, unread) => Err(unread.unwrap_or(IoError::new(IoErrorKind::Truncated))),
    }
}

/// How many of the copies in a row are not good, or cannot be read.
pub(crate) async fn bad_copies(volume: &dyn Volume, place: u64, is_good: impl Fn(&[u8]) -> bool) -> u32 {
    let geometry = volume.geometry();
    let mut bad = 0;
    for column in 0..geometry.data_columns() {
        let is_good = read_copy(volume, place, column).await.is_ok_and(|bytes| is_good(&bytes));
        bad += u32::from(!is_good);
    }
    bad
}

/// Whether this program may write a file system.
pub(crate) fn check_writable(superblock: &Superblock) -> Result<(), GroundError> {
    match superblock.ro_compat {
        0 => Ok(()),
        bits => Err(GroundError::ReadOnly { bits }),
    }
}

/// Whether a file system has the volume's shape.
pub(crate) fn check_shape(superblock: &Superblock, geometry: Geometry) -> Result<(), GroundError> {
    let Superblock { stripes, data_columns: columns, rows, .. } = *superblock;
    let of_volume = (geometry.stripes(), geometry.data_columns(), geometry.rows());
    if (stripes, columns, rows) == of_volume {
        return Ok(());
    }
    let (volume_stripes, volume_columns, volume_rows) = of_volume;
    Err(GroundError::Shape { stripes, columns, rows, volume_stripes, volume_columns, volume_rows })
}

/// A copy that counts, as redundancy has it: where a row has few columns, one member may have all copies.
async fn copy_otherwise<T, E>(
    volume: &dyn Volume,
    place: u64,
    decode: impl Fn(&[u8]) -> Result<T, E>,
) -> Option<T> {
    let (stripe, _) = volume.geometry().locate(BlockNo(place));
    for way in 0..volume.other_ways() {
        let read = volume.read_otherwise(way, 0, stripe, 0..1).await;
        let block = read.ok().flatten().and_then(|mut blocks| blocks.pop());
        if let Some(found) = block.and_then(|block| decode(&block).ok()) {
            return Some(found);
        }
    }
    None
}

/// Reads the copy in a column of the row that begins with a block.
pub(crate) async fn read_copy(volume: &dyn Volume, place: u64, column: u32) -> Result<IoBuf, IoError> {
    read_block(volume, BlockNo(place + u64::from(column) * u64::from(volume.geometry().rows()))).await
}

/// Reads a block whose slot is numbered by columns.
async fn read_block(volume: &dyn Volume, block: BlockNo) -> Result<IoBuf, IoError> {
    let offset_bytes = volume.geometry().offset_bytes(Order::Columns, block);
    volume.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_BYTES)]).await.into_one()
}

/// Writes a row that holds nothing but copies of a block, at the begin of a stripe.
pub(crate) async fn write_row(volume: &dyn Volume, place: u64, bytes: &[u8]) -> Result<(), IoError> {
    let geometry = volume.geometry();
    let block: SharedBuf = IoBuf::copy_of(bytes).freeze();
    let row = vec![block; geometry.data_columns() as usize];
    volume.write_rows(geometry.locate(BlockNo(place)).0, 0, &row).await
}
