//! A client: it works in a folder of its own, one operation after the other, and looks at what it reads.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use stripewise_device::{EnvHandle, IoBuf};
use stripewise_format::rafs::inode::FileType;
use stripewise_rafs::fs::{Attr, Fs, FsError, NewInode, ROOT, Rename, SetAttr};

use super::model::Folder;

/// Files that a client has at most.
const FILES_MAX: usize = 8;
/// Where writes begin at most, and how long they are.
const BYTES_MAX: u64 = 70_000;

/// A client.
pub(super) struct Client {
    env: EnvHandle,
    fs: Fs,
    folder: Arc<Mutex<Folder>>,
}

type Done = Result<(), String>;

impl Client {
    pub(super) fn new(env: EnvHandle, fs: Fs, folder: Arc<Mutex<Folder>>) -> Self {
        Self { env, fs, folder }
    }

    /// Works until power fails.
    pub(super) async fn work(&self) -> Done {
        let folder = self.own_folder().await?;
        loop {
            self.act(folder).await?;
            if self.random(8) == 0 {
                self.env.sleep(Duration::from_millis(self.random(3000))).await;
            }
        }
    }

    fn random(&self, below: u64) -> u64 {
        self.env.random_u64() % below
    }

    /// The client's folder, made if it is not there.
    async fn own_folder(&self) -> Result<u64, String> {
        let name = self.folder.lock().name.clone();
        if self.folder.lock().names().is_none() {
            self.folder.lock().become_named(BTreeMap::new());
            let made = self.fs.create(ROOT, name.as_bytes(), new(FileType::Folder)).await;
            return made.map(|attr| attr.inode).map_err(|error| format!("a folder: {error}"));
        }
        let found = self.fs.lookup(ROOT, name.as_bytes()).await;
        found.map(|attr| attr.inode).map_err(|error| format!("{name}: {error}"))
    }

    async fn act(&self, folder: u64) -> Done {
        let file = self.some_file();
        match (self.random(20), file) {
            (0..2, _) => self.create(folder).await,
            (2..9, Some(file)) => self.write(folder, file).await,
            (9, Some(file)) => self.truncate(folder, file).await,
            (10, Some(file)) => self.unlink(folder, file).await,
            (11..13, Some(file)) => self.rename(folder, file).await,
            (13..15, Some(file)) => self.read(folder, file).await,
            (15..19, Some(file)) => self.fsync(folder, file).await,
            (19, _) => self.sync().await,
            _ => self.create(folder).await,
        }
    }

    /// One of the client's files: its name and its number in the model.
    fn some_file(&self) -> Option<(String, u64)> {
        let folder = self.folder.lock();
        let names = folder.names()?;
        let at = self.env.random_u64() as usize % names.len().max(1);
        names.iter().nth(at).map(|(name, file)| (name.clone(), *file))
    }

    async fn create(&self, folder: u64) -> Done {
        let name = format!("file {}", self.random(FILES_MAX as u64));
        {
            let mut model = self.folder.lock();
            let mut names = model.names().cloned().unwrap_or_default();
            if names.contains_key(&name) {
                return Ok(());
            }
            let file = model.new_file();
            names.insert(name.clone(), file);
            model.become_named(names);
        }
        let made = self.fs.create(folder, name.as_bytes(), new(FileType::File)).await;
        if let Ok(Attr { inode, .. }) = made {
            self.fs.forget(inode, 1).await;
        }
        self.told(made, |model| model.names_stay())
    }

    /// The result of a change. If there was no space, the model takes it back.
    fn told<T>(&self, result: Result<T, FsError>, undo: impl FnOnce(&mut Folder)) -> Done {
        match result {
            Ok(_) => Ok(()),
            Err(FsError::NoSpace) => {
                undo(&mut self.folder.lock());
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Looks a file up, and calls with its inode.
    async fn with<T>(
        &self,
        folder: u64,
        name: &str,
        call: impl AsyncFnOnce(u64) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        let inode = self.fs.lookup(folder, name.as_bytes()).await?.inode;
        let result = call(inode).await;
        self.fs.forget(inode, 1).await;
        result
    }

    async fn write(&self, folder: u64, (name, file): (String, u64)) -> Done {
        let offset = if self.random(2) == 0 { 0 } else { self.random(BYTES_MAX) };
        let len = 1 + self.random(if self.random(2) == 0 { 3000 } else { BYTES_MAX }) as usize;
        let fill = self.random(255) as u8;
        let data: Vec<u8> = (0..len).map(|at| fill.wrapping_add((at / 512) as u8) | 1).collect();
        let start = offset as usize;
        {
            let mut model = self.folder.lock();
            let mut bytes = model.bytes(file).to_vec();
            bytes.resize(bytes.len().max(start + len), 0);
            bytes[start..start + len].copy_from_slice(&data);
            model.become_bytes(file, bytes);
        }
        let data = IoBuf::copy_of(&data).freeze();
        let written = self.with(folder, &name, async |inode| self.fs.write(inode, offset, data).await).await;
        match written {
            Ok(count) if count < len => {
                let mut model = self.folder.lock();
                let whole = model.bytes(file).to_vec();
                model.bytes_stay(file);
                let mut bytes = model.bytes(file).to_vec();
                bytes.resize(bytes.len().max(start + count), 0);
                bytes[start..start + count].copy_from_slice(&whole[start..start + count]);
                model.become_bytes(file, bytes);
                Ok(())
            }
            written => self.told(written, |model| model.bytes_stay(file)),
        }
    }

    async fn truncate(&self, folder: u64, (name, file): (String, u64)) -> Done {
        let size_bytes = self.random(BYTES_MAX);
        {
            let mut model = self.folder.lock();
            let mut bytes = model.bytes(file).to_vec();
            bytes.resize(size_bytes as usize, 0);
            model.become_bytes(file, bytes);
        }
        let set = SetAttr { size_bytes: Some(size_bytes), ..SetAttr::default() };
        let done = self.with(folder, &name, async |inode| self.fs.set_attr(inode, set).await).await;
        self.told(done, |model| model.bytes_stay(file))
    }

    async fn unlink(&self, folder: u64, (name, _): (String, u64)) -> Done {
        {
            let mut model = self.folder.lock();
            let mut names = model.names().cloned().unwrap_or_default();
            names.remove(&name);
            model.become_named(names);
        }
        let done = self.fs.unlink(folder, name.as_bytes()).await;
        self.told(done, Folder::names_stay)
    }

    async fn rename(&self, folder: u64, (name, file): (String, u64)) -> Done {
        let to = format!("file {}", self.random(FILES_MAX as u64));
        {
            let mut model = self.folder.lock();
            let mut names = model.names().cloned().unwrap_or_default();
            names.remove(&name);
            names.insert(to.clone(), file);
            model.become_named(names);
        }
        let (from, to) = ((folder, name.as_bytes()), (folder, to.as_bytes()));
        let done = self.fs.rename(from, to, Rename::Replace).await;
        self.told(done, Folder::names_stay)
    }

    async fn read(&self, folder: u64, (name, file): (String, u64)) -> Done {
        let read = self.with(folder, &name, async |inode| self.fs.read(inode, 0, 1 << 20).await).await;
        let read = read.map_err(|error| format!("{name}: {error}"))?;
        let folder = self.folder.lock();
        let wanted = folder.bytes(file);
        if read[..] == *wanted {
            return Ok(());
        }
        let at = read.iter().zip(wanted).position(|(one, other)| one != other);
        let at = at.unwrap_or(read.len().min(wanted.len()));
        let (found, told) = (read.get(at..).unwrap_or_default(), wanted.get(at..).unwrap_or_default());
        let shown = |bytes: &[u8]| format!("{:?}", &bytes[..bytes.len().min(4)]);
        Err(format!(
            "{name}: a read of {} bytes gives {} at {at}, and {} of {} were written",
            read.len(),
            shown(found),
            shown(told),
            wanted.len()
        ))
    }

    async fn fsync(&self, folder: u64, (name, file): (String, u64)) -> Done {
        let synced = self.with(folder, &name, async |inode| self.fs.fsync(inode).await).await;
        synced.map_err(|error| format!("fsync of {name}: {error}"))?;
        self.folder.lock().synced(Some(file));
        Ok(())
    }

    async fn sync(&self) -> Done {
        self.fs.sync().await.map_err(|error| format!("sync: {error}"))?;
        self.folder.lock().synced(None);
        Ok(())
    }
}

fn new(file_type: FileType) -> NewInode {
    NewInode { file_type, permissions: 0o644, uid: 0, gid: 0, device: 0 }
}

/// Looks at a client's folder after a mount. If a member was lost in the crash, files that are overwritten where they lie may be
/// anything.
pub(super) async fn look(fs: &Fs, folder: &Mutex<Folder>, is_member_lost: bool) -> Done {
    let name = folder.lock().name.clone();
    let found = match fs.lookup(ROOT, name.as_bytes()).await {
        Ok(attr) => Some(contents(fs, attr.inode).await.map_err(|error| format!("{name}: {error}"))?),
        Err(FsError::NotFound) => None,
        Err(error) => return Err(format!("{name}: {error}")),
    };
    folder.lock().look(found.as_ref(), is_member_lost)
}

async fn contents(fs: &Fs, folder: u64) -> Result<BTreeMap<String, Vec<u8>>, FsError> {
    let mut all = BTreeMap::new();
    for entry in fs.read_folder(folder, 0, 1000).await? {
        let bytes = fs.read(entry.inode, 0, 1 << 20).await?;
        all.insert(String::from_utf8_lossy(&entry.name).into_owned(), bytes.to_vec());
    }
    fs.forget(folder, 1).await;
    Ok(all)
}
