//! fsck: everything that a file system keeps, held against everything else it keeps.
//!
//! It looks at what a mount would find: the newest anchor's tree, and what the journal repeats on it. Nothing is written.
//!
//! * `nodes`: the places of the tree's nodes, read without the tree's own code for walking;
//! * `items`: inodes, names, extents and attributes, as the tree has them;
//! * `problem`: what may be wrong.

mod items;
mod nodes;
mod problem;

use std::{ops::Range, sync::Arc};

use stripewise_format::rafs::key::{Key, KeyKind};

pub use self::problem::Problem;
use self::{items::Items, nodes::Nodes};
use crate::{
    fs::MountError,
    shape::BlockNo,
    store::{Ground, Store, StoreError},
    tree::Scan,
    volume::Volume,
};

/// Nodes that are kept in memory while a tree is looked at.
const CACHED_NODES: usize = 1 << 12;

/// What was found.
#[derive(Debug, Default)]
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
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Looks at all of a file system that is not mounted.
///
/// # Errors
/// [`MountError`], if it cannot be opened at all.
pub async fn check(volume: &Arc<dyn Volume>) -> Result<Report, MountError> {
    let ground = Ground::read(&**volume).await?;
    let root = ground.anchor.1.root;
    let superblock = ground.superblock.clone();
    let (store, replay) = Store::open(volume.clone(), ground, CACHED_NODES).await?;
    let mut nodes = Nodes::new(volume.clone(), &superblock);
    if root.generation > 0 {
        nodes.walk(root).await;
    }
    let mut items = Items::new(superblock.hash_seed);
    let mut scan =
        Scan::over(Key::new(0, KeyKind::Orphan, 0)..=Key::new(u64::MAX, KeyKind::Extent, u64::MAX));
    while let Some(batch) =
        scan.batch(store.tree()).await.map_err(StoreError::from).map_err(crate::fs::FsError::from)?
    {
        batch.iter().for_each(|item| items.take_up(item.key, &item.value));
    }
    replay.data.iter().for_each(|data| items.take_up_data(data.inode));
    let mut report =
        Report { records: replay.records, nodes: nodes.places.len() as u64, ..Report::default() };
    let mut owned: Vec<Owned> = nodes
        .places
        .iter()
        .map(|place| Owned { blocks: *place..place.saturating_add(1), inode: 0 })
        .collect();
    report.problems.append(&mut nodes.problems);
    items.judge(&mut report, &mut owned);
    judge_space(&store, owned, &mut report.problems);
    if report.inodes != store.inodes() {
        report.problems.push(Problem::Inodes { found: report.inodes, told: store.inodes() });
    }
    Ok(report)
}

/// Blocks of the volume that belong to an inode, or to the tree: inode 0.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owned {
    blocks: Range<u64>,
    inode: u64,
}

/// Blocks have one owner each, and those that have one are taken, and no others.
fn judge_space(store: &Store, mut owned: Vec<Owned>, problems: &mut Vec<Problem>) {
    owned.sort_by_key(|one| one.blocks.start);
    for pair in owned.windows(2) {
        if pair[1].blocks.start < pair[0].blocks.end {
            let (inode, other) = (pair[0].inode, pair[1].inode);
            problems.push(Problem::TwoOwners { block: pair[1].blocks.start, inode, other });
        }
    }
    for one in &owned {
        if let Some(block) = one.blocks.clone().find(|block| !store.is_taken(BlockNo(*block))) {
            problems.push(Problem::NotTaken { block, inode: one.inode });
        }
    }
    let counted: u64 = owned.iter().map(|one| one.blocks.end - one.blocks.start).sum();
    let taken = store.counts().taken;
    if taken > counted {
        problems.push(Problem::Leaked { blocks: taken - counted });
    }
}
