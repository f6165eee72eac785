//! The inodes of the file system in memory, and what is counted of its requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use stripewise_fuse::{
    Errno, Negotiated,
    protocol::{NodeId, Timestamp},
    reply::{Attributes, Entry},
};

pub(crate) const TYPE_MASK: u32 = 0o170_000;
pub(crate) const FOLDER: u32 = 0o040_000;
/// Content is kept, and is a hole else, in pieces of so many bytes.
const PIECE: u64 = 4096;
/// The time of birth of each inode, so that a test knows it when it sees it.
pub(crate) const BORN: Timestamp = Timestamp { seconds: 1_000_000, nanoseconds: 7 };

#[derive(Default)]
pub(crate) struct Inode {
    pub(crate) attributes: Attributes,
    pub(crate) content: Vec<u8>,
    /// Which pieces are no holes.
    pub(crate) pieces: BTreeSet<u64>,
    /// Of a folder. Each name has a position for readdir.
    pub(crate) names: BTreeMap<Vec<u8>, u64>,
    pub(crate) parent: u64,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Lookups and open files.
    pub(crate) lookups: u64,
}

impl Inode {
    pub(crate) fn is_folder(&self) -> bool {
        self.attributes.mode & TYPE_MASK == FOLDER
    }

    pub(crate) fn resize(&mut self, len: u64) {
        self.content.resize(len as usize, 0);
        self.pieces.retain(|piece| piece * PIECE < len);
        self.attributes.size_bytes = len;
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        if end > self.content.len() as u64 {
            self.resize(end);
        }
        self.content[offset as usize..end as usize].copy_from_slice(data);
        self.pieces.extend(offset / PIECE..end.div_ceil(PIECE));
        self.attributes.modified = SystemTime::now().into();
    }

    /// Makes whole pieces of the range holes, and zeroes all of it.
    pub(crate) fn punch(&mut self, offset: u64, len: u64) {
        let end = (offset + len).min(self.content.len() as u64);
        self.content[offset.min(end) as usize..end as usize].fill(0);
        self.pieces.retain(|piece| piece * PIECE < offset || (piece + 1) * PIECE > end);
    }

    pub(crate) fn seek(&self, offset: u64, wants_data: bool) -> Option<u64> {
        let end = self.content.len() as u64;
        let found =
            (offset / PIECE..end.div_ceil(PIECE)).find(|piece| self.pieces.contains(piece) == wants_data);
        let found = found.map(|piece| (piece * PIECE).max(offset));
        if offset >= end {
            None
        } else if wants_data {
            found
        } else {
            found.or(Some(end))
        }
    }
}

/// What is counted of requests.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) operations: BTreeMap<&'static str, u64>,
    pub(crate) negotiated: Option<Negotiated>,
    /// The largest WRITE, in bytes.
    pub(crate) write_bytes_max: usize,
}

pub(crate) struct Tree {
    pub(crate) inodes: BTreeMap<u64, Inode>,
    pub(crate) seen: Seen,
    next: u64,
}

#[derive(Default)]
pub(crate) struct Memory(Mutex<Tree>);

impl Memory {
    pub(crate) fn tree(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap()
    }

    pub(crate) fn count(&self, operation: &str) -> u64 {
        self.tree().seen.operations.get(operation).copied().unwrap_or(0)
    }
}

impl Default for Tree {
    fn default() -> Self {
        let mut root = Inode { parent: 1, lookups: 1, ..Inode::default() };
        root.attributes = Attributes { inode: 1, mode: FOLDER | 0o755, links: 2, ..Attributes::default() };
        Self { inodes: BTreeMap::from([(1, root)]), seen: Seen::default(), next: 2 }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Errno>;

impl Tree {
    pub(crate) fn get(&mut self, node: u64) -> Result<&mut Inode> {
        self.inodes.get_mut(&node).ok_or(Errno::STALE)
    }

    pub(crate) fn find(&mut self, parent: u64, name: &[u8]) -> Result<u64> {
        let folder = self.get(parent)?;
        if !folder.is_folder() {
            return Err(Errno::NOTDIR);
        }
        folder.names.get(name).copied().ok_or(Errno::NOENT)
    }

    /// Makes an inode. Without a name it is a file that nobody finds.
    pub(crate) fn make(
        &mut self,
        parent: u64,
        name: Option<&[u8]>,
        mode: u32,
        owner: (u32, u32),
    ) -> Result<u64> {
        if name.is_some_and(|name| self.find(parent, name).is_ok()) {
            return Err(Errno::EXIST);
        }
        // The kernel lets longer ones through.
        if name.is_some_and(|name| name.len() > 255) {
            return Err(Errno::NAMETOOLONG);
        }
        let node = self.next;
        self.next += 1;
        let now = SystemTime::now().into();
        let links = if mode & TYPE_MASK == FOLDER { 2 } else { u32::from(name.is_some()) };
        let attributes = Attributes {
            inode: node,
            accessed: now,
            modified: now,
            changed: now,
            mode,
            links,
            uid: owner.0,
            gid: owner.1,
            block_bytes: 4096,
            ..Attributes::default()
        };
        self.inodes.insert(node, Inode { attributes, parent, ..Inode::default() });
        if let Some(name) = name {
            self.get(parent)?.names.insert(name.to_owned(), node);
        }
        Ok(node)
    }

    pub(crate) fn entry(&mut self, node: u64) -> Result<Entry> {
        let inode = self.get(node)?;
        inode.lookups += 1;
        let valid = Duration::from_secs(1);
        let attributes = inode.attributes;
        Ok(Entry {
            node: NodeId(node),
            generation: 0,
            entry_valid: valid,
            attributes_valid: valid,
            attributes,
        })
    }

    pub(crate) fn remove(&mut self, parent: u64, name: &[u8], is_folder: bool) -> Result<()> {
        let node = self.find(parent, name)?;
        let inode = self.get(node)?;
        match (is_folder, inode.is_folder()) {
            (true, false) => return Err(Errno::NOTDIR),
            (false, true) => return Err(Errno::ISDIR),
            (true, true) if !inode.names.is_empty() => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        inode.attributes.links = if is_folder { 0 } else { inode.attributes.links - 1 };
        self.get(parent)?.names.remove(name);
        self.drop_unused(node);
        Ok(())
    }

    pub(crate) fn forget(&mut self, node: u64, lookups: u64) {
        if let Some(inode) = self.inodes.get_mut(&node) {
            inode.lookups = inode.lookups.checked_sub(lookups).expect("more is forgotten than was looked up");
            self.drop_unused(node);
        }
    }

    fn drop_unused(&mut self, node: u64) {
        if self.inodes.get(&node).is_some_and(|inode| inode.attributes.links == 0 && inode.lookups == 0) {
            self.inodes.remove(&node);
        }
    }
}
