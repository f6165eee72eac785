//! How full nodes are: where a node that overflows is split, and what a small one is joined with.

use stripewise_format::rafs::key::Key;
use stripewise_format::rafs::node::{CHILD_LEN, NODE_ROOM};

use super::node::{Inner, Node, item_bytes};

/// A node with fewer bytes is joined with a neighbour.
pub(super) const BYTES_MIN: usize = NODE_ROOM / 4;

/// Which child a small one is joined with: the one before it, or else the one behind it.
pub(super) fn neighbour(at: usize, children: usize) -> Option<usize> {
    if at > 0 { Some(at - 1) } else { (children > 1).then_some(1) }
}

impl Node {
    /// Moves the entries of the node behind this one to its end.
    pub(super) fn absorb(&mut self, behind: Self) {
        match (self, behind) {
            (Self::Leaf(own), Self::Leaf(more)) => own.extend(more),
            (Self::Inner(own), Self::Inner(more)) => own.branches.extend(more.branches),
            (Self::Leaf(_), Self::Inner(_)) | (Self::Inner(_), Self::Leaf(_)) => {
                unreachable!("neighbours are of one level")
            }
        }
    }

    /// Splits a node that is too large into pieces that are not. This node keeps the first one. Returns the others, each with its
    /// first key.
    ///
    /// A node that has grown by appending an entry is split there, so that what is appended in the order of keys fills nodes.
    pub(super) fn split(&mut self, inserted: Option<usize>) -> Vec<(Key, Self)> {
        let sizes = self.entry_sizes();
        let appended = inserted.filter(|at| self.is_appended(*at));
        let at_end = appended.and_then(|at| cut_behind(&sizes, at));
        let cuts = at_end.map_or_else(|| cuts(&sizes), |cut| vec![cut]);
        let mut pieces: Vec<_> = cuts.into_iter().rev().map(|at| self.split_off(at)).collect();
        pieces.reverse();
        pieces
    }

    /// Whether an entry is the node's last one, or the last of its object and kind, and these fill half of the node. So it is
    /// with the extents of a file that grows, although the next file's items may lie behind them.
    fn is_appended(&self, at: usize) -> bool {
        let items = self.items();
        let Some(next) = items.get(at + 1) else { return at + 1 == self.len() };
        let run_of = |key: Key| (key.object, key.kind);
        let run = run_of(items[at].key);
        let own = items[..=at].iter().rev().take_while(|item| run_of(item.key) == run);
        run_of(next.key) != run && own.map(item_bytes).sum::<usize>() >= NODE_ROOM / 2
    }

    fn entry_sizes(&self) -> Vec<usize> {
        match self {
            Self::Leaf(items) => items.iter().map(item_bytes).collect(),
            Self::Inner(inner) => vec![CHILD_LEN; inner.branches.len()],
        }
    }

    fn split_off(&mut self, at: usize) -> (Key, Self) {
        match self {
            Self::Leaf(items) => (items[at].key, Self::Leaf(items.split_off(at))),
            Self::Inner(inner) => {
                let branches = inner.branches.split_off(at);
                (branches[0].key, Self::Inner(Inner { level: inner.level, branches }))
            }
        }
    }
}

/// Where to cut entries if one at `at` was appended: behind it, or before it if it does not fit or nothing is behind it. None:
/// one of the pieces would not fit into a node.
fn cut_behind(sizes: &[usize], at: usize) -> Option<usize> {
    let fits = |sizes: &[usize]| (1..=NODE_ROOM).contains(&sizes.iter().sum());
    [at + 1, at].into_iter().find(|cut| fits(&sizes[..*cut]) && fits(&sizes[*cut..]))
}

/// Where to cut entries so that each piece fits into a node: into two pieces as equal as can be, or else into three.
///
/// Three pieces are needed if a long item has come between items that filled up to one node, and fits neither with those before
/// it nor with those behind it. Then it gets a piece of its own.
fn cuts(sizes: &[usize]) -> Vec<usize> {
    let total: usize = sizes.iter().sum();
    let lefts = sizes.iter().scan(0, |left, size| {
        *left += size;
        Some(*left)
    });
    let (larger, at) = lefts.map(|left| left.max(total - left)).zip(1..).min().unwrap_or_default();
    if larger <= NODE_ROOM {
        return vec![at];
    }
    let mut room = NODE_ROOM;
    let fits = |size: &&usize| room.checked_sub(**size).map(|rest| room = rest).is_some();
    let long = sizes.iter().take_while(fits).count();
    vec![long, long + 1]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stripewise_format::rafs::{node::SLOT_LEN, value::VALUE_MAX};

    use super::*;

    #[test]
    fn a_long_item_in_the_middle_gets_a_node_of_its_own() {
        let long = SLOT_LEN + VALUE_MAX;
        assert_eq!(cuts(&[1000, 1000, long, 1000, 1000]), [2, 3]);
        assert_eq!(cuts(&[1000, long, 1000, 1000]), [2]);
        assert_eq!(cuts(&[CHILD_LEN; NODE_ROOM / CHILD_LEN + 1]), [61]);
    }

    proptest! {
        #[test]
        fn pieces_fit(
            lens in prop::collection::vec(prop_oneof![0..=VALUE_MAX, 0..200_usize], 1..60),
            at in any::<prop::sample::Index>(),
            new in prop_oneof![0..=VALUE_MAX, VALUE_MAX - 300..=VALUE_MAX],
        ) {
            let mut room = NODE_ROOM;
            let fitting = lens.iter().map(|len| SLOT_LEN + len).take_while(|size| {
                room.checked_sub(*size).map(|rest| room = rest).is_some()
            });
            let mut sizes: Vec<usize> = fitting.collect();
            sizes.insert(at.index(sizes.len() + 1), SLOT_LEN + new);
            prop_assume!(sizes.iter().sum::<usize>() > NODE_ROOM);
            let cuts = cuts(&sizes);
            let bounds: Vec<usize> = [0].into_iter().chain(cuts).chain([sizes.len()]).collect();
            for piece in bounds.windows(2) {
                let bytes: usize = sizes[piece[0]..piece[1]].iter().sum();
                prop_assert!(piece[0] < piece[1] && bytes <= NODE_ROOM, "{:?} of {:?}", piece, sizes);
            }
        }
    }
}
