//! The Stripewise extension area: what Stripewise keeps on a member between md's metadata and the data.
//!
//! [`ExtensionLayout`] says where the area lies, [`Header`] what its header says, [`choose`] which of the
//! header's two copies counts. [`crate::bitmap`] has the pages of the write-intent bitmap inside it. A member
//! without the area (its data begins too early) is a plain md member.

mod choose;
mod fields;
mod header;
mod layout;
pub(crate) mod raw;

pub use choose::{CopyState, ExtensionError, HeaderCopy, OtherCopy, choose};
pub use fields::{
    ArrayOptions, BitmapDescriptor, CacheOptions, CompatFeatures, Endurance, FieldError, IncompatFeatures,
    Job, JobKind, LogDescriptor, MapKind, MemberClass, ReadOnlyCompatFeatures, StrideRecord, Zeroing,
};
pub use header::{Header, HeaderError, SuperblockOrigin, Tail, UnknownFeatures};
pub use layout::{AREA_START_BYTES, DATA_OFFSET_MIN_BYTES, ExtensionLayout, LayoutError};
pub use raw::{HEADER_MAGIC, HEADER_VERSION, SERVICE_TIMES, STRIDE_REGIONS, STRIDES};
