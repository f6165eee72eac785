//! What lies on a volume, for people who look into it: nothing is written, and damage is told where it is met.
//!
//! All is as the newest anchor has it. What the journal repeats on that is told by [`Inspector::journal`] only.

use std::{ops::RangeInclusive, sync::Arc};

use stripewise_format::rafs::{
    anchor::Anchor,
    journal::Change,
    key::{Key, KeyKind},
    node::{Item, Node},
    space::{Extent, Group, GroupKind},
    superblock::{FIRST_JOURNAL_STRIPE, Superblock},
};

use crate::{
    check::{
        Base, Progress,
        reader::{Reader, Wanted, bounds_of},
    },
    fs::MountError,
    journal::{Replay, ReplayError},
    shape::{BlockNo, Cell, StripeNo},
    space::{Measure, Rank, Space, SpaceError},
    store,
    volume::Volume,
};

/// A copy of a superblock or an anchor: its block in columns, and what it says, or what is wrong with it.
#[derive(Debug, Clone)]
pub struct Copy<T> {
    /// The row's first block.
    pub place: u64,
    /// The copy's column.
    pub column: u32,
    /// What it says.
    pub says: Result<T, String>,
}

/// A node, or what is wrong with it.
#[derive(Debug, Clone)]
pub struct NodeLine {
    /// Its place.
    pub place: u64,
    /// The generation that its parent says.
    pub generation: u64,
    /// Its level.
    pub level: u8,
    /// Entries, and the first and the last key.
    pub says: Result<(usize, Option<(Key, Key)>), String>,
}

/// A record of the journal.
#[derive(Debug, Clone)]
pub struct RecordLine {
    /// Its number.
    pub sequence: u64,
    /// What it changes.
    pub changes: Vec<Change>,
    /// Data blocks that come along.
    pub data_blocks: usize,
}

/// A block of a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockLine {
    /// Its number.
    pub block: u64,
    /// Where it lies in the stripe.
    pub cell: Cell,
    /// Whether its group says that it is taken. None: it is in no group.
    pub is_taken: Option<bool>,
    /// What it is.
    pub is: Use,
}

/// What a block is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Superblock or anchor, or the rest of their stripes.
    Ground,
    /// The journal.
    Journal,
    /// A node of the tree.
    Node,
    /// A block of a file: the inode, and which of its blocks.
    File(u64, u64),
    /// Nothing leads to it.
    Nothing,
}

/// Looks into a volume.
pub struct Inspector {
    volume: Arc<dyn Volume>,
    superblock: Superblock,
    reader: Reader,
}

impl Inspector {
    /// Looks for a superblock.
    ///
    /// # Errors
    /// [`MountError`], if none of its copies counts.
    pub async fn open(volume: Arc<dyn Volume>) -> Result<Self, MountError> {
        let superblock = store::read_superblock(&*volume).await?;
        store::check_shape(&superblock, volume.geometry())?;
        let reader = Reader::new(volume.clone(), &superblock);
        Ok(Self { volume, superblock, reader })
    }

    /// The superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// All copies of the superblock.
    pub async fn superblocks(&self) -> Vec<Copy<Superblock>> {
        let decode = |bytes: &[u8], _| {
            Superblock::decode(bytes).map(|(says, _)| says).map_err(|error| error.to_string())
        };
        self.copies(self.superblock.places(), decode).await
    }

    /// All copies of both anchors.
    pub async fn anchors(&self) -> Vec<Copy<Anchor>> {
        let uuid = self.superblock.uuid;
        let decode =
            |bytes: &[u8], place| Anchor::decode(bytes, place, uuid).map_err(|error| error.to_string());
        self.copies(self.superblock.anchor_places(), decode).await
    }

    async fn copies<T>(
        &self,
        places: [u64; 2],
        decode: impl Fn(&[u8], u64) -> Result<T, String>,
    ) -> Vec<Copy<T>> {
        let mut all = Vec::new();
        for place in places {
            for column in 0..self.volume.geometry().data_columns() {
                let read = store::read_copy(&*self.volume, place, column).await;
                let says = read.map_err(|error| error.to_string()).and_then(|bytes| decode(&bytes, place));
                all.push(Copy { place, column, says });
            }
        }
        all
    }

    /// The newest anchor, or what would be in its place.
    ///
    /// # Errors
    /// [`MountError`], if nothing leads to a tree.
    pub async fn anchor(&self) -> Result<Anchor, MountError> {
        Ok(Base::read(&self.volume, &Progress::silent()).await?.anchor.1)
    }

    /// All nodes of the tree that may have some of these keys, from the root on, and the items of its leaves with these keys.
    ///
    /// # Errors
    /// [`MountError`], if nothing leads to a tree.
    pub async fn tree(&self, keys: RangeInclusive<Key>) -> Result<(Vec<NodeLine>, Vec<Item>), MountError> {
        let base = Base::read(&self.volume, &Progress::silent()).await?;
        let (mut left, mut lines, mut items) = (Vec::from_iter(base.root()), Vec::new(), Vec::new());
        while let Some(wanted) = left.pop() {
            let node = self.reader.node(&wanted).await;
            let Wanted { place, generation, level, .. } = wanted;
            let says =
                node.as_ref().map(|node| (entries(node), bounds_of(node))).map_err(ToString::to_string);
            lines.push(NodeLine { place, generation, level, says });
            match node {
                Ok(Node::Leaf(all)) => items.extend(all.into_iter().filter(|item| keys.contains(&item.key))),
                Ok(Node::Inner { level, children }) => {
                    let may_have = |child: &Wanted| {
                        child.low.is_none_or(|low| low <= *keys.end())
                            && child.high.is_none_or(|high| *keys.start() < high)
                    };
                    left.extend(wanted.children(level, &children).into_iter().filter(may_have).rev());
                }
                Err(_) => {}
            }
            if lines.len() as u64 > self.volume.geometry().blocks() {
                break;
            }
        }
        Ok((lines, items))
    }

    /// The records behind the newest anchor, and what ends them if that is damage.
    ///
    /// # Errors
    /// [`MountError`], if nothing leads to a tree.
    pub async fn journal(&self) -> Result<(Vec<RecordLine>, Option<ReplayError>), MountError> {
        let stripes = (StripeNo(FIRST_JOURNAL_STRIPE), self.superblock.journal_stripes);
        let from = self.anchor().await?.journal;
        let mut replay = Replay::new(self.volume.clone(), self.superblock.journal_id(), stripes, from);
        let mut records = Vec::new();
        loop {
            match replay.next().await {
                Ok(Some(record)) => records.push(RecordLine {
                    sequence: record.sequence,
                    changes: record.changes,
                    data_blocks: record.data.len(),
                }),
                Ok(None) => return Ok((records, None)),
                Err(error) => return Ok((records, Some(error))),
            }
        }
    }

    /// A stripe group; none if all of it is free.
    ///
    /// # Errors
    /// [`MountError`], if nothing leads to a tree. A text, if its item is none.
    pub async fn group(&self, number: u64) -> Result<Result<Option<Group>, String>, MountError> {
        let key = Key::new(0, KeyKind::Group, number);
        let (lines, items) = self.tree(key..=key).await?;
        if let Some(why) = lines.into_iter().find_map(|line| line.says.err()) {
            return Ok(Err(why));
        }
        let (stripes, blocks) = (self.superblock.group_stripes, self.superblock.stripe_blocks());
        let decoded = items.first().map(|item| Group::decode(&item.value, stripes, blocks)).transpose();
        Ok(decoded.map_err(|error| error.to_string()))
    }

    /// The space as all groups tell it, and what is wrong with some.
    ///
    /// # Errors
    /// [`MountError`], if nothing leads to a tree.
    pub async fn space(&self) -> Result<(Space, Vec<SpaceError>), MountError> {
        let keys = Key::new(0, KeyKind::Group, 0)..=Key::new(0, KeyKind::Group, u64::MAX);
        let (_, items) = self.tree(keys).await?;
        let mut space = Space::new(store::layout(&self.volume, &self.superblock), Measure::Rows);
        let load = |item: Item| space.load(item.key.offset, &item.value).err();
        let wrong = items.into_iter().filter_map(load).collect();
        Ok((space, wrong))
    }

    /// The allocation lists of a kind: how many stripes have how much room.
    #[must_use]
    pub fn lists(space: &Space, kind: GroupKind) -> Vec<(Rank, usize)> {
        space.lists(kind)
    }

    /// The blocks of a stripe, and what each is.
    ///
    /// # Errors
    /// [`MountError`], if nothing leads to a tree.
    pub async fn stripe(&self, stripe: u64) -> Result<Vec<BlockLine>, MountError> {
        let geometry = self.volume.geometry();
        let first_group = self.superblock.first_group_stripe();
        let end = first_group + self.superblock.groups() * u64::from(self.superblock.group_stripes);
        let is_grouped = (first_group..end).contains(&stripe);
        let ground =
            if (FIRST_JOURNAL_STRIPE..first_group).contains(&stripe) { Use::Journal } else { Use::Ground };
        let (space, _) = self.space().await?;
        let blank = if is_grouped { Use::Nothing } else { ground };
        let line = |slot| {
            let block = geometry.block(StripeNo(stripe), slot);
            let is_taken = is_grouped.then(|| space.is_taken(block));
            BlockLine { block: block.0, cell: geometry.cell(self.reader.order, slot), is_taken, is: blank }
        };
        let mut lines: Vec<BlockLine> = (0..geometry.stripe_blocks()).map(line).collect();
        if is_grouped {
            self.find_owners(&mut lines).await?;
        }
        Ok(lines)
    }

    async fn find_owners(&self, lines: &mut [BlockLine]) -> Result<(), MountError> {
        let first = lines[0].block;
        let all = Key::new(0, KeyKind::Group, 0)..=Key::new(u64::MAX, KeyKind::Extent, u64::MAX);
        let (nodes, items) = self.tree(all).await?;
        let mut put = |block: u64, is| {
            let at = block.checked_sub(first).and_then(|at| lines.get_mut(at as usize));
            at.into_iter().for_each(|line| line.is = is);
        };
        nodes.iter().for_each(|node| put(node.place, Use::Node));
        for item in items.iter().filter(|item| item.key.kind == KeyKind::Extent) {
            let Ok(extent) = Extent::decode(&item.value) else { continue };
            let end = extent.place + u64::from(extent.blocks);
            for block in extent.place.max(first)..end.min(first + u64::from(self.superblock.stripe_blocks()))
            {
                put(block, Use::File(item.key.object, item.key.offset.saturating_add(block - extent.place)));
            }
        }
        Ok(())
    }

    /// Whether the bytes of a block of a file match a CRC; none if they cannot be read.
    pub async fn matches(&self, block: u64, crc: u32) -> Option<bool> {
        let bytes = self.reader.block(BlockNo(block).0).await.ok()?;
        Some(stripewise_format::crc::crc32c(&bytes) == crc)
    }
}

fn entries(node: &Node) -> usize {
    match node {
        Node::Leaf(items) => items.len(),
        Node::Inner { children, .. } => children.len(),
    }
}
