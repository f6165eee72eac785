//! What a client's folder may be after power has failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use stripewise_rafs::fs::JournalMode;

use super::ground::STRIPE_BYTES;

/// Bytes that power failures do not split, in files that lie out of place and in others.
pub(super) const BLOCK: usize = 4096;
pub(super) const SECTOR: usize = 512;

/// The permissions of a new file.
pub(super) const FIRST_MODE: u32 = 0o644;
/// The extended attribute that clients set.
pub(super) const ATTRIBUTE: &[u8] = b"user.story";

/// What a file is beside its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    /// Its permissions.
    pub(super) mode: u32,
    /// Its extended attribute, if it has it.
    pub(super) value: Option<Vec<u8>>,
}

/// Names in a client's folder, and which file each leads to.
pub(super) type Names = BTreeMap<String, u64>;

/// Files that have replaced others by a rename, and the version that each had then: with the new name there is that one or a later one.
type Least = BTreeMap<u64, usize>;

/// Files that were found by name.
pub(super) type Files = BTreeMap<String, Content>;

/// What is in a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// Of these, the blocks that cannot be read.
    pub(super) damaged: BTreeSet<usize>,
    /// What it is beside these.
    pub(super) is: Attributes,
    /// Where it leads, if it is a symbolic link.
    pub(super) target: Option<Vec<u8>>,
    /// Its number in the file system: names of one file have the same one.
    pub(super) inode: u64,
}

/// What may be anything after a crash: it has no CRC, so that nothing tells that it is another than what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forgiven {
    /// Nothing.
    Nothing,
    /// A member was lost in the crash: blocks that may have been overwritten where they lie at that moment.
    Overwritten,
    /// A member lies: files that are overwritten where they lie.
    Large,
}

/// A moment in the life of a folder: how many versions of its names and files there were.
pub(super) struct Marks {
    names: usize,
    files: BTreeMap<u64, usize>,
    attributes: BTreeMap<u64, usize>,
}

/// A client's folder.
#[derive(Debug)]
pub(super) struct Folder {
    /// Its name in the root.
    pub(super) name: String,
    /// All that names were since they were durable; the last one is what they are, or may become.
    names: Vec<(Option<Names>, Least)>,
    /// All that each file was since it was durable.
    files: BTreeMap<u64, Vec<Vec<u8>>>,
    /// How many versions each file had before these.
    before: BTreeMap<u64, usize>,
    /// All attributes that each file had since they were durable.
    attributes: BTreeMap<u64, Vec<Attributes>>,
    /// Where symbolic links lead.
    targets: BTreeMap<u64, Vec<u8>>,
    /// Files that had a stripe of their own once: what is left of it is overwritten where it lies, and sectors count.
    large: BTreeSet<u64>,
    /// Blocks of each file that were written since the last mount, and since then the file was not durable: those of a large one may have been
    /// overwritten where they lie in the moment of a crash.
    touched: BTreeMap<u64, BTreeSet<usize>>,
    forgiven: Forgiven,
    /// What was overwritten where it lies was in the journal before the last crash: blocks count there, too.
    was_journaled: bool,
    count: u64,
}

impl Folder {
    pub(super) fn new(number: u32) -> Self {
        Self {
            name: format!("client {number}"),
            names: vec![(None, Least::new())],
            files: BTreeMap::new(),
            before: BTreeMap::new(),
            attributes: BTreeMap::new(),
            targets: BTreeMap::new(),
            large: BTreeSet::new(),
            touched: BTreeMap::new(),
            forgiven: Forgiven::Nothing,
            was_journaled: false,
            count: 0,
        }
    }

    /// What the names are now; none if the folder is not there.
    pub(super) fn names(&self) -> Option<&Names> {
        self.names.last().and_then(|(names, _)| names.as_ref())
    }

    /// A file that is in no folder yet.
    pub(super) fn new_file(&mut self) -> u64 {
        self.count += 1;
        self.files.insert(self.count, vec![Vec::new()]);
        self.attributes.insert(self.count, vec![Attributes { mode: FIRST_MODE, value: None }]);
        self.count
    }

    /// A symbolic link that is in no folder yet.
    pub(super) fn new_symlink(&mut self, target: Vec<u8>) -> u64 {
        self.count += 1;
        self.targets.insert(self.count, target);
        self.count
    }

    /// Where it leads, if it is a symbolic link.
    pub(super) fn target(&self, file: u64) -> Option<&[u8]> {
        self.targets.get(&file).map(Vec::as_slice)
    }

    /// Whether a file has its extended attribute.
    pub(super) fn has_value(&self, file: u64) -> bool {
        self.attributes.get(&file).and_then(|versions| versions.last()).is_some_and(|is| is.value.is_some())
    }

    pub(super) fn bytes(&self, file: u64) -> &[u8] {
        self.files.get(&file).and_then(|versions| versions.last()).map_or(&[], Vec::as_slice)
    }

    /// Names become these, now or after a power failure.
    pub(super) fn become_named(&mut self, names: Names) {
        let least = self.names.last().map(|(_, least)| least.clone()).unwrap_or_default();
        self.names.push((Some(names), least));
    }

    /// A file takes the name of another one, now or after a power failure.
    pub(super) fn become_replaced(&mut self, names: Names, file: u64) {
        self.become_named(names);
        let before = self.before.get(&file).copied().unwrap_or(0);
        let count = before + self.files.get(&file).map_or(0, Vec::len);
        if let Some((_, least)) = self.names.last_mut() {
            least.insert(file, count.saturating_sub(1));
        }
    }

    /// A change of names was refused.
    pub(super) fn names_stay(&mut self) {
        self.names.pop();
    }

    /// A file's bytes become these, now or after a power failure. Those from an offset on were written, up to another one.
    pub(super) fn become_bytes(&mut self, file: u64, bytes: Vec<u8>, written: Range<usize>) {
        // What lies behind an old end is made zero.
        let start = written.start.min(self.bytes(file).len());
        let blocks = start / BLOCK..written.end.div_ceil(BLOCK);
        self.touched.entry(file).or_default().extend(blocks);
        if unit(bytes.len()) == SECTOR {
            self.large.insert(file);
        }
        self.files.entry(file).or_default().push(bytes);
    }

    /// A file's attributes change, now or after a power failure.
    pub(super) fn become_attributed(&mut self, file: u64, change: impl FnOnce(&mut Attributes)) {
        let versions = self.attributes.entry(file).or_default();
        let mut is = versions.last().cloned().unwrap_or_default();
        change(&mut is);
        versions.push(is);
    }

    /// A change of attributes was refused.
    pub(super) fn attributes_stay(&mut self, file: u64) {
        self.attributes.entry(file).or_default().pop();
    }

    /// A change of bytes was refused.
    pub(super) fn bytes_stay(&mut self, file: u64) {
        self.files.entry(file).or_default().pop();
    }

    /// Names are durable, and this file, or all.
    pub(super) fn synced(&mut self, file: Option<u64>) {
        self.names.drain(..self.names.len() - 1);
        let is_synced = |number: &u64| file.is_none_or(|file| file == *number);
        for (number, versions) in self.files.iter_mut().filter(|(number, _)| is_synced(number)) {
            drop_first(&mut self.before, *number, versions, versions.len().saturating_sub(1));
        }
        self.touched.retain(|number, _| !is_synced(number));
        for (_, versions) in self.attributes.iter_mut().filter(|(number, _)| is_synced(number)) {
            versions.drain(..versions.len().saturating_sub(1));
        }
    }

    /// What names and files are at this moment.
    pub(super) fn marks(&self) -> Marks {
        let files = self.files.iter().map(|(file, versions)| (*file, versions.len()));
        let attributes = self.attributes.iter().map(|(file, versions)| (*file, versions.len()));
        Marks { names: self.names.len(), files: files.collect(), attributes: attributes.collect() }
    }

    /// What was there at some moment, since which nothing became durable, is durable.
    pub(super) fn synced_until(&mut self, marks: &Marks) {
        self.names.drain(..marks.names - 1);
        for (file, count) in &marks.files {
            if let Some(versions) = self.files.get_mut(file) {
                drop_first(&mut self.before, *file, versions, count.saturating_sub(1));
            }
        }
        for (file, count) in &marks.attributes {
            if let Some(versions) = self.attributes.get_mut(file) {
                versions.drain(..count.saturating_sub(1));
            }
        }
    }

    /// Looks at what was found. From then on it is what it is.
    pub(super) fn look(
        &mut self,
        found: Option<&Files>,
        journal: JournalMode,
        forgiven: Forgiven,
    ) -> Result<(), String> {
        self.forgiven = forgiven;
        self.was_journaled = journal == JournalMode::Data;
        let in_found = |(names, least): &(Option<Names>, Least)| match (names, found) {
            (None, None) => true,
            (Some(names), Some(found)) => {
                names.keys().eq(found.keys()) && self.fits(names, least, found).is_ok()
            }
            _ => false,
        };
        let last = self.names.iter().rev().find(|names| in_found(names)).cloned();
        let Some((names, _)) = last else { return Err(self.why(found)) };
        let (mut files, mut attributes) = (BTreeMap::new(), BTreeMap::new());
        for (name, file) in names.iter().flatten() {
            let content = found.and_then(|found| found.get(name));
            attributes.insert(*file, content.map(|content| content.is.clone()).into_iter().collect());
            let content = content.filter(|content| content.damaged.is_empty());
            files.insert(*file, content.map(|content| content.bytes.clone()).into_iter().collect());
        }
        (self.names, self.files, self.attributes) = (vec![(names, Least::new())], files, attributes);
        self.before.clear();
        self.touched.clear();
        Ok(())
    }

    /// Whether each file is what it may be.
    fn fits(&self, names: &Names, least: &Least, found: &Files) -> Result<(), String> {
        let mut inodes = BTreeMap::new();
        for (name, file) in names {
            let Content { bytes, damaged, is, target, inode } = &found[name];
            if *inodes.entry(inode).or_insert(*file) != *file {
                return Err(format!("{}/{name} is a name of another file, too", self.name));
            }
            if inodes.values().filter(|other| *other == file).count() > 1 {
                return Err(format!("{}/{name} was one file with another name, and is not", self.name));
            }
            if target.as_deref() != self.target(*file) {
                let (found, told) = (text(target.as_deref()), text(self.target(*file)));
                return Err(format!("{}/{name} leads to {found}, not to {told}", self.name));
            }
            if target.is_some() {
                continue;
            }
            let unit = if self.large.contains(file) && !self.was_journaled { SECTOR } else { BLOCK };
            let versions = self.files.get(file).map_or(&[][..], Vec::as_slice);
            let before = self.before.get(file).copied().unwrap_or(0);
            let least = least.get(file).map_or(0, |least| least.saturating_sub(before));
            let versions = &versions[least.min(versions.len())..];
            let attributes = self.attributes.get(file).map_or(&[][..], Vec::as_slice);
            if !attributes.contains(is) {
                return Err(format!("{}/{name} has {is:?}, and had one of {attributes:?}", self.name));
            }
            if self.forgiven == Forgiven::Large && self.large.contains(file) {
                continue;
            }
            judge_but(versions, bytes, unit, damaged, self.forgiven_blocks(*file))
                .map_err(|what| format!("{}/{name}: {what}", self.name))?;
        }
        Ok(())
    }

    /// Blocks of a file that may be anything. What the journal has is written there once more.
    fn forgiven_blocks(&self, file: u64) -> &BTreeSet<usize> {
        const NONE: &BTreeSet<usize> = &BTreeSet::new();
        let may_be = self.forgiven == Forgiven::Overwritten && !self.was_journaled;
        let touched = (may_be && self.large.contains(&file)).then(|| self.touched.get(&file)).flatten();
        touched.unwrap_or(NONE)
    }

    /// Why what was found fits none of what may be.
    fn why(&self, found: Option<&Files>) -> String {
        let like = |(names, _): &&(Option<Names>, Least)| match (names, found) {
            (Some(names), Some(found)) => names.keys().eq(found.keys()),
            _ => false,
        };
        let like = self.names.iter().rev().find(like);
        if let (Some((Some(names), least)), Some(found)) = (like, found) {
            return self.fits(names, least, found).err().unwrap_or_default();
        }
        let found = found.map(|found| found.keys().cloned().collect::<Vec<_>>());
        format!("{}: names were never {found:?}, but {:?}", self.name, self.names)
    }
}

fn text(target: Option<&[u8]>) -> String {
    target.map_or("nowhere".into(), |target| String::from_utf8_lossy(target).into_owned())
}

/// The first versions of a file no longer count.
fn drop_first(before: &mut BTreeMap<u64, usize>, file: u64, versions: &mut Vec<Vec<u8>>, count: usize) {
    *before.entry(file).or_default() += versions.drain(..count).len();
}

/// Bytes of a file that power failures do not split. One of this length has a stripe of its own, perhaps, and is overwritten where it lies.
pub(crate) fn unit(len_bytes: usize) -> usize {
    if len_bytes > STRIPE_BYTES - BLOCK { SECTOR } else { BLOCK }
}

/// A file's length lies between those that it had, and each part of it is what it was at some time.
pub(crate) fn judge(versions: &[Vec<u8>], found: &[u8], unit: usize) -> Result<(), String> {
    judge_but(versions, found, unit, &BTreeSet::new(), &BTreeSet::new())
}

/// As [`judge`], of a file of which blocks cannot be read: each has changed since it was durable. Others may be anything.
fn judge_but(
    versions: &[Vec<u8>],
    found: &[u8],
    unit: usize,
    damaged: &BTreeSet<usize>,
    forgiven: &BTreeSet<usize>,
) -> Result<(), String> {
    let lengths = versions.iter().map(Vec::len);
    let (least, most) = (lengths.clone().min().unwrap_or(0), lengths.max().unwrap_or(0));
    if !(least..=most).contains(&found.len()) {
        return Err(format!("{} bytes, not {least} to {most}", found.len()));
    }
    let in_block = |version: &Vec<u8>, block: usize| {
        let within = |at: usize| at.min(version.len());
        version[within(block * BLOCK)..within((block + 1) * BLOCK)].to_vec()
    };
    for block in damaged {
        let mut all = versions.iter().map(|version| in_block(version, *block));
        let first = all.next();
        if all.all(|other| Some(other) == first) {
            return Err(format!("block {block} was durable, and cannot be read"));
        }
    }
    if let [only] = versions
        && forgiven.is_empty()
        && only != found
    {
        let same = only.iter().zip(found).take_while(|(one, other)| one == other).count();
        return Err(format!(
            "all of it was durable or came with a rename, and other bytes are there from {same} on"
        ));
    }
    for (start, part) in (0..).step_by(unit).zip(found.chunks(unit)) {
        if damaged.contains(&(start / BLOCK)) || forgiven.contains(&(start / BLOCK)) {
            continue;
        }
        let is_of = |version: &Vec<u8>| {
            let rest = version.get(start..).unwrap_or_default();
            let known = rest.len().min(part.len());
            let (ends, has_ended) = (start + part.len(), known < part.len());
            let is_zero = |longer: &Vec<u8>| {
                longer.get(start + known..ends).is_some_and(|tail| tail.iter().all(|byte| *byte == 0))
            };
            // Behind the end of a version there are zeroes only if a longer one has them there.
            let may_end = !has_ended || versions.iter().any(is_zero);
            known > 0
                && may_end
                && part[..known] == rest[..known]
                && part[known..].iter().all(|byte| *byte == 0)
        };
        if !versions.iter().any(is_of) {
            return Err(format!(
                "{unit} bytes at {start} were never these ({:?}..)",
                &part[..part.len().min(8)]
            ));
        }
    }
    Ok(())
}
