//! What a file system should be after each operation, and what of it may be there after a crash.

use std::collections::{BTreeMap, BTreeSet};

use stripewise_format::rafs::inode::FileType;

use crate::{
    fs::{FsError, ROOT, Rename},
    shape::BLOCK_BYTES,
};

/// Names: folder and name to what they lead to.
pub(super) type Names = BTreeMap<(u64, Vec<u8>), u64>;

/// What is in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The model. Inodes are known by numbers of its own; the root is [`ROOT`] in both.
pub(super) struct Model {
    names: Names,
    types: BTreeMap<u64, FileType>,
    /// The file system's numbers.
    inodes: BTreeMap<u64, u64>,
    /// What each file was since it was last synced; the last one is what it is.
    versions: BTreeMap<u64, Vec<Vec<u8>>>,
    /// All names and attributes that there were since the last commit.
    past: Vec<(Names, Attributes)>,
    attributes: Attributes,
    count: u64,
    stripe_bytes: usize,
    /// Files that had a stripe of their own once.
    large: BTreeSet<u64>,
}

type Attributes = BTreeMap<u64, BTreeMap<Vec<u8>, Vec<u8>>>;

impl Model {
    pub(super) fn new(stripe_bytes: usize) -> Self {
        Self {
            names: Names::new(),
            types: BTreeMap::from([(ROOT, FileType::Folder)]),
            inodes: BTreeMap::from([(ROOT, ROOT)]),
            versions: BTreeMap::new(),
            past: vec![(Names::new(), Attributes::new())],
            attributes: Attributes::new(),
            count: 1,
            stripe_bytes,
            large: BTreeSet::new(),
        }
    }

    /// One of the files that have a name, and its inode.
    pub(super) fn file(&self, choice: u8) -> Option<(u64, u64)> {
        let is_file = |id: &&u64| self.types[*id] == FileType::File;
        let files: Vec<u64> = self.names.values().filter(is_file).copied().collect();
        let id = *files.get(usize::from(choice) % files.len().max(1))?;
        Some((id, self.inodes[&id]))
    }

    /// One of the folders, its inode, and a name.
    pub(super) fn place(&self, folder: u8, name: u8) -> (u64, u64, Vec<u8>) {
        let is_folder = |id: &u64| self.types[id] == FileType::Folder;
        let mut folders = vec![ROOT];
        folders.extend(self.names.values().copied().filter(is_folder));
        let id = folders[usize::from(folder) % folders.len()];
        (id, self.inodes[&id], vec![b'a' + name % 4; 1 + usize::from(name % 3)])
    }

    pub(super) fn has_inode(&mut self, id: u64, inode: u64) {
        self.inodes.insert(id, inode);
    }

    pub(super) fn bytes(&self, id: u64) -> &Vec<u8> {
        self.versions[&id].last().unwrap()
    }

    pub(super) fn change(&mut self, id: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes(id).clone();
        change(&mut bytes);
        if bytes.len() > self.stripe_bytes - BLOCK_BYTES {
            self.large.insert(id);
        }
        self.versions.get_mut(&id).unwrap().push(bytes);
    }

    pub(super) fn set_attribute(&mut self, id: u64, name: Vec<u8>, value: Vec<u8>) {
        self.attributes.entry(id).or_default().insert(name, value);
        self.past.push((self.names.clone(), self.attributes.clone()));
    }

    pub(super) fn create(
        &mut self,
        folder: u64,
        name: &[u8],
        file_type: FileType,
    ) -> Result<(u64, Names), FsError> {
        let mut names = self.names.clone();
        if names.contains_key(&(folder, name.to_vec())) {
            return Err(FsError::Exists);
        }
        self.count += 1;
        let id = self.count;
        self.types.insert(id, file_type);
        if file_type == FileType::File {
            self.versions.insert(id, vec![Vec::new()]);
        }
        names.insert((folder, name.to_vec()), id);
        Ok((id, names))
    }

    fn found(&self, folder: u64, name: &[u8]) -> Result<u64, FsError> {
        self.names.get(&(folder, name.to_vec())).copied().ok_or(FsError::NotFound)
    }

    fn is_folder(&self, id: u64) -> bool {
        self.types[&id] == FileType::Folder
    }

    fn is_empty(&self, folder: u64) -> bool {
        self.names.keys().all(|(of, _)| *of != folder)
    }

    fn without(&self, folder: u64, name: &[u8]) -> Names {
        let mut names = self.names.clone();
        names.remove(&(folder, name.to_vec()));
        names
    }

    pub(super) fn unlink(&self, folder: u64, name: &[u8]) -> Result<Names, FsError> {
        match self.found(folder, name)? {
            id if self.is_folder(id) => Err(FsError::IsFolder),
            _ => Ok(self.without(folder, name)),
        }
    }

    pub(super) fn remove_folder(&self, folder: u64, name: &[u8]) -> Result<Names, FsError> {
        match self.found(folder, name)? {
            id if !self.is_folder(id) => Err(FsError::NotFolder),
            id if !self.is_empty(id) => Err(FsError::NotEmpty),
            _ => Ok(self.without(folder, name)),
        }
    }

    pub(super) fn link(&self, id: u64, folder: u64, name: &[u8]) -> Result<Names, FsError> {
        if self.found(folder, name).is_ok() {
            return Err(FsError::Exists);
        }
        let mut names = self.names.clone();
        names.insert((folder, name.to_vec()), id);
        Ok(names)
    }

    /// Whether a folder is one, or lies in it.
    fn is_within(&self, folder: u64, outer: u64) -> bool {
        let parent = self.names.iter().find(|(_, id)| **id == folder).map(|((parent, _), _)| *parent);
        folder == outer || parent.is_some_and(|parent| self.is_within(parent, outer))
    }

    pub(super) fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), how: Rename) -> Result<Names, FsError> {
        let inside = FsError::Invalid("inside");
        let moved = self.found(from.0, from.1)?;
        let there = self.found(to.0, to.1).ok();
        if self.is_folder(moved) && self.is_within(to.0, moved) {
            return Err(inside);
        }
        let mut names = self.without(from.0, from.1);
        match (how, there) {
            (Rename::Refuse, Some(_)) => return Err(FsError::Exists),
            (Rename::Exchange, None) => return Err(FsError::NotFound),
            (_, Some(there)) if there == moved => return Ok(self.names.clone()),
            (Rename::Exchange, Some(there)) => {
                if self.is_folder(there) && self.is_within(from.0, there) {
                    return Err(inside);
                }
                names.insert((from.0, from.1.to_vec()), there);
            }
            (_, Some(there)) => match (self.is_folder(moved), self.is_folder(there)) {
                (true, false) => return Err(FsError::NotFolder),
                (false, true) => return Err(FsError::IsFolder),
                (true, true) if !self.is_empty(there) => return Err(FsError::NotEmpty),
                _ => {}
            },
            _ => {}
        }
        names.insert((to.0, to.1.to_vec()), moved);
        Ok(names)
    }

    pub(super) fn accept(&mut self, names: Names) {
        self.names = names;
        self.past.push((self.names.clone(), self.attributes.clone()));
    }

    /// All names are durable, and this file, or all files.
    pub(super) fn synced(&mut self, file: Option<u64>) {
        self.past.drain(..self.past.len() - 1);
        for (id, versions) in &mut self.versions {
            if file.is_none_or(|file| file == *id) {
                versions.drain(..versions.len() - 1);
            }
        }
    }

    /// Looks at what was found after a crash, and goes on from there.
    pub(super) fn look(&mut self, found: &Names, contents: &BTreeMap<u64, Content>) {
        let in_inodes = |names: &Names| -> Names {
            names
                .iter()
                .map(|((folder, name), id)| ((self.inodes[folder], name.clone()), self.inodes[id]))
                .collect()
        };
        let of_file = |attributes: &Attributes, inode: u64| {
            let id = self.inodes.iter().find(|(_, one)| **one == inode).map(|(id, _)| *id);
            id.and_then(|id| attributes.get(&id)).cloned().unwrap_or_default()
        };
        let fits = |(names, attributes): &&(Names, Attributes)| {
            in_inodes(names) == *found
                && contents.iter().all(|(inode, content)| of_file(attributes, *inode) == content.attributes)
        };
        let (names, attributes) = self.past.iter().rev().find(fits).unwrap_or_else(|| {
            let past: Vec<_> = self.past.iter().map(|(names, _)| in_inodes(names)).collect();
            panic!("names or attributes were never these: {found:?}\nonly: {past:?}")
        });
        (self.names, self.attributes) = (names.clone(), attributes.clone());
        self.past = vec![(self.names.clone(), self.attributes.clone())];
        // Others are gone, and their numbers may be given again.
        let known: Vec<u64> = self.names.values().copied().chain([ROOT]).collect();
        self.inodes.retain(|id, _| known.contains(id));
        self.versions.retain(|id, _| known.contains(id));
        for (id, versions) in &mut self.versions {
            let Some(content) = self.inodes.get(id).and_then(|inode| contents.get(inode)) else { continue };
            judge(*id, versions, &content.bytes, self.large.contains(id));
            *versions = vec![content.bytes.clone()];
        }
    }
}

/// Each block of a file is what it was in some version, and its length lies between those that it had. Of a file with a stripe of its
/// own, which is overwritten where it lies, so it is with each sector.
fn judge(id: u64, versions: &[Vec<u8>], found: &[u8], is_large: bool) {
    let lengths = versions.iter().map(Vec::len);
    let (least, most) = (lengths.clone().min().unwrap(), lengths.max().unwrap());
    assert!(
        (least..=most).contains(&found.len()),
        "file {id} has {} bytes, not {least} to {most}",
        found.len()
    );
    let unit = if is_large { 512 } else { BLOCK_BYTES };
    for (number, block) in found.chunks(unit).enumerate() {
        let start = number * unit;
        let is_of = |version: &Vec<u8>| {
            let rest = version.get(start..).unwrap_or_default();
            let known = rest.len().min(block.len());
            let (ends, has_ended) = (start + block.len(), known < block.len());
            let is_zero = |longer: &Vec<u8>| {
                longer.get(start + known..ends).is_some_and(|tail| tail.iter().all(|byte| *byte == 0))
            };
            // Behind the end of a version there are zeroes only if a longer one has them there.
            let may_end = !has_ended || versions.iter().any(is_zero);
            known > 0
                && may_end
                && block[..known] == rest[..known]
                && block[known..].iter().all(|byte| *byte == 0)
        };
        let shows = &block[..block.len().min(8)];
        assert!(
            versions.iter().any(is_of),
            "{unit} bytes at {start} of file {id} were never this: {shows:?}"
        );
    }
    if versions.len() == 1 {
        assert!(versions[0] == found, "file {id} was synced, and is another");
    }
}
