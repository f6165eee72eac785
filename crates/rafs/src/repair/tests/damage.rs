//! What is done to images.

use stripewise_format::rafs::{
    inode::Inode,
    key::KeyKind,
    node::{Item, NODE_ROOM, SLOT_LEN},
    superblock::FIRST_JOURNAL_STRIPE,
};

use super::{
    image::Image,
    stored::{Lying, Stored, inodes_of},
    *,
};
use crate::shape::BLOCK_BYTES;

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    Flip,
    Zero,
    Garbage,
    Swap,
    OlderNode,
    AnchorCopy,
    NewerAnchor,
    OlderAnchor,
    BothAnchors,
    FirstSuperblock,
    SuperblockCopy,
    Group,
    ItemGone,
    ItemChanged,
    WrongHash,
    Overlap,
    WrongCount,
    JournalRow,
}

/// What was hit.
#[derive(Debug, Default)]
pub(super) struct Hit {
    pub(super) done: Vec<(Damage, u64)>,
    pub(super) inodes: BTreeSet<u64>,
    pub(super) has_journal: bool,
    superblocks: BTreeSet<u64>,
    /// The newer anchor is lost, and the older one.
    anchors: (bool, bool),
}

impl Hit {
    pub(super) fn has_all_superblocks(&self) -> bool {
        self.superblocks.len() > 1
    }

    pub(super) fn has_lost_anchors(&self) -> bool {
        self.anchors.0 || self.anchors.1
    }

    /// The newest anchor is lost, and some of its tree: an older tree may be the best there is.
    pub(super) fn may_be_older(&self) -> bool {
        self.anchors.0 && !self.inodes.is_empty()
    }
}

impl Damage {
    pub(super) const ALL: [Self; 18] = [
        Self::Flip,
        Self::Zero,
        Self::Garbage,
        Self::Swap,
        Self::OlderNode,
        Self::AnchorCopy,
        Self::NewerAnchor,
        Self::OlderAnchor,
        Self::BothAnchors,
        Self::FirstSuperblock,
        Self::SuperblockCopy,
        Self::Group,
        Self::ItemGone,
        Self::ItemChanged,
        Self::WrongHash,
        Self::Overlap,
        Self::WrongCount,
        Self::JournalRow,
    ];

    pub(super) fn strike(self, image: &Image, volume: &TestVolume, rng: &mut fastrand::Rng, hit: &mut Hit) {
        let geometry = volume.geometry;
        let stored = Stored::read(&image.volume.bytes_now(), geometry, image.order);
        let all: Vec<&Lying> = stored.nodes.iter().collect();
        let node = all[rng.usize(..all.len())];
        let leaves = stored.leaves();
        let leaf = leaves[rng.usize(..leaves.len())];
        let mut garbage = vec![0; BLOCK_BYTES];
        rng.fill(&mut garbage);
        hit.done.push((self, node.head.place));
        match self {
            Self::Flip => {
                let mut block = image.volume.bytes_now()[node.offset as usize..][..BLOCK_BYTES].to_vec();
                block[rng.usize(..BLOCK_BYTES)] ^= 1 << rng.u32(..8);
                lose(volume, node, &block, hit);
            }
            Self::Zero => lose(volume, node, &[0; BLOCK_BYTES], hit),
            Self::Garbage => lose(volume, node, &garbage, hit),
            Self::Swap => {
                let other = all[rng.usize(..all.len())];
                let bytes = image.volume.bytes_now();
                lose(volume, node, &bytes[other.offset as usize..][..BLOCK_BYTES], hit);
                lose(volume, other, &bytes[node.offset as usize..][..BLOCK_BYTES], hit);
            }
            Self::OlderNode => {
                let now = image.volume.bytes_now();
                let differs = |one: &&Lying, past: &Vec<u8>| {
                    let range = one.offset as usize..one.offset as usize + BLOCK_BYTES;
                    past[range.clone()].starts_with(b"RAFSnode") && past[range.clone()] != now[range]
                };
                let pair = image
                    .past
                    .iter()
                    .find_map(|past| Some((*all.iter().find(|one| differs(one, past))?, past)));
                if let Some((one, past)) = pair {
                    lose(volume, one, &past[one.offset as usize..][..BLOCK_BYTES], hit);
                }
            }
            Self::AnchorCopy => {
                let copies = stored.copies(stored.superblock.anchor_places()[stored.newest]);
                volume.poke(copies[rng.usize(..copies.len() - 1)], &garbage);
            }
            Self::NewerAnchor | Self::OlderAnchor | Self::BothAnchors => {
                let places = stored.superblock.anchor_places();
                let at = if self == Self::OlderAnchor { 1 - stored.newest } else { stored.newest };
                let is_both = self == Self::BothAnchors;
                for (number, place) in places.into_iter().enumerate() {
                    if number == at || is_both {
                        stored.copies(place).into_iter().for_each(|copy| volume.poke(copy, &garbage));
                    }
                }
                lose_anchor(is_both || self == Self::NewerAnchor, is_both || self == Self::OlderAnchor, hit);
            }
            Self::FirstSuperblock => {
                let place = stored.superblock.places()[rng.usize(..2)];
                stored.copies(place).into_iter().for_each(|copy| volume.poke(copy, &garbage));
                hit.superblocks.insert(place);
            }
            Self::SuperblockCopy => {
                let copies = stored.copies(stored.superblock.places()[rng.usize(..2)]);
                volume.poke(copies[rng.usize(..copies.len())], &garbage);
            }
            Self::JournalRow => {
                let stripe = FIRST_JOURNAL_STRIPE + rng.u64(..stored.superblock.journal_stripes);
                for row in 0..geometry.rows() {
                    let place = stripe * u64::from(geometry.stripe_blocks());
                    for copy in stored.copies(place) {
                        volume.poke(copy + u64::from(row) * BLOCK_BYTES as u64, &garbage);
                    }
                }
                hit.has_journal = true;
            }
            _ => self.change_item(&stored, leaf, volume, rng, hit),
        }
    }

    /// Changes an item, with a CRC that is right.
    fn change_item(
        self,
        stored: &Stored,
        leaf: &Lying,
        volume: &TestVolume,
        rng: &mut fastrand::Rng,
        hit: &mut Hit,
    ) {
        let wants = |item: &Item| match self {
            Self::Group => item.key.kind == KeyKind::Group,
            Self::WrongHash => item.key.kind == KeyKind::Name,
            Self::Overlap => item.key.kind == KeyKind::Extent,
            Self::WrongCount => item.key.kind == KeyKind::Inode,
            _ => item.key.kind != KeyKind::Group,
        };
        let leaves = stored.leaves();
        let Some(leaf) = [leaf].into_iter().chain(leaves).find(|leaf| leaf.items().iter().any(wants)) else {
            return;
        };
        let mut items = leaf.items();
        let chosen: Vec<usize> = (0..items.len()).filter(|at| wants(&items[*at])).collect();
        let at = chosen[rng.usize(..chosen.len())];
        if self != Self::Group {
            hit.inodes.extend(inodes_of(&items[at]));
        }
        let mut value = items[at].value.to_vec();
        match self {
            Self::ItemGone => {
                items.remove(at);
                if items.is_empty() {
                    return;
                }
            }
            Self::WrongHash => {
                let next = items[at].key.offset.wrapping_add(1);
                if items
                    .get(at + 1)
                    .is_none_or(|other| other.key.offset == next || other.key.kind != KeyKind::Name)
                {
                    return;
                }
                items[at].key.offset = next;
            }
            Self::Overlap => {
                let others: Vec<Item> =
                    stored.leaves().iter().flat_map(|leaf| leaf.items()).filter(wants).collect();
                let other = &others[rng.usize(..others.len())];
                value[..8].copy_from_slice(&other.value[..8]);
            }
            Self::WrongCount => {
                let mut inode = Inode::decode(&value).unwrap();
                inode.links = rng.u32(1..9);
                inode.blocks ^= rng.u64(..3);
                value = inode.encode();
            }
            _ => {
                let places = if value.is_empty() { 0 } else { 1 + rng.usize(..3) };
                for _ in 0..places {
                    let byte = rng.usize(..value.len());
                    value[byte] ^= 1 << rng.u32(..8);
                }
            }
        }
        if self != Self::ItemGone {
            items[at].value = value.into();
        }
        let bytes: usize = items.iter().map(|item| SLOT_LEN + item.value.len()).sum();
        assert!(bytes <= NODE_ROOM);
        leaf.rewrite(volume, &items);
    }
}

/// A node is lost, with all under it. Its own bytes may be these.
fn lose(volume: &TestVolume, node: &Lying, bytes: &[u8], hit: &mut Hit) {
    volume.poke(node.offset, bytes);
    hit.inodes.extend(&node.inodes);
}

/// Anchors are lost. Without any, nothing says which records count.
fn lose_anchor(newer: bool, older: bool, hit: &mut Hit) {
    hit.anchors = (hit.anchors.0 || newer, hit.anchors.1 || older);
    hit.has_journal |= hit.anchors == (true, true);
}
