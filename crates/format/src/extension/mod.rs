//! The Stripewise extension area: what Stripewise keeps on a member between md's metadata and the data.
//!
//! [`ExtensionLayout`] says where the area lies, [`Header`] what its head says, [`choose`] which of the two copies
//! of the head is to be believed. The write-intent bitmap's pages inside it are [`crate::bitmap`]'s. A member
//! without the area (data too near) is a plain md member.

mod choose;
mod fields;
mod header;
mod layout;
pub(crate) mod raw;

pub use choose::{CopyState, ExtensionError, HeaderCopy, OtherCopy, choose};
pub use fields::{
    ArrayOptions, BitmapDescriptor, CompatFeatures, Endurance, FieldError, IncompatFeatures, Job, JobKind,
    LogDescriptor, MapKind, MemberClass, ReadOnlyCompatFeatures, Zeroing,
};
pub use header::{Header, HeaderError, SuperblockOrigin, Tail, UnknownFeatures};
pub use layout::{AREA_START_BYTES, DATA_OFFSET_MIN_BYTES, ExtensionLayout, LayoutError};
pub use raw::{HEADER_MAGIC, HEADER_VERSION, SERVICE_TIMES};
