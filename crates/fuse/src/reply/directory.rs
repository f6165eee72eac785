//! The entries of READDIR and READDIRPLUS.

use zerocopy::IntoBytes;

use super::Entry;
use crate::protocol::{
    FileType,
    output::{Dirent, EntryOut},
};

/// Entries begin at multiples of this.
const ALIGN: usize = 8;

/// An entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// The inode's number that is shown. The kernel's users take zero for a removed entry.
    pub inode: u64,
    /// What a READDIR goes on from that wants what is behind this entry. Zero is the beginning, so no entry has it.
    pub position: u64,
    /// Its type.
    pub kind: FileType,
    /// Its name: without a zero or a slash, and not empty.
    pub name: &'a [u8],
}

/// Collects entries, up to the room that the kernel has for them.
#[derive(Debug)]
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    room_bytes: usize,
}

impl DirectoryBuffer {
    /// An empty buffer with the room of a request.
    pub fn new(size_bytes: u32) -> Self {
        Self { bytes: Vec::new(), room_bytes: size_bytes as usize }
    }

    /// Adds an entry for READDIR. `false`: there is no room, and the buffer is to be sent as it is.
    #[must_use]
    pub fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        self.put(&[], entry)
    }

    /// Adds an entry for READDIRPLUS, with what a lookup of it would give. Without that the kernel takes the name
    /// alone: so "." and ".." are given. `false` as for [`Self::push`]; then it is no lookup either.
    #[must_use]
    pub fn push_plus(&mut self, entry: &DirectoryEntry<'_>, found: Option<&Entry>) -> bool {
        let raw = found.map_or_else(EntryOut::default, Entry::raw);
        self.put(raw.as_bytes(), entry)
    }

    fn put(&mut self, before: &[u8], entry: &DirectoryEntry<'_>) -> bool {
        let bare_bytes = before.len() + size_of::<Dirent>() + entry.name.len();
        let len = bare_bytes.next_multiple_of(ALIGN);
        let Ok(namelen) = u32::try_from(entry.name.len()) else { return false };
        if len > self.room_bytes - self.bytes.len() {
            return false;
        }
        let dirent = Dirent { ino: entry.inode, off: entry.position, namelen, kind: entry.kind as u32 };
        for part in [before, dirent.as_bytes(), entry.name] {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.resize(self.bytes.len() + len - bare_bytes, 0);
        true
    }

    /// Whether nothing is in it. Sent so, it says that the folder has no further entries.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(name: &[u8]) -> DirectoryEntry<'_> {
        DirectoryEntry { inode: 1, position: 2, kind: FileType::Regular, name }
    }

    #[test]
    fn an_entry_takes_24_bytes_and_its_padded_name() {
        let mut buffer = DirectoryBuffer::new(64);
        assert!(buffer.push(&entry(b"a")) && buffer.push(&entry(b"12345678")));
        assert_eq!(buffer.as_bytes().len(), 64);
        assert!(!buffer.push(&entry(b"b")), "it is full");
    }

    proptest! {
        #[test]
        fn a_buffer_never_grows_beyond_its_room(
            room in 0_u32..5000,
            names in proptest::collection::vec(proptest::collection::vec(1_u8..255, 1..255), 0..40),
            plus: bool,
        ) {
            let mut buffer = DirectoryBuffer::new(room);
            for name in &names {
                let before = buffer.as_bytes().len();
                let is_in = if plus { buffer.push_plus(&entry(name), None) } else { buffer.push(&entry(name)) };
                let len = buffer.as_bytes().len();
                prop_assert!(len <= room as usize && len.is_multiple_of(8));
                prop_assert_eq!(is_in, len > before);
            }
        }
    }
}
