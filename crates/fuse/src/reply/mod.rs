//! Encodes what is answered. The [`Reply`](crate::Reply) of a request sends it.

mod attributes;
mod directory;
mod frame;

pub use self::{
    attributes::{Attributes, Entry, FileSystemFigures, Opened, StatxAttributes},
    directory::{DirectoryBuffer, DirectoryEntry},
};
pub(crate) use self::{
    attributes::{attributes, created, position, statx, written, xattr_size},
    frame::{error_code, header},
};
