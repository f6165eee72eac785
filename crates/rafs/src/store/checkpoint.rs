//! Checkpoints: the tree goes to new places, and an anchor leads there.
//!
//! The tree has items that say which blocks are taken, those of its own nodes, too. So places are taken until every dirty node has
//! one, the items that say so included.

use std::{
    convert::Infallible,
    ops::Range,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use stripewise_format::rafs::{
    anchor::{Anchor, Root},
    key::{Key, KeyKind},
    space::{Group, GroupKind},
};

use super::{Store, StoreError, ground::write_row, open::GENERATIONS_APART};
use crate::{
    mutants::{Mutant, lives},
    shape::BlockNo,
    space::Opened,
};

/// Rounds after which it gives up. Items of groups keep their length, so that a few rounds do, but where groups come and go.
const ROUNDS_MAX: usize = 64;

/// A tree is held for a look if that keeps no more than such a part of the blocks that are free.
const KEPT_PART: u64 = 4;

/// A tree that is held.
#[derive(Debug, Default)]
pub(crate) struct Hold(AtomicBool);

impl Hold {
    /// Its nodes may be overwritten from now on.
    fn end(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether its nodes may have been overwritten.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Store {
    /// Writes the tree with all changes so far. They are durable when this returns, and the journal is empty. Blocks of files that came
    /// along with commits are lost with their records: the caller has written them out before.
    ///
    /// # Errors
    /// [`StoreError`]; then they are in memory still, and are written by the next checkpoint. If the anchor could not be written, the
    /// store has [failed](StoreError::Failed).
    pub async fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.begin()?;
        let written = self.checkpoint_begun(false).await;
        self.end(written)
    }

    /// As [`Store::checkpoint`], for the last time: the anchor says that the file system was unmounted, and the store takes no
    /// more changes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn close(&mut self) -> Result<(), StoreError> {
        self.begin()?;
        let written = self.checkpoint_begun(true).await;
        if written.is_err() {
            return self.end(written);
        }
        Ok(())
    }

    pub(super) async fn checkpoint_begun(&mut self, is_clean: bool) -> Result<(), StoreError> {
        self.release_kept()?;
        let mut places = Vec::new();
        let placed = self.place_nodes(&mut places).await;
        let written = match placed {
            Ok(()) => self.write_tree(&mut places).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(root) => self.write_anchor(root, is_clean).await,
            Err(error) => {
                for place in places {
                    self.give_back(place)?;
                }
                Err(error)
            }
        }
    }

    /// Takes places until all dirty nodes have one, and until the tree has all groups as they are then.
    async fn place_nodes(&mut self, places: &mut Vec<BlockNo>) -> Result<(), StoreError> {
        for _ in 0..ROUNDS_MAX {
            self.free_given_up()?;
            let changed = self.space.take_changed();
            let is_settled = changed.is_empty();
            self.put_groups(changed).await?;
            let wanted = self.tree.dirty_nodes();
            if places.len() < wanted {
                self.take_places(wanted - places.len(), places)?;
            } else if places.len() > wanted {
                for place in places.split_off(wanted) {
                    self.give_back(place)?;
                }
            } else if is_settled {
                return Ok(());
            }
        }
        Err(StoreError::Unsettled)
    }

    /// Holds the places that the tree has given up since the last checkpoint. The durable tree needs them still.
    fn free_given_up(&mut self) -> Result<(), StoreError> {
        for place in self.tree.given_up() {
            if !self.given_up.contains(place) {
                self.space.free(block(*place))?;
                if lives(Mutant::NodesReused) {
                    self.space.release(block(*place))?;
                }
                self.given_up.insert(*place);
            }
        }
        Ok(())
    }

    /// Puts groups into the tree as they are now.
    async fn put_groups(&mut self, changed: Vec<(u64, Option<Group>)>) -> Result<(), StoreError> {
        let mut changed = changed.into_iter();
        while let Some((number, group)) = changed.next() {
            let key = Key::new(0, KeyKind::Group, number);
            let put = match group {
                Some(group) => self.tree.insert(key, group.encode().into()).await,
                None => self.tree.remove(key).await,
            };
            if let Err(error) = put {
                self.space.note_changed(number);
                changed.for_each(|(number, _)| self.space.note_changed(number));
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Takes `count` blocks for nodes, whole rows first.
    fn take_places(&mut self, count: usize, places: &mut Vec<BlockNo>) -> Result<(), StoreError> {
        let geometry = self.geometry();
        let wanted = places.len() + count;
        while places.len() < wanted {
            let opened = self.open_for_nodes().ok_or(StoreError::NoSpace)?;
            let slots = self.space.free_slots(opened.stripe);
            for slot in slots.into_iter().take(wanted - places.len()) {
                let place = geometry.block(opened.stripe, slot);
                self.space.take(opened.kind, block(place))?;
                places.push(place);
            }
            self.space.close(opened.stripe);
        }
        Ok(())
    }

    /// The stripe where the tree's nodes go next: that of the last ones, while rows of it are free.
    fn open_for_nodes(&mut self) -> Option<Opened> {
        let last = self.filling;
        let opened = self.space.reopen(GroupKind::Metadata, last);
        let opened = opened.or_else(|| self.space.open(GroupKind::Metadata, last))?;
        self.filling = opened.stripe;
        Some(opened)
    }

    /// A place that was taken, and that nothing durable refers to, is free.
    fn give_back(&mut self, place: BlockNo) -> Result<(), StoreError> {
        self.space.free(block(place))?;
        self.space.release(block(place))?;
        Ok(())
    }

    /// Writes the dirty nodes to these places, and flushes. Leaves those that may be given back.
    async fn write_tree(&mut self, places: &mut Vec<BlockNo>) -> Result<Root, StoreError> {
        if self.generation - self.anchor.1.generation >= GENERATIONS_APART {
            return Err(StoreError::Failed);
        }
        self.generation = self.generation.saturating_add(1);
        let taken = std::mem::take(places);
        let Ok(out) = self.tree.write_out(self.generation, |_| Ok::<_, Infallible>(taken));
        let mut written = self.write_begun(&out.blocks).await;
        if written.is_ok() && !lives(Mutant::AnchorBeforeNodes) {
            written = self.flush().await;
        }
        if let Err(error) = written {
            *places = self.tree.abandon();
            return Err(error);
        }
        Ok(Root { place: out.root.place.0, generation: out.root.generation, level: out.root.level })
    }

    /// Writes the anchor of a tree that is durable.
    async fn write_anchor(&mut self, root: Root, is_clean: bool) -> Result<(), StoreError> {
        let position = self.journal.next_epoch();
        let anchor = Anchor {
            generation: self.generation,
            root,
            journal: position,
            is_clean,
            used_blocks: self.space.counts().taken,
            next_inode: if lives(Mutant::InodeNumberForgotten) { 2 } else { self.next_inode },
            inodes: self.inodes,
        };
        let at = 1 - self.anchor.0;
        let place = self.superblock.anchor_places()[at];
        let bytes = anchor.encode(place, self.superblock.uuid);
        let mut written = write_row(&*self.volume, place, &bytes).await;
        if written.is_ok() && !lives(Mutant::AnchorNotFlushed) {
            written = self.volume.flush().await;
        }
        if written.is_err() {
            return Err(StoreError::Failed);
        }
        (self.anchor, self.has_data) = ((at, anchor), false);
        self.journal.forget_before(position);
        for place in self.tree.settle() {
            self.given_up.remove(&place);
            self.kept.push(place);
        }
        self.release_kept()?;
        self.end_running()
    }

    /// How many places are kept for those who [look](Store::hold_tree).
    #[cfg(test)]
    pub(crate) fn kept_for_looks(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Keeps the nodes of the durable tree from being overwritten until what this returns is dropped. Returns also the tree's anchor.
    pub(crate) fn hold_tree(&mut self) -> (Arc<Hold>, (usize, Anchor)) {
        let held = Arc::new(Hold::default());
        self.held = Arc::downgrade(&held);
        (held, self.anchor)
    }

    /// Places that no durable tree has are free, unless an older tree is [held](Store::hold_tree). Where space is short, that ends.
    fn release_kept(&mut self) -> Result<(), StoreError> {
        if lives(Mutant::NodesReused) {
            self.kept.clear();
        }
        if let Some(held) = self.held.upgrade().filter(|_| !lives(Mutant::HeldReused)) {
            if self.kept.len() as u64 <= self.spare_blocks() / KEPT_PART {
                return Ok(());
            }
            held.end();
            self.held = Weak::new();
        }
        for place in std::mem::take(&mut self.kept) {
            self.release(block(place))?;
        }
        Ok(())
    }
}

/// A run of one block.
fn block(place: BlockNo) -> Range<BlockNo> {
    place..BlockNo(place.0 + 1)
}
