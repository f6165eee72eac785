//! A workload: operations one after the other on a file system in which all that they need is there and durable.

use std::{collections::BTreeSet, fmt, str::FromStr};

use super::{
    found::Sort,
    model::{Change, Model},
    op::{FOLDERS, Kind, Op, ROOT_NAME, parent},
};
use crate::rafs::{Ground, STRIPE_BYTES};

/// Bytes that are appended: more than a block, and no whole blocks.
const APPENDED: usize = 5000;
/// Bytes that are overwritten at the start.
const STARTED: usize = 2000;
/// Bytes between a file's end and what is written behind a hole, and bytes that are written there.
const HOLE: usize = 10_000;
const BEHIND_HOLE: usize = 3000;
const SECTOR: usize = 512;

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

/// Bytes that no other write has, and no zeroes.
fn content(number: u64, len: usize) -> Vec<u8> {
    let sector = |at: usize| ((number << 32 | (at / SECTOR) as u64) | 0x8080_8080_8080_8080).to_le_bytes();
    (0..len).step_by(8).flat_map(sector).take(len).collect()
}

/// What an operation lacks.
struct Need {
    of: Of,
    path: String,
}

enum Of {
    Folder,
    File,
    Attribute,
}

/// Why an operation cannot be done.
enum Lack {
    /// This must be there before the workload.
    Before(Need),
    /// It never can.
    Ever,
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

/// An operation while its changes are found.
struct Asked<'a> {
    model: &'a mut Model,
    /// Names that operations before it had.
    touched: &'a [String],
    changes: Vec<Change>,
}

impl Asked<'_> {
    fn push(&mut self, change: Change) {
        self.model.begin(&change);
        self.model.end(&change);
        self.changes.push(change);
    }

    fn ask(&mut self, op: &Op, number: u64) -> Result<(), Lack> {
        let (path, to) = (op.path().to_owned(), op.to().to_owned());
        match op.kind {
            Kind::Creat => self.make(Sort::File, path),
            Kind::Mkdir => self.make(Sort::Folder, path),
            Kind::Symlink => self.make(Sort::Symlink, path),
            Kind::Append | Kind::Start | Kind::Middle | Kind::Hole => {
                self.file(&path)?;
                let len = self.model.len(&path);
                let (at, count) = match op.kind {
                    Kind::Append => (len, APPENDED),
                    Kind::Start => (0, STARTED.min(len)),
                    Kind::Middle => (len / 3, len / 3),
                    _ => (len + HOLE, BEHIND_HOLE),
                };
                self.unless(count == 0)?;
                self.push(Change::Write(path, at, content(number, count)));
                Ok(())
            }
            Kind::Punch | Kind::PunchEnd | Kind::Shorter | Kind::Longer => {
                self.file(&path)?;
                let len = self.model.len(&path);
                self.unless(len == 0 && op.kind != Kind::Longer)?;
                self.push(match op.kind {
                    Kind::Punch => Change::Punch(path, len / 4..len - len / 8),
                    Kind::PunchEnd => Change::Punch(path, len / 4..len),
                    Kind::Shorter => Change::Resize(path, len / 2),
                    _ => Change::Resize(path, len + APPENDED),
                });
                Ok(())
            }
            Kind::Link => {
                self.file(&path)?;
                self.new_name(&to)?;
                self.push(Change::Link(path, to));
                Ok(())
            }
            Kind::Unlink => {
                self.present(Of::File, &path)?;
                self.unless(self.model.sort(&path) == Some(Sort::Folder))?;
                self.push(Change::Unlink(path));
                Ok(())
            }
            Kind::Rmdir => {
                self.empty_folder(&path)?;
                self.push(Change::RemoveFolder(path));
                Ok(())
            }
            Kind::Rename | Kind::Replace | Kind::Exchange => self.rename(op, path, to),
            Kind::Setxattr => {
                self.file(&path)?;
                self.push(Change::SetAttribute(path, format!("value {number}").into_bytes()));
                Ok(())
            }
            Kind::Removexattr => {
                self.file(&path)?;
                if !self.model.has_attribute(&path) {
                    return Err(self.lack(Of::Attribute, &path));
                }
                self.push(Change::RemoveAttribute(path));
                Ok(())
            }
            Kind::Fsync => {
                self.unless(matches!(self.model.sort(&path), None | Some(Sort::Symlink)))?;
                self.push(Change::Fsync(path));
                Ok(())
            }
            Kind::Sync | Kind::Checkpoint => {
                self.push(if op.kind == Kind::Sync { Change::Sync } else { Change::Checkpoint });
                Ok(())
            }
        }
    }

    fn rename(&mut self, op: &Op, path: String, to: String) -> Result<(), Lack> {
        let moves_folder = op.moves_folder();
        if moves_folder {
            self.present(Of::Folder, &path)?
        } else {
            self.file(&path)?
        }
        self.unless(moves_folder != (self.model.sort(&path) == Some(Sort::Folder)))?;
        self.unless(moves_folder && parent(&to) == path)?;
        match (op.kind, moves_folder) {
            (Kind::Rename, _) => self.new_name(&to)?,
            (Kind::Replace, true) => self.empty_folder(&to)?,
            (_, true) => {
                self.present(Of::Folder, &to)?;
                self.unless(self.model.sort(&to) != Some(Sort::Folder))?;
            }
            (_, false) => {
                self.present(Of::File, &to)?;
                self.unless(self.model.sort(&to) == Some(Sort::Folder))?;
            }
        }
        self.push(if op.kind == Kind::Exchange {
            Change::Exchange(path, to)
        } else {
            Change::Rename(path, to)
        });
        Ok(())
    }

    fn unless(&self, cannot: bool) -> Result<(), Lack> {
        if cannot { Err(Lack::Ever) } else { Ok(()) }
    }

    fn make(&mut self, sort: Sort, path: String) -> Result<(), Lack> {
        self.new_name(&path)?;
        self.push(Change::Make(sort, path));
        Ok(())
    }

    /// A name that nothing has, in a folder that is there.
    fn new_name(&mut self, path: &str) -> Result<(), Lack> {
        self.folder(parent(path))?;
        self.unless(self.model.sort(path).is_some())
    }

    fn folder(&mut self, path: &str) -> Result<(), Lack> {
        match self.model.sort(path) {
            Some(Sort::Folder) => Ok(()),
            Some(_) => Err(Lack::Ever),
            None if self.is_touched(path) => self.make(Sort::Folder, path.to_owned()),
            None => Err(self.lack(Of::Folder, path)),
        }
    }

    fn file(&mut self, path: &str) -> Result<(), Lack> {
        self.folder(parent(path))?;
        match self.model.sort(path) {
            Some(Sort::File) => Ok(()),
            Some(_) => Err(Lack::Ever),
            None if self.is_touched(path) => self.make(Sort::File, path.to_owned()),
            None => Err(self.lack(Of::File, path)),
        }
    }

    fn present(&mut self, of: Of, path: &str) -> Result<(), Lack> {
        self.folder(parent(path))?;
        match self.model.sort(path) {
            Some(_) => Ok(()),
            None => Err(self.lack(of, path)),
        }
    }

    fn empty_folder(&mut self, path: &str) -> Result<(), Lack> {
        self.present(Of::Folder, path)?;
        self.unless(self.model.sort(path) != Some(Sort::Folder) || !self.model.is_empty(path))
    }

    /// It must be there before the workload, unless an operation has touched it.
    fn lack(&self, of: Of, path: &str) -> Lack {
        if self.is_touched(path) { Lack::Ever } else { Lack::Before(Need { of, path: path.to_owned() }) }
    }

    /// Whether an operation had this name, or a folder's above.
    fn is_touched(&self, path: &str) -> bool {
        self.touched.iter().any(|name| name == path || name == parent(path) && name != ROOT_NAME)
    }
}

/// How names of a workload may be exchanged for others without another meaning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relabel {
    folders: bool,
    /// Files of the root, of A, and of B.
    files: [bool; 3],
}

impl Relabel {
    /// All of them. Where a folder is moved, files of all folders are exchanged or none: its files have two paths.
    pub(super) fn all(moves_folder: bool) -> impl Iterator<Item = Self> {
        let all = (0..16_u8)
            .map(|bits| Self { folders: bits & 1 > 0, files: [bits & 2 > 0, bits & 4 > 0, bits & 8 > 0] });
        all.filter(move |relabel| {
            !moves_folder || matches!(relabel.files, [true, true, true] | [false, false, false])
        })
    }

    pub(super) fn of(self, op: &Op) -> Op {
        let mut names: Vec<String> = op.names.iter().map(|name| self.of_path(name)).collect();
        if op.kind == Kind::Exchange {
            // Either order means the same.
            names.sort_unstable();
        }
        Op { kind: op.kind, names }
    }

    fn of_path(self, path: &str) -> String {
        let folder = |name: &str| match name {
            "A" if self.folders => "B".to_owned(),
            "B" if self.folders => "A".to_owned(),
            other => other.to_owned(),
        };
        let file = |name: &str, of: usize| match name {
            "foo" if self.files[of] => "bar".to_owned(),
            "bar" if self.files[of] => "foo".to_owned(),
            other => other.to_owned(),
        };
        match path.split_once('/') {
            None => file(&folder(path), 0),
            Some((within, name)) => {
                let of = 1 + FOLDERS.iter().position(|folder| *folder == within).unwrap_or(0);
                format!("{}/{}", folder(within), file(name, of))
            }
        }
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
