//! What a client does with names, attributes and holes.

use stripewise_format::rafs::inode::FileType;
use stripewise_rafs::fs::{Attr, FsError, SetAttribute};

use super::{
    client::{BYTES_MAX, Client, Done, new},
    model::{ATTRIBUTE, Folder},
};

/// Values of attributes have so many bytes at most.
const VALUE_MAX: u64 = 600;

impl Client {
    /// Gives a file one more name.
    pub(super) async fn link(&self, folder: u64, name: &str, file: u64) -> Done {
        let to = self.any_name();
        if !self.enter(&to, |_| file) {
            return Ok(());
        }
        let linked = self.with(folder, name, async |inode| self.fs.link(inode, folder, to.as_bytes()).await);
        let linked = linked.await;
        self.forget_new(&linked).await;
        self.told(linked, Folder::names_stay)
    }

    /// Makes a symbolic link.
    pub(super) async fn symlink(&self, folder: u64) -> Done {
        let (name, target) = (self.any_name(), self.any_name());
        if !self.enter(&name, |model| model.new_symlink(target.clone().into_bytes())) {
            return Ok(());
        }
        let new = new(FileType::Link);
        let made = self.fs.symlink(folder, name.as_bytes(), target.as_bytes(), new).await;
        self.forget_new(&made).await;
        self.told(made, Folder::names_stay)
    }

    /// The model has a new name, unless it is taken: then this is false.
    fn enter(&self, name: &str, file: impl FnOnce(&mut Folder) -> u64) -> bool {
        let mut model = self.folder.lock();
        let mut names = model.names().cloned().unwrap_or_default();
        let is_free = !names.contains_key(name);
        if is_free {
            names.insert(name.to_owned(), file(&mut model));
            model.become_named(names);
        }
        is_free
    }

    async fn forget_new(&self, made: &Result<Attr, FsError>) {
        if let Ok(Attr { inode, .. }) = made {
            self.fs.forget(*inode, 1).await;
        }
    }

    /// Gives a file its extended attribute, or takes it away.
    pub(super) async fn set_attribute(&self, folder: u64, name: &str, file: u64) -> Done {
        let goes = self.folder.lock().has_value(file) && self.random(3) == 0;
        let value = vec![self.random(256) as u8; self.random(VALUE_MAX) as usize];
        let value = (!goes).then_some(value);
        self.folder.lock().become_attributed(file, |is| is.value.clone_from(&value));
        let set = async |inode| match &value {
            Some(value) => self.fs.set_attribute(inode, ATTRIBUTE, value, SetAttribute::Either).await,
            None => self.fs.remove_attribute(inode, ATTRIBUTE).await,
        };
        let done = self.with(folder, name, set).await;
        self.told(done, |model| model.attributes_stay(file))
    }

    /// Makes a hole in a file, which is as long as before.
    pub(super) async fn punch(&self, folder: u64, name: &str, file: u64) -> Done {
        let mut bytes = self.folder.lock().bytes(file).to_vec();
        let start = self.random(bytes.len() as u64 + 1);
        let end = start + 1 + self.random(BYTES_MAX);
        let hole = start as usize..bytes.len().min(end as usize);
        bytes[hole.clone()].fill(0);
        self.folder.lock().become_bytes(file, bytes, hole);
        let done = self.with(folder, name, async |inode| self.fs.punch(inode, start..end).await).await;
        self.told(done, |model| model.bytes_stay(file))
    }
}
