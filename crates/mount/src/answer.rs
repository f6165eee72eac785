//! What a request is answered with.

use std::time::Duration;

use stripewise_device::IoBuf;
use stripewise_fuse::{
    Errno, Reply,
    protocol::{FileHandle, NodeId, OpenReplyFlags},
    reply::{Attributes, DirectoryBuffer, Entry, FileSystemFigures, Opened, StatxAttributes},
};
use stripewise_rafs::fs::Attr;

use crate::convert::{attributes, born};

/// How long the kernel trusts a name, also that there is none. Nobody else changes names, and the kernel knows of its own
/// changes; so this only bounds how long it keeps what nobody asks for.
const NAME_VALID: Duration = Duration::from_secs(3600);
/// How long it trusts attributes. All but one change only by its own requests. The count of blocks that a file takes changes
/// when the file system writes out, of which the kernel is not told.
const ATTRIBUTES_VALID: Duration = Duration::from_secs(1);

/// What cached pages of a file hold stays true when it is opened again: nobody else writes it.
const OPENED: Opened = Opened { handle: FileHandle(0), flags: OpenReplyFlags::KEEP_CACHE };

/// The outcome of an operation.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// An answer.
pub(crate) enum Answer {
    /// Done, with nothing to tell.
    Done,
    /// No answer is due.
    Silent,
    /// What a name leads to; counted as a use.
    Entry(Attr),
    /// There is no such name.
    Absent,
    Attributes(Attr),
    Statx(Attr),
    Opened,
    Created(Attr),
    /// Bytes of a file.
    Read(IoBuf),
    Bytes(Vec<u8>),
    Written(u32),
    Figures(FileSystemFigures),
    AttributeLength(u32),
    Position(u64),
    Folder(DirectoryBuffer),
}

impl Answer {
    pub(crate) fn send(self, reply: Reply) {
        match self {
            Self::Done => reply.ok(),
            Self::Silent => drop(reply),
            Self::Entry(attr) => reply.entry(&entry(&attr)),
            Self::Absent => reply.entry(&Entry::absent(NAME_VALID)),
            Self::Attributes(attr) => reply.attributes(&attributes(&attr), ATTRIBUTES_VALID),
            Self::Statx(attr) => reply.statx(&statx(&attr), ATTRIBUTES_VALID),
            Self::Opened => reply.opened(&OPENED),
            Self::Created(attr) => reply.created(&entry(&attr), &OPENED),
            Self::Read(bytes) => reply.bytes(&bytes),
            Self::Bytes(bytes) => reply.bytes(&bytes),
            Self::Written(bytes) => reply.written(bytes),
            Self::Figures(figures) => reply.statfs(&figures),
            Self::AttributeLength(bytes) => reply.xattr_size(bytes),
            Self::Position(offset_bytes) => reply.position(offset_bytes),
            Self::Folder(entries) => reply.directory(&entries),
        }
    }
}

/// An inode as a lookup tells it.
pub(crate) fn entry(attr: &Attr) -> Entry {
    Entry {
        node: NodeId(attr.inode),
        generation: attr.is.generation.into(),
        entry_valid: NAME_VALID,
        attributes_valid: ATTRIBUTES_VALID,
        attributes: attributes(attr),
    }
}

fn statx(attr: &Attr) -> StatxAttributes {
    let attributes: Attributes = attributes(attr);
    StatxAttributes { attributes, born: Some(born(attr)), attribute_bits: 0, attribute_mask: 0 }
}
