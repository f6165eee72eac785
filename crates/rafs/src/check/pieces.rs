//! The extents of a file, by themselves: no block of it has two places, and none lies where no file may.

use std::{collections::BTreeMap, ops::Range};

use stripewise_format::rafs::inode::FileType;

use super::{
    Problem,
    extents::Bounds,
    items::{Found, Origin, Piece},
};

/// Looks at the extents of a file.
pub(super) fn judge_file(number: u64, found: &mut Found, bounds: &Bounds) -> Vec<Problem> {
    let mut problems = Vec::new();
    if found.pieces.is_empty() {
        return problems;
    }
    if found.file_type() != Some(FileType::File) {
        problems.push(Problem::WrongItem { inode: number, what: "blocks" });
        found.replace_pieces();
        found.pieces.clear();
        return problems;
    }
    let is_good = |piece: &Piece| {
        let place = piece.is.extent.place;
        bounds.have(&(place..place.saturating_add(piece.is.extent.blocks.into())))
    };
    let bad = found.pieces.iter().filter(|piece| !is_good(piece));
    problems.extend(bad.map(|piece| Problem::OutOfRange {
        inode: number,
        block: piece.is.first,
        place: piece.is.extent.place,
    }));
    if !problems.is_empty() {
        found.replace_pieces();
        found.pieces.retain(is_good);
    }
    problems.extend(judge_overlaps(number, found));
    problems
}

/// No block of a file has two places: the first one counts, and before it, one that the tree has.
fn judge_overlaps(number: u64, found: &mut Found) -> Vec<Problem> {
    let mut problems = Vec::new();
    found.pieces.sort_by_key(|piece| piece.is.first);
    let pairs = || found.pieces.windows(2);
    if pairs().all(|pair| pair[0].is.blocks().end <= pair[1].is.first) {
        return problems;
    }
    found.replace_pieces();
    let (current, older): (Vec<Piece>, Vec<Piece>) =
        std::mem::take(&mut found.pieces).into_iter().partition(|piece| piece.origin == Origin::Tree);
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    for piece in current.into_iter().chain(older) {
        let own = piece.is.blocks();
        let gaps = gaps(&taken, own.clone());
        if gaps != [own] && piece.origin == Origin::Tree {
            problems.push(Problem::TwoPlaces { inode: number, block: piece.is.first });
        }
        for gap in gaps {
            taken.insert(gap.start, gap.end);
            found.pieces.extend(piece.is.part(&gap).map(|is| Piece { is, origin: piece.origin }));
        }
    }
    found.pieces.sort_by_key(|piece| piece.is.first);
    problems
}

/// What of a range is in none of these, which do not overlap.
fn gaps(taken: &BTreeMap<u64, u64>, range: Range<u64>) -> Vec<Range<u64>> {
    let mut from =
        taken.range(..=range.start).next_back().map_or(range.start, |(_, end)| range.start.max(*end));
    let mut gaps = Vec::new();
    for (start, end) in taken.range(range.start..range.end) {
        if from < *start {
            gaps.push(from..*start);
        }
        from = from.max(*end);
    }
    if from < range.end {
        gaps.push(from..range.end);
    }
    gaps
}

impl Found {
    /// The file no longer has these blocks where it had them.
    pub(super) fn cut(&mut self, blocks: &Range<u64>) {
        self.replace_pieces();
        let all = std::mem::take(&mut self.pieces);
        for piece in all {
            let own = piece.is.blocks();
            for rest in [own.start..own.end.min(blocks.start), own.start.max(blocks.end)..own.end] {
                let part = piece.is.part(&rest);
                self.pieces.extend(part.map(|is| Piece { is, origin: piece.origin }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_is_left_of_a_range() {
        let taken = BTreeMap::from([(5, 10), (20, 30)]);
        assert_eq!(gaps(&taken, 0..40), [0..5, 10..20, 30..40]);
        assert_eq!(gaps(&taken, 7..25), vec![10..20; 1]);
        assert_eq!(gaps(&taken, 6..9), []);
        assert_eq!(gaps(&taken, 10..20), vec![10..20; 1]);
        assert_eq!(gaps(&taken, 20..31), vec![30..31; 1]);
    }
}
