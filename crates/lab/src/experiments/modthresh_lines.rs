//! The arrays and policies that the experiments of raid4s-modthresh run, and their lines over sizes.

use super::{
    Effort, Results,
    lines::{self, Line},
    modthresh::point,
    raid4s::{ARRAYS, HUE_OF_ANOTHER, hue},
};
use crate::{
    arrays::{Shape, shapes},
    findings::Table,
    point::Point,
};

/// An array under a policy, with its name.
type Named = (&'static str, &'static Shape, &'static str);

/// The policies on RAID4S, as the paper names them; the last is its future work.
const ON_RAID4S: [Named; 4] = [
    ("RAID4S", &shapes::RAID4S, "classic"),
    ("RAID4S-modthresh", &shapes::RAID4S, "modthresh"),
    ("RAID4S-modified", &shapes::RAID4S, "modified"),
    ("RAID4S-cost", &shapes::RAID4S, "cost"),
];

/// The moved threshold on the other arrays with parity.
const MOVED: [Named; 5] = [
    ("RAID4-modthresh", &shapes::RAID4, "modthresh"),
    ("RAID4STUPID-modthresh", &shapes::RAID4STUPID, "modthresh"),
    ("RAID5-modthresh", &shapes::RAID5, "modthresh"),
    ("RAID5S-modthresh (1 SSD)", &shapes::RAID5S, "modthresh"),
    ("RAID5S-modthresh (all SSD)", &shapes::RAID5S_ALL, "modthresh"),
];

/// All arrays with md's own selection.
fn unmoved() -> impl Iterator<Item = Named> {
    ARRAYS.into_iter().map(|shape| (shape.name, shape, "classic"))
}

/// All other selections that run.
fn others() -> impl Iterator<Item = Named> {
    ON_RAID4S.into_iter().skip(1).chain(MOVED)
}

/// The points of all these at some sizes.
pub(super) fn points(effort: Effort, sizes_kib: &[u64]) -> Vec<Point> {
    let of = |(_, shape, policy): Named| sizes_kib.iter().map(move |kib| point(effort, shape, policy, *kib));
    unmoved().chain(others()).flat_map(of).collect()
}

/// The data of lines over sizes.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    pub(super) effort: Effort,
    pub(super) sizes_kib: &'a [u64],
}

impl Lines<'_> {
    /// The policies on RAID4S.
    pub(super) fn on_raid4s(self) -> Vec<Line> {
        ON_RAID4S.into_iter().enumerate().map(|(hue, named)| self.line(hue, named)).collect()
    }

    /// All arrays, and the paper's own among them.
    pub(super) fn side_by_side(self) -> Vec<Line> {
        let unmoved = unmoved().map(|named| self.line(hue(named.1), named));
        unmoved.chain([self.line(HUE_OF_ANOTHER, ON_RAID4S[1])]).collect()
    }

    /// Everything as numbers: md's selection on all arrays, and all others.
    pub(super) fn tables(self, results: &Results) -> [Table; 2] {
        let lines = |of: &mut dyn Iterator<Item = Named>| -> Vec<_> {
            of.map(|named| self.line(hue(named.1), named)).collect()
        };
        let (unmoved, others) = (lines(&mut unmoved()), lines(&mut others()));
        [
            lines::table("MB/s, random writes: md's selection, classic", &unmoved, results),
            lines::table("MB/s, random writes: other selections", &others, results),
        ]
    }

    /// The moved threshold on each array with parity, with the line it is compared with.
    pub(super) fn moved(self) -> Vec<(Line, Line)> {
        let both = |named: Named| {
            let hue = hue(named.1);
            (self.line(hue, named), self.line(hue, (named.0, named.1, "classic")))
        };
        [ON_RAID4S[1]].into_iter().chain(MOVED).map(both).collect()
    }

    fn line(self, hue: usize, (name, shape, policy): Named) -> Line {
        Line::new(name, hue, self.sizes_kib, |kib| point(self.effort, shape, policy, kib))
    }
}
