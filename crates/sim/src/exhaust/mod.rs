//! Every crash of short histories: power fails at each step of one or a few operations on a small array, and
//! each possible result is assembled again, within a stated bound (`fates.rs`, beside this folder).
//!
//! Stories draw both the events and the results of a power failure. Here only the order of tasks and the
//! times of I/O are drawn. `state.rs` says what must hold of each state. States with equal bytes on the
//! members and equal allowed contents are checked once.

mod history;
mod life;
mod point;
mod state;
mod teller;

use std::ops::{AddAssign, Sub};

pub use history::{History, Op, Shape, Size};
pub use teller::{Base, Teller};

use crate::check::Violation;

/// Totals over histories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Histories run.
    pub histories: u64,
    /// Steps at which power failed and the possible results had changed since the step before.
    pub crash_points: u64,
    /// Those that differ from all others with the same beginning.
    pub distinct_points: u64,
    /// States that these may leave; each was checked unless it is counted as skipped.
    pub states: u128,
    /// States that differ from all others.
    pub distinct_states: u64,
    /// States left out, of points with too many.
    pub skipped: u128,
    /// Points with too many states.
    pub bounded_points: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.histories += other.histories;
        self.crash_points += other.crash_points;
        self.distinct_points += other.distinct_points;
        self.states += other.states;
        self.distinct_states += other.distinct_states;
        self.skipped += other.skipped;
        self.bounded_points += other.bounded_points;
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            histories: self.histories - other.histories,
            crash_points: self.crash_points - other.crash_points,
            distinct_points: self.distinct_points - other.distinct_points,
            states: self.states - other.states,
            distinct_states: self.distinct_states - other.distinct_states,
            skipped: self.skipped - other.skipped,
            bounded_points: self.bounded_points - other.bounded_points,
        }
    }
}

/// A history that ends badly.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The history.
    pub history: History,
    /// When power failed, and what it left, in words.
    pub when: String,
    /// What is wrong.
    pub violation: Violation,
}

/// Which histories to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Of these arrays.
    pub shapes: Vec<Shape>,
    /// Operations of a history at most.
    pub ops: usize,
    /// Seeds of each history.
    pub seeds: u64,
    /// Seeds of histories of one operation: they take little time.
    pub seeds_of_one: u64,
}

impl Extent {
    /// The histories, in lots that begin alike; those of the same array are neighbours.
    pub fn lots(&self) -> Vec<Lot> {
        let seeds = if self.ops == 1 { self.seeds_of_one } else { self.seeds.max(self.seeds_of_one) };
        let ops_of = |seed: u64| if seed < self.seeds { self.ops } else { 1 };
        let of_array =
            |shape, seed| Op::first().map(move |first| Lot { shape, seed, first, ops: ops_of(seed) });
        let of_shape = |shape: &Shape| {
            let shape = *shape;
            (0..seeds).flat_map(move |seed| of_array(shape, seed))
        };
        self.shapes.iter().flat_map(of_shape).collect()
    }
}

/// Histories of one shape and seed that begin with the same operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lot {
    /// The shape of all of them.
    pub shape: Shape,
    /// The seed of all of them.
    pub seed: u64,
    first: Op,
    ops: usize,
}

impl Lot {
    /// Its histories: operations one after the other, and two also at once; with all members, and with one
    /// that is lost before an operation, unless no write follows.
    pub fn histories(self) -> Vec<History> {
        let mut sequences = vec![vec![self.first]];
        let mut last = sequences.clone();
        for _ in 1..self.ops {
            let longer = |ops: &Vec<Op>| Op::later().map(|op| [&ops[..], &[op]].concat()).collect::<Vec<_>>();
            last = last.iter().flat_map(longer).collect();
            sequences.extend(last.iter().cloned());
        }
        sequences.into_iter().flat_map(|ops| self.variants(&ops)).collect()
    }

    fn variants(self, ops: &[Op]) -> Vec<History> {
        let each = |op: &Op| vec![*op];
        let history = |steps| History { shape: self.shape, seed: self.seed, steps };
        let mut all = vec![history(ops.iter().map(each).collect())];
        let lost = (0..ops.len()).filter(|at| ops[*at..].iter().any(|op| op.writes_data()));
        all.extend(lost.map(|at| {
            let (before, after) = ops.split_at(at);
            history(before.iter().chain([&Op::Lose]).chain(after).map(each).collect())
        }));
        if let [first, second] = ops
            && ![first, second].contains(&&Op::Rest)
        {
            all.push(history(vec![vec![*first, *second]]));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_told_in_every_way() {
        let lot = Lot { shape: Shape::ALL[0], seed: 3, first: Op::Zero, ops: 2 };
        let told: Vec<String> = lot.histories().iter().map(History::to_string).collect();
        assert_eq!(told[..2], ["5x3:3:zero", "5x3:3:lose,zero"]);
        let of = |second: &str| told.iter().filter(|text| text.contains(second)).count();
        assert_eq!((of("512.fua.beside"), of("flush"), of("rest")), (4, 3, 2));
    }

    #[test]
    fn single_operations_have_more_seeds() {
        let count = |ops, seeds, seeds_of_one| {
            let shapes = Shape::ALL[..2].to_vec();
            let lots = Extent { shapes, ops, seeds, seeds_of_one }.lots();
            let firsts = 2 * Op::first().count();
            let single = lots.iter().filter(|lot| lot.ops == 1).count();
            (lots.len() / firsts, single / firsts)
        };
        assert_eq!([count(1, 2, 4), count(2, 2, 4), count(2, 3, 1)], [(4, 4), (4, 2), (3, 0)]);
    }
}
