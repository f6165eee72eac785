//! The items of the tree, sorted by what they belong to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use smallvec::SmallVec;
use stripewise_format::rafs::{
    anchor::INODES_END,
    inode::{FileType, Inode},
    key::{Key, KeyKind},
    names::{Entry, Xattr, name_hash},
    space::Extent,
    value::ValueError,
};

use super::{
    Problem,
    names::{FolderItems, Name},
    reader::Wanted,
    records::Edits,
};
use crate::fs::{FILE_BLOCKS_MAX, Mapped};

/// Where an item was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In the tree, or in a record of the journal.
    Tree,
    /// In an older leaf, in the place of one that is lost.
    Older,
}

/// A run of a file's blocks.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) is: Mapped,
    pub(crate) origin: Origin,
}

/// An inode, and what belongs to it.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) inode: Option<Inode>,
    /// All that was found of it was in older leaves.
    pub(crate) is_older: bool,
    /// The folders that have a name of it, once for each name.
    pub(crate) folders: SmallVec<[u64; 1]>,
    pub(crate) of_folder: Option<Box<FolderItems>>,
    pub(crate) inline_bytes: Option<usize>,
    pub(crate) pieces: Vec<Piece>,
    /// The keys of its extents as they are in the tree, if they are to be others.
    pub(crate) replaced: Option<Vec<u64>>,
    pub(crate) xattrs: Vec<u64>,
}

impl Found {
    pub(crate) fn file_type(&self) -> Option<FileType> {
        self.inode.and_then(|inode| inode.file_type().ok())
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.file_type() == Some(FileType::Folder)
    }

    /// Its extents are going to be others: the keys that they have now.
    pub(crate) fn replace_pieces(&mut self) {
        let pieces = &self.pieces;
        self.replaced.get_or_insert_with(|| pieces.iter().map(|piece| piece.is.first).collect());
    }

    /// Blocks of the volume that it has.
    pub(crate) fn blocks(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.is.extent.blocks)).sum()
    }
}

/// All items that were taken up, and what is wrong with them.
pub(crate) struct Items {
    pub(crate) hash_seed: u64,
    pub(crate) inodes: BTreeMap<u64, Found>,
    pub(crate) orphans: BTreeSet<u64>,
    /// The keys of stripe groups in the tree.
    pub(crate) groups: Vec<u64>,
    pub(crate) problems: Vec<Problem>,
    /// What the tree is to have, or lose.
    pub(crate) edits: Edits,
    /// Keys about which the tree says nothing.
    pub(crate) lost: Vec<Wanted>,
    /// The number of the next inode.
    pub(crate) next_inode: u64,
    /// Now, in nanoseconds since 1970.
    pub(crate) now_ns: i64,
    /// The folder for what has no name, and the names there.
    pub(crate) home: Option<(u64, BTreeSet<Box<[u8]>>)>,
}

impl Items {
    pub(crate) fn new(hash_seed: u64, edits: Edits, now_ns: i64) -> Self {
        Self {
            hash_seed,
            inodes: BTreeMap::new(),
            orphans: BTreeSet::new(),
            groups: Vec::new(),
            problems: Vec::new(),
            edits,
            lost: Vec::new(),
            next_inode: 1,
            now_ns,
            home: None,
        }
    }

    /// Takes up an item, which is no group.
    pub(crate) fn take_up(&mut self, key: Key, value: &[u8], origin: Origin) {
        if let Err(error) = self.try_take_up(key, value, origin) {
            self.problems.push(Problem::Item { key, error });
            self.drop_item(key);
        }
    }

    fn try_take_up(&mut self, key: Key, value: &[u8], origin: Origin) -> Result<(), ValueError> {
        let nonsense = |field, found| Err(ValueError::Nonsense { field, found });
        let is_of_none = key.object >= INODES_END || key.kind == KeyKind::Group;
        if (key.object == 0) != (key.kind == KeyKind::Orphan) || is_of_none {
            return nonsense("item's object", key.object);
        }
        if matches!(key.kind, KeyKind::Inode | KeyKind::Inline) && key.offset != 0 {
            return nonsense("item's offset", key.offset);
        }
        match key.kind {
            KeyKind::Name | KeyKind::Number => {
                let entries = Entry::decode(value)?;
                self.found(key.object, origin);
                entries.into_iter().for_each(|entry| self.take_up_entry(key, entry, origin));
            }
            KeyKind::Orphan => _ = self.orphans.insert(key.offset),
            KeyKind::Xattr => self.take_up_xattrs(key, Xattr::decode(value)?, origin),
            KeyKind::Inode => {
                let inode = Inode::decode(value)?;
                self.next_inode = self.next_inode.max(key.object.saturating_add(1));
                self.found(key.object, origin).inode = Some(inode);
            }
            KeyKind::Extent => {
                let is = Mapped { first: key.offset, extent: Extent::decode(value)? };
                let end = is.first.checked_add(is.extent.blocks.into());
                if end.is_none_or(|end| end > FILE_BLOCKS_MAX) {
                    return nonsense("extent's place in its file", key.offset);
                }
                self.found(key.object, origin).pieces.push(Piece { is, origin });
            }
            _ => self.found(key.object, origin).inline_bytes = Some(value.len()),
        }
        if origin == Origin::Older {
            self.edits.entry(key).or_insert_with(|| Some(value.into()));
        }
        Ok(())
    }

    /// The inode of an item that is taken up.
    fn found(&mut self, number: u64, origin: Origin) -> &mut Found {
        let is_older = origin == Origin::Older;
        let found = self.inodes.entry(number).or_insert_with(|| Found { is_older, ..Found::default() });
        found.is_older &= is_older;
        found
    }

    fn take_up_entry(&mut self, key: Key, entry: Entry, origin: Origin) {
        let hash = name_hash(&entry.name, self.hash_seed);
        let is_by_name = key.kind == KeyKind::Name;
        let is_placed = key.offset == if is_by_name { hash } else { entry.number };
        if !is_placed {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            self.problems.push(Problem::NameMisplaced { folder: key.object, name });
        }
        let items = self.found(key.object, origin).of_folder.get_or_insert_default();
        items.take_up(Name::of(entry), key, is_placed, origin);
    }

    /// Attributes are found by the hashes of their names. Those that are not are put where they belong.
    fn take_up_xattrs(&mut self, key: Key, all: Vec<Xattr>, origin: Origin) {
        let seed = self.hash_seed;
        let offset = |one: &Xattr| name_hash(&one.name, seed);
        let misplaced = all.iter().any(|one| offset(one) != key.offset);
        if !misplaced {
            self.found(key.object, origin).xattrs.push(key.offset);
            return;
        }
        self.problems.push(Problem::XattrMisplaced { inode: key.object });
        self.drop_item(key);
        let mut moved: BTreeMap<u64, Vec<Xattr>> = BTreeMap::new();
        all.into_iter().for_each(|one| moved.entry(offset(&one)).or_default().push(one));
        for (offset, all) in moved {
            let key = Key::new(key.object, KeyKind::Xattr, offset);
            if let Some(value) = Xattr::encode(&all) {
                self.edits.entry(key).or_insert(Some(value.into()));
                self.found(key.object, origin).xattrs.push(offset);
            }
        }
    }

    /// Whether the tree says nothing about a key.
    pub(crate) fn is_lost(&self, key: Key) -> bool {
        self.lost.iter().any(|wanted| wanted.contains(key)) && self.edits.get(&key) != Some(&None)
    }

    pub(crate) fn put(&mut self, key: Key, value: impl Into<Arc<[u8]>>) {
        self.edits.insert(key, Some(value.into()));
    }

    pub(crate) fn drop_item(&mut self, key: Key) {
        self.edits.insert(key, None);
    }

    /// An inode goes, with all that belongs to it but names of others.
    pub(crate) fn drop_inode(&mut self, number: u64) {
        let Some(found) = self.inodes.remove(&number) else { return };
        if self.orphans.remove(&number) {
            self.drop_item(Key::new(0, KeyKind::Orphan, number));
        }
        let key = |kind, offset| Key::new(number, kind, offset);
        self.drop_item(key(KeyKind::Inode, 0));
        self.drop_item(key(KeyKind::Inline, 0));
        found.xattrs.iter().for_each(|offset| self.drop_item(key(KeyKind::Xattr, *offset)));
        let pieces =
            found.pieces.iter().map(|piece| piece.is.first).chain(found.replaced.into_iter().flatten());
        pieces.for_each(|first| self.drop_item(key(KeyKind::Extent, first)));
        if let Some(items) = found.of_folder {
            for dropped in items.keys(number, self.hash_seed) {
                self.drop_item(dropped);
            }
        }
    }

    pub(crate) fn name_key(&self, folder: u64, name: &[u8]) -> Key {
        Key::new(folder, KeyKind::Name, name_hash(name, self.hash_seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number behind the last one must be one that an anchor can tell.
    #[test]
    fn numbers_of_inodes_end() {
        for (object, is_good) in [(INODES_END - 1, true), (INODES_END, false), (u64::MAX, false)] {
            let mut items = Items::new(1, Edits::new(), 0);
            let key = Key::new(object, KeyKind::Inline, 0);
            items.take_up(key, b"bytes", Origin::Tree);
            assert_eq!((items.problems.is_empty(), items.inodes.len()), (is_good, usize::from(is_good)));
        }
    }
}
