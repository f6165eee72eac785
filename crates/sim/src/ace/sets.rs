//! Which workloads there are: all sequences of some operations up to a length, each followed by nothing or by what makes it durable.
//!
//! Workloads that differ only in names are told once: of all that come of exchanging A for B, or foo for bar in one folder, the first one.

use std::{fmt, str::FromStr};

use super::{
    op::{FILES, FOLDERS, Kind, Op},
    relabel::Relabel,
    workload::{Start, Workload},
};

/// The new name of folders.
const NEW_FOLDER: &str = "C";
/// Files of the longest workloads.
const FEW_FILES: [&str; 4] = ["foo", "bar", "A/foo", "A/bar"];
/// Operations on one file.
const OF_FILES: [Kind; 12] = [
    Kind::Creat,
    Kind::Append,
    Kind::Start,
    Kind::Middle,
    Kind::Hole,
    Kind::Punch,
    Kind::PunchEnd,
    Kind::Shorter,
    Kind::Longer,
    Kind::Symlink,
    Kind::Setxattr,
    Kind::Removexattr,
];
/// Those that change bytes.
const OF_BYTES: [Kind; 8] = [
    Kind::Append,
    Kind::Start,
    Kind::Middle,
    Kind::Hole,
    Kind::Punch,
    Kind::PunchEnd,
    Kind::Shorter,
    Kind::Longer,
];

/// Workloads that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// One operation.
    Seq1,
    /// Two.
    Seq2,
    /// Three that change bytes of files foo and bar.
    Seq3Data,
    /// Three of append, link, unlink and rename, with files of the root and of A.
    Seq3Metadata,
}

impl Set {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Seq1, Self::Seq2, Self::Seq3Data, Self::Seq3Metadata];

    fn length(self) -> usize {
        match self {
            Self::Seq1 => 1,
            Self::Seq2 => 2,
            Self::Seq3Data | Self::Seq3Metadata => 3,
        }
    }

    fn ops(self) -> Vec<Op> {
        let on = |kinds: &[Kind], files: &[&str]| {
            let of_kind = |kind: &Kind| files.iter().map(|file| Op::new(*kind, &[file])).collect::<Vec<_>>();
            kinds.iter().flat_map(of_kind).collect::<Vec<_>>()
        };
        match self {
            Self::Seq1 | Self::Seq2 => {
                let mut all = on(&OF_FILES, &FILES);
                all.extend(on(&[Kind::Unlink], &FILES));
                all.extend(pairs(&[Kind::Link, Kind::Rename, Kind::Replace], &FILES));
                all.extend(pairs(&[Kind::Exchange], &FILES).into_iter().filter(|op| op.path() < op.to()));
                all.extend(on(&[Kind::Mkdir, Kind::Rmdir], &FOLDERS));
                for (one, other) in [("A", "B"), ("B", "A")] {
                    all.push(Op::new(Kind::Mkdir, &[&format!("{one}/{NEW_FOLDER}")]));
                    all.push(Op::new(Kind::Rename, &[one, NEW_FOLDER]));
                    all.push(Op::new(Kind::Rename, &[one, &format!("{other}/{NEW_FOLDER}")]));
                    all.push(Op::new(Kind::Replace, &[one, other]));
                }
                all.push(Op::new(Kind::Exchange, &["A", "B"]));
                all
            }
            Self::Seq3Data => on(&OF_BYTES, &FILES[..2]),
            Self::Seq3Metadata => {
                let mut all = on(&[Kind::Append, Kind::Unlink], &FEW_FILES);
                all.extend(pairs(&[Kind::Link, Kind::Rename, Kind::Replace], &FEW_FILES));
                all
            }
        }
    }

    /// What may come behind an operation that is not the last one.
    fn between(self, op: &Op) -> Vec<Option<Op>> {
        let persisted = op.persisted().into_iter();
        let few = if self.length() > 2 { 1 } else { usize::MAX };
        [None].into_iter().chain(persisted.take(few).map(Some)).collect()
    }

    /// What may come behind the last one.
    fn at_last(self, op: &Op) -> Vec<Op> {
        let mut persisted = op.persisted();
        if self.length() > 2 {
            // The first thing that it has touched, or everything.
            persisted = [persisted[0].clone(), Op::new(Kind::Sync, &[])].into();
        }
        persisted
    }

    /// The workloads, in lots that begin alike.
    #[must_use]
    pub fn lots(self, start: Start) -> Vec<Lot> {
        let ops = self.ops();
        let mut begun = vec![Lot { set: self, start, core: Vec::new(), ops: Vec::new() }];
        for _ in 1..self.length() {
            begun = begun.iter().flat_map(|lot| ops.iter().flat_map(|op| lot.with(op))).collect();
        }
        begun
    }
}

/// Operations that give a file one more name, or another one.
fn pairs(kinds: &[Kind], files: &[&str]) -> Vec<Op> {
    let to = |file: &'_ str| files.iter().filter(move |to| **to != file).copied().collect::<Vec<_>>();
    let of = |kind: &Kind| {
        let of_file =
            |file: &&str| to(file).into_iter().map(|to| Op::new(*kind, &[file, to])).collect::<Vec<_>>();
        files.iter().flat_map(of_file).collect::<Vec<_>>()
    };
    kinds.iter().flat_map(of).collect()
}

/// Whether no exchange of names makes these come before themselves.
fn is_first(core: &[Op], moves_folder: bool) -> bool {
    let others = Relabel::all(moves_folder);
    others.into_iter().all(|relabel| core.iter().map(|op| relabel.of(op)).ge(core.iter().cloned()))
}

/// Workloads that differ in the last operation, and in what comes behind it.
#[derive(Debug, Clone)]
pub struct Lot {
    set: Set,
    start: Start,
    /// The operations without what makes them durable.
    core: Vec<Op>,
    ops: Vec<Op>,
}

impl Lot {
    /// Lots that go on with this operation.
    fn with(&self, op: &Op) -> Vec<Self> {
        let core = [&self.core[..], std::slice::from_ref(op)].concat();
        // A folder may be moved later.
        if !is_first(&core, true) {
            return Vec::new();
        }
        let lot = |persisted: Option<Op>| {
            let ops = self.ops.iter().chain([op]).chain(&persisted).cloned().collect();
            Self { core: core.clone(), ops, ..self.clone() }
        };
        let lots = self.set.between(op).into_iter().map(lot);
        lots.filter(|lot| Workload { start: self.start, ops: lot.ops.clone() }.prepare().is_some()).collect()
    }

    /// Its workloads.
    #[must_use]
    pub fn workloads(&self) -> Vec<Workload> {
        self.set.ops().iter().flat_map(|op| self.ended_by(op)).collect()
    }

    fn ended_by(&self, op: &Op) -> Vec<Workload> {
        let core = [&self.core[..], std::slice::from_ref(op)].concat();
        if !is_first(&core, core.iter().any(Op::moves_folder)) {
            return Vec::new();
        }
        let workload = |persisted| {
            let ops = self.ops.iter().chain([op, &persisted]).cloned().collect();
            Workload { start: self.start, ops }
        };
        let all = self.set.at_last(op).into_iter().map(workload);
        all.filter(|workload| workload.prepare().is_some()).collect()
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seq1 => "seq-1",
            Self::Seq2 => "seq-2",
            Self::Seq3Data => "seq-3-data",
            Self::Seq3Metadata => "seq-3-metadata",
        })
    }
}

impl FromStr for Set {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|set| set.to_string() == text);
        found.ok_or("give seq-1, seq-2, seq-3-data or seq-3-metadata")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_told(ops: &str) -> bool {
        let core: Vec<Op> = ops.split(',').map(|op| op.parse().unwrap()).collect();
        is_first(&core, core.iter().any(Op::moves_folder))
    }

    fn told(ops: &[&str]) -> usize {
        ops.iter().filter(|ops| is_told(ops)).count()
    }

    #[test]
    fn what_differs_only_in_names_is_told_once() {
        assert_eq!(told(&["creat=A/foo", "creat=A/bar", "creat=B/foo", "creat=B/bar"]), 1);
        assert_eq!(told(&["append=foo,unlink=bar", "append=bar,unlink=foo"]), 1);
        assert_eq!(told(&["exchange=A/bar=bar", "exchange=B/bar=foo", "exchange=A/foo=bar"]), 1);
        assert_eq!(told(&["rename=A=C", "rename=B=C"]), 1);
        // The two files have the same names, or they do not.
        assert_eq!(told(&["creat=A/bar,creat=bar", "creat=A/foo,creat=bar"]), 1);
        assert_eq!(told(&["replace=A=B,creat=B/bar,creat=bar", "replace=A=B,creat=B/bar,creat=foo"]), 2);
    }

    #[test]
    fn a_set_has_each_operation_under_all_of_its_names() {
        for set in Set::ALL {
            let ops = set.ops();
            let has = |relabel: Relabel| ops.iter().all(|op| ops.contains(&relabel.of(op)));
            let is_whole = set == Set::Seq1 || set == Set::Seq2;
            assert!(!is_whole || Relabel::all(false).all(has), "{set}");
        }
    }
}
