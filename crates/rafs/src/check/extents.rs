//! Where the bytes of files lie: no block of a file has two places, and no block of the volume two owners.
//!
//! Of two owners, the one whose CRC matches what lies there keeps it. Where CRCs do not tell, the first one keeps the block, and the others get
//! copies.

use std::{collections::BTreeMap, ops::Range};

use stripewise_device::IoError;
use stripewise_format::{
    crc::crc32c,
    rafs::{
        inode::FileType,
        key::{Key, KeyKind},
        value::INLINE_MAX,
    },
};

use super::{
    Problem,
    items::{Items, Origin, Piece},
    pieces::judge_file,
    reader::{Reader, unless_lost},
};
use crate::{
    fs::{FILE_BLOCKS_MAX, Mapped},
    store::FileBlocks,
};

/// Which blocks of the volume extents may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) first: u64,
    pub(crate) group_blocks: u64,
    pub(crate) groups: u64,
}

impl Bounds {
    /// Whether blocks lie in one group.
    pub(crate) fn have(&self, blocks: &Range<u64>) -> bool {
        let group = |block: u64| block.checked_sub(self.first).map(|within| within / self.group_blocks);
        let last = blocks.end.checked_sub(1).and_then(group);
        !blocks.is_empty() && last.is_some_and(|last| last < self.groups) && group(blocks.start) == last
    }
}

/// Blocks of the volume that an extent has, or a node: inode 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    start: u64,
    end: u64,
    inode: u64,
    /// Which of the file's pieces.
    at: usize,
}

/// Blocks of a file that others have as well: it gets their bytes in other places. The bytes are read only when these places are taken.
#[derive(Debug, Clone)]
pub(crate) struct Copied {
    pub(crate) inode: u64,
    pub(crate) is: Mapped,
}

/// What files get copies of.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// None, if there are more blocks than are free.
    pub(crate) runs: Vec<Copied>,
    /// How many blocks they have.
    pub(crate) blocks: u64,
}

impl Copies {
    /// Takes up one more, as long as so many blocks have room.
    pub(crate) fn add(&mut self, copied: Copied, free: u64) {
        self.blocks = self.blocks.saturating_add(copied.is.extent.blocks.into());
        if self.blocks <= free {
            self.runs.push(copied);
        } else {
            self.runs.clear();
        }
    }
}

/// Runs of an extent's places, in order, and what becomes of each.
type Fates = BTreeMap<(u64, usize), Vec<(Range<u64>, Fate)>>;

/// What becomes of a block of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Copy,
    Hole,
}

impl Items {
    /// Looks at the bytes of each file by itself.
    pub(super) fn judge_pieces(&mut self, bounds: &Bounds) {
        let numbers: Vec<u64> = self.inodes.keys().copied().collect();
        for number in numbers {
            self.judge_inline(number);
            let Some(found) = self.inodes.get_mut(&number) else { continue };
            let problems = judge_file(number, found, bounds);
            self.problems.extend(problems);
        }
    }

    fn judge_inline(&mut self, number: u64) {
        let Some(found) = self.inodes.get_mut(&number) else { return };
        let (file_type, size) = (found.file_type(), found.inode.map_or(0, |inode| inode.size_bytes));
        let has_first = found.pieces.iter().any(|piece| piece.is.first == 0);
        let has_bytes = match file_type {
            Some(FileType::Link) => true,
            Some(FileType::File) => !has_first,
            _ => false,
        };
        let what = match (found.inline_bytes, file_type) {
            (Some(bytes), _) if bytes > INLINE_MAX || !has_bytes => "bytes in the tree",
            (Some(bytes), Some(FileType::Link)) if bytes as u64 != size => "a length without a target",
            (None, Some(FileType::Link)) => "no target",
            _ => return,
        };
        self.problems.push(Problem::WrongItem { inode: number, what });
        match what {
            "no target" => self.drop_named(number),
            "bytes in the tree" => {
                found.inline_bytes = None;
                self.drop_item(Key::new(number, KeyKind::Inline, 0));
            }
            _ => {}
        }
    }

    /// An inode goes, with its names.
    fn drop_named(&mut self, number: u64) {
        let seed = self.hash_seed;
        let folders = self.inodes.get(&number).map(|found| found.folders.clone()).unwrap_or_default();
        for folder in folders {
            let items = self.inodes.get_mut(&folder).and_then(|found| found.of_folder.as_mut());
            let Some(items) = items else { continue };
            let gone: Vec<_> = items.names.keys().filter(|name| name.inode == number).cloned().collect();
            gone.iter().for_each(|name| items.remove(name, seed));
        }
        self.drop_inode(number);
    }

    /// Blocks of the volume have one owner each. Returns the blocks of which files get copies; up to so many have room.
    pub(super) async fn judge_owners(
        &mut self,
        reader: &Reader,
        nodes: impl Iterator<Item = u64>,
        free: u64,
    ) -> Result<Copies, IoError> {
        let nodes = nodes.map(|place| Claim { start: place, end: place.saturating_add(1), inode: 0, at: 0 });
        let mut claims: Vec<Claim> = nodes.collect();
        for (number, found) in &self.inodes {
            claims.extend(found.pieces.iter().enumerate().map(|(at, piece)| {
                let start = piece.is.extent.place;
                Claim { start, end: start + u64::from(piece.is.extent.blocks), inode: *number, at }
            }));
        }
        claims.sort_unstable();
        let mut copies = Copies::default();
        for cluster in clusters(&claims) {
            let is_older = |claim: &Claim| {
                let piece = self.inodes.get(&claim.inode).and_then(|found| found.pieces.get(claim.at));
                piece.is_some_and(|piece| piece.origin == Origin::Older)
            };
            if cluster.len() > 1 || is_older(&cluster[0]) {
                for ((inode, at), fates) in self.judge_cluster(reader, cluster).await? {
                    let copied = self.carry_out(inode, at, &fates);
                    copied.into_iter().for_each(|copied| copies.add(copied, free));
                }
            }
        }
        for found in self.inodes.values_mut() {
            found.pieces.retain(|piece| piece.is.extent.blocks > 0);
        }
        Ok(copies)
    }

    /// Claims that overlap, or one that was found in an older leaf: decides block by block.
    async fn judge_cluster(&mut self, reader: &Reader, cluster: &[Claim]) -> Result<Fates, IoError> {
        for pair in cluster.windows(2) {
            let (inode, other) = (pair[0].inode, pair[1].inode);
            if pair[1].start < pair[0].end {
                self.problems.push(Problem::TwoOwners { block: pair[1].start, inode, other });
            }
        }
        let mut fates = Fates::new();
        let end = cluster.iter().map(|claim| claim.end).max().unwrap_or(0);
        for block in cluster[0].start..end {
            let all = cluster.iter().filter(|claim| (claim.start..claim.end).contains(&block));
            let claimants: Vec<Claim> = all.copied().collect();
            for (claim, fate) in self.fates(reader, block, &claimants).await? {
                let runs = fates.entry((claim.inode, claim.at)).or_default();
                match runs.last_mut().filter(|(run, of_run)| run.end == block && *of_run == fate) {
                    Some((run, _)) => run.end += 1,
                    None => runs.push((block..block + 1, fate)),
                }
            }
        }
        Ok(fates)
    }

    /// What becomes of a block with the extents that claim it.
    async fn fates(
        &self,
        reader: &Reader,
        block: u64,
        claimants: &[Claim],
    ) -> Result<Vec<(Claim, Fate)>, IoError> {
        let piece =
            |claim: &Claim| self.inodes.get(&claim.inode).and_then(|found| found.pieces.get(claim.at));
        if let [only] = claimants
            && piece(only).is_none_or(|piece| piece.origin == Origin::Tree)
        {
            // Nobody else has it. If it is damaged, reads say so, and perhaps redundancy has it.
            return Ok(if only.inode > 0 { vec![(*only, Fate::Keep)] } else { Vec::new() });
        }
        let wanted: Vec<u32> =
            claimants.iter().filter_map(piece).filter_map(|piece| crc_of(piece, block)).collect();
        let bytes = unless_lost(reader.right_block(block, &wanted).await)?;
        let standing = |claim: &Claim| match piece(claim) {
            _ if claim.inode == 0 => Standing::Node,
            Some(piece) => standing(piece, block, bytes.as_deref()),
            None => Standing::Wrong,
        };
        let mut claimants: Vec<(Claim, Standing)> =
            claimants.iter().map(|claim| (*claim, standing(claim))).collect();
        claimants.sort_by_key(|(_, standing)| *standing);
        let best = claimants.first().map(|(_, standing)| *standing);
        let fate = |(at, (claim, standing)): (usize, (Claim, Standing))| {
            let fate = match (standing, best) {
                (Standing::Wrong, _) | (_, Some(Standing::Node)) => Fate::Hole,
                _ if at == 0 => Fate::Keep,
                _ if bytes.is_none() => Fate::Hole,
                (standing, best) if Some(standing) == best => Fate::Copy,
                _ if best == Some(Standing::Proven) => Fate::Hole,
                _ => Fate::Copy,
            };
            (claim, fate)
        };
        let of_files = claimants.into_iter().enumerate().filter(|(_, (claim, _))| claim.inode > 0);
        Ok(of_files.map(fate).collect())
    }

    /// Leaves of a piece what it keeps. Returns what it gets a copy of.
    fn carry_out(&mut self, inode: u64, at: usize, fates: &[(Range<u64>, Fate)]) -> Vec<Copied> {
        let Some(found) = self.inodes.get_mut(&inode) else { return Vec::new() };
        if fates.iter().all(|(_, fate)| *fate == Fate::Keep) {
            return Vec::new();
        }
        found.replace_pieces();
        let piece = found.pieces[at].clone();
        found.pieces[at].is.extent.blocks = 0;
        let block_of = |place: u64| piece.is.first + place - piece.is.extent.place;
        let (mut copies, mut holes) = (Vec::new(), 0);
        for (places, fate) in fates {
            let blocks = block_of(places.start)..block_of(places.end);
            match fate {
                Fate::Keep => {
                    found.pieces.extend(piece.is.part(&blocks).map(|is| Piece { is, origin: piece.origin }));
                }
                Fate::Hole => holes += blocks.end - blocks.start,
                Fate::Copy => copies.extend(piece.is.part(&blocks).map(|is| Copied { inode, is })),
            }
        }
        self.problems.extend((holes > 0).then_some(Problem::Hole {
            inode,
            block: piece.is.first,
            blocks: holes,
        }));
        copies
    }

    /// Blocks of files that are in the journal only are going to be written: their files have them in the place of what they
    /// have there. Returns those of files that are there.
    pub(crate) fn make_room(&mut self, data: Vec<FileBlocks>) -> Vec<FileBlocks> {
        let mut kept = Vec::new();
        for one in data {
            let end = one.first.checked_add(one.blocks.len() as u64).filter(|end| *end <= FILE_BLOCKS_MAX);
            let found =
                self.inodes.get_mut(&one.inode).filter(|found| found.file_type() == Some(FileType::File));
            let (Some(end), Some(found)) = (end, found) else { continue };
            found.cut(&(one.first..end));
            if one.first == 0 {
                found.inline_bytes = None;
                self.drop_item(Key::new(one.inode, KeyKind::Inline, 0));
            }
            kept.push(one);
        }
        kept
    }

    /// Writes down the extents of files that have others than the tree says.
    pub(crate) fn put_extents(&mut self) {
        let mut edits = Vec::new();
        for (number, found) in &mut self.inodes {
            let key = |first| Key::new(*number, KeyKind::Extent, first);
            let Some(replaced) = &mut found.replaced else { continue };
            edits.extend(replaced.iter().map(|first| (key(*first), None)));
            edits.extend(
                found.pieces.iter().map(|piece| (key(piece.is.first), Some(piece.is.extent.encode()))),
            );
            // They may change once more, and be written down again.
            replaced.extend(found.pieces.iter().map(|piece| piece.is.first));
        }
        for (key, value) in edits {
            self.edits.insert(key, value.map(Into::into));
        }
    }
}

/// How good a claim is: better ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// The tree's own.
    Node,
    /// Its CRC matches.
    Proven,
    /// It has no CRC.
    Told,
    /// It has none, and was found in an older leaf.
    ToldOnce,
    /// It has one, and the block cannot be read.
    Unread,
    /// Its CRC does not match.
    Wrong,
}

/// How good the claim of a file's piece to a block with these bytes is; none if they cannot be read.
fn standing(piece: &Piece, block: u64, bytes: Option<&[u8]>) -> Standing {
    match (crc_of(piece, block), bytes, piece.origin) {
        (Some(crc), Some(bytes), _) if crc == crc32c(bytes) => Standing::Proven,
        (Some(_), Some(_), _) => Standing::Wrong,
        (Some(_), None, _) => Standing::Unread,
        (None, _, Origin::Tree) => Standing::Told,
        (None, _, Origin::Older) => Standing::ToldOnce,
    }
}

/// The CRC that a piece has of a block of the volume, if it has CRCs.
fn crc_of(piece: &Piece, block: u64) -> Option<u32> {
    let at = block.checked_sub(piece.is.extent.place)?;
    piece.is.extent.crcs.as_ref()?.get(at as usize).copied()
}

/// Runs of claims that overlap one another.
fn clusters(claims: &[Claim]) -> impl Iterator<Item = &[Claim]> {
    let mut left = claims;
    std::iter::from_fn(move || {
        let mut end = left.first()?.end;
        let mut count = 1;
        while let Some(next) = left.get(count).filter(|next| next.start < end) {
            end = end.max(next.end);
            count += 1;
        }
        let (cluster, rest) = left.split_at(count);
        left = rest;
        Some(cluster)
    })
}

#[cfg(test)]
mod tests {
    use stripewise_format::rafs::space::Extent;

    use super::*;
    use crate::check::Edits;

    #[test]
    fn extents_lie_in_one_group() {
        let bounds = Bounds { first: 100, group_blocks: 10, groups: 3 };
        assert!(bounds.have(&(100..110)) && bounds.have(&(129..130)));
        assert!(!bounds.have(&(99..101)) && !bounds.have(&(109..111)) && !bounds.have(&(129..131)));
        assert!(!bounds.have(&(0..u64::MAX)) && !bounds.have(&(105..105)));
    }

    /// A file's extents may change after they were written down: those that went are dropped.
    #[test]
    fn extents_that_are_written_down_twice_leave_nothing_behind() {
        let mut items = Items::new(1, Edits::new(), 0);
        let key = |first| Key::new(2, KeyKind::Extent, first);
        let extent = |place, blocks| Extent { place, blocks, crcs: None };
        items.take_up(key(0), &extent(1000, 10).encode(), Origin::Tree);
        let mut set = |runs: [(u64, u32); 2]| {
            let found = items.inodes.get_mut(&2).unwrap();
            let piece = |(first, blocks)| Piece {
                is: Mapped { first, extent: extent(1000 + first, blocks) },
                origin: Origin::Tree,
            };
            found.replace_pieces();
            found.pieces = runs.map(piece).into();
            items.put_extents();
            items.edits.iter().map(|(key, value)| (key.offset, value.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(set([(0, 3), (6, 4)]), [(0, true), (6, true)]);
        assert_eq!(set([(0, 3), (8, 2)]), [(0, true), (6, false), (8, true)]);
    }
}
