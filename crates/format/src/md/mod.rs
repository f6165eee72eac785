//! Linux md's metadata, version 1.x (`include/uapi/linux/raid/md_p.h`; `drivers/md/md.c`, `md-bitmap.c`).
//!
//! [`Superblock::decode`] accepts every superblock the kernel's own checks accept, whatever it describes, so
//! that it can be examined. [`Superblock::check_supported`] then says whether an engine may run the array.
//! New superblocks come from [`NewArray`], filled as mdadm fills them.

pub mod badblocks;
pub mod bitmap;
mod create;
mod features;
mod fields;
pub(crate) mod raw;
mod superblock;
mod support;
mod versions;

pub use badblocks::{BadBlockLog, LogFull};
pub use create::{CreateError, NewArray, NewMember, bitmap_space_sectors, default_data_offset_sectors};
pub use features::Features;
pub use fields::{ArrayName, ArrayNameError, DeviceFlags, Level, Role, Roles, Timestamp, TooManyRoles};
pub use raw::{MAX_DEVICES, SUPERBLOCK_MAGIC};
pub use superblock::{
    BadBlockArea, IN_SYNC, PplArea, Reshape, SUPERBLOCK_SECTOR, SectorExtent, Superblock, SuperblockError,
};
pub use support::{LAYOUT_LEFT_SYMMETRIC, LAYOUT_RAID0_ALTERNATE, LAYOUT_RAID0_ORIGINAL, Unsupported};
pub use versions::OtherVersion;
