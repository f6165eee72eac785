//! A look at a client's folder after a mount.

use parking_lot::Mutex;
use stripewise_rafs::fs::{Fs, FsError, JournalMode, ROOT};

use super::model::{Files, Folder};

/// Looks at a client's folder after a mount, with what the last one may have left: if a member was lost in the crash, files that are
/// overwritten where they lie may be anything; if blocks may have trailed, what was not synced may be unreadable, and is removed.
pub(super) async fn look(
    fs: &Fs,
    folder: &Mutex<Folder>,
    journal: JournalMode,
    is_member_lost: bool,
) -> Result<(), String> {
    let name = folder.lock().name.clone();
    let may_trail = journal == JournalMode::Writeback;
    let attr = match fs.lookup(ROOT, name.as_bytes()).await {
        Ok(attr) => attr,
        Err(FsError::NotFound) => return folder.lock().look(None, journal, is_member_lost),
        Err(error) => return Err(format!("{name}: {error}")),
    };
    let found = contents(fs, attr.inode, may_trail).await.map_err(|error| format!("{name}: {error}"))?;
    folder.lock().look(Some(&found), journal, is_member_lost)?;
    let unreadable: Vec<&String> =
        found.iter().filter(|(_, bytes)| bytes.is_none()).map(|(name, _)| name).collect();
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

/// What is in a folder. Files that cannot be read have no content, if that may be.
async fn contents(fs: &Fs, folder: u64, may_trail: bool) -> Result<Files, FsError> {
    let mut all = Files::new();
    for entry in fs.read_folder(folder, 0, 1000).await? {
        let bytes = match fs.read(entry.inode, 0, 1 << 20).await {
            Ok(bytes) => Some(bytes.to_vec()),
            Err(FsError::Damaged { .. }) if may_trail => None,
            Err(error) => return Err(error),
        };
        all.insert(String::from_utf8_lossy(&entry.name).into_owned(), bytes);
    }
    fs.forget(folder, 1).await;
    Ok(all)
}
