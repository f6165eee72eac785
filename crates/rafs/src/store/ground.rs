//! Superblocks and anchors on a volume.

use smallvec::smallvec;
use stripewise_device::{IoBuf, IoError, SharedBuf};
use stripewise_format::rafs::{
    anchor::{Anchor, NoAnchor},
    superblock::{Superblock, SuperblockError},
};
use thiserror::Error;

use crate::{
    shape::{BLOCK_BYTES, BlockNo, Geometry, Order},
    volume::Volume,
};

/// What is found on a volume before its tree is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Ground {
    /// The superblock.
    pub superblock: Superblock,
    /// The newest anchor, and at which of its two places it is.
    pub anchor: (usize, Anchor),
}

/// Why a volume has no file system that can be opened.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum GroundError {
    /// It cannot be read.
    #[error("the volume cannot be read: {0}")]
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
        "the file system has features with which this program may only read it ({bits:#x}); use a later program"
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
        if superblock.ro_compat != 0 {
            return Err(GroundError::ReadOnly { bits: superblock.ro_compat });
        }
        let mut anchors = Vec::new();
        for place in superblock.anchor_places() {
            anchors.push(Anchor::decode(&read_block(volume, place).await?, place, superblock.uuid));
        }
        Ok(Self { superblock, anchor: Anchor::newest([anchors[0], anchors[1]])? })
    }
}

/// The first copy that counts.
async fn read_superblock(volume: &dyn Volume) -> Result<Superblock, GroundError> {
    let geometry = volume.geometry();
    let mut errors = Vec::new();
    for stripe in [0, geometry.stripes() - 1] {
        let place = stripe * u64::from(geometry.stripe_blocks());
        match Superblock::decode(&read_block(volume, place).await?) {
            Ok((superblock, _)) => return Ok(superblock),
            Err(error) => errors.push(error),
        }
    }
    let [first, last] = [errors[0].clone(), errors[1].clone()];
    Err(GroundError::NoSuperblock { first, last })
}

fn check_shape(superblock: &Superblock, geometry: Geometry) -> Result<(), GroundError> {
    let Superblock { stripes, data_columns: columns, rows, .. } = *superblock;
    let of_volume = (geometry.stripes(), geometry.data_columns(), geometry.rows());
    if (stripes, columns, rows) == of_volume {
        return Ok(());
    }
    let (volume_stripes, volume_columns, volume_rows) = of_volume;
    Err(GroundError::Shape { stripes, columns, rows, volume_stripes, volume_columns, volume_rows })
}

/// Reads a block whose slot is numbered by columns.
async fn read_block(volume: &dyn Volume, place: u64) -> Result<IoBuf, IoError> {
    let offset_bytes = volume.geometry().offset_bytes(Order::Columns, BlockNo(place));
    volume.read(offset_bytes, smallvec![IoBuf::with_len(BLOCK_BYTES)]).await.into_one()
}

/// Writes a row that holds nothing but copies of a block, at the begin of a stripe.
pub(super) async fn write_row(volume: &dyn Volume, place: u64, bytes: &[u8]) -> Result<(), IoError> {
    let geometry = volume.geometry();
    let block: SharedBuf = IoBuf::copy_of(bytes).freeze();
    let row = vec![block; geometry.data_columns() as usize];
    volume.write_rows(geometry.locate(BlockNo(place)).0, 0, &row).await
}
