//! A workload: operations one after the other on a file system in which all that they need is there and durable.

use std::{collections::BTreeSet, fmt, str::FromStr};

use super::{
    asked::{Asked, Lack, Need, Of, content},
    found::Sort,
    model::{Change, Model},
    op::Op,
};
use crate::rafs::{Ground, STRIPE_BYTES};

/// The files that are there at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// They lie in the tree.
    Inline,
    /// They have some blocks.
    Blocks,
    /// They have two stripes of their own, and some bytes more.
    Stripes,
}

impl Size {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Inline, Self::Blocks, Self::Stripes];

    fn bytes(self) -> usize {
        match self {
            Self::Inline => 1000,
            Self::Blocks => 13_000,
            Self::Stripes => 2 * STRIPE_BYTES + 2000,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inline => "inline",
            Self::Blocks => "blocks",
            Self::Stripes => "stripes",
        })
    }
}

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|size| size.to_string() == text);
        found.ok_or("give inline, blocks or stripes")
    }
}

/// What a workload begins with, and what decides about the order of tasks and the times of I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// What the file system lies on.
    pub ground: Ground,
    /// The files that are there.
    pub size: Size,
    /// The order of tasks, and how long I/O takes.
    pub seed: u64,
}

/// Operations, and what makes them durable, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// What it begins with.
    pub start: Start,
    /// The operations.
    pub ops: Vec<Op>,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Start { ground, size, seed } = self.start;
        let ops: Vec<String> = self.ops.iter().map(Op::to_string).collect();
        write!(f, "{ground}:{size}:{seed}:{}", ops.join(","))
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.splitn(4, ':').collect();
        let [ground, size, seed, ops] = parts[..] else {
            return Err(
                "give GROUND:SIZE:SEED:OPERATIONS, such as file:blocks:0:append=foo,rename=foo=bar,fsync=bar"
                    .to_owned(),
            );
        };
        let seed = seed.parse().map_err(|_| format!("{seed} is no seed: give a number"))?;
        let start = Start { ground: ground.parse()?, size: size.parse()?, seed };
        let workload = Self { start, ops: ops.split(',').map(str::parse).collect::<Result<_, _>>()? };
        match workload.prepare() {
            Some(_) => Ok(workload),
            None => Err(format!("one of the operations {ops} cannot be done")),
        }
    }
}

/// What must be there before a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Needs {
    folders: BTreeSet<String>,
    files: BTreeSet<String>,
    /// Files with the attribute.
    attributes: BTreeSet<String>,
}

impl Needs {
    fn add(&mut self, need: &Need) -> bool {
        let Need { of, path } = need;
        let path = path.clone();
        match of {
            Of::Folder => self.folders.insert(path),
            Of::File => self.files.insert(path),
            Of::Attribute => self.attributes.insert(path),
        }
    }

    /// The changes that make it.
    pub(super) fn changes(&self, size: Size) -> Vec<Change> {
        let folders = self.folders.iter().map(|path| Change::Make(Sort::Folder, path.clone()));
        let files = self.files.iter().zip(1_u64..).flat_map(|(path, number)| {
            let bytes = content(number, size.bytes());
            [Change::Make(Sort::File, path.clone()), Change::Write(path.clone(), 0, bytes)]
        });
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|path| Change::SetAttribute(path.clone(), b"before".to_vec()));
        folders.chain(files).chain(attributes).chain([Change::Sync]).collect()
    }
}

/// A workload that can be carried out.
pub(super) struct Prepared {
    pub(super) needs: Needs,
    /// The changes of each operation.
    pub(super) changes: Vec<Vec<Change>>,
}

impl Workload {
    /// What it needs and does. None if one of its operations cannot be done. A file that an earlier operation has taken away is made
    /// again, as by open(2) with `O_CREAT`.
    pub(super) fn prepare(&self) -> Option<Prepared> {
        let mut needs = Needs::default();
        loop {
            match self.try_prepare(&needs) {
                Ok(changes) => return Some(Prepared { needs, changes }),
                // Each need is noted once, so this comes to an end.
                Err(Lack::Before(need)) if needs.add(&need) => {}
                Err(_) => return None,
            }
        }
    }

    /// Whether all operations are on one file.
    #[must_use]
    pub fn is_of_one_file(&self) -> bool {
        let mut ops = self.ops.iter().filter(|op| !op.kind.persists());
        let first = ops.next();
        first.is_some_and(|first| first.names.len() == 1 && ops.all(|op| op.names == first.names))
    }

    fn try_prepare(&self, needs: &Needs) -> Result<Vec<Vec<Change>>, Lack> {
        let mut model = Model::new();
        let before = needs.changes(self.start.size);
        before.iter().for_each(|change| model.begin(change));
        let mut touched = Vec::new();
        let mut all = Vec::new();
        for (number, op) in (100_u64..).zip(&self.ops) {
            let mut asked = Asked { model: &mut model, touched: &touched, changes: Vec::new() };
            asked.ask(op, number)?;
            all.push(asked.changes);
            touched.extend(op.names.iter().filter(|_| !op.kind.persists()).cloned());
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(ops: &str) -> Result<Workload, String> {
        format!("file:blocks:7:{ops}").parse()
    }

    #[test]
    fn a_workload_is_what_its_words_say() {
        let text = "5:stripes:7:append=foo,link=foo=A/bar,fsync=A/bar,rename=A=C,sync";
        assert_eq!(text.parse::<Workload>().map(|workload| workload.to_string()), Ok(text.to_owned()));
        for wrong in ["", "file:blocks:7", "file:blocks:x:sync", "file:some:0:sync", "disk:blocks:0:sync"] {
            assert!(wrong.parse::<Workload>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_needed_is_there_before_and_what_was_taken_away_is_made_again() {
        let needs = |ops| workload(ops).unwrap().prepare().unwrap().needs;
        let of = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<BTreeSet<_>>();
        let before = needs("creat=foo,replace=A/foo=bar,removexattr=B/foo");
        assert_eq!(before.folders, of(&["A", "B"]));
        assert_eq!(before.files, of(&["A/foo", "bar", "B/foo"]));
        assert_eq!(before.attributes, of(&["B/foo"]));
        let again = workload("unlink=foo,append=foo,rmdir=A,creat=A/bar").unwrap().prepare().unwrap();
        assert_eq!(again.needs.files, of(&["foo"]));
        assert_eq!(again.changes.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1, 2]);
    }

    #[test]
    fn what_cannot_be_done_is_no_workload() {
        for wrong in [
            "append=foo,creat=foo",
            "mkdir=A,mkdir=A",
            "append=A/foo,rmdir=A",
            "rename=A=A/C",
            "unlink=foo,unlink=foo",
            "link=foo=foo",
        ] {
            assert!(workload(wrong).is_err(), "{wrong}");
        }
    }
}
