//! A client: it works in a folder of its own, one operation after the other, and looks at what it reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join;
use parking_lot::Mutex;
use stripewise_device::{EnvHandle, IoBuf};
use stripewise_format::rafs::inode::FileType;
use stripewise_rafs::{
    fs::{Attr, Fs, FsError, NewInode, ROOT, Rename, SetAttr},
    journal::CommitError,
    store::StoreError,
};

use super::{
    Log,
    act::Act,
    ground::STRIPE_BYTES,
    model::{FIRST_MODE, Folder, SECTOR, judge},
    watched::{Fault, Watched},
};

/// Files that a client has at most.
const FILES_MAX: usize = 8;
/// Where writes begin at most, and how long they are.
pub(super) const BYTES_MAX: u64 = 90_000;
/// Rests of clients that do not do what was drawn.
const SHORT_REST: Duration = Duration::from_millis(1);

/// A client.
pub(super) struct Client {
    env: EnvHandle,
    pub(super) fs: Fs,
    pub(super) folder: Arc<Mutex<Folder>>,
    doings: Doings,
}

/// What clients and the operator share.
#[derive(Clone)]
pub(super) struct Doings {
    pub(super) without: BTreeSet<Act>,
    pub(super) log: Log,
    pub(super) volume: Arc<Watched>,
    /// Clients end what they do, and do no more.
    pub(super) leave: Arc<AtomicBool>,
    /// The operator has failed a member.
    pub(super) member_failed: Arc<AtomicBool>,
}

pub(super) type Done = Result<(), String>;

impl Client {
    pub(super) fn new(env: EnvHandle, fs: Fs, folder: Arc<Mutex<Folder>>, doings: Doings) -> Self {
        Self { env, fs, folder, doings }
    }

    /// Works until power fails, or until it is to leave.
    pub(super) async fn work(&self) -> Done {
        let Some(folder) = self.own_folder().await? else { return Ok(()) };
        while !self.doings.leave.load(Ordering::Relaxed) {
            self.act(folder).await?;
            if self.random(8) == 0 {
                let rest = Duration::from_millis(self.random(3000));
                self.env
                    .sleep(if self.doings.without.contains(&Act::Rest) { SHORT_REST } else { rest })
                    .await;
            }
        }
        Ok(())
    }

    pub(super) fn random(&self, below: u64) -> u64 {
        self.env.random_u64() % below
    }

    /// The client's folder, made if it is not there; none if there is no space for it.
    async fn own_folder(&self) -> Result<Option<u64>, String> {
        let name = self.folder.lock().name.clone();
        if self.folder.lock().names().is_some() {
            let found = self.fs.lookup(ROOT, name.as_bytes()).await;
            return found.map(|attr| Some(attr.inode)).map_err(|error| format!("{name}: {error}"));
        }
        self.folder.lock().become_named(BTreeMap::new());
        let made = self.fs.create(ROOT, name.as_bytes(), new(FileType::Folder)).await;
        self.told(made, Folder::names_stay)?;
        Ok(made.ok().map(|attr| attr.inode))
    }

    async fn act(&self, folder: u64) -> Done {
        let act = Act::drawn(self.random(Act::DRAWN));
        let file = self.some_name(matches!(act, Act::Unlink | Act::Rename));
        if self.doings.without.contains(&act) {
            self.env.sleep(SHORT_REST).await;
            return Ok(());
        }
        let done = match (act, &file) {
            (Act::Write, Some((name, file))) => self.write(folder, name, *file).await,
            (Act::Truncate, Some((name, file))) => self.truncate(folder, name, *file).await,
            (Act::SetMode, Some((name, file))) => self.set_mode(folder, name, *file).await,
            (Act::SetAttribute, Some((name, file))) => self.set_attribute(folder, name, *file).await,
            (Act::Punch, Some((name, file))) => self.punch(folder, name, *file).await,
            (Act::Link, Some((name, file))) => self.link(folder, name, *file).await,
            (Act::Symlink, _) => self.symlink(folder).await,
            (Act::Unlink, Some((name, _))) => self.unlink(folder, name).await,
            (Act::Rename, Some((name, file))) => self.rename(folder, name, *file).await,
            (Act::Read, Some((name, file))) => self.read(folder, name, *file).await,
            (Act::Fsync, Some((name, file))) => self.fsync(folder, name, *file).await,
            (Act::Sync, _) => self.sync().await,
            (Act::SyncBeside, Some((name, file))) => self.sync_beside(folder, name, *file).await,
            (Act::ReadBeside, Some((name, file))) => self.read_beside(folder, name, *file).await,
            (Act::UseRemoved, Some((name, file))) => self.use_removed(folder, name, *file).await,
            (Act::Fault, _) => self.fault().await,
            _ => self.create(folder).await,
        };
        self.note(act, file.as_ref(), &done);
        done
    }

    fn note(&self, act: Act, file: Option<&(String, u64)>, done: &Done) {
        self.doings.log.note(|| {
            let folder = self.folder.lock();
            let of = file.map(|(name, file)| format!(" {name} ({} bytes)", folder.bytes(*file).len()));
            let failed = done.as_ref().err().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{:?} {}: {act}{}{failed}", self.env.now(), folder.name, of.unwrap_or_default())
        });
    }

    /// The name of one of the client's files, and its number in the model; perhaps it is a symbolic link.
    fn some_name(&self, may_be_symlink: bool) -> Option<(String, u64)> {
        let folder = self.folder.lock();
        let is_wanted = |file: u64| may_be_symlink || folder.target(file).is_none();
        let names: Vec<_> = folder.names()?.iter().filter(|(_, file)| is_wanted(**file)).collect();
        let at = self.env.random_u64() as usize % names.len().max(1);
        names.get(at).map(|(name, file)| ((*name).clone(), **file))
    }

    /// A name that is free, or perhaps is not.
    pub(super) fn any_name(&self) -> String {
        format!("file {}", self.random(FILES_MAX as u64))
    }

    async fn create(&self, folder: u64) -> Done {
        let name = self.any_name();
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
    pub(super) fn told<T>(&self, result: Result<T, FsError>, undo: impl FnOnce(&mut Folder)) -> Done {
        match result {
            Ok(_) => Ok(()),
            Err(error) if error == FsError::NoSpace || self.is_excused(error) => {
                undo(&mut self.folder.lock());
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Whether an error is what comes of a fault of the volume.
    fn is_excused(&self, error: FsError) -> bool {
        let is_of_volume = matches!(
            error,
            FsError::Io(_) | FsError::Broken | FsError::Store(StoreError::Commit(CommitError::Io(_)))
        );
        is_of_volume && self.doings.volume.has_failed()
    }

    /// The result of what makes durable. Returns whether it did.
    fn is_durable(&self, synced: Result<(), FsError>, what: &str) -> Result<bool, String> {
        match synced {
            Ok(()) => Ok(true),
            Err(error) if self.is_excused(error) => Ok(false),
            Err(error) => Err(format!("{what}: {error}")),
        }
    }

    /// Looks a file up, and calls with its inode.
    pub(super) async fn with<T>(
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

    async fn write(&self, folder: u64, name: &str, file: u64) -> Done {
        let offset = if self.random(2) == 0 { 0 } else { self.random(BYTES_MAX) };
        let (offset, len) = match self.random(5) {
            0..2 => (offset, 1 + self.random(3000) as usize),
            2..4 => (offset, 1 + self.random(BYTES_MAX) as usize),
            _ => (self.random(2) * STRIPE_BYTES as u64, STRIPE_BYTES),
        };
        let fill = self.random(255) as u8;
        let data: Vec<u8> = (0..len).map(|at| fill.wrapping_add((at / 512) as u8) | 1).collect();
        let start = offset as usize;
        {
            let mut model = self.folder.lock();
            let mut bytes = model.bytes(file).to_vec();
            bytes.resize(bytes.len().max(start + len), 0);
            bytes[start..start + len].copy_from_slice(&data);
            model.become_bytes(file, bytes, start..start + len);
        }
        let data = IoBuf::copy_of(&data).freeze();
        let written = self.with(folder, name, async |inode| self.fs.write(inode, offset, data).await).await;
        match written {
            Ok(count) if count < len => {
                let mut model = self.folder.lock();
                let whole = model.bytes(file).to_vec();
                model.bytes_stay(file);
                let mut bytes = model.bytes(file).to_vec();
                bytes.resize(bytes.len().max(start + count), 0);
                bytes[start..start + count].copy_from_slice(&whole[start..start + count]);
                model.become_bytes(file, bytes, start..start + count);
                Ok(())
            }
            written => self.told(written, |model| model.bytes_stay(file)),
        }
    }

    async fn truncate(&self, folder: u64, name: &str, file: u64) -> Done {
        let size_bytes = self.random(BYTES_MAX);
        {
            let mut model = self.folder.lock();
            let mut bytes = model.bytes(file).to_vec();
            let (old, new) = (bytes.len(), size_bytes as usize);
            bytes.resize(new, 0);
            model.become_bytes(file, bytes, old.min(new)..old.max(new));
        }
        let set = SetAttr { size_bytes: Some(size_bytes), ..SetAttr::default() };
        let done = self.with(folder, name, async |inode| self.fs.set_attr(inode, set).await).await;
        self.told(done, |model| model.bytes_stay(file))?;
        // What is written behind a new end is close to what lay there.
        if self.random(2) == 0 { self.write(folder, name, file).await } else { Ok(()) }
    }

    async fn set_mode(&self, folder: u64, name: &str, file: u64) -> Done {
        let mode = self.random(0o1000) as u32;
        self.folder.lock().become_attributed(file, |is| is.mode = mode);
        let set = SetAttr { permissions: Some(mode), ..SetAttr::default() };
        let done = self.with(folder, name, async |inode| self.fs.set_attr(inode, set).await).await;
        self.told(done, |model| model.attributes_stay(file))
    }

    async fn unlink(&self, folder: u64, name: &str) -> Done {
        {
            let mut model = self.folder.lock();
            let mut names = model.names().cloned().unwrap_or_default();
            names.remove(name);
            model.become_named(names);
        }
        let done = self.fs.unlink(folder, name.as_bytes()).await;
        self.told(done, Folder::names_stay)
    }

    async fn rename(&self, folder: u64, name: &str, file: u64) -> Done {
        let to = self.any_name();
        {
            let mut model = self.folder.lock();
            let mut names = model.names().cloned().unwrap_or_default();
            // A rename over another name of the same file does nothing.
            if names.get(&to) != Some(&file) {
                names.remove(name);
            }
            match names.insert(to.clone(), file) {
                Some(old) if old != file => model.become_replaced(names, file),
                _ => model.become_named(names),
            }
        }
        let (from, to) = ((folder, name.as_bytes()), (folder, to.as_bytes()));
        let done = self.fs.rename(from, to, Rename::Replace).await;
        self.told(done, Folder::names_stay)
    }

    async fn read(&self, folder: u64, name: &str, file: u64) -> Done {
        let read = self.with(folder, name, async |inode| self.fs.read(inode, 0, 1 << 20).await).await;
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

    async fn fsync(&self, folder: u64, name: &str, file: u64) -> Done {
        let synced = self.with(folder, name, async |inode| self.fs.fsync(inode).await).await;
        if self.is_durable(synced, &format!("fsync of {name}"))? {
            self.folder.lock().synced(Some(file));
        }
        Ok(())
    }

    async fn sync(&self) -> Done {
        if self.is_durable(self.fs.sync().await, "sync")? {
            self.folder.lock().synced(None);
        }
        Ok(())
    }

    /// What was there before it began is durable when it ends.
    async fn sync_beside(&self, folder: u64, name: &str, file: u64) -> Done {
        let marks = self.folder.lock().marks();
        let writes = async {
            for _ in 0..1 + self.random(4) {
                self.write(folder, name, file).await?;
            }
            Ok::<_, String>(())
        };
        let (synced, written) = join(self.fs.sync(), writes).await;
        written?;
        if self.is_durable(synced, "sync")? {
            self.folder.lock().synced_until(&marks);
        }
        Ok(())
    }

    /// Each part of what is read is what it was before the write, or is after it.
    async fn read_beside(&self, folder: u64, name: &str, file: u64) -> Done {
        let before = self.folder.lock().bytes(file).to_vec();
        let read = self.with(folder, name, async |inode| self.fs.read(inode, 0, 1 << 20).await);
        let (read, written) = join(read, self.write(folder, name, file)).await;
        written?;
        let read = read.map_err(|error| format!("{name}: {error}"))?;
        let after = self.folder.lock().bytes(file).to_vec();
        judge(&[before, after], &read, SECTOR).map_err(|what| format!("{name}, read beside a write: {what}"))
    }

    /// A file whose name is gone has its bytes for as long as it is used.
    async fn use_removed(&self, folder: u64, name: &str, file: u64) -> Done {
        let found = self.fs.lookup(folder, name.as_bytes()).await;
        let inode = found.map_err(|error| format!("{name}: {error}"))?.inode;
        let wanted = self.folder.lock().bytes(file).to_vec();
        self.unlink(folder, name).await?;
        self.env.sleep(Duration::from_millis(self.random(2000))).await;
        let read =
            self.fs.read(inode, 0, 1 << 20).await.map_err(|error| format!("{name}, removed: {error}"))?;
        self.fs.forget(inode, 1).await;
        judge(&[wanted.clone(), wanted], &read, SECTOR).map_err(|what| format!("{name}, removed: {what}"))
    }

    async fn fault(&self) -> Done {
        self.doings.volume.fail(Fault::ALL[self.random(4) as usize]);
        Ok(())
    }
}

pub(super) fn new(file_type: FileType) -> NewInode {
    NewInode { file_type, permissions: FIRST_MODE, uid: 0, gid: 0, device: 0 }
}
