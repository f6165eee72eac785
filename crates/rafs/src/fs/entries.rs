//! Operations on names: new inodes, links, and their removal.

use stripewise_format::rafs::{
    inode::{FileType, Inode},
    key::{Key, KeyKind},
    names::Entry,
    value::INLINE_MAX,
};

use super::{
    Attr, FsError, NewInode,
    attr::{PERMISSIONS, SET_GID},
    names::{FIRST_NUMBER, number_key},
    rename::Place,
    state::{Now, State},
};
use crate::mutants::{Mutant, lives};

/// Links of an inode at most, as many as ext4 has for files, and more than it has for folders.
pub(super) const LINKS_MAX: u32 = 65_000;

impl State {
    /// Looks up a name. The caller uses the inode from then on.
    pub(super) async fn lookup(&mut self, folder: u64, name: &[u8]) -> Result<Attr, FsError> {
        let of_folder = self.attr(folder).await?;
        if of_folder.file_type != FileType::Folder {
            return Err(FsError::NotFolder);
        }
        let inode = match name {
            b"." => folder,
            b".." => of_folder.is.parent,
            _ => self.found(folder, name).await?.inode,
        };
        let attr = self.attr(inode).await?;
        self.hold(inode);
        Ok(attr)
    }

    /// Makes an inode with a name. The caller uses it from then on.
    pub(super) async fn create(
        &mut self,
        folder: u64,
        name: &[u8],
        new: NewInode,
        target: Option<&[u8]>,
        now: Now,
    ) -> Result<Attr, FsError> {
        let of_folder = self.folder(folder).await?;
        self.check_new(folder, name).await?;
        if let Some(target) = target
            && !(1..=INLINE_MAX).contains(&target.len())
        {
            return Err(FsError::Name);
        }
        if new.file_type == FileType::Folder && of_folder.links >= LINKS_MAX {
            return Err(FsError::Links);
        }
        self.reserve(1)?;
        let number = self.store.new_inode().ok_or(FsError::NoSpace)?;
        let mut changed = vec![number_key(folder, of_folder.next_number)];
        changed.extend(target.map(|_| Key::new(number, KeyKind::Inline, 0)));
        self.look_at(&changed).await?;
        self.look_at_inode(folder).await?;
        self.look_at_inode(number).await?;
        self.begin()?;
        let is = inode_of(folder, Some(&of_folder), new, target, now);
        let made = self.make((number, is), (folder, name), new.file_type, target, now).await;
        self.end(made)
    }

    /// Makes a file without a name, which is gone when its user gives it back.
    pub(super) async fn create_unnamed(
        &mut self,
        folder: u64,
        new: NewInode,
        now: Now,
    ) -> Result<Attr, FsError> {
        let of_folder = self.folder(folder).await?;
        self.reserve(1)?;
        let number = self.store.new_inode().ok_or(FsError::NoSpace)?;
        self.look_at(&[orphan_key(number)]).await?;
        self.look_at_inode(number).await?;
        self.begin()?;
        let is = Inode { links: 0, ..inode_of(folder, Some(&of_folder), new, None, now) };
        let made = self.make_unnamed(number, is).await;
        self.end(made)
    }

    async fn make(
        &mut self,
        (number, is): (u64, Inode),
        (folder, name): Place<'_>,
        file_type: FileType,
        target: Option<&[u8]>,
        now: Now,
    ) -> Result<Attr, FsError> {
        self.add_new(number, is)?;
        if let Some(target) = target {
            self.store.put(Key::new(number, KeyKind::Inline, 0), target.into()).await?;
        }
        self.add_entry(folder, name, number, file_type).await?;
        self.note_change(folder, now)?;
        self.touch(folder)?.links += u32::from(file_type == FileType::Folder);
        self.attr(number).await
    }

    async fn make_unnamed(&mut self, number: u64, is: Inode) -> Result<Attr, FsError> {
        self.add_new(number, is)?;
        self.put_orphan(number).await?;
        self.attr(number).await
    }

    /// A new inode is in memory, and used.
    fn add_new(&mut self, number: u64, is: Inode) -> Result<(), FsError> {
        self.add_live(number, is, false);
        self.hold(number);
        self.touch(number).map(|_| ())
    }

    /// Gives an inode another name. The caller uses it once more.
    pub(super) async fn link(
        &mut self,
        number: u64,
        folder: u64,
        name: &[u8],
        now: Now,
    ) -> Result<Attr, FsError> {
        let of_folder = self.folder(folder).await?;
        let Attr { file_type, is, .. } = self.attr(number).await?;
        if file_type == FileType::Folder {
            return Err(FsError::IsFolder);
        }
        self.check_new(folder, name).await?;
        if is.links >= LINKS_MAX {
            return Err(FsError::Links);
        }
        self.reserve(1)?;
        self.look_at(&[number_key(folder, of_folder.next_number)]).await?;
        if is.links == 0 {
            self.look_at(&[orphan_key(number)]).await?;
        }
        self.look_at_inode(folder).await?;
        self.look_at_inode(number).await?;
        self.begin()?;
        let linked = self.link_begun((number, file_type), folder, name, now).await;
        self.end(linked)
    }

    async fn link_begun(
        &mut self,
        (number, file_type): (u64, FileType),
        folder: u64,
        name: &[u8],
        now: Now,
    ) -> Result<Attr, FsError> {
        self.add_entry(folder, name, number, file_type).await?;
        let inode = self.touch(number)?;
        inode.links += 1;
        inode.changed_ns = now.ns;
        if inode.links == 1 {
            self.store.remove(orphan_key(number)).await?;
            self.unused.remove(&number);
        }
        self.note_change(folder, now)?;
        self.hold(number);
        self.attr(number).await
    }

    /// Removes the name of what is no folder.
    pub(super) async fn unlink(&mut self, folder: u64, name: &[u8], now: Now) -> Result<(), FsError> {
        let (entry, attr) = self.named(folder, name).await?;
        if attr.file_type == FileType::Folder {
            return Err(FsError::IsFolder);
        }
        self.look_at_name((folder, &entry), &attr).await?;
        self.begin()?;
        let removed = self.remove_name(folder, &entry, now).await;
        self.end(removed)
    }

    /// Removes an empty folder.
    pub(super) async fn remove_folder(&mut self, folder: u64, name: &[u8], now: Now) -> Result<(), FsError> {
        match name {
            b"." => return Err(FsError::Invalid("a folder is not removed by the name .")),
            b".." => return Err(FsError::NotEmpty),
            _ => {}
        }
        let (entry, attr) = self.named(folder, name).await?;
        check_empty(&attr)?;
        self.look_at_name((folder, &entry), &attr).await?;
        self.begin()?;
        let removed = self.remove_name(folder, &entry, now).await;
        self.end(removed)
    }

    /// An entry of a folder, and what it leads to.
    pub(super) async fn named(&mut self, folder: u64, name: &[u8]) -> Result<(Entry, Attr), FsError> {
        self.folder(folder).await?;
        let entry = self.found(folder, name).await?;
        let attr = self.attr(entry.inode).await?;
        Ok((entry, attr))
    }

    /// Reads what is going to change of the tree when a name no longer leads to its inode.
    pub(super) async fn look_at_name(
        &self,
        (folder, entry): (u64, &Entry),
        attr: &Attr,
    ) -> Result<(), FsError> {
        self.look_at(&[number_key(folder, entry.number)]).await?;
        if attr.file_type == FileType::Folder || attr.is.links <= 1 {
            self.look_at(&[orphan_key(entry.inode)]).await?;
        }
        self.look_at_inode(folder).await?;
        self.look_at_inode(entry.inode).await
    }

    /// Takes away a name, and the inode if it was the last one.
    async fn remove_name(&mut self, folder: u64, entry: &Entry, now: Now) -> Result<(), FsError> {
        // What is put comes before what is removed, as leaves that become empty go.
        self.lose_name(folder, entry, now).await?;
        self.remove_entry(folder, entry).await?;
        self.note_change(folder, now)
    }

    /// An entry of a folder no longer leads to its inode.
    pub(super) async fn lose_name(&mut self, folder: u64, entry: &Entry, now: Now) -> Result<(), FsError> {
        if entry.file_type == FileType::Folder {
            let of_folder = self.touch(folder)?;
            of_folder.links = of_folder.links.saturating_sub(1);
        }
        let inode = self.touch(entry.inode)?;
        inode.changed_ns = now.ns;
        inode.links = if entry.file_type == FileType::Folder { 0 } else { inode.links.saturating_sub(1) };
        if inode.links > 0 {
            return Ok(());
        }
        self.put_orphan(entry.inode).await?;
        self.forget(entry.inode, 0);
        Ok(())
    }

    async fn put_orphan(&mut self, number: u64) -> Result<(), FsError> {
        if lives(Mutant::OrphanNotNoted) {
            return Ok(());
        }
        let nothing: &[u8] = &[];
        self.store.put(orphan_key(number), nothing.into()).await?;
        Ok(())
    }

    /// The content of an inode that is in memory has changed.
    pub(super) fn note_change(&mut self, number: u64, now: Now) -> Result<(), FsError> {
        let inode = self.touch(number)?;
        (inode.modified_ns, inode.changed_ns) = (now.ns, now.ns);
        Ok(())
    }
}

/// The key of an inode without a name.
pub(super) fn orphan_key(number: u64) -> Key {
    Key::new(0, KeyKind::Orphan, number)
}

/// Looks at whether this is a folder without entries.
pub(super) fn check_empty(attr: &Attr) -> Result<(), FsError> {
    match attr.file_type {
        FileType::Folder if attr.is.size_bytes == 0 => Ok(()),
        FileType::Folder => Err(FsError::NotEmpty),
        _ => Err(FsError::NotFolder),
    }
}

/// What a new inode is, in this folder, which may give it its group.
pub(super) fn inode_of(
    folder: u64,
    of_folder: Option<&Inode>,
    new: NewInode,
    target: Option<&[u8]>,
    now: Now,
) -> Inode {
    let NewInode { file_type, permissions, uid, gid, device } = new;
    let is_folder = file_type == FileType::Folder;
    let given = of_folder.filter(|folder| folder.mode & SET_GID != 0).map(|folder| folder.gid);
    let inherited = if given.is_some() && is_folder { SET_GID } else { 0 };
    Inode {
        mode: (file_type as u32) << 12 | permissions & PERMISSIONS | inherited,
        uid,
        gid: given.unwrap_or(gid),
        links: if is_folder { 2 } else { 1 },
        size_bytes: target.map_or(0, |target| target.len() as u64),
        blocks: 0,
        accessed_ns: now.ns,
        modified_ns: now.ns,
        changed_ns: now.ns,
        born_ns: now.ns,
        generation: 0,
        flags: 0,
        device,
        parent: folder,
        next_number: FIRST_NUMBER,
    }
}
