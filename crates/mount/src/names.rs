//! Requests on names.

use stripewise_format::rafs::{inode::FileType, names::NAME_MAX};
use stripewise_fuse::{
    Errno,
    protocol::RenameFlags,
    request::{self, Caller, Create, Link, Mkdir, Mknod, Symlink},
};
use stripewise_rafs::fs::{FsError, NewInode, Rename};

use crate::{
    answer::{Answer, Result},
    convert::{PERMISSIONS, errno, type_of_mode},
    server::Rafs,
};

/// The kernel passes on names of any length.
fn checked(name: &[u8]) -> Result<&[u8]> {
    if name.len() > NAME_MAX { Err(Errno::NAMETOOLONG) } else { Ok(name) }
}

fn new_inode(file_type: FileType, mode: u32, caller: Caller) -> NewInode {
    NewInode { file_type, permissions: mode & PERMISSIONS, uid: caller.uid, gid: caller.gid, device: 0 }
}

impl Rafs {
    pub(crate) async fn lookup(&self, folder: u64, name: &[u8]) -> Result<Answer> {
        match self.fs.lookup(folder, checked(name)?).await {
            Ok(attr) => Ok(Answer::Entry(attr)),
            Err(FsError::NotFound) => Ok(Answer::Absent),
            Err(error) => Err(errno(error)),
        }
    }

    pub(crate) async fn forget(&self, all: &[(u64, u64)]) -> Result<Answer> {
        for (inode, uses) in all {
            self.fs.forget(*inode, *uses).await;
        }
        Ok(Answer::Silent)
    }

    pub(crate) async fn symlink(&self, folder: u64, link: &Symlink<'_>, caller: Caller) -> Result<Answer> {
        let new = new_inode(FileType::Link, 0o777, caller);
        let made = self.fs.symlink(folder, checked(link.name)?, link.target, new).await;
        made.map(Answer::Entry).map_err(errno)
    }

    pub(crate) async fn mknod(&self, folder: u64, make: &Mknod<'_>, caller: Caller) -> Result<Answer> {
        let file_type = type_of_mode(make.mode)?;
        if matches!(file_type, FileType::Folder | FileType::Link) {
            return Err(Errno::INVAL);
        }
        let new = NewInode { device: make.rdev.into(), ..new_inode(file_type, make.mode, caller) };
        self.fs.create(folder, checked(make.name)?, new).await.map(Answer::Entry).map_err(errno)
    }

    pub(crate) async fn mkdir(&self, folder: u64, make: &Mkdir<'_>, caller: Caller) -> Result<Answer> {
        let new = new_inode(FileType::Folder, make.mode, caller);
        self.fs.create(folder, checked(make.name)?, new).await.map(Answer::Entry).map_err(errno)
    }

    pub(crate) async fn create(&self, folder: u64, create: &Create<'_>, caller: Caller) -> Result<Answer> {
        let new = new_inode(FileType::File, create.mode, caller);
        self.fs.create(folder, checked(create.name)?, new).await.map(Answer::Created).map_err(errno)
    }

    pub(crate) async fn create_unnamed(
        &self,
        folder: u64,
        create: &Create<'_>,
        caller: Caller,
    ) -> Result<Answer> {
        let new = new_inode(FileType::File, create.mode, caller);
        self.fs.create_unnamed(folder, new).await.map(Answer::Created).map_err(errno)
    }

    pub(crate) async fn unlink(&self, folder: u64, name: &[u8]) -> Result<Answer> {
        self.fs.unlink(folder, checked(name)?).await.map(|()| Answer::Done).map_err(errno)
    }

    pub(crate) async fn rmdir(&self, folder: u64, name: &[u8]) -> Result<Answer> {
        self.fs.remove_folder(folder, checked(name)?).await.map(|()| Answer::Done).map_err(errno)
    }

    pub(crate) async fn rename(&self, folder: u64, rename: &request::Rename<'_>) -> Result<Answer> {
        let how = if rename.flags.is_empty() {
            Rename::Replace
        } else if rename.flags == RenameFlags::NOREPLACE {
            Rename::Refuse
        } else if rename.flags == RenameFlags::EXCHANGE {
            Rename::Exchange
        } else {
            return Err(Errno::INVAL);
        };
        let from = (folder, checked(rename.name)?);
        let to = (rename.new_parent.0, checked(rename.new_name)?);
        self.fs.rename(from, to, how).await.map(|()| Answer::Done).map_err(errno)
    }

    pub(crate) async fn link(&self, folder: u64, link: &Link<'_>) -> Result<Answer> {
        self.fs.link(link.node.0, folder, checked(link.name)?).await.map(Answer::Entry).map_err(errno)
    }
}
