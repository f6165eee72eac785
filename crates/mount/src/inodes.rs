//! Requests on inodes and on the file system as a whole.

use stripewise_format::rafs::names::NAME_MAX;
use stripewise_fuse::{reply::FileSystemFigures, request::Setattr};
use stripewise_rafs::{
    fs::{Attr, SetAttr},
    shape::BLOCK_BYTES,
};

use crate::{
    answer::{Answer, Result},
    convert::{PERMISSIONS, errno, set_time},
    server::Rafs,
};

impl Rafs {
    pub(crate) async fn attr(&self, inode: u64) -> Result<Attr> {
        self.fs.attr(inode).await.map_err(errno)
    }

    pub(crate) async fn set_attr(&self, inode: u64, set: &Setattr) -> Result<Answer> {
        let now_ns = i64::try_from(self.env.wall_clock_us().saturating_mul(1000)).unwrap_or(i64::MAX);
        let set = SetAttr {
            permissions: set.mode.map(|mode| mode & PERMISSIONS),
            uid: set.uid,
            gid: set.gid,
            size_bytes: set.size_bytes,
            accessed_ns: set.accessed.map(|time| set_time(time, now_ns)),
            modified_ns: set.modified.map(|time| set_time(time, now_ns)),
        };
        self.fs.set_attr(inode, set).await.map(Answer::Attributes).map_err(errno)
    }

    pub(crate) async fn fsync(&self, inode: u64) -> Result<Answer> {
        self.fs.fsync(inode).await.map(|()| Answer::Done).map_err(errno)
    }

    /// There is no table of inodes: as many more fit as there is space.
    pub(crate) async fn figures(&self) -> Result<Answer> {
        let usage = self.fs.usage().await;
        Ok(Answer::Figures(FileSystemFigures {
            blocks: usage.blocks,
            blocks_free: usage.free_blocks,
            blocks_available: usage.free_blocks,
            files: usage.inodes.saturating_add(usage.free_blocks),
            files_free: usage.free_blocks,
            block_bytes: BLOCK_BYTES as u32,
            name_bytes_max: NAME_MAX as u32,
            fragment_bytes: BLOCK_BYTES as u32,
        }))
    }
}
