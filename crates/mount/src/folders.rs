//! Listings of folders.
//!
//! The position of an entry is its number in the folder, which no other entry ever had. `.` and `..` have 1 and 2, which entries
//! do not have.

use stripewise_format::rafs::inode::FileType;
use stripewise_fuse::{
    protocol,
    reply::{DirectoryBuffer, DirectoryEntry},
    request::ReadDirectory,
};
use stripewise_rafs::fs::{FolderEntry, FsError};

use crate::{
    answer::{Answer, Result, entry},
    convert::{entry_type, errno},
    server::Rafs,
};

const SELF_POSITION: u64 = 1;
const PARENT_POSITION: u64 = 2;
/// Entries that are asked of the file system at a time.
const ENTRIES: usize = 64;

impl Rafs {
    pub(crate) async fn list(&self, folder: u64, read: &ReadDirectory) -> Result<Answer> {
        let mut buffer = DirectoryBuffer::new(read.size_bytes);
        let dots = self.dots(folder, read.offset).await?;
        if !dots.iter().all(|dot| buffer.push(dot)) {
            return Ok(Answer::Folder(buffer));
        }
        let mut behind = read.offset.max(PARENT_POSITION);
        loop {
            let entries = self.batch(folder, behind, &buffer).await?;
            let Some(last) = entries.last() else { return Ok(Answer::Folder(buffer)) };
            behind = last.number;
            if !entries.iter().all(|found| buffer.push(&told(found))) {
                return Ok(Answer::Folder(buffer));
            }
        }
    }

    /// With what a lookup of each would give, which counts as one.
    pub(crate) async fn list_plus(&self, folder: u64, read: &ReadDirectory) -> Result<Answer> {
        let mut buffer = DirectoryBuffer::new(read.size_bytes);
        let dots = self.dots(folder, read.offset).await?;
        if !dots.iter().all(|dot| buffer.push_plus(dot, None)) {
            return Ok(Answer::Folder(buffer));
        }
        let mut behind = read.offset.max(PARENT_POSITION);
        loop {
            let entries = self.batch(folder, behind, &buffer).await?;
            let Some(last) = entries.last() else { return Ok(Answer::Folder(buffer)) };
            behind = last.number;
            for found in &entries {
                if !self.push_plus(folder, found, &mut buffer).await? {
                    return Ok(Answer::Folder(buffer));
                }
            }
        }
    }

    /// The next entries; none at the end. If they cannot be read, those before them are told, and the next request gets the error.
    async fn batch(&self, folder: u64, behind: u64, buffer: &DirectoryBuffer) -> Result<Vec<FolderEntry>> {
        match self.fs.read_folder(folder, behind, ENTRIES).await {
            Err(_) if !buffer.is_empty() => Ok(Vec::new()),
            entries => entries.map_err(errno),
        }
    }

    /// Returns whether there was room.
    async fn push_plus(
        &self,
        folder: u64,
        found: &FolderEntry,
        buffer: &mut DirectoryBuffer,
    ) -> Result<bool> {
        let attr = match self.fs.lookup(folder, &found.name).await {
            Ok(attr) => attr,
            // It went since it was listed.
            Err(FsError::NotFound) => return Ok(true),
            // One inode that is damaged must not hide the others: the name alone is told.
            Err(error) => {
                tracing::warn!(%error, inode = found.inode, "an entry is listed without its attributes");
                return Ok(buffer.push_plus(&told(found), None));
            }
        };
        let is_in = buffer.push_plus(&told(found), Some(&entry(&attr)));
        if !is_in {
            self.fs.forget(attr.inode, 1).await;
        }
        Ok(is_in)
    }

    /// `.` and `..`, as far as a listing that goes on behind this position has them.
    async fn dots(&self, folder: u64, behind: u64) -> Result<Vec<DirectoryEntry<'static>>> {
        if behind >= PARENT_POSITION {
            return Ok(Vec::new());
        }
        let parent = self.fs.attr(folder).await.map_err(errno)?.is.parent;
        let all = [(folder, SELF_POSITION, &b"."[..]), (parent, PARENT_POSITION, b"..")];
        let kind = protocol::FileType::Directory;
        let dots = all.map(|(inode, position, name)| DirectoryEntry { inode, position, kind, name });
        Ok(dots.into_iter().filter(|dot| dot.position > behind).collect())
    }
}

fn told(found: &FolderEntry) -> DirectoryEntry<'_> {
    DirectoryEntry {
        inode: found.inode,
        position: found.number,
        kind: entry_type(found.file_type),
        name: &found.name,
    }
}

const _: () = assert!(FileType::Folder as u32 == protocol::FileType::Directory as u32);
