//! Names: each is entered twice, by its hash and by its number, and leads to an inode of its type. A folder has one name.

use std::collections::{BTreeMap, BTreeSet};

use stripewise_format::rafs::{
    inode::FileType,
    key::{Key, KeyKind},
    names::{Entry, name_hash},
};

use super::{
    Problem,
    items::{Items, Origin},
};
use crate::fs::ROOT;

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) number: u64,
    pub(crate) name: Box<[u8]>,
    pub(crate) inode: u64,
    file_type: u8,
}

impl Name {
    pub(crate) fn of(entry: Entry) -> Self {
        let Entry { inode, number, file_type, name } = entry;
        Self { number, name: name.into(), inode, file_type: file_type as u8 }
    }

    pub(crate) fn new(number: u64, name: Vec<u8>, inode: u64, file_type: FileType) -> Self {
        Self { number, name: name.into(), inode, file_type: file_type as u8 }
    }

    fn entry(&self) -> Entry {
        let Self { number, name, inode, file_type } = self;
        let file_type = FileType::of(*file_type).unwrap_or(FileType::File);
        Entry { inode: *inode, number: *number, file_type, name: name.to_vec() }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }
}

/// How often an entry was found where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    by_name: bool,
    by_number: bool,
    is_older: bool,
}

/// What belongs to a folder.
#[derive(Debug, Default)]
pub(crate) struct FolderItems {
    pub(crate) names: BTreeMap<Name, Seen>,
    /// Items that are to be made anew.
    hashes: BTreeSet<u64>,
    numbers: BTreeSet<u64>,
}

impl FolderItems {
    pub(crate) fn take_up(&mut self, name: Name, key: Key, is_placed: bool, origin: Origin) {
        let unseen = Seen { by_name: false, by_number: false, is_older: true };
        let seen = self.names.entry(name).or_insert(unseen);
        let is_by_name = key.kind == KeyKind::Name;
        seen.by_name |= is_placed && is_by_name;
        seen.by_number |= is_placed && !is_by_name;
        seen.is_older &= origin == Origin::Older;
        if !is_placed {
            if is_by_name { &mut self.hashes } else { &mut self.numbers }.insert(key.offset);
        }
    }

    /// The keys of all its items.
    pub(crate) fn keys(&self, folder: u64, seed: u64) -> Vec<Key> {
        let hashes =
            self.names.keys().map(|name| name_hash(&name.name, seed)).chain(self.hashes.iter().copied());
        let numbers = self.names.keys().map(|name| name.number).chain(self.numbers.iter().copied());
        let hashes = hashes.map(|hash| Key::new(folder, KeyKind::Name, hash));
        hashes.chain(numbers.map(|number| Key::new(folder, KeyKind::Number, number))).collect()
    }

    /// An entry comes, goes or changes: its items are made anew.
    pub(crate) fn note(&mut self, name: &Name, seed: u64) {
        self.hashes.insert(name_hash(&name.name, seed));
        self.numbers.insert(name.number);
    }

    pub(crate) fn add(&mut self, name: Name, seed: u64) {
        self.note(&name, seed);
        self.names.insert(name, Seen { by_name: true, by_number: true, is_older: false });
    }

    pub(crate) fn remove(&mut self, name: &Name, seed: u64) {
        self.note(name, seed);
        self.names.remove(name);
    }

    /// The number behind all that were given.
    pub(crate) fn next_number(&self) -> u64 {
        self.names.last_key_value().map_or(0, |(name, _)| name.number.saturating_add(1))
    }

    pub(crate) fn folders(&self) -> u64 {
        self.names.keys().filter(|name| name.file_type == FileType::Folder as u8).count() as u64
    }
}

/// What becomes of an entry.
enum Verdict {
    Keep(Name),
    /// It leads to a folder that may have a better name.
    Wait(Name),
    Drop,
}

impl Items {
    /// Decides which names count.
    pub(super) fn judge_names(&mut self) {
        let folders: Vec<u64> = self
            .inodes
            .iter()
            .filter(|(_, found)| found.of_folder.is_some())
            .map(|(number, _)| *number)
            .collect();
        let mut waiting = Vec::new();
        for folder in folders {
            let Some(found) = self.inodes.get_mut(&folder) else { continue };
            let is_folder = found.is_folder();
            let Some(items) = found.of_folder.take() else { continue };
            if is_folder {
                let (items, more) = self.judge_folder(folder, *items);
                waiting.extend(more.into_iter().map(|name| (folder, name)));
                if let Some(found) = self.inodes.get_mut(&folder) {
                    found.of_folder = Some(Box::new(items));
                }
            } else {
                self.problems.push(Problem::WrongItem { inode: folder, what: "entries" });
                items.keys(folder, self.hash_seed).into_iter().for_each(|key| self.drop_item(key));
            }
        }
        for (folder, name) in waiting {
            self.judge_second_name(folder, name);
        }
    }

    fn judge_folder(&mut self, folder: u64, mut items: FolderItems) -> (FolderItems, Vec<Name>) {
        let (seed, mut waiting) = (self.hash_seed, Vec::new());
        let mut next = items.next_number();
        let all = std::mem::take(&mut items.names);
        let (mut taken, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        // Names that are there twice count before others. Of these, those found by name count before those found by number: two
        // names may have exchanged their inodes, and of each the older half may be left.
        let (whole, mut halves): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, seen)| seen.by_name && seen.by_number);
        halves.sort_by_key(|(_, seen)| seen.by_number);
        for (name, seen) in whole.into_iter().chain(halves) {
            let is_whole = seen.by_name && seen.by_number;
            if !is_whole && self.was_removed(folder, &name, seen) {
                items.note(&name, seed);
                continue;
            }
            if !is_whole {
                self.problems.push(Problem::NameOnce { folder, name: name.text() });
                items.note(&name, seed);
            }
            let mut kept = match self.judge_name(folder, &name) {
                Verdict::Keep(kept) => kept,
                Verdict::Wait(kept) => {
                    items.note(&name, seed);
                    waiting.push(kept);
                    continue;
                }
                Verdict::Drop => {
                    items.note(&name, seed);
                    continue;
                }
            };
            if !taken.insert(kept.name.clone()) {
                self.problems.push(Problem::NameTwice { folder, name: name.text() });
                items.note(&name, seed);
                continue;
            }
            if !numbers.insert(kept.number) {
                self.problems.push(Problem::NumberTwice { folder, name: name.text() });
                kept.number = next;
                next = next.saturating_add(1);
                numbers.insert(kept.number);
            }
            if kept != name {
                items.note(&name, seed);
                items.note(&kept, seed);
            }
            if let Some(target) = self.inodes.get_mut(&kept.inode) {
                target.folders.push(folder);
            }
            items.names.insert(kept, seen);
        }
        (items, waiting)
    }

    /// Whether a name that was found in an older leaf is one that the tree does not have any more: what should be its other item is none.
    fn was_removed(&self, folder: u64, name: &Name, seen: Seen) -> bool {
        let by_name = seen.by_name || self.is_lost(self.name_key(folder, &name.name));
        let by_number = seen.by_number || self.is_lost(Key::new(folder, KeyKind::Number, name.number));
        seen.is_older && !(by_name && by_number)
    }

    fn judge_name(&mut self, folder: u64, name: &Name) -> Verdict {
        let inode = name.inode;
        let target = self.inodes.get(&inode).filter(|found| found.inode.is_some());
        let Some((file_type, target)) = target.and_then(|found| Some((found.file_type()?, found))) else {
            self.problems.push(Problem::NameLeadsNowhere { folder, name: name.text(), inode });
            return Verdict::Drop;
        };
        let is_folder = file_type == FileType::Folder;
        let is_second = is_folder
            && (inode == ROOT
                || !target.folders.is_empty()
                || target.inode.is_some_and(|of| of.parent != folder));
        let mut name = name.clone();
        if name.file_type != file_type as u8 {
            self.problems.push(Problem::NameType { folder, name: name.text(), inode });
            name.file_type = file_type as u8;
        }
        if is_second { Verdict::Wait(name) } else { Verdict::Keep(name) }
    }

    /// A name of a folder that says to lie elsewhere: it counts if the folder has no other one.
    fn judge_second_name(&mut self, folder: u64, name: Name) {
        let seed = self.hash_seed;
        let Some(target) = self.inodes.get_mut(&name.inode) else { return };
        if name.inode == ROOT || !target.folders.is_empty() {
            self.problems.push(Problem::FolderNamedTwice { folder, name: name.text(), inode: name.inode });
            return;
        }
        target.folders.push(folder);
        if let Some(items) = self.inodes.get_mut(&folder).and_then(|found| found.of_folder.as_mut()) {
            items.add(name, seed);
        }
    }

    /// Writes down the items of names that have changed.
    pub(super) fn put_names(&mut self) {
        let mut edits = Vec::new();
        for (folder, found) in &self.inodes {
            let Some(items) = &found.of_folder else { continue };
            if items.hashes.is_empty() && items.numbers.is_empty() {
                continue;
            }
            let mut by_hash: BTreeMap<u64, Vec<Entry>> =
                items.hashes.iter().map(|hash| (*hash, Vec::new())).collect();
            let mut by_number: BTreeMap<u64, Vec<Entry>> =
                items.numbers.iter().map(|number| (*number, Vec::new())).collect();
            for name in items.names.keys() {
                if let Some(entries) = by_hash.get_mut(&name_hash(&name.name, self.hash_seed)) {
                    entries.push(name.entry());
                }
                if let Some(entries) = by_number.get_mut(&name.number) {
                    entries.push(name.entry());
                }
            }
            let keyed = |kind| move |(offset, entries)| (Key::new(*folder, kind, offset), entries);
            edits.extend(by_hash.into_iter().map(keyed(KeyKind::Name)));
            edits.extend(by_number.into_iter().map(keyed(KeyKind::Number)));
        }
        for (key, entries) in edits {
            let value = if entries.is_empty() { None } else { Entry::encode(&entries) };
            self.edits.insert(key, value.map(Into::into));
        }
    }
}

#[cfg(test)]
mod tests {
    use stripewise_format::rafs::inode::Inode;

    use super::{
        super::{reader::Wanted, records::Edits},
        *,
    };

    const SEED: u64 = 7;

    fn inode(mode: u32) -> Vec<u8> {
        let mut value = vec![0; 96];
        value[..4].copy_from_slice(&mode.to_le_bytes());
        value[4 + 4 + 4..][..4].copy_from_slice(&1_u32.to_le_bytes());
        assert!(Inode::decode(&value).is_ok());
        value
    }

    /// A folder of which items of some kinds are lost; an older leaf has a name by its hash only. Returns the names that count.
    fn judged(lost: std::ops::Range<KeyKind>) -> Vec<Box<[u8]>> {
        let mut items = Items::new(SEED, Edits::new(), 0);
        items.take_up(Key::new(ROOT, KeyKind::Inode, 0), &inode(0o040_755), Origin::Tree);
        items.take_up(Key::new(2, KeyKind::Inode, 0), &inode(0o100_644), Origin::Older);
        let [low, high] = [lost.start, lost.end].map(|kind| Some(Key::new(ROOT, kind, 0)));
        items.lost = vec![Wanted { place: 0, generation: 0, level: 0, low, high, is_root: false }];
        let name = b"gone".to_vec();
        let entry = Entry { inode: 2, number: 5, file_type: FileType::File, name: name.clone() };
        let value = Entry::encode(&[entry]).unwrap();
        items.take_up(items.name_key(ROOT, &name), &value, Origin::Older);
        items.judge_names();
        let of_root = items.inodes[&ROOT].of_folder.as_ref().unwrap();
        of_root.names.keys().map(|name| name.name.clone()).collect()
    }

    #[test]
    fn a_name_that_was_removed_does_not_come_back() {
        assert_eq!(
            judged(KeyKind::Name..KeyKind::Number),
            Vec::<Box<[u8]>>::new(),
            "its number would be there"
        );
        assert_eq!(judged(KeyKind::Name..KeyKind::Extent), [Box::from(&b"gone"[..])], "that is lost, too");
    }
}
