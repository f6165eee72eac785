//! Requests on the bytes of files.

use stripewise_device::IoBuf;
use stripewise_format::rafs::inode::FileType;
use stripewise_fuse::{
    Errno,
    protocol::{FallocateMode, WriteFlags},
    request::{Fallocate, Lseek, Whence},
};
use stripewise_rafs::fs::SetAttr;

use crate::{
    answer::{Answer, Result},
    convert::errno,
    server::Rafs,
};

const O_TRUNC: u32 = 0o1000;

impl Rafs {
    /// The kernel has checked permissions, and appends by itself. Truncation comes with the open.
    pub(crate) async fn open(&self, inode: u64, flags: u32) -> Result<Answer> {
        if flags & O_TRUNC != 0 {
            let cut = SetAttr { size_bytes: Some(0), ..SetAttr::default() };
            self.fs.set_attr(inode, cut).await.map_err(errno)?;
        }
        Ok(Answer::Opened)
    }

    pub(crate) async fn read(&self, inode: u64, offset_bytes: u64, size_bytes: u32) -> Result<Answer> {
        let read = self.fs.read(inode, offset_bytes, size_bytes as usize).await;
        read.map(Answer::Read).map_err(errno)
    }

    /// The kernel takes all pages that come with a write from its cache for written, whatever count is answered. Only an error tells it
    /// otherwise.
    pub(crate) async fn write(
        &self,
        inode: u64,
        offset_bytes: u64,
        flags: WriteFlags,
        data: IoBuf,
    ) -> Result<Answer> {
        let (len, data) = (data.len(), data.freeze());
        let written = match flags.contains(WriteFlags::CACHE) {
            true => self.fs.write_all(inode, offset_bytes, data).await.map(|()| len),
            false => self.fs.write(inode, offset_bytes, data).await,
        };
        u32::try_from(written.map_err(errno)?).map(Answer::Written).map_err(|_| Errno::IO)
    }

    /// Only what makes zeroes is supported. Space cannot be reserved, as places are given when data are written out;
    /// so libc's posix_fallocate writes instead.
    pub(crate) async fn fallocate(&self, inode: u64, fallocate: &Fallocate) -> Result<Answer> {
        let size_bytes = self.fs.attr(inode).await.map_err(errno)?.is.size_bytes;
        let (start, end) = (fallocate.offset_bytes, fallocate.offset_bytes + fallocate.length_bytes);
        let keeps = fallocate.mode.contains(FallocateMode::KEEP_SIZE);
        let is_supported = match fallocate.mode.difference(FallocateMode::KEEP_SIZE) {
            FallocateMode::PUNCH_HOLE => keeps,
            FallocateMode::ZERO_RANGE => keeps || end <= size_bytes,
            _ => false,
        };
        if !is_supported {
            return Err(Errno::OPNOTSUPP);
        }
        let zeroed = start.min(size_bytes)..end.min(size_bytes);
        if !zeroed.is_empty() {
            self.fs.punch(inode, zeroed).await.map_err(errno)?;
        }
        Ok(Answer::Done)
    }

    /// All of a file is told to be data, with a hole at its end: that is always right, and never the best answer.
    pub(crate) async fn seek(&self, inode: u64, lseek: &Lseek) -> Result<Answer> {
        let attr = self.fs.attr(inode).await.map_err(errno)?;
        if attr.file_type != FileType::File {
            return Err(Errno::INVAL);
        }
        match lseek.whence {
            _ if lseek.offset_bytes >= attr.is.size_bytes => Err(Errno::NXIO),
            Whence::Data => Ok(Answer::Position(lseek.offset_bytes)),
            Whence::Hole => Ok(Answer::Position(attr.is.size_bytes)),
        }
    }
}
