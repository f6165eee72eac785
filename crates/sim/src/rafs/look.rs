//! A look at a client's folder after a mount.

use parking_lot::Mutex;
use stripewise_format::rafs::inode::FileType;
use stripewise_rafs::fs::{Fs, FsError, JournalMode, ROOT};

use super::model::{ATTRIBUTE, BLOCK, Content, Files, Folder, Forgiven};

/// Looks at a client's folder after a mount, with what the crash may have left: some blocks may be anything, and if blocks may have
/// trailed, what was not synced may be unreadable, and is removed.
pub(super) async fn look(
    fs: &Fs,
    folder: &Mutex<Folder>,
    journal: JournalMode,
    forgiven: Forgiven,
) -> Result<(), String> {
    let name = folder.lock().name.clone();
    let may_trail = journal == JournalMode::Writeback;
    let attr = match fs.lookup(ROOT, name.as_bytes()).await {
        Ok(attr) => attr,
        Err(FsError::NotFound) => return folder.lock().look(None, journal, forgiven),
        Err(error) => return Err(format!("{name}: {error}")),
    };
    let found = contents(fs, attr.inode, may_trail).await.map_err(|error| format!("{name}: {error}"))?;
    folder.lock().look(Some(&found), journal, forgiven)?;
    let unreadable: Vec<&String> =
        found.iter().filter(|(_, content)| !content.damaged.is_empty()).map(|(name, _)| name).collect();
    if unreadable.is_empty() {
        return Ok(());
    }
    for file in unreadable {
        fs.unlink(attr.inode, file.as_bytes()).await.map_err(|error| format!("{name}/{file}: {error}"))?;
        let mut model = folder.lock();
        let mut names = model.names().cloned().unwrap_or_default();
        names.remove(file);
        model.become_named(names);
    }
    fs.sync().await.map_err(|error| format!("sync: {error}"))?;
    folder.lock().synced(None);
    Ok(())
}

/// What is in a folder. Blocks of files that cannot be read are noted, if that may be.
async fn contents(fs: &Fs, folder: u64, may_trail: bool) -> Result<Files, FsError> {
    let mut all = Files::new();
    for entry in fs.read_folder(folder, 0, 1000).await? {
        let attr = fs.attr(entry.inode).await?;
        let mut content = match attr.file_type {
            FileType::Link => {
                Content { target: Some(fs.read_link(entry.inode).await?), ..Content::default() }
            }
            _ => bytes(fs, entry.inode, may_trail).await?,
        };
        (content.inode, content.is.mode) = (entry.inode, attr.is.mode & PERMISSIONS);
        content.is.value = match fs.attribute(entry.inode, ATTRIBUTE).await {
            Ok(value) => Some(value),
            Err(FsError::NoAttribute) => None,
            Err(error) => return Err(error),
        };
        all.insert(String::from_utf8_lossy(&entry.name).into_owned(), content);
    }
    fs.forget(folder, 1).await;
    Ok(all)
}

async fn bytes(fs: &Fs, inode: u64, may_trail: bool) -> Result<Content, FsError> {
    match fs.read(inode, 0, 1 << 20).await {
        Ok(bytes) => Ok(Content { bytes: bytes.to_vec(), ..Content::default() }),
        Err(FsError::Damaged { .. }) if may_trail => by_blocks(fs, inode).await,
        Err(error) => Err(error),
    }
}

/// The part of a mode that is no type.
const PERMISSIONS: u32 = 0o7777;

/// Reads a file of which some blocks cannot be read.
async fn by_blocks(fs: &Fs, inode: u64) -> Result<Content, FsError> {
    let mut content = Content::default();
    for block in 0.. {
        match fs.read(inode, (block * BLOCK) as u64, BLOCK).await {
            Ok(bytes) if bytes.is_empty() => break,
            Ok(bytes) => content.bytes.extend_from_slice(&bytes),
            Err(FsError::Damaged { .. }) => {
                content.damaged.insert(block);
                content.bytes.resize((block + 1) * BLOCK, 0);
            }
            Err(error) => return Err(error),
        }
    }
    let len = fs.attr(inode).await?.is.size_bytes as usize;
    content.bytes.truncate(len);
    Ok(content)
}
