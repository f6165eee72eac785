//! The items of the tree, held against one another.

use std::collections::{BTreeMap, BTreeSet};

use stripewise_format::rafs::{
    inode::{FileType, Inode},
    key::{Key, KeyKind},
    names::{Entry, Xattr, name_hash},
    space::Extent,
    value::INLINE_MAX,
};

use super::{Owned, Problem, Report};
use crate::fs::ROOT;

/// An inode, and what belongs to it.
#[derive(Default)]
struct Found {
    inode: Option<Inode>,
    /// The folders that have a name of it.
    folders: Vec<u64>,
    /// Entries of a folder by number, and how often each was found.
    entries: BTreeMap<u64, (Entry, u32)>,
    inline_bytes: Option<usize>,
    extents: Vec<(u64, Extent)>,
    has_data: bool,
}

/// All items that were taken up.
pub(super) struct Items {
    hash_seed: u64,
    inodes: BTreeMap<u64, Found>,
    orphans: BTreeSet<u64>,
    problems: Vec<Problem>,
}

impl Items {
    pub(super) fn new(hash_seed: u64) -> Self {
        Self { hash_seed, inodes: BTreeMap::new(), orphans: BTreeSet::new(), problems: Vec::new() }
    }

    /// Takes up an item of the tree.
    pub(super) fn take_up(&mut self, key: Key, value: &[u8]) {
        let found = match key.kind {
            KeyKind::Group => return,
            KeyKind::Orphan => {
                self.orphans.insert(key.offset);
                return;
            }
            _ => self.inodes.entry(key.object).or_default(),
        };
        let result = match key.kind {
            KeyKind::Inode => Inode::decode(value).map(|inode| found.inode = Some(inode)),
            KeyKind::Extent => Extent::decode(value).map(|extent| found.extents.push((key.offset, extent))),
            KeyKind::Xattr => Xattr::decode(value).map(|_| ()),
            KeyKind::Name | KeyKind::Number => {
                Entry::decode(value).map(|entries| self.take_up_entries(key, entries))
            }
            _ => {
                found.inline_bytes = Some(value.len());
                Ok(())
            }
        };
        if let Err(error) = result {
            self.problems.push(Problem::Item { key, error });
        }
    }

    /// A file has blocks that came along with a commit.
    pub(super) fn take_up_data(&mut self, inode: u64) {
        self.inodes.entry(inode).or_default().has_data = true;
    }

    fn take_up_entries(&mut self, key: Key, entries: Vec<Entry>) {
        let Some(folder) = self.inodes.get_mut(&key.object) else { return };
        for entry in entries {
            let wanted = match key.kind {
                KeyKind::Name => name_hash(&entry.name, self.hash_seed),
                _ => entry.number,
            };
            if key.offset != wanted {
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                self.problems.push(Problem::NameMisplaced { folder: key.object, name });
            }
            let known = folder.entries.entry(entry.number).or_insert_with(|| (entry.clone(), 0));
            known.1 += u32::from(known.0 == entry);
        }
    }

    /// Tells what is wrong, and whose all blocks are.
    pub(super) fn judge(mut self, report: &mut Report, owned: &mut Vec<Owned>) {
        self.judge_names();
        let numbers: Vec<u64> = self.inodes.keys().copied().collect();
        for number in numbers {
            self.judge_inode(number, report, owned);
        }
        self.judge_reach();
        report.problems.append(&mut self.problems);
    }

    /// Every name is entered twice, and leads to an inode of its type.
    fn judge_names(&mut self) {
        let all: Vec<(u64, Entry, u32)> = self
            .inodes
            .iter()
            .flat_map(|(folder, found)| {
                found.entries.values().map(|(entry, times)| (*folder, entry.clone(), *times))
            })
            .collect();
        for (folder, entry, times) in all {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            if times != 2 {
                self.problems.push(Problem::NameOnce { folder, name: name.clone() });
            }
            let inode = entry.inode;
            let target = self.inodes.get_mut(&inode).filter(|found| found.inode.is_some());
            let Some(target) = target else {
                self.problems.push(Problem::NameLeadsNowhere { folder, name, inode });
                continue;
            };
            target.folders.push(folder);
            if target.inode.and_then(|inode| inode.file_type().ok()) != Some(entry.file_type) {
                self.problems.push(Problem::NameType { folder, name, inode });
            }
        }
    }

    fn judge_inode(&mut self, number: u64, report: &mut Report, owned: &mut Vec<Owned>) {
        let Some(found) = self.inodes.get(&number) else { return };
        let Some(inode) = found.inode else {
            self.problems.push(Problem::NoInode { key: Key::new(number, KeyKind::Inode, 0) });
            return;
        };
        let is_folder = inode.file_type() == Ok(FileType::Folder);
        let is_orphan = self.orphans.remove(&number);
        report.inodes += 1;
        report.folders += u64::from(is_folder);
        report.orphans += u64::from(is_orphan);
        let mut problems = Vec::new();
        let mut count = |what, told: u64, found: u64| {
            if told != found {
                problems.push(Problem::Count { inode: number, what, told, found });
            }
        };
        let folders_in =
            found.entries.values().filter(|(entry, _)| entry.file_type == FileType::Folder).count();
        let links = match (is_orphan, is_folder) {
            (true, _) => 0,
            (false, true) => 2 + folders_in as u64,
            (false, false) => found.folders.len() as u64,
        };
        count("links", inode.links.into(), links);
        let blocks: u64 = found.extents.iter().map(|(_, extent)| u64::from(extent.blocks)).sum();
        count("blocks", inode.blocks, blocks);
        if is_folder {
            count("entries", inode.size_bytes, found.entries.len() as u64);
        }
        let is_named = if number == ROOT { 0 } else { u64::from(!is_orphan) };
        if is_folder {
            count("names", is_named, found.folders.len() as u64);
        }
        if inode.links == 0 && !is_orphan {
            problems.push(Problem::Unreached { inode: number });
        }
        report.file_blocks += blocks;
        self.problems.append(&mut problems);
        self.judge_bytes(number, inode, owned);
        self.judge_parent(number, inode, is_folder && !is_orphan);
    }

    /// A folder knows where it lies.
    fn judge_parent(&mut self, number: u64, inode: Inode, is_folder: bool) {
        let Some(found) = self.inodes.get(&number) else { return };
        let parent = if number == ROOT { Some(ROOT) } else { found.folders.first().copied() };
        if let Some(found) = parent.filter(|parent| is_folder && *parent != inode.parent) {
            self.problems.push(Problem::Parent { inode: number, told: inode.parent, found });
        }
    }

    /// Extents do not overlap, and only inodes that have bytes have them.
    fn judge_bytes(&mut self, number: u64, inode: Inode, owned: &mut Vec<Owned>) {
        let Some(found) = self.inodes.get(&number) else { return };
        let (is_file, is_link) =
            (inode.file_type() == Ok(FileType::File), inode.file_type() == Ok(FileType::Link));
        let wrong = |what| Problem::WrongItem { inode: number, what };
        let mut end = 0;
        for (first, extent) in &found.extents {
            if *first < end {
                self.problems.push(Problem::TwoPlaces { inode: number, block: *first });
            }
            end = first.saturating_add(extent.blocks.into());
            let blocks = extent.place..extent.place.saturating_add(extent.blocks.into());
            owned.push(Owned { blocks, inode: number });
        }
        if !is_file && (!found.extents.is_empty() || found.has_data) {
            self.problems.push(wrong("blocks"));
        }
        if found.inline_bytes.is_some() && found.extents.first().is_some_and(|(first, _)| *first == 0) {
            self.problems.push(Problem::TwoPlaces { inode: number, block: 0 });
        }
        if found.inline_bytes.is_some_and(|bytes| bytes > INLINE_MAX || !is_file && !is_link) {
            self.problems.push(wrong("bytes in the tree"));
        }
        let is_folder = inode.file_type() == Ok(FileType::Folder);
        if !is_folder && !found.entries.is_empty() {
            self.problems.push(wrong("entries"));
        }
        if is_link && found.inline_bytes.is_none_or(|bytes| bytes as u64 != inode.size_bytes) {
            self.problems.push(wrong("a length without a target"));
        }
    }

    /// From the root, names lead to all inodes but orphans. An orphan must be there.
    fn judge_reach(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut left = vec![ROOT];
        while let Some(folder) = left.pop() {
            let entries = self.inodes.get(&folder).into_iter().flat_map(|found| found.entries.values());
            left.extend(entries.map(|(entry, _)| entry.inode).filter(|inode| reached.insert(*inode)));
        }
        let lost = self.inodes.iter().filter(|(number, found)| {
            found.inode.is_some_and(|inode| inode.links > 0) && !reached.contains(number)
        });
        self.problems.extend(lost.map(|(number, _)| Problem::Unreached { inode: *number }));
        let gone = self.orphans.iter().map(|number| Key::new(0, KeyKind::Orphan, *number));
        self.problems.extend(gone.map(|key| Problem::NoInode { key }));
    }
}
