//! The root of the newest tree, where no anchor says it.
//!
//! A checkpoint that did not end leaves nodes of a tree that never counted, and its root, or the first of its leaves, looks like any other
//! root. So a tree counts only if all it speaks of is there.

use std::collections::{BTreeMap, BTreeSet};

use stripewise_device::IoError;
use stripewise_format::rafs::{
    inode::{FileType, Inode},
    key::KeyKind,
    names::Entry,
    node::Item,
    space::Extent,
};

use super::{
    Progress, ROOT_KEY,
    reader::{Reader, Wanted},
    scan::Found,
    walk::Walked,
};

/// What a walk over a tree has found.
#[derive(Debug, Default)]
struct Sums {
    inodes: BTreeSet<u64>,
    named: BTreeSet<u64>,
    /// What inodes tell, and what there is: blocks, and entries by name and by number.
    blocks: (u64, u64),
    entries: (u64, u64, u64),
    /// Nodes that are lost, those that have more under them a hundred times.
    lost: u64,
}

/// The root of the newest tree that is whole, of those newer than an anchor's. None: the anchor's tree is better than all of them.
///
/// # Errors
/// If a node cannot be read just now.
pub(crate) async fn newest_root(
    reader: &Reader,
    found: &[Found],
    anchor: Option<(u64, Option<Wanted>)>,
) -> Result<Option<Wanted>, IoError> {
    let behind = anchor.map(|(generation, _)| generation);
    let mut tops: BTreeMap<u64, &Found> = BTreeMap::new();
    let is_newer = |one: &&Found| one.at == one.place && behind.is_none_or(|behind| one.generation > behind);
    for one in found.iter().filter(is_newer) {
        let top = tops.entry(one.generation).or_insert(one);
        if one.level > top.level {
            *top = one;
        }
    }
    let roots = tops.values().rev().map(|one| {
        let Found { place, generation, level, .. } = **one;
        Wanted { place, generation, level, low: None, high: None, is_root: true }
    });
    let told = match anchor {
        Some((_, Some(root))) => Some((root.level, Sums::of(reader, root).await?.lost)),
        _ => None,
    };
    let mut best: Option<(u64, Wanted)> = None;
    for root in roots {
        let sums = Sums::of(reader, root).await?;
        if sums.is_whole() {
            return Ok(Some(root));
        }
        let is_better = best.is_none_or(|(lost, _)| sums.lost < lost);
        let may_be_root = told.is_none_or(|(level, lost)| level <= root.level && sums.lost < lost);
        if is_better && may_be_root {
            best = Some((sums.lost, root));
        }
    }
    Ok(best.map(|(_, root)| root))
}

/// Whether nodes of a tree are lost.
///
/// # Errors
/// If a node cannot be read just now.
pub(crate) async fn has_lost_nodes(reader: &Reader, root: Wanted) -> Result<bool, IoError> {
    Ok(Sums::of(reader, root).await?.lost > 0)
}

impl Sums {
    async fn of(reader: &Reader, root: Wanted) -> Result<Self, IoError> {
        let (mut walked, mut sums) = (Walked::default(), Self::default());
        walked
            .walk(reader, root, &Progress::silent(), |items| items.iter().for_each(|item| sums.add(item)))
            .await?;
        sums.lost = walked.lost.iter().map(|lost| 100_u64.saturating_pow(lost.wanted.level.into())).sum();
        Ok(sums)
    }

    fn add(&mut self, item: &Item) {
        match item.key.kind {
            KeyKind::Inode => {
                self.inodes.insert(item.key.object);
                let Ok(inode) = Inode::decode(&item.value) else { return };
                self.blocks.0 = self.blocks.0.saturating_add(inode.blocks);
                if inode.file_type() == Ok(FileType::Folder) {
                    self.entries.0 = self.entries.0.saturating_add(inode.size_bytes);
                }
            }
            KeyKind::Extent => {
                self.blocks.1 += Extent::decode(&item.value).map_or(0, |extent| u64::from(extent.blocks));
            }
            KeyKind::Name | KeyKind::Number => {
                let entries = Entry::decode(&item.value).unwrap_or_default();
                let count =
                    if item.key.kind == KeyKind::Name { &mut self.entries.1 } else { &mut self.entries.2 };
                *count += entries.len() as u64;
                self.named.extend(entries.iter().map(|entry| entry.inode));
            }
            _ => {}
        }
    }

    fn is_whole(&self) -> bool {
        self.lost == 0
            && self.inodes.contains(&ROOT_KEY.object)
            && self.named.is_subset(&self.inodes)
            && self.blocks.0 == self.blocks.1
            && self.entries.0 == self.entries.1
            && self.entries.1 == self.entries.2
    }
}
