//! Renames.

use stripewise_format::rafs::{inode::FileType, names::Entry};

use super::{
    Attr, FsError,
    entries::{LINKS_MAX, check_empty},
    names::{check_name, number_key},
    state::{Now, State},
};
use crate::mutants::{Mutant, lives};

/// What becomes of an entry that has the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// It goes, in the same step.
    Replace,
    /// It stays, and the rename is refused.
    Refuse,
    /// It gets the old name.
    Exchange,
}

/// A name in a folder.
pub(super) type Place<'a> = (u64, &'a [u8]);

impl State {
    /// Gives an entry another folder and name.
    pub(super) async fn rename(
        &mut self,
        from: Place<'_>,
        to: Place<'_>,
        how: Rename,
        now: Now,
    ) -> Result<(), FsError> {
        for name in [from.1, to.1] {
            if matches!(name, b"." | b"..") {
                return Err(FsError::Invalid("the names . and .. cannot be changed"));
            }
        }
        let (moved, attr) = self.named(from.0, from.1).await?;
        let into = self.folder(to.0).await?;
        check_name(to.1)?;
        if attr.file_type == FileType::Folder {
            self.check_outside(moved.inode, to.0).await?;
        }
        let there = match self.find(to.0, to.1).await? {
            Some(entry) => {
                let attr = self.attr(entry.inode).await?;
                Some((entry, attr))
            }
            None => None,
        };
        match (how, there) {
            (Rename::Refuse, Some(_)) => Err(FsError::Exists),
            (Rename::Exchange, None) => Err(FsError::NotFound),
            (_, Some((entry, _))) if entry.inode == moved.inode => Ok(()),
            (Rename::Exchange, Some((entry, there))) => {
                if there.file_type == FileType::Folder {
                    self.check_outside(entry.inode, from.0).await?;
                }
                self.reserve(1)?;
                self.look_at(&[number_key(from.0, moved.number), number_key(to.0, entry.number)]).await?;
                for inode in [from.0, to.0, moved.inode, entry.inode] {
                    self.look_at_inode(inode).await?;
                }
                self.begin()?;
                let exchanged = self.exchange((from.0, &moved), (to.0, &entry), now).await;
                self.end(exchanged)
            }
            (_, there) => {
                check_replaces(&attr, there.as_ref().map(|(_, attr)| attr))?;
                let comes = attr.file_type == FileType::Folder && from.0 != to.0;
                if comes && there.is_none() && into.links >= LINKS_MAX {
                    return Err(FsError::Links);
                }
                if there.is_none() {
                    self.check_new(to.0, to.1).await?;
                }
                self.reserve(1)?;
                self.look_at(&[number_key(from.0, moved.number)]).await?;
                for inode in [from.0, moved.inode] {
                    self.look_at_inode(inode).await?;
                }
                match &there {
                    Some((entry, attr)) => {
                        self.look_at_name((to.0, entry), attr).await?;
                        // Its blocks come along with the next commit. If they cannot be written out, the journal never becomes empty.
                        for run in self.buffer.runs(moved.inode, 0) {
                            self.look_at_move(moved.inode, run).await?;
                        }
                    }
                    None => {
                        self.look_at(&[number_key(to.0, into.next_number)]).await?;
                        self.look_at_inode(to.0).await?;
                    }
                }
                self.begin()?;
                let there = there.map(|(entry, _)| entry);
                let moved = self.move_entry(from.0, &moved, to, there, now).await;
                self.end(moved)
            }
        }
    }

    async fn move_entry(
        &mut self,
        from: u64,
        moved: &Entry,
        to: Place<'_>,
        there: Option<Entry>,
        now: Now,
    ) -> Result<(), FsError> {
        // What is put comes before what is removed, as leaves that become empty go.
        match there {
            Some(there) => {
                self.redirect_entry(to.0, &there, moved.inode, moved.file_type).await?;
                if !lives(Mutant::ReplacedStays) {
                    self.lose_name(to.0, &there, now).await?;
                }
                // What was written out of the new one is durable before the old one is gone.
                self.store.let_data_come_first();
                if self.has_pending(moved.inode) && !lives(Mutant::ReplacingLeftBehind) {
                    self.replacing.insert(moved.inode);
                }
            }
            None => self.add_entry(to.0, to.1, moved.inode, moved.file_type).await?,
        }
        self.remove_entry(from, moved).await?;
        self.come(from, to.0, moved, now)?;
        self.note_change(from, now)?;
        self.note_change(to.0, now)
    }

    async fn exchange(&mut self, one: (u64, &Entry), other: (u64, &Entry), now: Now) -> Result<(), FsError> {
        for ((folder, entry), (from, came)) in [(one, other), (other, one)] {
            self.redirect_entry(folder, entry, came.inode, came.file_type).await?;
            self.come(from, folder, came, now)?;
            self.note_change(folder, now)?;
        }
        Ok(())
    }

    /// An entry has come from one folder to another.
    fn come(&mut self, from: u64, to: u64, entry: &Entry, now: Now) -> Result<(), FsError> {
        self.touch(entry.inode)?.changed_ns = now.ns;
        if entry.file_type == FileType::Folder {
            self.touch(entry.inode)?.parent = to;
            let before = self.touch(from)?;
            before.links = before.links.saturating_sub(1);
            self.touch(to)?.links += 1;
        }
        Ok(())
    }

    /// Looks at whether a folder does not lie in one that is moved.
    async fn check_outside(&mut self, moved: u64, folder: u64) -> Result<(), FsError> {
        let mut at = folder;
        // Folders of a damaged tree may lie in one another. New ones are in memory, and perhaps not in the tree.
        let folders = self.store.inodes() + self.live.len() as u64;
        for _ in 0..=folders {
            if at == moved {
                return Err(FsError::Invalid("a folder cannot be moved into itself"));
            }
            let parent = self.live(at).await?.inode.parent;
            if parent == at {
                return Ok(());
            }
            at = parent;
        }
        Err(FsError::Invalid("the folders above lie in one another; run fsck"))
    }
}

/// Looks at whether one may take the other's place.
fn check_replaces(moved: &Attr, there: Option<&Attr>) -> Result<(), FsError> {
    let Some(there) = there else { return Ok(()) };
    match (moved.file_type, there.file_type) {
        (FileType::Folder, FileType::Folder) => check_empty(there),
        (FileType::Folder, _) => Err(FsError::NotFolder),
        (_, FileType::Folder) => Err(FsError::IsFolder),
        _ => Ok(()),
    }
}
