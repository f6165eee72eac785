//! Entries of folders in the tree: each is there twice, by the hash of its name and by its number.

use stripewise_format::rafs::{
    inode::FileType,
    key::{Key, KeyKind},
    names::{Entry, is_name, name_hash},
    value::ValueError,
};

use super::{FolderEntry, FsError, state::State};
use crate::{
    mutants::{Mutant, lives},
    tree::Scan,
};

/// What a folder's entries are numbered from on: lower numbers are left for `.` and `..`.
pub(crate) const FIRST_NUMBER: u64 = 3;

impl State {
    /// The entry of this name.
    pub(super) async fn find(&self, folder: u64, name: &[u8]) -> Result<Option<Entry>, FsError> {
        let entries = self.entries_of_hash(folder, self.name_key(folder, name)).await?;
        Ok(entries.into_iter().find(|entry| entry.name == name))
    }

    /// The entry of this name.
    ///
    /// # Errors
    /// [`FsError::NotFound`], if there is none.
    pub(super) async fn found(&self, folder: u64, name: &[u8]) -> Result<Entry, FsError> {
        self.find(folder, name).await?.ok_or(FsError::NotFound)
    }

    /// Looks at whether a folder may get an entry of this name.
    pub(super) async fn check_new(&self, folder: u64, name: &[u8]) -> Result<(), FsError> {
        check_name(name)?;
        let mut entries = self.entries_of_hash(folder, self.name_key(folder, name)).await?;
        if entries.iter().any(|entry| entry.name == name) {
            return Err(FsError::Exists);
        }
        entries.push(Entry { inode: 1, number: 0, file_type: FileType::File, name: name.to_vec() });
        Entry::encode(&entries).map(|_| ()).ok_or(FsError::Collisions)
    }

    /// Adds an entry, whose name was looked at, to a folder that is in memory.
    pub(super) async fn add_entry(
        &mut self,
        folder: u64,
        name: &[u8],
        inode: u64,
        file_type: FileType,
    ) -> Result<(), FsError> {
        let of_folder = self.touch(folder)?;
        let number = of_folder.next_number;
        of_folder.next_number += 1;
        of_folder.size_bytes += 1;
        let key = self.name_key(folder, name);
        let entry = Entry { inode, number, file_type, name: name.to_vec() };
        let mut entries = self.entries_of_hash(folder, key).await?;
        entries.push(entry.clone());
        self.put_entries(key, &entries).await?;
        self.put_entries(number_key(folder, number), &[entry]).await
    }

    /// An entry of a folder leads to another inode. It keeps its name and its number.
    pub(super) async fn redirect_entry(
        &mut self,
        folder: u64,
        entry: &Entry,
        inode: u64,
        file_type: FileType,
    ) -> Result<(), FsError> {
        let key = self.name_key(folder, &entry.name);
        let entry = Entry { inode, file_type, ..entry.clone() };
        let mut entries = self.entries_of_hash(folder, key).await?;
        entries.retain(|other| other.number != entry.number);
        entries.push(entry.clone());
        self.put_entries(key, &entries).await?;
        self.put_entries(number_key(folder, entry.number), &[entry]).await
    }

    /// Takes an entry from a folder that is in memory.
    pub(super) async fn remove_entry(&mut self, folder: u64, entry: &Entry) -> Result<(), FsError> {
        let of_folder = self.touch(folder)?;
        of_folder.size_bytes = of_folder.size_bytes.saturating_sub(1);
        let key = self.name_key(folder, &entry.name);
        let mut entries = self.entries_of_hash(folder, key).await?;
        entries.retain(|other| other.number != entry.number);
        if entries.is_empty() {
            self.store.remove(key).await?;
        } else {
            self.put_entries(key, &entries).await?;
        }
        if !lives(Mutant::OldNumberStays) {
            self.store.remove(number_key(folder, entry.number)).await?;
        }
        Ok(())
    }

    /// Some entries of a folder, behind this number. None: there are no more.
    pub(super) async fn entries(
        &self,
        folder: u64,
        behind: u64,
        max: usize,
    ) -> Result<Vec<FolderEntry>, FsError> {
        let mut scan =
            Scan::over(number_key(folder, behind.saturating_add(1))..=number_key(folder, u64::MAX));
        let mut all = Vec::new();
        while all.len() < max {
            let Some(items) = scan.batch(self.store.tree()).await? else { break };
            for item in items {
                let entries = decode(folder, &item.value)?;
                // A listing goes on behind the last number that it was told.
                if let Some(entry) = entries.iter().find(|entry| entry.number != item.key.offset) {
                    let error = ValueError::Nonsense { field: "number of an entry", found: entry.number };
                    return Err(FsError::Item { inode: folder, error });
                }
                all.extend(entries.into_iter().map(|Entry { inode, number, file_type, name }| FolderEntry {
                    inode,
                    number,
                    file_type,
                    name,
                }));
            }
        }
        all.truncate(max);
        Ok(all)
    }

    fn name_key(&self, folder: u64, name: &[u8]) -> Key {
        Key::new(folder, KeyKind::Name, name_hash(name, self.store.superblock().hash_seed))
    }

    async fn entries_of_hash(&self, folder: u64, key: Key) -> Result<Vec<Entry>, FsError> {
        match self.store.tree().get(key).await? {
            Some(value) => decode(folder, &value),
            None => Ok(Vec::new()),
        }
    }

    async fn put_entries(&mut self, key: Key, entries: &[Entry]) -> Result<(), FsError> {
        let value = Entry::encode(entries).ok_or(FsError::Collisions)?;
        self.store.put(key, value.into()).await?;
        Ok(())
    }
}

/// The key of an entry by its number.
pub(super) fn number_key(folder: u64, number: u64) -> Key {
    Key::new(folder, KeyKind::Number, number)
}

/// Whether bytes may be the name of a new entry.
pub(super) fn check_name(name: &[u8]) -> Result<(), FsError> {
    match name {
        b"." | b".." => Err(FsError::Exists),
        _ if is_name(name) => Ok(()),
        _ => Err(FsError::Name),
    }
}

fn decode(folder: u64, value: &[u8]) -> Result<Vec<Entry>, FsError> {
    Entry::decode(value).map_err(|error| FsError::Item { inode: folder, error })
}
