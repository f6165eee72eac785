//! Whether names lead from the root to every inode. What has no name gets one in `lost+found`.

use std::collections::BTreeSet;

use stripewise_format::rafs::{
    inode::{FileType, Inode},
    key::{Key, KeyKind},
};

use super::{
    Problem,
    items::{Found, Items},
    names::{FolderItems, Name},
    reader::Wanted,
};
use crate::{
    fs::{FILE_BYTES_MAX, FIRST_NUMBER, ROOT},
    shape::BLOCK_BYTES,
};

/// The folder for what has no name.
const LOST_FOUND: &str = "lost+found";
const FOLDER_MODE: u32 = 0o040_000;
const FILE_MODE: u32 = 0o100_000;

impl Items {
    /// Makes inodes anew of which other items are left, and the root if there is none.
    pub(super) fn remake_inodes(&mut self) {
        let missing = self.inodes.iter().filter(|(_, found)| found.inode.is_none());
        let numbers: Vec<u64> = missing.map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(found) = self.inodes.get(&number) else { continue };
            let mode = match (&found.of_folder, found.pieces.last(), found.inline_bytes) {
                (Some(_), ..) => FOLDER_MODE | 0o700,
                (None, Some(_), _) | (None, None, Some(_)) => FILE_MODE | 0o600,
                _ => {
                    self.problems.push(Problem::NoInode { key: Key::new(number, KeyKind::Inode, 0) });
                    self.drop_inode(number);
                    continue;
                }
            };
            let end = found.pieces.iter().map(|piece| piece.is.blocks().end).max();
            let bytes = end
                .map_or(found.inline_bytes.unwrap_or(0) as u64, |end| end.saturating_mul(BLOCK_BYTES as u64));
            self.problems.push(Problem::InodeLost { inode: number });
            self.give_inode(number, Inode { size_bytes: bytes, ..self.blank(mode, ROOT) });
        }
        if !self.inodes.get(&ROOT).is_some_and(Found::is_folder) {
            self.problems.push(Problem::NoRoot);
            self.give_inode(ROOT, self.blank(FOLDER_MODE | 0o755, ROOT));
        }
    }

    fn give_inode(&mut self, number: u64, inode: Inode) {
        self.inodes.entry(number).or_default().inode = Some(inode);
        self.next_inode = self.next_inode.max(number.saturating_add(1));
        self.put(Key::new(number, KeyKind::Inode, 0), inode.encode());
    }

    fn blank(&self, mode: u32, parent: u64) -> Inode {
        let now = self.now_ns;
        let links = if mode & FOLDER_MODE != 0 { 2 } else { 1 };
        Inode {
            mode,
            uid: 0,
            gid: 0,
            links,
            size_bytes: 0,
            blocks: 0,
            accessed_ns: now,
            modified_ns: now,
            changed_ns: now,
            born_ns: now,
            generation: 0,
            flags: 0,
            device: 0,
            parent,
            next_number: FIRST_NUMBER,
        }
    }

    /// Orphans are inodes without a name. The next mount frees them.
    pub(super) fn judge_orphans(&mut self) {
        for number in std::mem::take(&mut self.orphans) {
            let key = Key::new(0, KeyKind::Orphan, number);
            let problem = match self.inodes.get(&number) {
                None => Problem::NoInode { key },
                Some(found) if !found.folders.is_empty() || number == ROOT => {
                    Problem::OrphanNamed { inode: number }
                }
                Some(_) => {
                    self.orphans.insert(number);
                    continue;
                }
            };
            self.problems.push(problem);
            self.drop_item(key);
        }
    }

    /// Looks at what is not reached from the root.
    pub(super) fn judge_reach(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        self.reach(ROOT, &mut reached);
        let may_be_named = self.may_names_be_lost();
        let unnamed: Vec<u64> = self.unreached(&reached).filter(|number| self.has_no_name(*number)).collect();
        for number in unnamed {
            self.judge_unnamed(number, may_be_named, &mut reached);
        }
        // What is left are folders that lie in one another, and what is in them.
        let circles: Vec<u64> =
            self.unreached(&reached).filter(|number| self.inodes[number].is_folder()).collect();
        for number in circles {
            if reached.contains(&number) {
                continue;
            }
            self.problems.push(Problem::Unreached { inode: number });
            self.take_name_away(number);
            self.adopt(number, &mut reached);
        }
    }

    fn unreached<'a>(&'a self, reached: &'a BTreeSet<u64>) -> impl Iterator<Item = u64> + 'a {
        let all = self.inodes.keys().copied();
        all.filter(|number| !reached.contains(number) && !self.orphans.contains(number))
    }

    fn has_no_name(&self, number: u64) -> bool {
        self.inodes.get(&number).is_some_and(|found| found.folders.is_empty())
    }

    fn reach(&self, from: u64, reached: &mut BTreeSet<u64>) {
        let mut left = vec![from];
        while let Some(folder) = left.pop() {
            let items = self.inodes.get(&folder).and_then(|found| found.of_folder.as_ref());
            let names = items.into_iter().flat_map(|items| items.names.keys());
            left.extend(names.map(|name| name.inode).filter(|inode| reached.insert(*inode)));
        }
    }

    fn judge_unnamed(&mut self, number: u64, may_be_named: bool, reached: &mut BTreeSet<u64>) {
        let Some(found) = self.inodes.get(&number) else { return };
        let was_removed = found.is_older && !may_be_named;
        let is_unlinked = found.inode.is_some_and(|inode| inode.links == 0);
        if was_removed || is_unlinked {
            if !was_removed {
                self.problems.push(Problem::Unreached { inode: number });
            }
            self.drop_tree(number);
            return;
        }
        self.problems.push(Problem::Unreached { inode: number });
        self.adopt(number, reached);
    }

    /// An inode goes. What a folder had becomes nameless; what of that is of older leaves goes, too.
    fn drop_tree(&mut self, top: u64) {
        let mut left = vec![top];
        while let Some(number) = left.pop() {
            let items = self.inodes.get(&number).and_then(|found| found.of_folder.as_ref());
            let inside: Vec<u64> =
                items.into_iter().flat_map(|items| items.names.keys().map(|name| name.inode)).collect();
            self.drop_inode(number);
            for inode in inside {
                let Some(found) = self.inodes.get_mut(&inode) else { continue };
                found.folders.retain(|folder| *folder != number);
                if found.folders.is_empty() && found.is_older {
                    left.push(inode);
                }
            }
        }
    }

    /// Whether a folder may have had names that are lost.
    fn may_names_be_lost(&self) -> bool {
        let folders = self.inodes.iter().filter(|(_, found)| found.is_folder()).map(|(number, _)| *number);
        let spans: Vec<(Key, Key)> = folders
            .map(|folder| (Key::new(folder, KeyKind::Name, 0), Key::new(folder, KeyKind::Number, u64::MAX)))
            .collect();
        let overlaps = |wanted: &Wanted| {
            spans.iter().any(|(first, last)| {
                wanted.low.is_none_or(|low| low <= *last) && wanted.high.is_none_or(|high| *first < high)
            })
        };
        self.lost.iter().any(overlaps)
    }

    /// A folder loses its name.
    fn take_name_away(&mut self, number: u64) {
        let seed = self.hash_seed;
        let folders = self.inodes.get_mut(&number).map(|found| std::mem::take(&mut found.folders));
        for folder in folders.unwrap_or_default() {
            let items = self.inodes.get_mut(&folder).and_then(|found| found.of_folder.as_mut());
            let Some(items) = items else { continue };
            let names: Vec<Name> = items.names.keys().filter(|name| name.inode == number).cloned().collect();
            names.iter().for_each(|name| items.remove(name, seed));
        }
    }

    /// An inode without a name gets one in `lost+found`.
    fn adopt(&mut self, number: u64, reached: &mut BTreeSet<u64>) {
        let (home, mut taken) = self.home.take().unwrap_or_else(|| self.lost_found(reached));
        let wanted = format!("#{number}");
        let name = free_name(&wanted, &taken);
        taken.insert(name.as_bytes().into());
        self.enter(home, name, number);
        self.home = Some((home, taken));
        reached.insert(number);
        self.reach(number, reached);
    }

    /// Gives an inode a name in a folder.
    fn enter(&mut self, folder: u64, name: String, number: u64) {
        let seed = self.hash_seed;
        let Some(file_type) = self.inodes.get(&number).and_then(Found::file_type) else { return };
        let Some(found) = self.inodes.get_mut(&folder) else { return };
        let told = found.inode.map_or(0, |inode| inode.next_number);
        let items = found.of_folder.get_or_insert_default();
        let entry = items.next_number().max(told).max(FIRST_NUMBER);
        items.add(Name::new(entry, name.into_bytes(), number, file_type), seed);
        if let Some(found) = self.inodes.get_mut(&number) {
            found.folders.push(folder);
        }
    }

    /// The folder `lost+found`, made if there is none, and the names in it.
    fn lost_found(&mut self, reached: &mut BTreeSet<u64>) -> (u64, BTreeSet<Box<[u8]>>) {
        let names_of = |number| {
            let items = self.inodes.get(&number).and_then(|found| found.of_folder.as_ref());
            items.into_iter().flat_map(|items| items.names.keys())
        };
        let is_folder = |number| self.inodes.get(&number).is_some_and(Found::is_folder);
        let is_it = |name: &&Name| (*name.name).starts_with(LOST_FOUND.as_bytes()) && is_folder(name.inode);
        if let Some(name) = names_of(ROOT).find(is_it) {
            return (name.inode, names_of(name.inode).map(|name| name.name.clone()).collect());
        }
        let taken = names_of(ROOT).map(|name| name.name.clone()).collect();
        let number = self.next_inode;
        self.give_inode(number, self.blank(FOLDER_MODE | 0o700, ROOT));
        self.enter(ROOT, free_name(LOST_FOUND, &taken), number);
        reached.insert(number);
        (number, BTreeSet::new())
    }

    /// The numbers that an inode keeps of itself.
    pub(super) fn judge_numbers(&mut self) {
        let numbers: Vec<u64> = self.inodes.keys().copied().collect();
        for number in numbers {
            self.judge_inode(number);
        }
    }

    fn judge_inode(&mut self, number: u64) {
        let Some(found) = self.inodes.get_mut(&number) else { return };
        let Some(told) = found.inode else { return };
        let is_folder = found.is_folder();
        let is_orphan = self.orphans.contains(&number);
        let mut is = Inode { blocks: found.blocks(), ..told };
        is.links = match (is_orphan, is_folder, &found.of_folder) {
            (true, ..) => 0,
            (false, true, items) => 2 + items.as_ref().map_or(0, |items| items.folders()) as u32,
            (false, false, _) => found.folders.len() as u32,
        };
        if is_folder {
            let items = found.of_folder.as_deref();
            is.size_bytes = items.map_or(0, |items| items.names.len() as u64);
            is.next_number = told.next_number.max(items.map_or(0, FolderItems::next_number));
            let parent = if number == ROOT { Some(ROOT) } else { found.folders.first().copied() };
            is.parent = parent.unwrap_or(told.parent);
        }
        is.size_bytes = match (found.file_type(), found.inline_bytes) {
            (Some(FileType::Link), Some(bytes)) => bytes as u64,
            (Some(FileType::File), _) => is.size_bytes.min(FILE_BYTES_MAX),
            _ => is.size_bytes,
        };
        let counts = [
            ("links", told.links.into(), is.links.into()),
            ("blocks", told.blocks, is.blocks),
            (if is_folder { "entries" } else { "length" }, told.size_bytes, is.size_bytes),
            ("next entry's number", told.next_number, is.next_number),
            ("parent", told.parent, is.parent),
        ];
        found.inode = Some(is);
        let wrong = counts.into_iter().filter(|(_, told, found)| told != found);
        let wrong = wrong.map(|(what, told, found)| Problem::Count { inode: number, what, told, found });
        let before = self.problems.len();
        self.problems.extend(wrong);
        if self.problems.len() > before || self.edits.contains_key(&Key::new(number, KeyKind::Inode, 0)) {
            self.put(Key::new(number, KeyKind::Inode, 0), is.encode());
        }
    }
}

/// A name that is not taken: this one, or one that begins so.
fn free_name(wanted: &str, taken: &BTreeSet<Box<[u8]>>) -> String {
    let names = (0..=taken.len())
        .map(|count| if count == 0 { wanted.to_owned() } else { format!("{wanted}-{count}") });
    names.into_iter().find(|name| !taken.contains(name.as_bytes())).unwrap_or_else(|| wanted.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Edits, Origin};

    /// Folders of an older leaf lie in one another, so deep that a call for each would take all of the stack.
    #[test]
    fn deep_trees_are_dropped() {
        const DEPTH: u64 = 300_000;
        let mut items = Items::new(1, Edits::new(), 0);
        for number in 2..DEPTH {
            let inode = items.blank(FOLDER_MODE, number - 1);
            let key = Key::new(number, KeyKind::Inode, 0);
            items.take_up(key, &inode.encode(), Origin::Older);
            let mut names = FolderItems::default();
            names.add(Name::new(FIRST_NUMBER, b"deeper".to_vec(), number + 1, FileType::Folder), 1);
            if let Some(found) = items.inodes.get_mut(&number) {
                found.of_folder = Some(names.into());
                found.folders.push(number - 1);
            }
        }
        items.drop_tree(2);
        assert!(items.inodes.is_empty());
    }
}
