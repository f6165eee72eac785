//! What is in a file system, as its operations tell it; and changes by these.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use stripewise_device::IoBuf;
use stripewise_format::rafs::inode::FileType;
use stripewise_rafs::fs::{Attr, Fs, FsError, NewInode, ROOT, Rename, SetAttr, SetAttribute};

use super::{
    model::{Change, TARGET},
    op::{ROOT_NAME, parent},
};

/// The attribute that files get.
const ATTRIBUTE: &[u8] = b"user.ace";
/// Entries of a folder, and bytes of a file, at most.
const ENTRIES_MAX: usize = 1000;
const BYTES_MAX: usize = 1 << 20;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sort {
    File,
    Folder,
    Symlink,
}

impl Sort {
    fn file_type(self) -> FileType {
        match self {
            Self::File => FileType::File,
            Self::Folder => FileType::Folder,
            Self::Symlink => FileType::Link,
        }
    }
}

/// An entry that was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) inode: u64,
    pub(super) sort: Sort,
    pub(super) links: u32,
    /// Of a symbolic link: where it leads.
    pub(super) bytes: Vec<u8>,
    pub(super) attribute: Option<Vec<u8>>,
}

/// All entries, by their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Found {
    pub(super) entries: BTreeMap<String, Entry>,
}

/// Looks at all that is there.
pub(super) async fn find(fs: &Fs) -> Result<Found, FsError> {
    let mut found = Found::default();
    find_in(fs, ROOT, String::new(), &mut found).await?;
    Ok(found)
}

fn find_in<'a>(
    fs: &'a Fs,
    folder: u64,
    before: String,
    found: &'a mut Found,
) -> BoxFuture<'a, Result<(), FsError>> {
    Box::pin(async move {
        for entry in fs.read_folder(folder, 0, ENTRIES_MAX).await? {
            let path = format!("{before}{}", String::from_utf8_lossy(&entry.name));
            let attr = fs.lookup(folder, &entry.name).await?;
            let entry = entry_of(fs, attr).await?;
            if entry.sort == Sort::Folder {
                find_in(fs, attr.inode, format!("{path}/"), found).await?;
            }
            fs.forget(attr.inode, 1).await;
            found.entries.insert(path, entry);
        }
        Ok(())
    })
}

async fn entry_of(fs: &Fs, attr: Attr) -> Result<Entry, FsError> {
    let Attr { inode, file_type, is } = attr;
    let sorts = [Sort::File, Sort::Folder, Sort::Symlink];
    let sort = sorts.into_iter().find(|sort| sort.file_type() == file_type);
    let sort = sort.ok_or(FsError::Invalid("nothing made an inode of this type"))?;
    let bytes = match sort {
        Sort::File => fs.read(inode, 0, BYTES_MAX).await?.to_vec(),
        Sort::Folder => Vec::new(),
        Sort::Symlink => fs.read_link(inode).await?,
    };
    let attribute = match fs.attribute(inode, ATTRIBUTE).await {
        Ok(value) => Some(value),
        Err(FsError::NoAttribute) => None,
        Err(error) => return Err(error),
    };
    Ok(Entry { inode, sort, links: is.links, bytes, attribute })
}

/// Makes a change, or makes something durable.
pub(super) async fn make(fs: &Fs, change: &Change) -> Result<(), FsError> {
    match change {
        Change::Make(sort, path) => {
            let permissions = if *sort == Sort::Folder { 0o755 } else { 0o644 };
            let new = NewInode { file_type: sort.file_type(), permissions, uid: 0, gid: 0, device: 0 };
            let made = within(fs, path, async |folder, name| match sort {
                Sort::Symlink => fs.symlink(folder, name, TARGET.as_bytes(), new).await,
                _ => fs.create(folder, name, new).await,
            });
            fs.forget(made.await?.inode, 1).await;
            Ok(())
        }
        Change::Write(path, at, bytes) => {
            let data = IoBuf::copy_of(bytes).freeze();
            let written = with(fs, path, async |inode| fs.write(inode, *at as u64, data).await).await?;
            if written == bytes.len() { Ok(()) } else { Err(FsError::NoSpace) }
        }
        Change::Punch(path, range) => {
            let range = range.start as u64..range.end as u64;
            with(fs, path, async |inode| fs.punch(inode, range).await).await
        }
        Change::Resize(path, len) => with(fs, path, async |inode| resize(fs, inode, *len).await).await,
        Change::Link(path, to) => {
            with(fs, path, async |inode| {
                within(fs, to, async |folder, name| fs.link(inode, folder, name).await).await?;
                fs.forget(inode, 1).await;
                Ok(())
            })
            .await
        }
        Change::Unlink(path) => within(fs, path, async |folder, name| fs.unlink(folder, name).await).await,
        Change::RemoveFolder(path) => {
            within(fs, path, async |folder, name| fs.remove_folder(folder, name).await).await
        }
        Change::Rename(path, to) => rename(fs, path, to, Rename::Replace).await,
        Change::Exchange(path, to) => rename(fs, path, to, Rename::Exchange).await,
        Change::SetAttribute(path, value) => {
            with(fs, path, async |inode| {
                fs.set_attribute(inode, ATTRIBUTE, value, SetAttribute::Either).await
            })
            .await
        }
        Change::RemoveAttribute(path) => {
            with(fs, path, async |inode| fs.remove_attribute(inode, ATTRIBUTE).await).await
        }
        Change::Fsync(path) => with(fs, path, async |inode| fs.fsync(inode).await).await,
        Change::Sync => fs.sync().await,
        Change::Checkpoint => fs.checkpoint().await,
    }
}

async fn rename(fs: &Fs, path: &str, to: &str, how: Rename) -> Result<(), FsError> {
    within(fs, path, async |from, name| {
        within(fs, to, async |into, new| fs.rename((from, name), (into, new), how).await).await
    })
    .await
}

/// Gives a file another length.
pub(super) async fn resize(fs: &Fs, inode: u64, len: usize) -> Result<(), FsError> {
    let set = SetAttr { size_bytes: Some(len as u64), ..SetAttr::default() };
    fs.set_attr(inode, set).await.map(drop)
}

/// Calls with the inode of a path.
pub(super) async fn with<T>(
    fs: &Fs,
    path: &str,
    call: impl AsyncFnOnce(u64) -> Result<T, FsError>,
) -> Result<T, FsError> {
    if path == ROOT_NAME {
        return call(ROOT).await;
    }
    let mut inode = ROOT;
    for name in path.split('/') {
        let next = fs.lookup(inode, name.as_bytes()).await;
        if inode != ROOT {
            fs.forget(inode, 1).await;
        }
        inode = next?.inode;
    }
    let result = call(inode).await;
    fs.forget(inode, 1).await;
    result
}

/// Calls with the inode of a path's folder, and the name in it.
async fn within<T>(
    fs: &Fs,
    path: &str,
    call: impl AsyncFnOnce(u64, &[u8]) -> Result<T, FsError>,
) -> Result<T, FsError> {
    let name = path.rsplit('/').next().unwrap_or(path).as_bytes();
    with(fs, parent(path), async |folder| call(folder, name).await).await
}
