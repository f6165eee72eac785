//! The handle that answers one request.

use std::{io::IoSlice, sync::Arc, time::Duration};

use zerocopy::{Immutable, IntoBytes};

use super::channel::Channel;
use crate::{
    Errno,
    protocol::RequestId,
    reply::{self, Attributes, DirectoryBuffer, Entry, FileSystemFigures, Opened, StatxAttributes},
};

/// Answers a request, once, from any thread. Which answer a request takes, its
/// [`Operation`](crate::request::Operation) says. Dropped without an answer, it answers EIO.
///
/// The replies of FORGET, BATCH_FORGET and INTERRUPT send nothing, since the kernel does not wait for them.
#[derive(Debug)]
#[must_use = "a reply that is dropped answers EIO"]
pub struct Reply {
    /// `None` once it has answered, and where no answer is due.
    channel: Option<Arc<Channel>>,
    id: RequestId,
}

impl Reply {
    pub(super) fn new(channel: Arc<Channel>, id: RequestId) -> Self {
        Self { channel: Some(channel), id }
    }

    /// For a request without an answer.
    pub(super) fn silent(id: RequestId) -> Self {
        Self { channel: None, id }
    }

    /// The request's number.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Success, without more to say.
    pub fn ok(self) {
        self.slices(&[]);
    }

    /// Failure. A number above 511 becomes EIO, since the kernel refuses it.
    ///
    /// After ENOSYS, the kernel does not send the like again. For some requests it then takes success for granted: for
    /// OPEN, FLUSH and FSYNC, among others.
    pub fn error(mut self, error: Errno) {
        if let Some(channel) = self.channel.take() {
            channel.send_error(self.id, error);
        }
    }

    /// Bytes: what was read, a link's target, the value of an attribute.
    pub fn bytes(self, bytes: &[u8]) {
        self.slices(&[IoSlice::new(bytes)]);
    }

    /// Bytes that lie in several places. The kernel takes them from there, in one system call.
    pub fn slices(mut self, parts: &[IoSlice<'_>]) {
        if let Some(channel) = self.channel.take() {
            channel.send(self.id, parts);
        }
    }

    /// What a name leads to.
    pub fn entry(self, entry: &Entry) {
        self.raw(&entry.raw());
    }

    /// Attributes, and how long the kernel may trust them.
    pub fn attributes(self, attributes: &Attributes, valid: Duration) {
        self.raw(&reply::attributes(attributes, valid));
    }

    /// Attributes of STATX.
    pub fn statx(self, attributes: &StatxAttributes, valid: Duration) {
        self.raw(&reply::statx(attributes, valid));
    }

    /// An open file or folder.
    pub fn opened(self, opened: &Opened) {
        self.raw(&opened.raw());
    }

    /// A new file, opened.
    pub fn created(self, entry: &Entry, opened: &Opened) {
        self.raw(&reply::created(entry, opened));
    }

    /// How many bytes were written or copied.
    pub fn written(self, size_bytes: u32) {
        self.raw(&reply::written(size_bytes));
    }

    /// How full the file system is.
    pub fn statfs(self, figures: &FileSystemFigures) {
        self.raw(&figures.raw());
    }

    /// How long an attribute, or the list of names, is.
    pub fn xattr_size(self, size_bytes: u32) {
        self.raw(&reply::xattr_size(size_bytes));
    }

    /// Where data or a hole begins.
    pub fn position(self, offset_bytes: u64) {
        self.raw(&reply::position(offset_bytes));
    }

    /// Entries of a folder.
    pub fn directory(self, entries: &DirectoryBuffer) {
        self.bytes(entries.as_bytes());
    }

    pub(super) fn raw(self, body: &(impl IntoBytes + Immutable)) {
        self.bytes(body.as_bytes());
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            channel.send_error(self.id, Errno::IO);
        }
    }
}
