//! Cleaning: what is left in half-empty stripes moves together, so that there are free stripes again.
//!
//! The paper does not clean: where no stripe is free, holes are filled, with a read for each write. Writers do the same here, and never
//! wait for a pass. Beside them, a pass chooses victims, the emptiest stripes first, and none that was written lately: what is young is
//! likely to change soon. One walk over the tree finds the files that have blocks there, and reads these into the buffer, from where
//! the next write-out takes them. Stripes of the tree are emptied by the same walk: the nodes that lie there get other places at the
//! next checkpoint. No pass begins that would gain no stripe, and passes move up to a quarter of what files have
//! written since the mount, and nodes up to a quarter of the blocks that checkpoints have written: so they end.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::RangeInclusive,
    time::Duration,
};

use stripewise_device::Timestamp;
use stripewise_format::rafs::{
    key::{Key, KeyKind},
    space::GroupKind,
};

use super::{
    FsError,
    map::{Mapped, mapped},
    state::{Now, State},
};
use crate::{
    buffer::{Owner, Temperature},
    shape::{BLOCK_BYTES, BlockNo, StripeNo},
    tree::Scan,
};

/// Passes move up to so much of what files write, in percent.
const MOVED_PERCENT: u64 = 25;
/// With fewer stripes free, in percent, a pass does not wait for idle times.
const FREE_PERCENT: u64 = 5;
/// A pass takes up to this part of the buffer.
const BUFFER_PARTS: u64 = 4;
/// Stripes that were written lately and are remembered at most.
const RECENT_MAX: usize = 4096;

/// All keys.
const ALL: RangeInclusive<Key> =
    Key::new(0, KeyKind::Group, 0)..=Key::new(u64::MAX, KeyKind::Extent, u64::MAX);

/// Whether there is a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// None would gain anything, or the time is wrong.
    No,
    /// One would, once what was written lately is older.
    Later,
    /// There is one.
    UnderWay,
}

/// The pass that is under way, and what passes remember.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    /// Where the pass goes on.
    walk: Option<Scan>,
    victims: BTreeSet<StripeNo>,
    /// Those of them that the tree has.
    of_tree: BTreeSet<StripeNo>,
    /// Victims of earlier passes that were not written since. What is left in them cannot move, such as the rest of a large file.
    tried: BTreeSet<StripeNo>,
    /// Those of the tree, and how many blocks of each were taken after the pass.
    tried_of_tree: BTreeMap<StripeNo, u64>,
    /// When stripes were written, in order.
    recent: VecDeque<(Timestamp, StripeNo)>,
}

impl Cleaning {
    /// A stripe of small files is written.
    pub(super) fn note_written(&mut self, stripe: StripeNo, now: Timestamp) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((now, stripe));
        self.tried.remove(&stripe);
    }

    /// Tells the stripes that were written in this time before now.
    fn is_young(&mut self, now: Timestamp, time: Duration) -> impl Fn(StripeNo) -> bool + use<> {
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) >= time) {
            self.recent.pop_front();
        }
        let young: BTreeSet<StripeNo> = self.recent.iter().map(|(_, stripe)| *stripe).collect();
        move |stripe| young.contains(&stripe)
    }

    /// Whether a pass has found all that it looks for.
    pub(super) fn is_walked(&self) -> bool {
        self.walk.is_none() && !self.victims.is_empty()
    }
}

impl State {
    /// Begins a pass if it would gain a stripe, and if now is the time.
    pub(super) fn begin_cleaning(&mut self, is_idle: bool, now: Timestamp) -> Pass {
        if !self.cleaning.victims.is_empty() {
            return Pass::UnderWay;
        }
        if !self.cleans || self.check_writable().is_err() || !is_idle && !self.has_few_free_stripes() {
            return Pass::No;
        }
        let is_young = self.cleaning.is_young(now, self.cleaned_after);
        let mut victims = self.victims(|stripe| !is_young(stripe));
        let of_tree = self.victims_of_tree();
        victims.extend(&of_tree);
        if victims.is_empty() {
            return if self.victims(|_| true).is_empty() { Pass::No } else { Pass::Later };
        }
        self.store.avoid(&victims);
        (self.cleaning.victims, self.cleaning.of_tree) = (victims, of_tree);
        self.cleaning.walk = Some(Scan::over(ALL));
        self.counters.cleaning_passes += 1;
        Pass::UnderWay
    }

    /// What a pass would empty; nothing if it would gain no stripe.
    fn victims(&self, may_be: impl Fn(StripeNo) -> bool) -> BTreeSet<StripeNo> {
        let cleaned = self.counters.cleaned_blocks;
        let of_clients = self.counters.written_blocks.saturating_sub(cleaned);
        let may_move = (of_clients * MOVED_PERCENT / 100).saturating_sub(cleaned);
        let may_move = may_move.min(self.buffer.room() / BUFFER_PARTS);
        if may_move == 0 {
            return BTreeSet::new();
        }
        self.chosen(GroupKind::Small, may_move, |stripe, _| {
            may_be(stripe) && !self.cleaning.tried.contains(&stripe)
        })
    }

    /// What a pass would empty of the tree; nothing if it would gain no stripe.
    fn victims_of_tree(&self) -> BTreeSet<StripeNo> {
        let written = self.store.stripe_counts().metadata;
        let columns = u64::from(self.volume.geometry().data_columns());
        let blocks = written.full_rows * columns + written.single_blocks;
        let cleaned = self.counters.cleaned_nodes;
        let may_move = (blocks.saturating_sub(cleaned) * MOVED_PERCENT / 100).saturating_sub(cleaned);
        // The way to each node moves along: that may double what moves.
        let filled = self.store.filled_by_nodes();
        self.chosen(GroupKind::Metadata, may_move / 2, |stripe, taken| {
            stripe != filled && self.cleaning.tried_of_tree.get(&stripe) != Some(&taken)
        })
    }

    /// The emptiest stripes of a kind that may be emptied, with up to `most` blocks; none if that would gain no stripe.
    fn chosen(
        &self,
        kind: GroupKind,
        most: u64,
        may_be: impl Fn(StripeNo, u64) -> bool,
    ) -> BTreeSet<StripeNo> {
        let (mut victims, mut blocks) = (BTreeSet::new(), 0);
        for (stripe, taken) in self.store.half_empty(kind) {
            if blocks + taken > most {
                break;
            }
            if may_be(stripe, taken) {
                blocks += taken;
                victims.insert(stripe);
            }
        }
        let filled = blocks.div_ceil(self.volume.geometry().stripe_blocks().into());
        let gains = victims.len() as u64 > filled && self.reserve(blocks).is_ok();
        if gains { victims } else { BTreeSet::new() }
    }

    fn has_few_free_stripes(&self) -> bool {
        let (free, all) = self.store.free_stripes();
        free * 100 < all * FREE_PERCENT
    }

    /// A step of the pass: one leaf of the tree. Returns whether the walk goes on.
    pub(super) async fn clean_some(&mut self, now: Now) -> Result<bool, FsError> {
        let Some(mut walk) = self.cleaning.walk.take() else { return Ok(false) };
        let Some(items) = walk.batch(self.store.tree()).await? else { return Ok(false) };
        if let Some(first) = items.first() {
            let moved = self.store.leave_stripes(first.key, &self.cleaning.of_tree).await?;
            self.counters.cleaned_nodes += moved;
        }
        for item in items.into_iter().filter(|item| item.key.kind == KeyKind::Extent) {
            let extent = mapped(item.key.object, item.key, &item.value)?;
            for part in self.in_victims(&extent) {
                if self.buffer.room() < u64::from(part.extent.blocks) {
                    return Ok(false);
                }
                // What is damaged stays where it is.
                match self.take_along(item.key.object, &part, now).await {
                    Ok(()) | Err(FsError::Damaged { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.cleaning.walk = Some(walk);
        Ok(true)
    }

    /// The parts of an extent that lie in victims.
    fn in_victims(&self, extent: &Mapped) -> Vec<Mapped> {
        if extent.extent.crcs.is_none() {
            return Vec::new();
        }
        let geometry = self.volume.geometry();
        let (mut parts, blocks) = (Vec::new(), extent.blocks());
        let mut at = blocks.start;
        while at < blocks.end {
            let (stripe, slot) = geometry.locate(BlockNo(extent.extent.place + (at - blocks.start)));
            let end = blocks.end.min(at + u64::from(geometry.stripe_blocks() - slot));
            if self.cleaning.victims.contains(&stripe) {
                parts.extend(extent.part(&(at..end)));
            }
            at = end;
        }
        parts
    }

    /// Reads blocks of a file into the buffer, unless something newer is there: that will be written out as well.
    async fn take_along(&mut self, inode: u64, part: &Mapped, now: Now) -> Result<(), FsError> {
        let blocks = part.blocks();
        if !self.buffer.read(inode, blocks.clone()).is_empty() {
            return Ok(());
        }
        // What could not be written out would wait in the buffer for ever.
        if self.look_at_move(inode, blocks.clone()).await.is_err() {
            return Ok(());
        }
        let bytes = blocks.start * BLOCK_BYTES as u64..blocks.end * BLOCK_BYTES as u64;
        let data = self.bytes(inode, bytes).await?;
        let folder = self.live(inode).await?.inode.parent;
        self.note_moved(inode, &blocks);
        self.buffer.write(Owner { folder, inode }, Temperature::Moved, blocks.start, &data.freeze(), now.at);
        self.counters.cleaned_blocks += blocks.end - blocks.start;
        Ok(())
    }

    /// Whether a checkpoint empties stripes of the tree that the pass was to empty. Clients may have left places there, too.
    pub(super) fn empties_stripes_of_tree(&self) -> bool {
        !self.cleaning.of_tree.is_empty() && self.store.tree().dirty_nodes() > 0
    }

    /// What the pass has found is written out, or it was given up: its victims may be filled again. No pass tries them again until they
    /// change. So passes end even if an error persists.
    pub(super) fn end_cleaning(&mut self) {
        self.store.avoid(&BTreeSet::new());
        let of_tree = std::mem::take(&mut self.cleaning.of_tree);
        let left = self.store.half_empty(GroupKind::Metadata);
        let left = left.into_iter().filter(|(stripe, _)| of_tree.contains(stripe));
        // What is left there cannot move, such as damaged nodes.
        self.cleaning.tried_of_tree.retain(|stripe, _| !of_tree.contains(stripe));
        self.cleaning.tried_of_tree.extend(left);
        self.cleaning.tried.append(&mut self.cleaning.victims);
        self.cleaning.walk = None;
    }
}
