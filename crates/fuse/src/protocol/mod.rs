//! Numbers and layouts of the kernel's `include/uapi/linux/fuse.h`, in the byte order of the machine.

mod flags;
pub(crate) mod input;
mod number;
mod opcode;
pub(crate) mod output;

pub use self::{
    flags::{
        AttributeFlags, FallocateMode, FsyncFlags, InitFlags, OpenReplyFlags, OpenRequestFlags, ReadFlags,
        ReleaseFlags, RenameFlags, WriteFlags, XattrFlags,
    },
    number::{FileHandle, FileType, NodeId, RequestId, Timestamp},
    opcode::Opcode,
};

/// The protocol's major version. It has not changed since 2006.
pub const MAJOR: u32 = 7;
/// The oldest minor version that a session accepts: Linux 5.4.
pub const MINOR_MIN: u32 = 31;
/// The newest minor version whose requests are known: Linux 6.18. A newer kernel speaks this one with us.
pub const MINOR_MAX: u32 = 45;
/// The least that a buffer for requests must hold, in bytes (`FUSE_MIN_READ_BUFFER`).
pub const READ_BUFFER_BYTES_MIN: usize = 8192;
/// Bytes of a WRITE before its data: `struct fuse_in_header` and `struct fuse_write_in`.
pub const WRITE_HEAD_BYTES: usize = size_of::<input::InHeader>() + size_of::<input::WriteIn>();

/// Declares structs of the ABI and holds each to the size that the kernel's header gives it.
macro_rules! abi {
    ($($(#[$doc:meta])* $name:ident: $bytes:literal { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
            zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }
        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}
pub(crate) use abi;
