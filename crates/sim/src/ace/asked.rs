//! From an operation to the changes that it makes, on what is there when its turn comes.

use super::{
    found::Sort,
    model::{Change, Model},
    op::{Kind, Op, ROOT_NAME, parent},
};

/// Bytes that are appended: more than a block, and no whole blocks.
const APPENDED: usize = 5000;
/// Bytes that are overwritten at the start.
const STARTED: usize = 2000;
/// Bytes between a file's end and what is written behind a hole, and bytes that are written there.
const HOLE: usize = 10_000;
const BEHIND_HOLE: usize = 3000;
const SECTOR: usize = 512;

/// What an operation lacks.
pub(super) struct Need {
    pub(super) of: Of,
    pub(super) path: String,
}

pub(super) enum Of {
    Folder,
    File,
    Attribute,
}

/// Why an operation cannot be done.
pub(super) enum Lack {
    /// This must be there before the workload.
    Before(Need),
    /// It never can.
    Ever,
}

/// Bytes that no other write has, and no zeroes.
pub(super) fn content(number: u64, len: usize) -> Vec<u8> {
    let sector = |at: usize| ((number << 32 | (at / SECTOR) as u64) | 0x8080_8080_8080_8080).to_le_bytes();
    (0..len).step_by(8).flat_map(sector).take(len).collect()
}

/// An operation while its changes are found.
pub(super) struct Asked<'a> {
    pub(super) model: &'a mut Model,
    /// Names that operations before it had.
    pub(super) touched: &'a [String],
    pub(super) changes: Vec<Change>,
}

impl Asked<'_> {
    fn push(&mut self, change: Change) {
        self.model.begin(&change);
        self.model.end(&change);
        self.changes.push(change);
    }

    /// Finds the changes of an operation.
    pub(super) fn ask(&mut self, op: &Op, number: u64) -> Result<(), Lack> {
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
