//! What a file system should be after each change, and what of it may be there after a crash (`docs/failure-model.md`).

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
};

use super::{
    found::{Found, Sort},
    op::{ROOT_NAME, parent},
};
use crate::rafs::{judge, unit};

/// The root's number in the model.
const ROOT: u64 = 0;
/// Where symbolic links lead.
pub(super) const TARGET: &str = "../somewhere";

/// One change, or one request to make something durable. Files and folders go by their paths.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Change {
    Make(Sort, String),
    Write(String, usize, Vec<u8>),
    Punch(String, Range<usize>),
    Resize(String, usize),
    Link(String, String),
    Unlink(String),
    RemoveFolder(String),
    Rename(String, String),
    Exchange(String, String),
    SetAttribute(String, Vec<u8>),
    RemoveAttribute(String),
    Fsync(String),
    Sync,
    Checkpoint,
}

/// All names, and what the inodes have beside bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Tree {
    /// Folder and name to what they lead to.
    names: BTreeMap<(u64, String), u64>,
    attributes: BTreeMap<u64, Vec<u8>>,
    /// Files that have replaced others by a rename: the version that each had then, or a later one, is there if this tree is.
    least: BTreeMap<u64, usize>,
}

/// The model.
#[derive(Debug, Clone, Hash)]
pub(super) struct Model {
    sorts: BTreeMap<u64, Sort>,
    /// All trees since one was durable; the last one is what is, or may become.
    past: Vec<Tree>,
    /// All that each file was since it was durable.
    versions: BTreeMap<u64, Vec<Vec<u8>>>,
    /// How many versions each file had before these.
    before: BTreeMap<u64, usize>,
    /// Files that have been long enough for a stripe of their own.
    large: BTreeSet<u64>,
}

impl Model {
    /// An empty file system.
    pub(super) fn new() -> Self {
        Self {
            sorts: BTreeMap::from([(ROOT, Sort::Folder)]),
            past: vec![Tree::default()],
            versions: BTreeMap::new(),
            before: BTreeMap::new(),
            large: BTreeSet::new(),
        }
    }

    fn tree(&self) -> &Tree {
        self.past.last().expect("there is always one")
    }

    fn id(&self, path: &str) -> Option<u64> {
        let of = |folder: u64, name: &str| self.tree().names.get(&(folder, name.to_owned())).copied();
        if path == ROOT_NAME { Some(ROOT) } else { path.split('/').try_fold(ROOT, of) }
    }

    /// What is there.
    pub(super) fn sort(&self, path: &str) -> Option<Sort> {
        self.id(path).map(|id| self.sorts[&id])
    }

    /// The length of the file that is there; 0 if there is none.
    pub(super) fn len(&self, path: &str) -> usize {
        self.id(path).map_or(0, |id| self.bytes(id).len())
    }

    /// Whether the file that is there has the attribute.
    pub(super) fn has_attribute(&self, path: &str) -> bool {
        self.id(path).is_some_and(|id| self.tree().attributes.contains_key(&id))
    }

    /// Whether the folder that is there has no entries.
    pub(super) fn is_empty(&self, path: &str) -> bool {
        self.id(path).is_some_and(|id| self.tree().names.keys().all(|(folder, _)| *folder != id))
    }

    /// How many versions a file has had.
    fn count(&self, id: u64) -> usize {
        self.before.get(&id).copied().unwrap_or(0) + self.versions[&id].len()
    }

    fn bytes(&self, id: u64) -> &[u8] {
        self.versions.get(&id).and_then(|versions| versions.last()).map_or(&[], Vec::as_slice)
    }

    /// A change begins: from now on it may be there after a crash.
    ///
    /// # Panics
    /// If the change cannot be made.
    pub(super) fn begin(&mut self, change: &Change) {
        let place = |path: &str| {
            let folder = self.id(parent(path)).expect("the folder is there");
            (folder, path.rsplit('/').next().unwrap_or(path).to_owned())
        };
        let id = |path: &str| self.id(path).expect("it is there");
        let mut tree = self.tree().clone();
        match change {
            Change::Make(sort, path) => {
                let new = self.sorts.len() as u64;
                tree.names.insert(place(path), new);
                self.sorts.insert(new, *sort);
                self.versions.insert(new, vec![Vec::new()]);
            }
            Change::Link(path, to) => {
                tree.names.insert(place(to), id(path));
            }
            Change::Unlink(path) | Change::RemoveFolder(path) => {
                tree.names.remove(&place(path));
            }
            Change::Rename(path, to) => {
                // Two names of one file both stay.
                if self.id(to) != Some(id(path)) {
                    if self.id(to).is_some() && self.sorts[&id(path)] == Sort::File {
                        tree.least.insert(id(path), self.count(id(path)) - 1);
                    }
                    tree.names.insert(place(to), id(path));
                    tree.names.remove(&place(path));
                }
            }
            Change::Exchange(path, to) => {
                tree.names.insert(place(to), id(path));
                tree.names.insert(place(path), id(to));
            }
            Change::SetAttribute(path, value) => {
                tree.attributes.insert(id(path), value.clone());
            }
            Change::RemoveAttribute(path) => {
                tree.attributes.remove(&id(path));
            }
            Change::Write(path, at, bytes) => {
                return self.change_bytes(id(path), |old| {
                    old.resize(old.len().max(at + bytes.len()), 0);
                    old[*at..at + bytes.len()].copy_from_slice(bytes);
                });
            }
            Change::Punch(path, range) => {
                return self.change_bytes(id(path), |old| old[range.clone()].fill(0));
            }
            Change::Resize(path, len) => return self.change_bytes(id(path), |old| old.resize(*len, 0)),
            Change::Fsync(_) | Change::Sync | Change::Checkpoint => return,
        }
        self.past.push(tree);
    }

    fn change_bytes(&mut self, id: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes(id).to_vec();
        change(&mut bytes);
        if unit(bytes.len()) < unit(0) {
            self.large.insert(id);
        }
        self.versions.entry(id).or_default().push(bytes);
    }

    /// A change has ended well. What it has made durable is there from now on.
    pub(super) fn end(&mut self, change: &Change) {
        let synced = match change {
            Change::Fsync(path) => self.id(path),
            Change::Sync | Change::Checkpoint => None,
            _ => return,
        };
        self.past.drain(..self.past.len() - 1);
        for (id, versions) in &mut self.versions {
            if synced.is_none_or(|synced| synced == *id) {
                *self.before.entry(*id).or_default() += versions.len() - 1;
                versions.drain(..versions.len() - 1);
            }
        }
    }

    /// Equal for models that allow the same.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Looks at whether this may be there after a crash now.
    pub(super) fn judge(&self, found: &Found) -> Result<(), String> {
        let mut why = None;
        for tree in self.past.iter().rev() {
            let paths = paths_of(tree);
            match self.fits(tree, &paths, found) {
                Ok(()) => return Ok(()),
                Err(error) if paths.keys().eq(found.entries.keys()) => {
                    why.get_or_insert(error);
                }
                Err(_) => {}
            }
        }
        Err(why.unwrap_or_else(|| {
            let names = |tree: &Tree| paths_of(tree).into_keys().collect::<Vec<_>>();
            let past: Vec<_> = self.past.iter().map(names).collect();
            format!("names were never {:?}, but {past:?}", found.entries.keys().collect::<Vec<_>>())
        }))
    }

    fn fits(&self, tree: &Tree, paths: &BTreeMap<String, u64>, found: &Found) -> Result<(), String> {
        if !paths.keys().eq(found.entries.keys()) {
            return Err("other names".to_owned());
        }
        let mut inodes = BTreeMap::new();
        for ((path, id), entry) in paths.iter().zip(found.entries.values()) {
            if entry.sort != self.sorts[id] {
                return Err(format!("{path} is a {:?}, and was a {:?}", entry.sort, self.sorts[id]));
            }
            if *inodes.entry(*id).or_insert(entry.inode) != entry.inode {
                return Err(format!("{path} leads elsewhere than its other names"));
            }
            let names = paths.values().filter(|other| *other == id).count();
            if entry.sort == Sort::File && entry.links as usize != names {
                return Err(format!("{path} has {} links and {names} names", entry.links));
            }
            if entry.attribute.as_ref() != tree.attributes.get(id) {
                return Err(format!("{path} has the attribute {:?}", entry.attribute));
            }
            match entry.sort {
                Sort::File => {
                    let unit = unit(if self.large.contains(id) { usize::MAX } else { 0 });
                    let before = self.before.get(id).copied().unwrap_or(0);
                    let least = tree.least.get(id).map_or(0, |least| least.saturating_sub(before));
                    judge(&self.versions[id][least..], &entry.bytes, unit)
                        .map_err(|what| format!("{path}: {what}"))?;
                }
                Sort::Symlink if entry.bytes != TARGET.as_bytes() => {
                    return Err(format!("{path} leads to {:?}", entry.bytes));
                }
                Sort::Symlink | Sort::Folder => {}
            }
        }
        let distinct: BTreeSet<&u64> = inodes.values().collect();
        if distinct.len() < inodes.len() { Err("two files are one".to_owned()) } else { Ok(()) }
    }
}

/// All paths of a tree, and what they lead to.
fn paths_of(tree: &Tree) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut open = vec![(ROOT, String::new())];
    while let Some((folder, before)) = open.pop() {
        for ((_, name), id) in tree.names.range((folder, String::new())..(folder + 1, String::new())) {
            let path = format!("{before}{name}");
            open.push((*id, format!("{path}/")));
            all.insert(path, *id);
        }
    }
    all
}
