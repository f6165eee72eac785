//! fsck's repair: the tree as it should be is written beside the one that is there, and an anchor then leads to it.
//!
//! Nothing that the durable state needs is written over before that anchor is durable. So a crash at any time leaves the old state or the new
//! one. Leaves that are good as they are stay where they are: a repair writes leaves that change, and the nodes above.
//!
//! * [`check`](mod@crate::check) plans what should be there;
//! * `room`: places for what is written;
//! * `build`: the nodes of the new tree.

mod build;
mod room;

use std::sync::Arc;

use stripewise_device::{IoBuf, IoError, SharedBuf};
use stripewise_format::{
    crc::crc32c,
    rafs::{
        anchor::{Anchor, JournalPosition},
        key::{Key, KeyKind},
        space::{CHECKED_BLOCKS_MAX, Extent},
        superblock::FIRST_JOURNAL_STRIPE,
    },
};
use thiserror::Error;

use self::{
    build::{Builder, Built},
    room::{Purpose, Room},
};
use crate::{
    check::{Copied, Origin, Owned, Piece, Plan, Problem, Progress, Report, heads, reader::Reader},
    fs::{Mapped, MountError},
    shape::{BLOCK_BYTES, BlockNo, StripeNo},
    store::{FileBlocks, plan_writes, write_row},
    volume::Volume,
};

/// Rounds after which it gives up to place the new tree.
const ROUNDS_MAX: usize = 64;

/// Blocks that are copied at once.
const COPIED_AT_ONCE: usize = 512;

/// What was done.
#[derive(Debug)]
pub struct Repaired {
    /// What was found before.
    pub report: Report,
    /// Whether something was written.
    pub is_changed: bool,
}

/// Why nothing was mended.
#[derive(Debug, Error)]
pub enum RepairError {
    /// It cannot be opened at all.
    #[error(transparent)]
    Open(#[from] MountError),
    /// The volume cannot be read or written.
    #[error(
        "the volume cannot be written: {0}; what was there before is there still, or the repair was complete; see to the volume's members, then try again"
    )]
    Io(#[from] IoError),
    /// A leaf could be read before.
    #[error(
        "the tree's node in block {place} could be read, and cannot be read again ({why}); nothing was changed: try again"
    )]
    Node {
        /// Its place.
        place: u64,
        /// Why not.
        why: String,
    },
    /// A block with two owners could be read before.
    #[error(
        "block {place}, of which a file gets a copy, could be read, and cannot be read again ({why}); nothing was changed: try again"
    )]
    Copy {
        /// Its place.
        place: u64,
        /// Why not.
        why: String,
    },
    /// There is no room for the new tree.
    #[error(
        "{wanted} blocks are needed to mend it, and are not free; nothing was changed: copy it to a larger volume"
    )]
    NoSpace {
        /// How many more blocks were wanted at once.
        wanted: usize,
    },
    /// Places were taken, and gave other nodes to write, without end.
    #[error(
        "the new tree does not settle: its groups change with every place that is taken for it; nothing was changed"
    )]
    Unsettled,
}

/// Looks at a file system that is not mounted, and mends what is wrong. If nothing is, nothing is written. What it makes gets this time, in
/// nanoseconds since 1970.
///
/// # Errors
/// [`RepairError`].
pub async fn repair(
    volume: &Arc<dyn Volume>,
    now_ns: i64,
    progress: &Progress,
) -> Result<Repaired, RepairError> {
    let plan = Plan::make(volume, now_ns, progress).await?;
    let report = plan.report.clone();
    let of_tree =
        |problem: &&Problem| !matches!(problem, Problem::Superblock { .. } | Problem::Anchor { .. });
    let is_tree_wrong = report.problems.iter().any(|problem| of_tree(&problem));
    let is_anchor_wrong = !report.notes.is_empty()
        || report.problems.iter().any(|problem| matches!(problem, Problem::Anchor { .. }));
    let mut mend = Mend { volume, plan };
    if is_tree_wrong {
        let anchor = mend.tree(progress).await?;
        mend.write_anchors(anchor).await?;
        if report.problems.iter().any(|problem| matches!(problem, Problem::Journal { .. })) {
            mend.clear_unreadable().await?;
        }
    } else if is_anchor_wrong {
        let generation = mend.plan.base.next_generation();
        let anchor = Anchor { generation, ..mend.plan.base.anchor.1 };
        mend.write_anchors(anchor).await?;
    }
    for problem in &report.problems {
        if let Problem::Superblock { place, .. } = problem {
            let superblock = &mend.plan.base.superblock;
            write_row(&**volume, *place, &superblock.encode(*place, 0)).await?;
            volume.flush().await?;
        }
    }
    let is_changed = !(report.problems.is_empty() && report.notes.is_empty());
    Ok(Repaired { report, is_changed })
}

/// A repair under way.
struct Mend<'a> {
    volume: &'a Arc<dyn Volume>,
    plan: Plan,
}

impl Mend<'_> {
    /// Writes the tree as it should be, and what belongs to it, to free places. Returns the anchor that is to lead there.
    async fn tree(&mut self, progress: &Progress) -> Result<Anchor, RepairError> {
        let superblock = self.plan.base.superblock.clone();
        let reader = Reader::new(self.volume.clone(), &superblock);
        let mut room = Room::new(&superblock, &self.plan, reader.geometry(), reader.order);
        self.place_copies(&reader, &mut room).await?;
        let data = self.place_data(&mut room)?;
        let mut owned = Owned::new(&superblock);
        owned.add_files(&self.plan.items);
        let generation = self.plan.base.next_generation();
        let mut builder = Builder::new(reader.clone(), self.plan.walked.leaves.clone());
        let (built, owned) = self.settle(&mut builder, &mut room, owned).await?;
        let (nodes, root) = built.seal(superblock.uuid, generation);
        let plan = |blocks: &[_]| {
            plan_writes(reader.geometry(), reader.order, blocks, |block| room.is_spare(block.0))
        };
        let (data, nodes) = (plan(&data), plan(&nodes));
        let (mut done, all) = (0, (data.len() + nodes.len()) as u64);
        // The first flush is for records: one that was read may not be durable yet, and what it frees is spare only once it is. The second is for
        // data: where no anchor is left, a tree counts as soon as its nodes are there.
        for writes in [data, nodes] {
            self.volume.flush().await?;
            for write in &writes {
                progress.tell("write", done, all);
                write.carry_out(&**self.volume).await?;
                done += 1;
            }
        }
        self.volume.flush().await?;
        let heads = heads(self.volume, &superblock).await?;
        let last = heads.iter().map(|(_, head)| head.id.epoch).max().unwrap_or(0);
        let journal = self.plan.journal;
        let epoch = journal.epoch.max(last).saturating_add(1);
        Ok(Anchor {
            generation,
            root,
            journal: JournalPosition { epoch, ..journal },
            is_clean: true,
            next_inode: self.plan.items.next_inode,
            inodes: self.plan.items.inodes.len() as u64,
            used_blocks: owned.count(),
        })
    }

    /// Copies of blocks that have two owners get places of their own, and are written there: memory does not hold all of them.
    async fn place_copies(&mut self, reader: &Reader, room: &mut Room) -> Result<(), RepairError> {
        let copies = std::mem::take(&mut self.plan.copies);
        if copies.blocks > room.free_blocks() {
            return Err(RepairError::NoSpace {
                wanted: usize::try_from(copies.blocks).unwrap_or(usize::MAX),
            });
        }
        // What records free is spare only once they are durable.
        if !copies.runs.is_empty() {
            self.volume.flush().await?;
        }
        for Copied { inode, is } in copies.runs {
            let all: Vec<u64> = is.blocks().collect();
            for part in all.chunks(COPIED_AT_ONCE) {
                let mut blocks = Vec::with_capacity(part.len());
                for block in part {
                    blocks.push(self.copied(reader, &is, *block).await?);
                }
                let placed = self.place(room, FileBlocks { inode, first: part[0], blocks })?;
                let is_spare = |block: BlockNo| room.is_spare(block.0);
                for write in plan_writes(reader.geometry(), reader.order, &placed, is_spare) {
                    write.carry_out(&**self.volume).await?;
                }
            }
        }
        Ok(())
    }

    /// The bytes of a block that is copied. They could be read before.
    async fn copied(&self, reader: &Reader, is: &Mapped, block: u64) -> Result<SharedBuf, RepairError> {
        let at = block - is.first;
        let place = is.extent.place + at;
        let crc = is.extent.crcs.as_ref().and_then(|crcs| crcs.get(at as usize).copied());
        let wanted: Vec<u32> = crc.into_iter().collect();
        let read = reader.right_block(place, &wanted).await;
        let bytes = read.map_err(|why| RepairError::Copy { place, why: why.to_string() })?;
        match crc.is_none_or(|crc| crc32c(&bytes) == crc) {
            true => Ok(bytes),
            false => Err(RepairError::Copy { place, why: "its CRC does not match".to_owned() }),
        }
    }

    /// Blocks of a file get places of their own. Returns what is to be written there.
    fn place(
        &mut self,
        room: &mut Room,
        of_file: FileBlocks,
    ) -> Result<Vec<(BlockNo, SharedBuf)>, RepairError> {
        let FileBlocks { inode, first, blocks } = of_file;
        let places = room.take(blocks.len(), Purpose::File)?;
        let numbered: Vec<(u64, u64)> = (first..).zip(places.iter().copied()).collect();
        let Some(found) = self.plan.items.inodes.get_mut(&inode) else { return Ok(Vec::new()) };
        let follows = |one: &(u64, u64), next: &(u64, u64)| room.are_neighbours(one.1, next.1);
        for run in numbered.chunk_by(follows).flat_map(|run| run.chunks(CHECKED_BLOCKS_MAX)) {
            let crc = |at: &(u64, u64)| crc32c(&blocks[(at.0 - first) as usize]);
            let crcs = run.iter().map(crc).collect();
            let extent = Extent { place: run[0].1, blocks: run.len() as u32, crcs: Some(crcs) };
            let is = Mapped { first: run[0].0, extent };
            found.pieces.push(Piece { is, origin: Origin::Tree });
        }
        Ok(places.into_iter().map(BlockNo).zip(blocks).collect())
    }

    /// Blocks of files that are in the journal only get places of their own.
    fn place_data(&mut self, room: &mut Room) -> Result<Vec<(BlockNo, SharedBuf)>, RepairError> {
        let data = std::mem::take(&mut self.plan.data);
        let data = self.plan.items.make_room(data);
        let mut blocks = Vec::new();
        for of_file in data {
            blocks.extend(self.place(room, of_file)?);
        }
        let changed: Vec<u64> = self
            .plan
            .items
            .inodes
            .iter()
            .filter(|(_, found)| found.replaced.is_some())
            .map(|(number, _)| *number)
            .collect();
        for number in changed {
            let Some(found) = self.plan.items.inodes.get_mut(&number) else { continue };
            let blocks = found.blocks();
            let Some(inode) = &mut found.inode else { continue };
            inode.blocks = blocks;
            let value = inode.encode();
            self.plan.items.put(Key::new(number, KeyKind::Inode, 0), value);
        }
        self.plan.items.put_extents();
        Ok(blocks)
    }

    /// Takes places until all new nodes have one, and the tree has all groups as they are then.
    async fn settle(
        &mut self,
        builder: &mut Builder,
        room: &mut Room,
        files: Owned,
    ) -> Result<(Built, Owned), RepairError> {
        let mut places: Vec<u64> = Vec::new();
        let mut kept: Vec<u64> = builder.leaf_places();
        for _ in 0..ROUNDS_MAX {
            let mut owned = files.clone();
            kept.iter().chain(&places).for_each(|place| owned.add(*place));
            self.put_groups(&owned);
            let built = builder.build(&self.plan.items.edits).await?;
            let (wanted, now_kept) = (built.new_nodes(), built.kept());
            if wanted == places.len() && now_kept == kept {
                return Ok((built.with_places(places), owned));
            }
            kept = now_kept;
            if wanted > places.len() {
                places.extend(room.take(wanted - places.len(), Purpose::Node)?);
            } else {
                room.give_back(places.split_off(wanted));
            }
        }
        Err(RepairError::Unsettled)
    }

    /// The items of all groups.
    fn put_groups(&mut self, owned: &Owned) {
        let Plan { items, space, .. } = &mut self.plan;
        let key = |number| Key::new(0, KeyKind::Group, number);
        for number in &items.groups {
            items.edits.insert(key(*number), None);
        }
        for number in 0..owned.groups() {
            let value = owned.group(number, space.kind_of(number)).map(|group| group.encode().into());
            if value.is_some() || items.edits.contains_key(&key(number)) {
                items.edits.insert(key(number), value);
            }
        }
    }

    /// Rows of the journal that cannot be read are written anew: a mount looks at all of them. No record counts any more.
    async fn clear_unreadable(&self) -> Result<(), RepairError> {
        let geometry = self.volume.geometry();
        let zeroes = IoBuf::zeroed(BLOCK_BYTES).freeze();
        let row_of_zeroes = vec![zeroes; geometry.data_columns() as usize];
        for stripe in 0..self.plan.base.superblock.journal_stripes {
            let stripe = StripeNo(FIRST_JOURNAL_STRIPE + stripe);
            if self.volume.read_rows(stripe, 0..geometry.rows()).await.is_ok() {
                continue;
            }
            for row in 0..geometry.rows() {
                if self.volume.read_rows(stripe, row..row + 1).await.is_err() {
                    self.volume.write_rows(stripe, row, &row_of_zeroes).await?;
                }
            }
        }
        Ok(self.volume.flush().await?)
    }

    /// Writes both anchors: first to the place that does not hold what counts now.
    async fn write_anchors(&self, anchor: Anchor) -> Result<(), RepairError> {
        let superblock = &self.plan.base.superblock;
        let first = self.plan.base.next_place;
        for (at, later) in [(first, 0), (1 - first, 1)] {
            let place = superblock.anchor_places()[at];
            let anchor = Anchor { generation: anchor.generation.saturating_add(later), ..anchor };
            write_row(&**self.volume, place, &anchor.encode(place, superblock.uuid)).await?;
            self.volume.flush().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
