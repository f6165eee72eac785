//! fsck: everything that a file system keeps, held against everything else it keeps.
//!
//! It looks at what a mount would find: the newest anchor's tree, and what the journal repeats on it. Nothing is written here: a `Plan` says
//! what is wrong, and which items the tree should have instead. [`repair`](mod@crate::repair) carries it out.
//!
//! * `ground`: superblocks and anchors; `roots`: trees to which no anchor leads; `records`: the journal;
//! * `reader`, `walk`: the tree's nodes, read without the tree's own code; `scan`: all nodes that lie on the volume; `salvage`: what is left of
//!   nodes that are lost;
//! * `items`: what the tree has, sorted by inode; `names`, `reach`, `pieces`, `extents`: what of it counts; `owned`: whose all blocks are;
//! * `mounted`: a look at what is in use; `problem`: what may be wrong.

mod extents;
mod ground;
mod items;
mod mounted;
mod names;
mod owned;
mod pieces;
mod problem;
mod reach;
pub(crate) mod reader;
mod records;
mod roots;
mod salvage;
mod scan;
mod walk;

use std::{fmt, sync::Arc};

use stripewise_device::{IoError, sync::yield_now};
use stripewise_format::rafs::{
    anchor::{INODES_END, JournalPosition},
    key::{Key, KeyKind},
    node::Item,
};

pub(crate) use self::{
    extents::Copied,
    ground::Base,
    items::{Items, Origin, Piece},
    owned::Owned,
    records::{Edits, Records, heads},
    walk::{Leaf, Walked},
};
use self::{
    extents::{Bounds, Copies},
    owned::{judge_space, repeat},
    reader::Reader,
    salvage::salvage,
};
pub use self::{
    mounted::{CheckError, check_mounted},
    problem::Problem,
};
use crate::{
    fs::{MountError, ROOT},
    space::{Measure, Space},
    store::{self, FileBlocks},
    volume::Volume,
};

/// The item that every tree has.
const ROOT_KEY: Key = Key::new(ROOT, KeyKind::Inode, 0);

/// What was found.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Report {
    /// Inodes.
    pub inodes: u64,
    /// Folders among them.
    pub folders: u64,
    /// Inodes without a name, which the next mount frees.
    pub orphans: u64,
    /// Blocks of files, without those in the tree.
    pub file_blocks: u64,
    /// Nodes of the tree.
    pub nodes: u64,
    /// Records of the journal behind the newest anchor.
    pub records: u64,
    /// Items of lost nodes that were found in older ones.
    pub saved: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What a crash may leave, and a repair makes good: it is no damage.
    pub notes: Vec<Problem>,
}

/// Told how far a long look has come.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&'static str, u64, u64) + Send + Sync>);

impl Progress {
    /// Calls this with what is looked at, how many of these were, and how many there are: 0 if that is not known.
    pub fn new(tell: impl Fn(&'static str, u64, u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Tells nobody.
    #[must_use]
    pub fn silent() -> Self {
        Self::new(|_, _, _| {})
    }

    pub(crate) fn tell(&self, what: &'static str, done: u64, all: u64) {
        (self.0)(what, done, all);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Progress")
    }
}

/// Looks at all of a file system that is not mounted, and changes nothing.
///
/// # Errors
/// [`MountError`], if there is none, or nothing leads to a tree.
pub async fn check(volume: &Arc<dyn Volume>) -> Result<Report, MountError> {
    check_telling(volume, &Progress::silent()).await
}

/// As [`check`](fn@check), and tells how far it has come.
///
/// # Errors
/// [`MountError`].
pub async fn check_telling(volume: &Arc<dyn Volume>, progress: &Progress) -> Result<Report, MountError> {
    Ok(Plan::make(volume, 0, progress).await?.report)
}

/// What is wrong, and what is to be there instead.
pub(crate) struct Plan {
    pub(crate) base: Base,
    pub(crate) walked: Walked,
    pub(crate) items: Items,
    /// The space, as the volume tells it.
    pub(crate) space: Space,
    /// Blocks to which something on the volume leads.
    pub(crate) referred: Owned,
    /// Blocks of files that are in the journal only.
    pub(crate) data: Vec<FileBlocks>,
    /// Copies that files get of blocks with two owners. What is in the journal is newer.
    pub(crate) copies: Copies,
    /// Where the next record of the journal goes.
    pub(crate) journal: JournalPosition,
    pub(crate) report: Report,
}

impl Plan {
    /// Looks at everything. What is made anew gets this time, in nanoseconds since 1970.
    pub(crate) async fn make(
        volume: &Arc<dyn Volume>,
        now_ns: i64,
        progress: &Progress,
    ) -> Result<Self, MountError> {
        let base = Base::read(volume, progress).await?;
        let records = records::read(volume, &base.superblock, base.anchor.1.journal);
        let records = records.await.map_err(store::GroundError::from)?;
        Self::judge(volume, base, records, now_ns, progress).await
    }

    /// The same of the tree of an anchor, with the changes of these records.
    async fn judge(
        volume: &Arc<dyn Volume>,
        mut base: Base,
        mut records: Records,
        now_ns: i64,
        progress: &Progress,
    ) -> Result<Self, MountError> {
        let superblock = base.superblock.clone();
        let reader = Reader::new(volume.clone(), &superblock);
        let mut problems = std::mem::take(&mut base.problems);
        problems.extend(records.problem.take());
        let replayed = std::mem::take(&mut records.edits);
        let mut taking = TakingUp {
            items: Items::new(superblock.hash_seed, replayed.clone(), now_ns),
            replayed: &replayed,
            space: Space::new(store::layout(volume, &superblock), Measure::Rows),
            inodes: base.anchor.1.inodes,
            sources: Vec::new(),
            saved: 0,
        };
        let walked = taking
            .take_up_tree(&reader, &mut base, progress, &mut problems)
            .await
            .map_err(store::GroundError::from)?;
        let TakingUp { mut items, mut space, inodes: told_inodes, sources, saved, .. } = taking;
        problems.append(&mut items.problems);
        judge_told(&base, &mut items, &space, &replayed, &mut problems);
        problems.extend(repeat(&mut space, &records.space).err());
        let mut referred = Owned::new(&superblock);
        referred.add_files(&items);
        walked.places.iter().chain(&sources).for_each(|place| referred.add(*place));

        progress.tell("inodes", 0, items.inodes.len() as u64);
        let copies = items
            .judge(&reader, &walked, &Bounds::of(&superblock), referred.free())
            .await
            .map_err(store::GroundError::from)?;
        let data = records.data.into_runs();
        problems.append(&mut items.problems);
        let nodes: Vec<u64> = walked.places.iter().copied().collect();
        let mut owned = Owned::new(&superblock);
        owned.add_files(&items);
        nodes.iter().for_each(|place| owned.add(*place));
        judge_space(&space, &owned, &items, &nodes, &mut problems);
        let mut report = Report { records: records.records, saved, ..items.report() };
        report.nodes = nodes.len() as u64;
        if report.inodes != told_inodes {
            problems.push(Problem::Inodes { found: report.inodes, told: told_inodes });
        }
        report.problems = problems;
        report.notes = std::mem::take(&mut base.notes);
        Ok(Self { base, walked, items, space, referred, data, copies, journal: records.end, report })
    }
}

/// What the anchor tells of blocks and inodes, before the journal is repeated.
fn judge_told(base: &Base, items: &mut Items, space: &Space, replayed: &Edits, problems: &mut Vec<Problem>) {
    let (used, told) = (space.counts().taken, base.anchor.1.used_blocks);
    if used != told {
        problems.push(Problem::Used { found: used, told });
    }
    let told = next_inode(base.anchor.1.next_inode, replayed);
    if items.next_inode > told {
        problems.push(Problem::NextInode { told, found: items.next_inode - 1 });
    }
    items.next_inode = items.next_inode.max(told);
}

impl Items {
    /// Decides what counts, and notes what the tree should have instead. Returns blocks of which files get copies; so many are free.
    async fn judge(
        &mut self,
        reader: &Reader,
        walked: &Walked,
        bounds: &Bounds,
        free: u64,
    ) -> Result<Copies, IoError> {
        // Of millions of files, each step takes seconds: an unmount that waits for a look ends it between two.
        self.remake_inodes();
        yield_now().await;
        self.judge_names();
        yield_now().await;
        self.judge_orphans();
        self.judge_reach();
        yield_now().await;
        self.judge_pieces(bounds);
        yield_now().await;
        let copies = self.judge_owners(reader, walked.places.iter().copied(), free).await?;
        self.judge_numbers();
        self.put_names();
        self.put_extents();
        Ok(copies)
    }

    fn report(&self) -> Report {
        let mut report = Report { inodes: self.inodes.len() as u64, ..Report::default() };
        for (number, found) in &self.inodes {
            report.folders += u64::from(found.is_folder());
            report.orphans += u64::from(self.orphans.contains(number));
            report.file_blocks += found.blocks();
        }
        report
    }
}

/// The number of the next inode, as a mount would have it.
fn next_inode(told: u64, replayed: &Edits) -> u64 {
    let is_inode = |key: &Key| key.kind == KeyKind::Inode && key.object < INODES_END;
    let put = replayed.iter().filter(|(key, value)| is_inode(key) && value.is_some());
    put.map(|(key, _)| key.object.saturating_add(1)).fold(told, u64::max)
}

/// Takes up items as the journal leaves them.
struct TakingUp<'a> {
    items: Items,
    replayed: &'a Edits,
    space: Space,
    /// How many inodes there are by the anchor and the journal.
    inodes: u64,
    /// Blocks outside of the tree that items were read from, or should have been, and how many items of older leaves.
    sources: Vec<u64>,
    saved: u64,
}

impl TakingUp<'_> {
    /// Takes up all items of the tree, what is left of lost nodes, and what the journal repeats.
    async fn take_up_tree(
        &mut self,
        reader: &Reader,
        base: &mut Base,
        progress: &Progress,
        problems: &mut Vec<Problem>,
    ) -> Result<Walked, IoError> {
        let mut walked = Walked::default();
        if let Some(root) = base.root() {
            walked.walk(reader, root, progress, |items| self.take_up(items, Origin::Tree)).await?;
        }
        let lost = walked.lost.iter();
        problems.extend(lost.map(|lost| Problem::Node { place: lost.wanted.place, why: lost.why.clone() }));
        // What cannot be read now may be read another time.
        self.sources.extend(walked.lost.iter().map(|lost| lost.wanted.place));
        if !walked.lost.is_empty() {
            if base.found.is_none() {
                base.note_found(scan::scan(reader, &base.superblock, progress).await?);
            }
            let found = base.found.take().unwrap_or_default();
            let rest = salvage(reader, &mut walked, &found, base.anchor.1.root.generation, progress).await?;
            self.take_up(&rest.whole, Origin::Tree);
            self.keep(&rest.whole);
            self.items.lost = rest.lost.iter().map(|lost| lost.wanted).collect();
            self.take_up(&rest.older, Origin::Older);
            self.saved = rest.older.len() as u64;
            self.sources.extend(rest.sources);
        }
        self.take_up_records();
        Ok(walked)
    }

    fn take_up(&mut self, items: &[Item], origin: Origin) {
        for item in items {
            let key = item.key;
            if key.kind == KeyKind::Group && key.object == 0 {
                if origin == Origin::Tree {
                    self.take_up_group(key, &item.value);
                }
                continue;
            }
            match self.replayed.get(&key) {
                None => self.items.take_up(key, &item.value, origin),
                // If it is there still, it is counted with the journal's items.
                Some(_) if key.kind == KeyKind::Inode && origin == Origin::Tree => {
                    self.inodes = self.inodes.saturating_sub(1);
                }
                Some(_) => {}
            }
        }
    }

    fn take_up_group(&mut self, key: Key, value: &[u8]) {
        self.items.groups.push(key.offset);
        if let Err(error) = self.space.load(key.offset, value) {
            self.items.problems.push(Problem::Space(error));
        }
    }

    /// Items that no leaf of the tree has where it belongs are put there.
    fn keep(&mut self, items: &[Item]) {
        for item in items {
            self.items.edits.entry(item.key).or_insert_with(|| Some(item.value.clone()));
        }
    }

    fn take_up_records(&mut self) {
        for (key, value) in self.replayed {
            let Some(value) = value else { continue };
            self.inodes += u64::from(key.kind == KeyKind::Inode);
            self.items.take_up(*key, value, Origin::Tree);
        }
    }
}
